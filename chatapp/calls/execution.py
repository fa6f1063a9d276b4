"""Running the approved calls of a step in parallel, each through the ledger and never twice."""

import asyncio
import json
import logging
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from chatapp.calls.ledger import (
    CANCELLED,
    FROZEN,
    STOPPED,
    UNFORESEEN,
    Outcome,
    Sending,
    begin_sending,
    build_stored_result,
    describe_error,
    is_permitted,
    record_outcome,
    record_progress,
    settle_cut_off,
    write_error,
)
from chatapp.calls.recheck import refresh_tool_lists
from chatapp.journal.db_retry import (
    DATABASE_AWAY,
    keep_for_database,
    retry_in_database,
    run_uninterrupted,
)
from chatapp.journal.fault_points import FaultPoint, reach
from chatapp.journal.lease import Lease, LeaseLost, renew
from chatapp.models import ToolCall
from chatapp.server.database import in_database
from chatapp.server.languages import in_english
from chatapp.server.runtime import current_runtime
from chatapp.telemetry import log_ids
from chatapp.telemetry.metrics import label_service
from chatapp.telemetry.spans import Span
from chatapp.telemetry.tracing import use_tool_span
from mcpconfig.operations.lazy import operations
from mcpconfig.trace import recording
from mcpconfig.values.errors import OperationError
from mcpconfig.values.lazy_module import load
from mcpconfig.values.results import InputRequired, Progress, TaskStarted

from .attempts import MAX_ATTEMPTS, MAX_PARALLEL
from .live_questions import LiveQuestions
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
PROGRESS_SECONDS = 0.5

Ending = Outcome | SignInWanted | PermitExpired | InputRequired | TaskStarted


@in_english
async def execute(
    lease: Lease,
    call_ids: tuple[uuid.UUID, ...],
    *,
    was_stopped: Callable[[], bool],
    may_begin: Callable[[], bool],
) -> None:
    """Run these calls, a few at a time, and store the outcome of each.

    Calls that have not begun when `may_begin` turns false stay approved. A cancellation by Stop
    gives interrupted calls an unknown outcome; one because the process ends leaves them to the next
    worker. An error with one call is raised when the others have ended:
    they were sent, and their outcomes must be stored.
    """
    places = asyncio.Semaphore(MAX_PARALLEL)
    failures: list[Exception] = []

    async def one(call_id: uuid.UUID) -> None:
        has_to_wait = places.locked()
        async with places:
            if not may_begin():
                return
            try:
                if has_to_wait:  # perhaps for longer than a list stays fresh
                    await refresh_tool_lists(lease, [call_id])
                await _execute_one(lease, call_id, was_stopped)
            except Exception as failure:
                log.warning("Tool call %s could not be brought to its end: %r", call_id, failure)
                failures.append(failure)

    await refresh_tool_lists(lease, call_ids)
    async with asyncio.TaskGroup() as group:
        for call_id in call_ids:
            group.create_task(one(call_id))
    _raise_first(failures)


@in_english
async def send_begun(
    lease: Lease, begun: Sequence[Sending], *, was_stopped: Callable[[], bool]
) -> None:
    """Send these calls, which are stored as `sending`, and store the outcome of each. For a
    cancellation and for an error with one call, the same holds as in `execute`."""
    failures: list[Exception] = []

    async def one(sending: Sending) -> None:
        try:
            await _send_begun_one(lease, sending, was_stopped)
        except Exception as failure:
            log.warning("Tool call %s was not brought to its end: %r", sending.call_id, failure)
            failures.append(failure)

    async with asyncio.TaskGroup() as group:
        for sending in begun:
            group.create_task(one(sending))
    _raise_first(failures)


def _raise_first(failures: Sequence[Exception]) -> None:
    if failures:
        raise next((lost for lost in failures if isinstance(lost, LeaseLost)), failures[0])


async def _execute_one(lease: Lease, call_id: uuid.UUID, was_stopped: Callable[[], bool]) -> None:
    sending = await in_database(begin_sending, lease, call_id)
    if sending is not None:
        await _send_begun_one(lease, sending, was_stopped)


async def _send_begun_one(lease: Lease, sending: Sending, was_stopped: Callable[[], bool]) -> None:
    reach(FaultPoint.CALL_STORED_AS_SENDING)
    with log_ids.use_call(sending.call_id):
        await _send_and_store(lease, sending, was_stopped)


async def _send_and_store(lease: Lease, sending: Sending, was_stopped: Callable[[], bool]) -> None:
    call_id = sending.call_id
    if not await _is_still_held(lease):
        return await _store(lease, sending, _build_frozen_outcome(sending))
    task = asyncio.create_task(_send_call(lease, sending))
    running = current_runtime().running_calls
    running[call_id] = task
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        task.cancel()
        cut_off = write_error(STOPPED) if was_stopped() else None
        await run_uninterrupted(_store_end(lease, sending, task, cut_off))
        raise
    finally:
        del running[call_id]
    # From here on the outcome is stored first, also when the turn is stopped.
    await run_uninterrupted(_store_end(lease, sending, task, write_error(CANCELLED)))


