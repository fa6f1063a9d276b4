"""The engine: one per process. It moves turns that have something to do, and nothing else does.

A turn's task belongs to no socket and no request. `advance` may be called at any time, by anybody,
twice: the lease lets one in.
"""

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVarTuple, assert_never

from django.conf import settings

from chatapp.models import Member, Turn
from chatapp.storage import in_database
from chatapp.tools.catalogue import Catalogue, catalogue_for
from chatapp.tools.core_catalogue import with_core_tools
from mcpconfig.retries import retry_due
from mcpconfig.tool_apps import Audience
from mcpconfig.trace import prune_all

from . import calling, recovery
from .budgets import read_turn
from .core_execution import run_core_calls
from .deciding import decide_calls, reconsider
from .ending import finish, park
from .execution import UNDER_WAY, cancel, execute
from .group_commit import GroupCommit
from .lease import Lease, LeaseLost, acquire, drop, release, renew
from .ledger import settle_orphans
from .log import SERVER, acting_as
from .milestones import passed
from .missing import note_missing
from .model_call import call_model
from .next_action import CallModel, Decide, Execute, Finish, Reason, Wait, next_action
from .patience import AWAY, kept_trying, uninterrupted
from .relisting import list_anew
from .reminders import remind_due
from .remote_tasks import poll_due
from .steps import open_step
from .tool_selection import chosen, note_unmet

log = logging.getLogger(__name__)
Ts = TypeVarTuple("Ts")
RENEW_PART = 3
MOST_DROPS = 5
STOP_LOOK_SECONDS = 0.5
RETRY_LOOK_SECONDS = 1.0
TASK_LOOK_SECONDS = 1.0
TRACE_LOOK_SECONDS = 3600.0
REFUSED = (
    f"The database refused something of this turn {MOST_DROPS} times, so it was ended. An admin "
    "finds the reason in the log."
)
INTERNAL = (
    "Something went wrong here, and this turn was ended. An admin finds the reason in the log."
)


@dataclass(slots=True, kw_only=True)
class Run:
    """A turn in this process's hands."""

    lease: Lease
    task: asyncio.Task[None] | None = None
    was_stopped: bool = False
    was_woken: bool = False


