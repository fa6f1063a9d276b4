"""Running approved calls: together, each through the ledger, and never one twice."""

import asyncio
import json
import logging
import time
import uuid
from dataclasses import dataclass
from typing import Any

from chatapp.models import ToolCall
from mcpconfig import operations
from mcpconfig.errors import OperationError
from mcpconfig.results import ToolResult

from .lease import Lease, LeaseLost
from .ledger import Sending, begin_sending, record_outcome, record_progress
from .milestones import passed
from .storage import in_database, storable

log = logging.getLogger(__name__)
State = ToolCall.State
AT_ONCE = 4
PROGRESS_SECONDS = 0.5
STOPPED = {
    "kind": "stopped",
    "message": "Stopped while it ran, so nobody knows whether it took effect.",
    "hint": "Check at the service, then say what you found.",
}
UNFORESEEN = {
    "kind": "internal",
    "message": "Something went wrong here while it ran, so nobody knows whether it took effect.",
    "hint": "An admin finds the reason in the server's log.",
}
FROZEN = {
    "kind": "not_sent",
    "message": "The server was busy for too long before this could be sent. It was not sent.",
    "hint": "",
}


async def execute(lease: Lease, call_ids: tuple[uuid.UUID, ...]) -> None:
    """Run these calls, a few at a time; each has its outcome stored before this returns."""
    places = asyncio.Semaphore(AT_ONCE)

    async def one(call_id: uuid.UUID) -> None:
        async with places:
            await _execute_one(lease, call_id)

    try:
        async with asyncio.TaskGroup() as group:
            for call_id in call_ids:
                group.create_task(one(call_id))
    except ExceptionGroup as failures:
        if failures.subgroup(LeaseLost) is not None:
            raise LeaseLost from None
        raise


async def _execute_one(lease: Lease, call_id: uuid.UUID) -> None:
    sending = await in_database(begin_sending, lease, call_id)
    if sending is None:
        return
    passed("K11")
    if not lease.is_fresh:
        state = State.FAILED if sending.attempt == 1 else State.UNKNOWN
        await in_database(record_outcome, lease, sending, state, error=FROZEN)
        return
    try:
        outcome = await operations.call_tool(
            sending.service,
            sending.definition,
            json.loads(sending.arguments),
            on_progress=Progress(lease, sending).tell,
        )
    except OperationError as error:
        state = State.FAILED if error.is_definite else State.UNKNOWN
        await in_database(record_outcome, lease, sending, state, error=_shown(error))
    except asyncio.CancelledError:
        store = in_database(record_outcome, lease, sending, State.UNKNOWN, error=STOPPED)
        await asyncio.shield(_quietly(store))
        raise
    except Exception:
        log.exception("Tool call %s ended in a way that nobody foresaw", call_id)
        await in_database(record_outcome, lease, sending, State.UNKNOWN, error=UNFORESEEN)
    else:
        passed("K13")
        state = State.FAILED if outcome.result.is_error else State.SUCCEEDED
        result = _stored(outcome.result)
        await in_database(record_outcome, lease, sending, state, result=result)


async def _quietly(store: Any) -> None:
    try:
        await store
    except LeaseLost:
        log.info("A stopped call belongs to another worker by now")


def _shown(error: OperationError) -> dict[str, Any]:
    return {"kind": error.kind, "message": error.message, "hint": error.hint}


def _stored(result: ToolResult) -> dict[str, Any]:
    stored: dict[str, Any] = storable(
        {
            "content": result.content,
            "structured": result.structured,
            "is_error": result.is_error,
            "was_cut": result.was_cut,
        }
    )
    return stored


@dataclass(slots=True)
class Progress:
    """Passes a tool's progress on, at most twice a second."""

    lease: Lease
    sending: Sending
    last: float = 0.0

    async def tell(self, words: str) -> None:
        if time.monotonic() - self.last < PROGRESS_SECONDS:
            return
        self.last = time.monotonic()
        await in_database(record_progress, self.lease, self.sending, words)