async def _is_still_held(lease: Lease) -> bool:
    """Whether this worker still holds the turn. On a busy machine it may have been slow."""
    if not lease.is_fresh:
        await retry_in_database(lease, renew, [lease])
    return lease.is_fresh


async def _store_end(
    lease: Lease, sending: Sending, task: asyncio.Task[Ending], cut_off: dict[str, Any] | None
) -> None:
    """Store the outcome. A call that was cancelled before its answer has an unknown outcome with
    the error `cut_off`, or without one is treated like a call whose worker died."""
    await asyncio.wait([task])
    if not task.cancelled():
        await _store(lease, sending, task.result())
    elif cut_off is None:
        await retry_in_database(lease, settle_cut_off, lease, sending)
    else:
        await _store(lease, sending, Outcome(state=State.UNKNOWN, error=cut_off))


def cancel_running(call_ids: Iterable[uuid.UUID]) -> None:
    """Cancel those of these calls that this process runs. The request to the service is cancelled,
    too."""
    running = current_runtime().running_calls
    for call_id in call_ids:
        if task := running.get(call_id):
            task.cancel()


def _build_frozen_outcome(sending: Sending) -> Outcome:
    state = State.UNKNOWN if sending.may_have_run else State.FAILED
    return Outcome(state=state, error=write_error(FROZEN))


async def _send_call(lease: Lease, sending: Sending) -> Ending:
    """Send the call if its permit has not expired, and return how it ended."""
    service, tool = sending.service, sending.definition.name
    with use_tool_span(sending.call_id, label_service(service), tool, sending.attempt) as span:
        ending = await _send_permitted(lease, sending)
        _note_ending(span, ending)
        return ending


def _note_ending(span: Span, ending: Ending) -> None:
    match ending:
        case Outcome(state=state):
            span.set({"countersign.call.state": state.value})
            if state != State.SUCCEEDED:
                span.fail(str((ending.error or {}).get("kind", "tool_error")))
        case _:
            span.set({"countersign.call.state": type(ending).__name__})


async def _send_permitted(lease: Lease, sending: Sending) -> Ending:
    await load(operations)
    if not is_permitted(sending):
        return PermitExpired() if sending.attempt < MAX_ATTEMPTS else _build_frozen_outcome(sending)
    try:
        with recording.use_round(str(sending.call_id)):
            answer = await operations.call_tool(
                sending.service,
                sending.definition,
                json.loads(sending.arguments),
                acting=sending.acting,
                answers=sending.resumption.answers or None,
                request_state=sending.resumption.request_state,
                on_progress=ProgressReporter(lease, sending).report,
                on_question=LiveQuestions(lease=lease, sending=sending).ask,
            )
    except OperationError as error:
        if wants_sign_in(sending.service, error):
            return SignInWanted(error=describe_error(error))
        state = State.FAILED if error.is_definite else State.UNKNOWN
        return Outcome(state=state, error=describe_error(error))
    except Exception:
        log.exception("Tool call %s ended in a way that nobody foresaw", sending.call_id)
        return Outcome(state=State.UNKNOWN, error=write_error(UNFORESEEN))
    reach(FaultPoint.CALL_ANSWERED)
    if isinstance(answer, InputRequired | TaskStarted):
        return answer
    state = State.FAILED if answer.result.is_error else State.SUCCEEDED
    return Outcome(state=state, result=build_stored_result(answer.result))


async def _store(lease: Lease, sending: Sending, ending: Ending) -> None:
    """Store how a call ended, also while the turn is stopped, and when the database comes back
    after the lease ran out. Only a worker that has taken the turn meanwhile prevents it."""
    match ending:
        case SignInWanted(error=error):
            work = keep_for_database(lease, pause_for_sign_in, lease, sending, error)
        case PermitExpired():
            work = keep_for_database(lease, pause_for_decision, lease, sending)
        case InputRequired():
            work = keep_for_database(lease, pause_for_answer, lease, sending, ending)
        case TaskStarted():
            work = keep_for_database(lease, pause_for_task, lease, sending, ending)
        case Outcome(state=state, result=result, error=error):
            work = keep_for_database(
                lease, record_outcome, lease, sending, state, result=result, error=error
            )
        case _:
            assert_never(ending)
    await run_uninterrupted(work)


@dataclass(slots=True)
class ProgressReporter:
    """Stores a tool's progress, at most twice a second."""

    lease: Lease
    sending: Sending
    last: float = 0.0

    async def report(self, progress: Progress) -> None:
        if time.monotonic() - self.last < PROGRESS_SECONDS:
            return
        self.last = time.monotonic()
        try:
            await in_database(record_progress, self.lease, self.sending, progress)
        except (LeaseLost, *DATABASE_AWAY) as error:  # the call itself continues
            log.info("Progress of tool call %s was not stored: %r", self.sending.call_id, error)
