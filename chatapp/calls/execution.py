"""Running approved calls: together, each through the ledger, and never one twice."""

import asyncio
import json
import logging
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, assert_never

from chatapp.models import ToolCall
from chatapp.storage import in_database
from mcpconfig import trace
from mcpconfig.errors import OperationError
from mcpconfig.on_first_use import operations
from mcpconfig.results import InputRequired, Progress, TaskStarted

from .lease import Lease, LeaseLost, renew
from .ledger import (
    STOPPED,
    UNFORESEEN,
    Sending,
    begin_sending,
    is_permitted,
    record_outcome,
    record_progress,
    settle_cut_off,
)
from .live_questions import LiveQuestions
from .milestones import passed
from .next_action import MOST_ATTEMPTS
from .outcomes import Outcome, shown, stored_result
from .patience import AWAY, kept_trying, uninterrupted
from .pausing import (
    PermitExpired,
    SignInWanted,
    pause_for_answer,
    pause_for_decision,
    pause_for_sign_in,
    pause_for_task,
    wants_sign_in,
)

log = logging.getLogger(__name__)
State = ToolCall.State
AT_ONCE = 4
PROGRESS_SECONDS = 0.5
CANCELLED = {
    "kind": "cancelled",
    "message": "Cancelled by you while it ran, so nobody knows whether it took effect.",
    "hint": "Check at the service, then say what you found.",
}
FROZEN = {
    "kind": "not_sent",
    "message": "The server was busy for too long before this could be sent. It was not sent.",
    "hint": "Ask again.",
}


Ending = Outcome | SignInWanted | PermitExpired | InputRequired | TaskStarted
# The calls that this process is sending: a person may cut one of them off.
UNDER_WAY: dict[uuid.UUID, asyncio.Task[Ending]] = {}


async def execute(
    lease: Lease, call_ids: tuple[uuid.UUID, ...], was_stopped: Callable[[], bool]
) -> None:
    """Run these calls, a few at a time; each has its outcome stored before this returns. Cancelled
    by Stop, what was cut off is not run again; because the process ends, the next worker may.

    What goes wrong with one is raised only when the others are through: they were sent, and what
    came of them is to be known.
    """
    places = asyncio.Semaphore(AT_ONCE)
    failures: list[Exception] = []

    async def one(call_id: uuid.UUID) -> None:
        async with places:
            try:
                await _execute_one(lease, call_id, was_stopped)
            except Exception as failure:
                log.warning("Tool call %s could not be brought to its end: %r", call_id, failure)
                failures.append(failure)

    async with asyncio.TaskGroup() as group:
        for call_id in call_ids:
            group.create_task(one(call_id))
    if failures:
        raise next((lost for lost in failures if isinstance(lost, LeaseLost)), failures[0])


async def _execute_one(lease: Lease, call_id: uuid.UUID, was_stopped: Callable[[], bool]) -> None:
    sending = await in_database(begin_sending, lease, call_id)
    if sending is None:
        return
    passed("K11")
    if not await _still_held(lease):
        return await _store(lease, sending, _frozen(sending))
    task = asyncio.create_task(_outcome_of(lease, sending))
    UNDER_WAY[call_id] = task
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        task.cancel()
        cut_off = STOPPED if was_stopped() else None
        await uninterrupted(_stored_end(lease, sending, task, cut_off))
        raise
    finally:
        del UNDER_WAY[call_id]
    # Stop comes second from here on: what has come is stored first.
    await uninterrupted(_stored_end(lease, sending, task, CANCELLED))


async def _still_held(lease: Lease) -> bool:
    """Whether nobody else moves the turn. On a busy machine it may have taken long to get here."""
    if not lease.is_fresh:
        await kept_trying(lease, renew, [lease])
    return lease.is_fresh


async def _stored_end(
    lease: Lease, sending: Sending, task: asyncio.Task[Ending], cut_off: dict[str, Any] | None
) -> None:
    """Store what came of it; what was cut off before anything came has an unknown outcome, for the
    reason `cut_off`. Without one it is as if the worker had died."""
    await asyncio.wait([task])
    if not task.cancelled():
        await _store(lease, sending, task.result())
    elif cut_off is None:
        await kept_trying(lease, settle_cut_off, lease, sending)
    else:
        await _store(lease, sending, Outcome(state=State.UNKNOWN, error=cut_off))


def cancel(call_ids: Iterable[uuid.UUID]) -> None:
    """Cut these calls off, those of them that run here; the service is told."""
    for call_id in call_ids:
        if task := UNDER_WAY.get(call_id):
            task.cancel()


def _frozen(sending: Sending) -> Outcome:
    state = State.UNKNOWN if sending.may_have_run else State.FAILED
    return Outcome(state=state, error=FROZEN)


async def _outcome_of(lease: Lease, sending: Sending) -> Ending:
    """Send the call while its permit holds, and say what came of it, whatever that is."""
    if not await kept_trying(lease, is_permitted, sending):
        return PermitExpired() if sending.attempt < MOST_ATTEMPTS else _frozen(sending)
    try:
        with trace.round_of(str(sending.call_id)):
            answer = await operations.call_tool(
                sending.service,
                sending.definition,
                json.loads(sending.arguments),
                acting=sending.acting,
                answers=sending.resumption.answers or None,
                request_state=sending.resumption.request_state,
                on_progress=ProgressTeller(lease, sending).tell,
                on_question=LiveQuestions(lease=lease, sending=sending).ask,
            )
    except OperationError as error:
        if wants_sign_in(sending.service, error):
            return SignInWanted(error=shown(error))
        state = State.FAILED if error.is_definite else State.UNKNOWN
        return Outcome(state=state, error=shown(error))
    except Exception:
        log.exception("Tool call %s ended in a way that nobody foresaw", sending.call_id)
        return Outcome(state=State.UNKNOWN, error=UNFORESEEN)
    passed("K13")
    if isinstance(answer, InputRequired | TaskStarted):
        return answer
    state = State.FAILED if answer.result.is_error else State.SUCCEEDED
    return Outcome(state=state, result=stored_result(answer.result))


async def _store(lease: Lease, sending: Sending, ending: Ending) -> None:
    """Nothing short of the lease keeps an outcome from being stored: not Stop, which comes second
    then, and not a database that is away for a moment."""
    match ending:
        case SignInWanted(error=error):
            work = kept_trying(lease, pause_for_sign_in, lease, sending, error)
        case PermitExpired():
            work = kept_trying(lease, pause_for_decision, lease, sending)
        case InputRequired():
            work = kept_trying(lease, pause_for_answer, lease, sending, ending)
        case TaskStarted():
            work = kept_trying(lease, pause_for_task, lease, sending, ending)
        case Outcome(state=state, result=result, error=error):
            work = kept_trying(
                lease, record_outcome, lease, sending, state, result=result, error=error
            )
        case _:
            assert_never(ending)
    await uninterrupted(work)


@dataclass(slots=True)
class ProgressTeller:
    """Passes a tool's progress on, at most twice a second."""

    lease: Lease
    sending: Sending
    last: float = 0.0

    async def tell(self, progress: Progress) -> None:
        if time.monotonic() - self.last < PROGRESS_SECONDS:
            return
        self.last = time.monotonic()
        try:
            await in_database(record_progress, self.lease, self.sending, progress)
        except (LeaseLost, *AWAY) as error:  # the call itself goes on, and is what matters
            log.info("Progress of tool call %s was not kept: %r", self.sending.call_id, error)
