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
from typing import Any, assert_never

from django.conf import settings

from chatapp.models import Member, Turn
from chatapp.tools.catalogue import Catalogue, catalogue_for

from . import calling, recovery
from .budgets import read_turn
from .deciding import decide_calls
from .ending import finish, park
from .execution import execute
from .group_commit import GroupCommit
from .lease import Lease, LeaseLost, acquire, release, renew
from .ledger import settle_orphans
from .milestones import passed
from .model_call import call_model
from .next_action import CallModel, Decide, Execute, Finish, Reason, Wait, next_action
from .storage import in_database

log = logging.getLogger(__name__)
RENEW_PART = 3
STOP_LOOK_SECONDS = 0.5
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

    # --- life ------------------------------------------------------------------------------
    def start(self, *, sweeps: bool = True) -> None:
        """Begin to listen. A command's engine does not sweep: it moves only what it is given."""
        calling.LISTENERS.append(self.wake)
        self._watch(self.commit.run())
        self._watch(self._every(settings.LEASE_SECONDS / RENEW_PART, self._renew))
        self._watch(self._every(STOP_LOOK_SECONDS, self._look_for_stops))
        if sweeps:
            self._watch(self._every(settings.SWEEP_SECONDS, self._sweep))

    async def close(self) -> None:
        """Stop working and let other workers go on at once; no turn is lost or ended by this."""
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
        if run := self._runs.get(turn_id):
            run.was_woken = True
            self._watch(self._look_for_stops())
        else:
            self._watch(self.advance(turn_id))

    async def advance(self, turn_id: uuid.UUID) -> None:
        """Move the turn until it is over or waits for somebody; return at once if somebody else
        does."""
        if turn_id in self._runs:
            return
        passed("K2")
        lease = await in_database(acquire, turn_id)
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
            await in_database(settle_orphans, run.lease)
            await self._loop_of(run)
        except LeaseLost:
            log.info("Turn %s belongs to another worker by now", run.lease.turn_id)
        except asyncio.CancelledError:
            await asyncio.shield(self._let_go(run))
        except Exception:
            log.exception("Turn %s ended in a way that nobody foresaw", run.lease.turn_id)
            await self._fail(run)

    async def _loop_of(self, run: Run) -> None:
        catalogue: Catalogue | None = None
        while True:
            turn, state = await in_database(read_turn, run.lease)
            action = next_action(state)
            if isinstance(action, CallModel | Decide):
                catalogue = await self._catalogue(turn)
            match action:
                case CallModel(number=number):
                    assert catalogue is not None  # noqa: S101  built just above
                    await call_model(
                        run.lease, number, catalogue, self.commit, lambda: run.was_stopped
                    )
                case Decide(calls=calls):
                    assert catalogue is not None  # noqa: S101  built just above
                    await in_database(decide_calls, run.lease, calls, catalogue)
                    passed("K8")
                case Execute(calls=calls):
                    await execute(run.lease, calls)
                case Wait():
                    if await in_database(park, run.lease, turn.signals):
                        return passed("K9")
                case Finish(reason=reason, sentence=sentence):
                    passed("K16")
                    if await in_database(finish, run.lease, turn.signals, reason, sentence):
                        return None
                case _:
                    assert_never(action)

    async def _catalogue(self, turn: Turn) -> Catalogue:
        person = await in_database(Member.objects.get, conversations=turn.conversation_id)
        return await catalogue_for(person, turn.services)

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
    def _watch(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(_logged(work))
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

    async def _sweep(self) -> None:
        await in_database(recovery.expire_approvals)
        await in_database(recovery.clear_journal)
        for turn_id in await in_database(recovery.abandoned_turns):
            self._begin(turn_id)


async def _logged(work: Coroutine[Any, Any, None]) -> None:
    """What goes wrong outside a turn (the database is away) is logged; the sweep tries again."""
    try:
        await work
    except Exception:
        log.exception("A look at a turn failed; the sweep tries again")
