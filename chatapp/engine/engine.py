"""The engine of a process. Only an engine moves turns.

A turn's task belongs to no socket and no request. `advance` may be called at any time, by anybody,
twice: the lease lets one in.

An engine ends in two phases. From `begin_shutdown` on it takes no turn and begins no model call and
no tool call, and a turn that needs one is released to other workers. `close` waits for the model
calls and tool calls that are running, up to a limit, and cancels the rest.
"""

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVarTuple, assert_never

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext_lazy

from chatapp.audit.audit_log import SERVER, acting_as
from chatapp.calls.beginning import decide_and_begin
from chatapp.calls.deciding import decide_calls
from chatapp.calls.execution import cancel_running, execute, send_begun
from chatapp.calls.ledger import settle_orphans
from chatapp.calls.own_tool_execution import run_core_calls
from chatapp.calls.recheck import reopen_decisions
from chatapp.calls.remote_tasks import has_planned_polls, poll_due
from chatapp.journal.db_retry import DATABASE_AWAY, retry_in_database, run_uninterrupted
from chatapp.journal.fault_points import FaultPoint, reach
from chatapp.journal.group_commit import GroupCommit
from chatapp.journal.journal import Event, Kind
from chatapp.journal.lease import Lease, LeaseLost, drop, release, renew
from chatapp.models import Turn
from chatapp.server.database import in_database
from chatapp.server.languages import speaking
from chatapp.server.runtime import Runtime
from chatapp.telemetry import log_ids, metrics
from chatapp.telemetry.spans import Attributes, Span
from chatapp.telemetry.tracing import use_turn_span
from chatapp.tool_menu.turn_selection import choose_tools, note_unmet
from chatapp.tools.catalogue import Catalogue
from mcpconfig.operations.service_retries import has_planned_retries, retry_due

from . import sweep
from .ending import finish_turn, park_turn
from .model_call import call_model
from .model_request import PreparedRequest, load_catalogue, prepare_request
from .next_action import CallModel, Decide, Execute, Finish, Reason, Wait, next_action
from .notices import note_missing
from .step_opening import BegunTurn, Opened, add_request, begin_step, begin_turn, take_and_open
from .titles import title_chat, wants_title
from .turn_state import read_turn

log = logging.getLogger(__name__)
Ts = TypeVarTuple("Ts")
RENEW_PART = 3
MAX_DROPS = 5
STOP_CHECK_SECONDS = 0.5
# Between two looks while nothing is planned.
SLOW_CHECK_SECONDS = 5.0
SHUTDOWN_CHECK_SECONDS = 0.2
PLAN_CHECK_SECONDS = 1.0
# Events after which a task may be to poll, or a service to retry.
PLANNING_KINDS = (Kind.TOOL_CALL, Kind.NOTICE)
REFUSED = gettext_lazy(
    "The database refused this answer several times, so it was ended. "
    "An admin can find the reason in the server’s log."
)
INTERNAL = gettext_lazy(
    "An internal error ended this answer. An admin can find the reason in the server’s log."
)


@dataclass(slots=True, kw_only=True)
class Run:
    """A turn that this process moves."""

    lease: Lease
    language: str  # of the owner, for notices
    begun: BegunTurn | None  # as it was then, until something is done with it
    task: asyncio.Task[None] | None = None
    was_stopped: bool = False
    was_woken: bool = False


@dataclass(slots=True, kw_only=True)
class Plan:
    """Whether rows have a time at which something is to be done, as it was read last."""

    is_any: Callable[[], bool]
    was_any: bool = False
    changes: int = -1  # of the engine, when it was read
    read_at: float = float("-inf")