class Engine:
    """Moves turns in this process's event loop: `start`, then `wake`; `close` hands everything
    on."""

    def __init__(self) -> None:
        self.commit = GroupCommit()
        self._runs: dict[uuid.UUID, Run] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._is_closed = False

    # --- life ------------------------------------------------------------------------------
    def start(self, *, sweeps: bool = True) -> None:
        """Begin to listen. A command's engine does not sweep: it moves only what it is given."""
        calling.LISTENERS.append(self.wake)
        self._watch(self.commit.run)
        self._watch(self._every, settings.LEASE_SECONDS / RENEW_PART, self._renew)
        self._watch(self._every, STOP_LOOK_SECONDS, self._look_for_stops)
        if sweeps:
            self._watch(self._every, settings.SWEEP_SECONDS, self._take_up)
            for job in recovery.JOBS:  # each for itself: one that fails holds up no other
                self._watch(self._every, settings.SWEEP_SECONDS, partial(in_database, job))
            self._watch(self._every, settings.SWEEP_SECONDS, remind_due)
            self._watch(self._every, RETRY_LOOK_SECONDS, retry_due)
            self._watch(self._every, TASK_LOOK_SECONDS, poll_due)
            self._watch(self._every, TRACE_LOOK_SECONDS, partial(in_database, prune_all))

    async def close(self) -> None:
        """Stop working and let other workers go on at once; no turn is lost or ended by this."""
        self._is_closed = True
        calling.LISTENERS.remove(self.wake)
        tasks = [run.task for run in self._runs.values() if run.task] + list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- asking ----------------------------------------------------------------------------
    def wake(self, turn_id: uuid.UUID) -> None:
        """Look at this turn soon; safe from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closing: the sweep elsewhere finds it
            # A context of its own: the turn outlives the request that woke it.
            self._loop.call_soon_threadsafe(self._begin, turn_id, context=Context())

    def _begin(self, turn_id: uuid.UUID) -> None:
        if self._is_closed:
            return
        if run := self._runs.get(turn_id):
            run.was_woken = True
            self._watch(self._look_for_stops)
        else:
            self._watch(self.advance, turn_id)

    async def advance(self, turn_id: uuid.UUID) -> None:
        """Move the turn until it is over or waits for somebody; return at once if somebody else
        does."""
        if turn_id in self._runs:
            return
        passed("K2")
        lease = await _taken(turn_id)
        if lease is None:
            return
        run = Run(lease=lease)
        self._runs[turn_id] = run
        run.task = asyncio.create_task(self._move(run))
        try:
            await asyncio.shield(run.task)
        except asyncio.CancelledError:
            if not run.task.done():
                raise
        finally:
            if run.task.done():
                self._runs.pop(turn_id, None)
                if run.was_woken:  # perhaps just after it let go
                    self._begin(turn_id)

    async def finished(self, turn_id: uuid.UUID) -> None:
        """Return when this process does not move the turn any more."""
        run = self._runs.get(turn_id)
        if run is not None and run.task is not None:
            await asyncio.wait([run.task])

    # --- moving ----------------------------------------------------------------------------
    async def _move(self, run: Run) -> None:
        """The one place where whatever goes wrong in a turn ends: it is logged, and the turn
        ends visibly."""
        try:
            if run.lease.drops >= MOST_DROPS:
                return await self._finish(run, "failed", REFUSED)
            await in_database(settle_orphans, run.lease)
            await in_database(reconsider, run.lease)
            await self._loop_of(run)
        except LeaseLost:
            log.info("Turn %s belongs to another worker by now", run.lease.turn_id)
        except asyncio.CancelledError:
            await uninterrupted(self._let_go(run))
        except AWAY:
            log.exception("Turn %s goes on when the database is back", run.lease.turn_id)
            await uninterrupted(self._drop(run))
        except Exception:
            log.exception("Turn %s ended in a way that nobody foresaw", run.lease.turn_id)
            await uninterrupted(self._fail(run))

    async def _loop_of(self, run: Run) -> None:
        while True:
            turn, state = await in_database(read_turn, run.lease)
            action = next_action(state)
            match action:
                case CallModel(number=number):
                    await self._call_model(run, turn, number)
                case Decide(calls=calls):
                    # The catalogue as it is now, not as the model was offered it: a level that was
                    # raised or a confirmation that was withdrawn meanwhile counts at once.
                    catalogue = await _catalogue(turn)
                    await in_database(decide_calls, run.lease, calls, catalogue)
                    passed("K8")
                case Execute(calls=calls):
                    await run_core_calls(run.lease, calls, partial(_catalogue, turn))
                    await list_anew(turn, calls)
                    await execute(run.lease, calls, lambda: run.was_stopped)
                case Wait():
                    if await in_database(park, run.lease, turn.signals):
                        return passed("K9")
                case Finish(reason=reason, sentence=sentence, hint=hint):
                    passed("K16")
                    words = (sentence, hint)
                    if await in_database(finish, run.lease, turn.signals, reason, *words):
                        return None
                case _:
                    assert_never(action)

    async def _call_model(self, run: Run, turn: Turn, number: int) -> None:
        """The step is opened first: whatever ends this process from here on counts as one of its
        attempts."""
        passed("K3" if number == 1 else "K14")
        step = await in_database(open_step, run.lease, number)
        catalogue = await _catalogue(turn)
        if number == 1 and catalogue.missing:
            await in_database(note_missing, run.lease, catalogue.missing)
        if number == 1 and any(catalogue.notice):
            await in_database(note_unmet, run.lease, catalogue)
        await call_model(run.lease, step, catalogue, self.commit, lambda: run.was_stopped)

    async def _let_go(self, run: Run) -> None:
        """Cancelled: by Stop the turn ends; because the process ends, the next worker takes it
        at once."""
        try:
            if run.was_stopped:
                passed("K20")
                await self._finish(run, "stopped")
            else:
                await in_database(release, run.lease)
        except LeaseLost:
            log.info("Turn %s belongs to another worker by now", run.lease.turn_id)
        except AWAY:
            log.exception("Turn %s is let go of when its lease runs out", run.lease.turn_id)

    async def _drop(self, run: Run) -> None:
        """Let the sweep take the turn up again, here or elsewhere; where that cannot be stored, its
        lease runs out."""
        try:
            await kept_trying(run.lease, drop, run.lease)
        except AWAY:
            log.warning("Turn %s is let go of when its lease runs out", run.lease.turn_id)

    async def _finish(self, run: Run, reason: Reason, sentence: str = "") -> None:
        """End it whatever happened meanwhile: nothing overrides Stop or a failure."""
        is_over = False
        while not is_over:
            turn, _state = await in_database(read_turn, run.lease)
            is_over = await in_database(finish, run.lease, turn.signals, reason, sentence)

    async def _fail(self, run: Run) -> None:
        try:
            await self._finish(run, "failed", INTERNAL)
        except Exception:
            log.exception("Turn %s could not be ended; the sweep tries again", run.lease.turn_id)

    # --- watching --------------------------------------------------------------------------
    def _watch(self, work: Callable[[*Ts], Coroutine[Any, Any, None]], *args: *Ts) -> None:
        task = asyncio.create_task(_logged(work, *args))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _every(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        """Do `work` again and again; what goes wrong once is logged and tried again."""
        while True:
            try:
                await work()
            except Exception:
                log.exception("%s failed; it is tried again", getattr(work, "__name__", work))
            await asyncio.sleep(seconds)

    async def _renew(self) -> None:
        await in_database(renew, [run.lease for run in self._runs.values()])

    async def _look_for_stops(self) -> None:
        if not self._runs:
            return
        for turn_id in await in_database(recovery.stopped_turns, list(self._runs)):
            run = self._runs.get(turn_id)
            if run is not None and run.task is not None and not run.was_stopped:
                run.was_stopped = True
                run.task.cancel()
        if UNDER_WAY:
            cancel(await in_database(recovery.cancelled_calls, list(UNDER_WAY)))

    async def _take_up(self) -> None:
        for turn_id in await in_database(recovery.abandoned_turns):
            self._begin(turn_id)


async def _catalogue(turn: Turn) -> Catalogue:
    person = await in_database(Member.objects.get, conversations=turn.conversation_id)
    audience: Audience = "model" if turn.app_of_id is None else "app"
    found = await catalogue_for(person, turn.services, turn.conversation_id, audience)
    whole = found if audience == "app" else with_core_tools(found, person)
    return await in_database(chosen, whole, turn, person)


async def _taken(turn_id: uuid.UUID) -> Lease | None:
    """Take the turn, if it can be had. Cancelled meanwhile, give it back: nobody would move it."""
    taking = asyncio.create_task(in_database(acquire, turn_id))

    async def give_back() -> None:
        lease = await taking
        if lease is not None:
            await in_database(release, lease)

    try:
        return await asyncio.shield(taking)
    except asyncio.CancelledError:
        await uninterrupted(give_back())
        raise


async def _logged(work: Callable[[*Ts], Coroutine[Any, Any, None]], *args: *Ts) -> None:
    """What goes wrong outside a turn (the database is away) is logged; the sweep tries again. What
    it changes meanwhile the server does by itself, and nobody at a page or a command line."""
    try:
        with acting_as(lambda: SERVER):
            await work(*args)
    except Exception:
        log.exception("A look at a turn failed; the sweep tries again")
