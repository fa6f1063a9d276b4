"""The group commit: one transaction each tick for the deltas of all running turns of this process.

Listeners get an event only after its commit, so no page shows text that is not stored. The first
text of an answer is committed without waiting for the tick, and the other answers wait: otherwise
each answer that begins would cost a rendering of all the others.
"""

import asyncio
import logging
import math
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction

from chatapp.journal import journal
from chatapp.journal.journal import Entry, Kind, TextBatch
from chatapp.models import JournalEvent
from chatapp.server.database import in_database
from chatapp.telemetry import metrics

from .db_retry import DATABASE_AWAY, backoff_seconds, is_long_ago, run_uninterrupted
from .fault_points import FaultPoint, reach
from .lease import Lease, LeaseLost

log = logging.getLogger(__name__)
# From the beginning of a tick to that of the next one, and the shortest pause between two.
TICK_SECONDS = 0.12
PAUSE_SECONDS = 0.02


@dataclass(slots=True, kw_only=True, eq=False)
class Draft:
    """The deltas of one running step that are not known to be stored.

    `stored` counts the events in the database. The first `doubtful` of `entries` were in a commit
    whose answer was lost, so they may be stored too.
    """

    lease: Lease
    message_id: uuid.UUID
    step: int
    attempt: int
    entries: list[Entry] = field(default_factory=list)
    stored: int = 0
    doubtful: int = 0
    has_spoken: bool = False
    is_over: bool = False
    error: Exception | None = None

    def add(self, kind: Kind, position: int, text: str) -> None:
        """Add a delta. Consecutive deltas of one part become one event, unless it may be stored."""
        if len(self.entries) > self.doubtful and self.entries[-1].kind == kind:
            last = self.entries[-1].data
            if last["position"] == position:
                last["text"] += text
                return
        data: dict[str, Any] = {
            "message": str(self.message_id),
            "step": self.step,
            "attempt": self.attempt,
            "position": position,
            "text": text,
        }
        self.entries.append(Entry(kind=kind, data=data))

    def take(self) -> list[Entry]:
        taken, self.entries = self.entries, []
        return taken

    def put_back(self, entries: list[Entry]) -> None:
        """Put entries back after a commit with an unknown outcome."""
        self.entries[:0] = entries
        self.doubtful = len(entries)


Batched = Sequence[tuple[Draft, list[Entry]]]