class Engine:
    """Moves turns in this process's event loop: `start`, then `wake`; `close` releases every turn
    to other workers."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.commit = GroupCommit()
        self._runs: dict[uuid.UUID, Run] = {}
        self._has_runs = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._running_jobs: set[Callable[[], None]] = set()  # of the sweep
        self._loop = asyncio.get_running_loop()
        self._shutdown_began: float | None = None  # in the loop's time
        self._waits_at_shutdown = True
        self._was_database_away = False
        self._plan_changes = 0
        self._titles_chats = False
        self._titling: set[uuid.UUID] = set()  # chats

    # --- life ------------------------------------------------------------------------------
    def start(self, *, sweeps: bool = True) -> None:
        """Start the background tasks. The engine of a command neither sweeps nor titles chats: it
        ends with its turn."""
        self._titles_chats = sweeps
        self._runtime.is_closing = False
        self._runtime.wake_listeners.append(self.wake)
        self._runtime.begin_new_turn = self.begin_new
        self._runtime.journal_listeners.append(self._note_plans)
        self._spawn(self.commit.run)
        self._spawn(self._repeat, settings.LEASE_SECONDS / RENEW_PART, self._renew)
        self._spawn(self._repeat, STOP_CHECK_SECONDS, self._watch_stops)
        if sweeps:
            self._spawn(self._repeat, settings.SWEEP_SECONDS, self._sweep)
            for work, is_any in ((retry_due, has_planned_retries), (poll_due, has_planned_polls)):
                planned = partial(self._do_planned, work, Plan(is_any=is_any))
                self._spawn(self._repeat, PLAN_CHECK_SECONDS, planned)

    @property
    def is_shutting_down(self) -> bool:
        return self._shutdown_began is not None

    def count_running(self) -> int:
        """Return how many turns this process moves now."""
        return len(self._runs)

    def begin_shutdown(self, *, at_once: bool = False) -> None:
        """Begin nothing new. With `at_once`, `close` does not wait for what is running.

        Safe to call from a signal handler and more than once."""
        if self._shutdown_began is None:
            self._shutdown_began = self._loop.time()
        if at_once:
            self._waits_at_shutdown = False

    async def close(self, *, wait_seconds: float = 0) -> None:
        """Stop working and let other workers continue. No turn is lost or ended.

        Running model calls and tool calls may end within `wait_seconds`, counted from
        `begin_shutdown`. What has not ended by then is cancelled."""
        self.begin_shutdown()
        await self._wait_for_runs(wait_seconds)
        self._runtime.is_closing = True
        self._runtime.wake_listeners.remove(self.wake)
        if self._runtime.begin_new_turn == self.begin_new:
            self._runtime.begin_new_turn = None
        self._runtime.journal_listeners.remove(self._note_plans)
        tasks = [run.task for run in self._runs.values() if run.task] + list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _wait_for_runs(self, wait_seconds: float) -> None:
        """Wait until no turn is moved here. Leases are renewed meanwhile, and Stop works."""
        end = (self._shutdown_began or 0) + wait_seconds
        while running := [
            run.task for run in self._runs.values() if run.task and not run.task.done()
        ]:
            left = end - self._loop.time()
            if left <= 0 or not self._waits_at_shutdown:
                return
            await asyncio.wait(running, timeout=min(left, SHUTDOWN_CHECK_SECONDS))

    # --- starting turns --------------------------------------------------------------------
    def wake(self, turn_id: uuid.UUID) -> None:
        """Move this turn soon. Safe to call from any thread."""
        with contextlib.suppress(
            RuntimeError
        ):  # the loop is closing, so the sweep of another process takes the turn
            # In an empty context, as the turn outlives the request that woke it.
            self._loop.call_soon_threadsafe(self._begin, turn_id, context=Context())

    def begin_new(self, turn_id: uuid.UUID) -> bool:
        """Take a new turn inside the transaction that stores it, and move it after the commit.
        Return whether this engine takes it. Called in the thread of the transaction.

        A turn that is woken instead needs a visit of the database and a commit of its own, for
        which a person waits."""
        if self.is_shutting_down:
            return False
        begun = take_and_open(turn_id)
        if begun is not None:
            # An error must not look as if the message had not been stored; the lease runs out then.
            transaction.on_commit(lambda: self._move_soon(begun), robust=True)
        return begun is not None

    def _move_soon(self, begun: BegunTurn) -> None:
        """Build the request of a turn that was just committed, and move the turn."""
        reach(FaultPoint.TURN_FOUND)
        if self.is_shutting_down:
            return release(begun.taken.lease)
        prepared = add_request(begun)
        with contextlib.suppress(RuntimeError):  # the loop is closing, so the lease runs out
            self._loop.call_soon_threadsafe(
                self._spawn, self._move_begun, prepared, context=Context()
            )

    def _begin(self, turn_id: uuid.UUID) -> None:
        if self.is_shutting_down:
            return
        if run := self._runs.get(turn_id):
            run.was_woken = True
            self._spawn(self._check_stops)
        else:
            self._spawn(self.advance, turn_id)

    async def advance(self, turn_id: uuid.UUID) -> None:
        """Move the turn until it is over or waits for a person. Return at once if another worker
        holds it."""
        if turn_id in self._runs:
            return
        reach(FaultPoint.TURN_FOUND)
        begun = await _begin_turn(turn_id)
        if begun is None:
            return
        await self._move_begun(begun)

    async def _move_begun(self, begun: BegunTurn) -> None:
        owner = begun.taken.turn.conversation.owner
        run = Run(lease=begun.taken.lease, language=owner.reading_language, begun=begun)
        turn_id = run.lease.turn_id
        self._runs[turn_id] = run
        self._has_runs.set()
        run.task = asyncio.create_task(self._move(run))
        try:
            await asyncio.shield(run.task)
        except asyncio.CancelledError:
            if not run.task.done():
                raise
        finally:
            if run.task.done():
                self._runs.pop(turn_id, None)
                if run.was_woken:  # it may have been after the release
                    self._begin(turn_id)

    # --- moving ----------------------------------------------------------------------------
    async def _move(self, run: Run) -> None:
        """Run the turn. Every error of a turn is caught here: it is logged, and the turn ends with
        a notice."""
        lease = run.lease
        attributes: Attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "countersign",
            "gen_ai.conversation.id": str(lease.conversation_id),
            "countersign.turn.id": str(lease.turn_id),
            "countersign.turn.run": lease.fence,
        }
        with (
            log_ids.use_turn(lease.turn_id),
            use_turn_span(lease.turn_id, lease.fence, attributes) as span,
            speaking(run.language),
        ):
            await self._move_observed(run, span)

    async def _move_observed(self, run: Run, span: Span) -> None:
        try:
            if run.lease.drops >= MAX_DROPS:
                span.fail("refused_by_database")
                return await self._finish(run, "failed", str(REFUSED))
            if run.lease.fence > 1:  # an earlier worker may have left calls behind
                run.begun = None
                await in_database(settle_orphans, run.lease)
                await in_database(reopen_decisions, run.lease)
            await self._run_actions(run, span)
        except LeaseLost:
            span.fail("lease_lost")
            log.info("Turn %s belongs to another worker", run.lease.turn_id)
        except asyncio.CancelledError:
            span.set({"countersign.turn.end": "stopped" if run.was_stopped else "released"})
            await run_uninterrupted(self._hand_over(run))
        except DATABASE_AWAY:
            span.fail("database_away")
            log.exception("Turn %s goes on when the database is back", run.lease.turn_id)
            await run_uninterrupted(self._drop(run))
        except Exception:
            span.fail("internal")
            log.exception("Turn %s ended in a way that nobody foresaw", run.lease.turn_id)
            await run_uninterrupted(self._fail(run))

    async def _run_actions(self, run: Run, span: Span) -> None:
        while True:
            begun, run.begun = run.begun, None
            opened = None
            if begun is None:
                turn, state = await in_database(read_turn, run.lease)
            else:
                turn, state, opened = begun.taken.turn, begun.taken.state, begun.opened
            action = next_action(state)
            match action:
                case CallModel() | Execute() if self.is_shutting_down:
                    span.set({"countersign.turn.end": "released"})
                    return await in_database(release, run.lease)
                case CallModel(number=number):
                    if opened is None:
                        is_new = state.step is None or state.step.number < number
                        opened = await _open_step(run.lease, turn, number, is_new)
                    ended = await self._call_model(run, turn, opened)
                    if ended is not None:
                        self._title_soon(turn, ended)
                        return span.set({"countersign.turn.end": ended})
                case Decide(calls=calls):
                    # The catalogue as it is now, and not as it was offered to the model: a level
                    # that was raised or a confirmation that was withdrawn since counts at once.
                    catalogue = await _build_catalogue(turn)
                    await in_database(decide_calls, run.lease, calls, catalogue)
                    reach(FaultPoint.DECISION_COMMITTED)
                case Execute(calls=calls):
                    await run_core_calls(
                        run.lease, calls, partial(_build_current_catalogue, turn.pk)
                    )
                    await execute(
                        run.lease,
                        calls,
                        was_stopped=lambda: run.was_stopped,
                        may_begin=lambda: not self.is_shutting_down,
                    )
                case Wait():
                    if await in_database(park_turn, run.lease, turn.signals):
                        span.set({"countersign.turn.end": "waiting"})
                        return reach(FaultPoint.TURN_PARKED)
                case Finish(reason=reason, sentence=sentence, hint=hint):
                    reach(FaultPoint.TURN_END_CHOSEN)
                    words = (sentence, hint)
                    if await in_database(finish_turn, run.lease, turn.signals, reason, *words):
                        self._title_soon(turn, reason)
                        span.set({"countersign.turn.end": reason})
                        return None
                case _:
                    assert_never(action)

    def _title_soon(self, turn: Turn, reason: Reason) -> None:
        """Have the chat of a turn that has ended titled, if it has no title of its own yet."""
        may_begin = self._titles_chats and not self.is_shutting_down
        if may_begin and reason == "complete" and wants_title(turn):
            self._spawn(self._title, turn)

    async def _title(self, turn: Turn) -> None:
        """Title a chat, unless this has begun after an earlier turn."""
        chat = turn.conversation_id
        if chat in self._titling:
            return
        self._titling.add(chat)
        try:
            await title_chat(turn)
        except Exception:
            log.exception("The chat of turn %s could not be titled", turn.pk)
        finally:
            self._titling.discard(chat)

    async def _begin_calls(self, run: Run, turn: Turn, step: int, offered: Catalogue) -> None:
        """Decide about the calls of this step and run those that are allowed, if nothing that
        counts has changed since the model was offered these tools."""
        if self.is_shutting_down:
            return
        person = turn.conversation.owner
        begun = await in_database(decide_and_begin, run.lease, step, offered, person)
        if begun:
            await send_begun(run.lease, begun, was_stopped=lambda: run.was_stopped)
        elif begun is not None:
            reach(FaultPoint.DECISION_COMMITTED)

    async def _call_model(self, run: Run, turn: Turn, opened: Opened) -> Reason | None:
        """Call the model for an open step. Return the reason if the answer ended the turn.

        If the process dies from here on, that counts as one attempt of the step."""
        step, prepared = opened.step, opened.request or await _prepare_request(turn)
        catalogue = prepared.catalogue
        if step.number == 1 and catalogue.missing:
            await in_database(note_missing, run.lease, catalogue.missing)
        if step.number == 1 and any(catalogue.notice):
            await in_database(note_unmet, run.lease, catalogue)
        ended = await call_model(
            run.lease, turn, step, prepared, self.commit, lambda: run.was_stopped
        )
        if ended is None:
            await self._begin_calls(run, turn, step.number, catalogue)
        return ended

    async def _hand_over(self, run: Run) -> None:
        """Handle a cancellation: Stop ends the turn, and the end of the process hands the turn to
        the next worker."""
        try:
            if run.was_stopped:
                reach(FaultPoint.STOP_RECEIVED)
                await self._finish(run, "stopped")
            else:
                await in_database(release, run.lease)
        except LeaseLost:
            log.info("Turn %s belongs to another worker", run.lease.turn_id)
        except DATABASE_AWAY:
            log.exception("Turn %s is let go of when its lease runs out", run.lease.turn_id)

    async def _drop(self, run: Run) -> None:
        """Let a sweep take the turn again, in this or another process. If that cannot be stored,
        the lease runs out."""
        try:
            await retry_in_database(run.lease, drop, run.lease)
        except DATABASE_AWAY:
            log.warning("Turn %s is let go of when its lease runs out", run.lease.turn_id)

    async def _finish(self, run: Run, reason: Reason, sentence: str = "") -> None:
        """End the turn, also if it was signalled meanwhile: nothing overrides Stop or a failure."""
        is_over = False
        while not is_over:
            turn, _state = await in_database(read_turn, run.lease)
            is_over = await in_database(finish_turn, run.lease, turn.signals, reason, sentence)

    async def _fail(self, run: Run) -> None:
        try:
            await self._finish(run, "failed", str(INTERNAL))
        except Exception:
            log.exception("Turn %s could not be ended; the sweep tries again", run.lease.turn_id)

    # --- background tasks ------------------------------------------------------------------
    def _spawn(self, work: Callable[[*Ts], Coroutine[Any, Any, None]], *args: *Ts) -> None:
        task = asyncio.create_task(_run_logged(work, *args))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _repeat(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        """Repeat `work`. An error is logged, and the work is tried again."""
        while True:
            await self._try(work)
            await asyncio.sleep(seconds)

    async def _try(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Exception:
            name = _get_task_name(work)
            metrics.TASK_FAILURES.labels(name).inc()
            log.exception("%s failed; it is tried again", name)

    def _note_plans(self, events: Sequence[Event]) -> None:
        """Accept committed events of this process. Called in the thread that committed them."""
        if any(event.kind in PLANNING_KINDS for event in events):
            self._plan_changes += 1

    async def _do_planned(self, work: Callable[[], Awaitable[None]], plan: Plan) -> None:
        """Do the work if rows plan some. They are read less often while there are none."""
        is_late = self._loop.time() >= plan.read_at + SLOW_CHECK_SECONDS
        if not (plan.was_any or is_late or plan.changes != self._plan_changes):
            return
        plan.changes, plan.read_at = self._plan_changes, self._loop.time()
        plan.was_any = await in_database(plan.is_any)
        if plan.was_any:
            await work()

    async def _renew(self) -> None:
        if self._runs:
            await in_database(renew, [run.lease for run in self._runs.values()])

    async def _watch_stops(self) -> None:
        """Check for Stop while turns run. Without one nothing wakes this process."""
        await self._has_runs.wait()
        await self._check_stops()

    async def _check_stops(self) -> None:
        if not self._runs:
            return self._has_runs.clear()
        for turn_id in await in_database(sweep.find_stopped_turns, list(self._runs)):
            run = self._runs.get(turn_id)
            if run is not None and run.task is not None and not run.was_stopped:
                run.was_stopped = True
                run.task.cancel()
        if calls := list(self._runtime.running_calls):
            cancel_running(await in_database(sweep.find_cancelled_calls, calls))

    async def _sweep(self) -> None:
        try:
            due = await in_database(sweep.find_due)
            for job in due.jobs:  # in a task each, so that none waits for another or for its error
                self._spawn(self._do_job, job)
            await self._begin_abandoned(due)
        except DATABASE_AWAY:
            self._was_database_away = True
            raise
        metrics.SWEEP_SUCCESS.set_to_current_time()

    async def _begin_abandoned(self, due: sweep.Due) -> None:
        if self._was_database_away:
            # All leases may have run out in the outage. Other workers first store what they kept.
            self._was_database_away = False
        elif due.has_abandoned:
            for turn_id in await in_database(sweep.find_abandoned_turns):
                self._begin(turn_id)

    async def _do_job(self, job: Callable[[], None]) -> None:
        """Do a job of the sweep, unless it has not ended since the last one."""
        if job in self._running_jobs:
            return
        self._running_jobs.add(job)
        try:
            await self._try(partial(in_database, job))
        finally:
            self._running_jobs.discard(job)


def _get_task_name(work: Callable[[], Awaitable[None]]) -> str:
    """Return the name of the function, also of one that runs in a database thread."""
    inner = work.args[0] if isinstance(work, partial) and work.args else work
    return str(getattr(inner, "__name__", "task")).lstrip("_")


async def _open_step(lease: Lease, turn: Turn, number: int, is_new: bool) -> Opened:
    reach(FaultPoint.FIRST_STEP_CHOSEN if number == 1 else FaultPoint.NEXT_STEP_CHOSEN)
    return await in_database(begin_step, lease, turn, number, is_new=is_new)


async def _prepare_request(turn: Turn) -> PreparedRequest:
    """Build the request of a turn, which was read just now, after services were asked."""
    return await in_database(prepare_request, await load_catalogue(turn), turn)


async def _build_catalogue(turn: Turn) -> Catalogue:
    """Build the catalogue of a turn, which was read just now with its conversation and owner."""
    whole = await load_catalogue(turn)
    return await in_database(choose_tools, whole, turn, turn.conversation.owner)


async def _build_current_catalogue(turn_id: uuid.UUID) -> Catalogue:
    """Build the catalogue from the turn, the chat and the person as they are now."""
    turns = Turn.objects.select_related("conversation__owner")
    return await _build_catalogue(await in_database(turns.get, pk=turn_id))


async def _begin_turn(turn_id: uuid.UUID) -> BegunTurn | None:
    """Take the turn if it is free. After a cancellation it is released: no task would move it."""
    taking = asyncio.create_task(in_database(begin_turn, turn_id))

    async def give_back() -> None:
        begun = await taking
        if begun is not None:
            await in_database(release, begun.taken.lease)

    try:
        return await asyncio.shield(taking)
    except asyncio.CancelledError:
        await run_uninterrupted(give_back())
        raise


async def _run_logged(work: Callable[[*Ts], Coroutine[Any, Any, None]], *args: *Ts) -> None:
    """Run background work, and log its errors: the sweep tries again. In the audit log its changes
    are the server's own."""
    try:
        with acting_as(lambda: SERVER):
            await work(*args)
    except Exception:
        log.exception("A look at a turn failed; the sweep tries again")