class GroupCommit:
    """Commits drafts; one for each event loop. `run` is a task of its own, turns call `add`."""

    def __init__(self) -> None:
        self._waiting: set[Draft] = set()
        self._wanted = asyncio.Event()
        self._urgent = asyncio.Event()
        self._committing = asyncio.Lock()
        self._waits = backoff_seconds()
        self._away_since = math.inf

    def add(self, draft: Draft, kind: Kind, position: int, text: str) -> None:
        """Add a delta to the next commit. Raises the error of this draft's last commit."""
        if draft.error is not None:
            raise draft.error
        draft.add(kind, position, text)
        self._waiting.add(draft)
        self._wanted.set()
        if not draft.has_spoken:
            draft.has_spoken = True
            self._urgent.set()

    async def flush(self, draft: Draft) -> None:
        """Return when every delta of this draft is stored. Raises the error if one cannot be."""
        while await self._has_unstored(draft):
            await self._commit()
        if draft.error is not None:
            raise draft.error

    async def _has_unstored(self, draft: Draft) -> bool:
        """Whether the next commit would store something of this draft. Waits for the current
        commit, which puts its entries back if it fails."""
        async with self._committing:
            return draft.error is None and draft in self._waiting

    @asynccontextmanager
    async def take_rest(self, draft: Draft) -> AsyncIterator[list[Entry]]:
        """Yield the deltas of this draft that nothing has stored, for a transaction inside the
        block. If it fails, they are put back. Raises the error of this draft's last commit."""
        async with self._committing:
            is_clear = draft.error is None and not draft.doubtful
            rest = draft.take() if is_clear else []
            if is_clear:
                self._waiting.discard(draft)
        if not is_clear:
            await self.flush(draft)
        try:
            yield rest
        except BaseException:
            draft.put_back(rest)
            self._waiting.add(draft)
            self._wanted.set()
            raise

    def forget(self, draft: Draft) -> None:
        """Drop the deltas that are not stored. No page has shown them."""
        draft.is_over = True
        self._waiting.discard(draft)

    async def run(self) -> None:
        now = asyncio.get_running_loop().time
        ticks_at = -math.inf
        while True:
            await self._wanted.wait()
            self._urgent.clear()
            began = now()
            is_tick = began >= ticks_at
            await self._commit(is_tick=is_tick)
            if is_tick:
                ticks_at = max(began + TICK_SECONDS, now() + PAUSE_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(ticks_at):
                    await self._urgent.wait()

    async def _commit(self, *, is_tick: bool = True) -> None:
        """Store the waiting drafts; between ticks only first texts. A cancellation takes effect
        only afterwards: otherwise the next commit could overtake a thread that still writes."""
        await run_uninterrupted(self._commit_waiting(is_tick))

    async def _commit_waiting(self, is_tick: bool) -> None:
        async with self._committing:
            drafts = {draft for draft in self._waiting if is_tick or not draft.stored}
            self._waiting -= drafts
            if not self._waiting:
                self._wanted.clear()
            batch = [(draft, draft.take()) for draft in drafts]
            if not batch:
                return
            reach(FaultPoint.TEXT_BATCH_COLLECTED)
            began = time.monotonic()
            try:
                failures = await self._store_batch(batch)
            except DATABASE_AWAY as error:
                await self._wait_for_the_database(batch, error)
                return
            metrics.COMMIT_SECONDS.observe(time.monotonic() - began)
            metrics.COMMIT_TURNS.observe(len(batch))
            self._waits, self._away_since = backoff_seconds(), math.inf
            for draft, entries in batch:
                draft.error = failures.get(id(draft), draft.error)
                draft.stored += len(entries)
                draft.doubtful = 0

    async def _store_batch(self, batch: Batched) -> dict[int, Exception]:
        """Store the batch. Return the errors by the `id()` of their draft."""
        is_there = is_long_ago(self._away_since)
        try:
            return await in_database(_store, batch)
        except Exception as error:
            if isinstance(error, DATABASE_AWAY) and not is_there:
                raise
            # The database refuses one of the drafts. The others can be stored without it.
            log.exception("A group commit failed; its drafts are stored one by one")
        return await in_database(_store_each, batch, () if is_there else DATABASE_AWAY)

    async def _wait_for_the_database(self, batch: Batched, error: Exception) -> None:
        """Keep the entries for the next commit while the lease of their turn is fresh."""
        wait = next(self._waits)
        self._away_since = min(self._away_since, time.monotonic())
        log.warning("The database is away; what was said is stored in %.1f s: %s", wait, error)
        for draft, _entries in batch:
            if not draft.lease.is_fresh:
                draft.error = error
        self._put_back(batch)
        await asyncio.sleep(wait)

    def _put_back(self, batch: Batched) -> None:
        for draft, entries in batch:
            if draft.error is None and not draft.is_over:
                draft.put_back(entries)
                self._waiting.add(draft)
                self._wanted.set()


def _store(batch: Batched) -> dict[int, Exception]:
    """Write the batch in one transaction, without the drafts whose lease was lost; return those."""
    with transaction.atomic():
        transaction.on_commit(lambda: reach(FaultPoint.TEXT_BATCH_COMMITTED))
        held = journal.append_texts(
            [
                TextBatch(lease=draft.lease, entries=_drop_stored(draft, entries))
                for draft, entries in batch
            ]
        )
    return {id(draft): LeaseLost() for draft, _entries in batch if draft.lease.hold not in held}


def _store_each(batch: Batched, fatal: tuple[type[Exception], ...]) -> dict[int, Exception]:
    """Write each draft in a transaction of its own and return the errors. An error of the `fatal`
    types is raised instead."""
    failures: dict[int, Exception] = {}
    for draft, entries in batch:
        try:
            failures |= _store([(draft, entries)])
        except fatal:
            raise
        except Exception as error:
            log.exception("What turn %s said cannot be stored", draft.lease.turn_id)
            failures[id(draft)] = error
    return failures


def _drop_stored(draft: Draft, entries: list[Entry]) -> list[Entry]:
    """Return the entries without those that a commit stored although its answer was lost."""
    if not draft.doubtful:
        return entries
    there = JournalEvent.objects.filter(
        turn=draft.lease.turn_id,
        kind__in=[Kind.TEXT, Kind.REASONING],
        data__step=draft.step,
        data__attempt=draft.attempt,
    )
    return entries[there.count() - draft.stored :]
