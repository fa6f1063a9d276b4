"""The group commit: the deltas of all running turns of this process, in one transaction each tick.

No text is painted that is not stored: listeners hear of an event only after its commit. The first
text of an answer does not wait for the tick.
"""

import asyncio
import logging
import math
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction

from chatapp.models import JournalEvent
from chatapp.storage import in_database

from . import journal
from .journal import Batch, Entry, Kind
from .lease import Lease, LeaseLost, held_of
from .milestones import passed
from .patience import AWAY, is_long_ago, uninterrupted, waits

log = logging.getLogger(__name__)
TICK_SECONDS = 0.075


@dataclass(slots=True, kw_only=True, eq=False)
class Draft:
    """What one running step has said and the database does not have yet.

    `stored` counts the events that it has. The first `doubtful` of `entries` were in a commit whose
    answer was lost, so it may have them, too.
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
        """Add a delta; neighbours of one part become one event, unless that may be stored."""
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
        """These were taken, and nobody knows whether they were stored."""
        self.entries[:0] = entries
        self.doubtful = len(entries)


Batched = Sequence[tuple[Draft, list[Entry]]]


class GroupCommit:
    """One per process and event loop: `run` as a task, `say` from the turns."""

    def __init__(self) -> None:
        self._waiting: set[Draft] = set()
        self._wanted = asyncio.Event()
        self._urgent = asyncio.Event()
        self._committing = asyncio.Lock()
        self._waits = waits()
        self._away_since = math.inf

    def say(self, draft: Draft, kind: Kind, position: int, text: str) -> None:
        """Take a delta for the next commit. Raises what went wrong with this draft's last one."""
        if draft.error is not None:
            raise draft.error
        draft.add(kind, position, text)
        self._waiting.add(draft)
        self._wanted.set()
        if not draft.has_spoken:
            draft.has_spoken = True
            self._urgent.set()

    async def flush(self, draft: Draft) -> None:
        """Return when all that this draft has said is stored, or raise why it is not."""
        while await self._lacks(draft):
            await self._commit()
        if draft.error is not None:
            raise draft.error

    async def _lacks(self, draft: Draft) -> bool:
        """Whether the draft has words that the next commit would store. Asked between two commits:
        one that fails puts back what it took."""
        async with self._committing:
            return draft.error is None and draft in self._waiting

    def forget(self, draft: Draft) -> None:
        """Drop what was not stored: nobody has seen it."""
        draft.is_over = True
        self._waiting.discard(draft)

    async def run(self) -> None:
        while True:
            await self._wanted.wait()
            self._urgent.clear()
            await self._commit()
            try:
                async with asyncio.timeout(TICK_SECONDS):
                    await self._urgent.wait()
            except TimeoutError:
                continue

    async def _commit(self) -> None:
        """Store what waits. Whoever is cancelled meanwhile waits for its end: else the next commit
        might overtake a thread that still writes, and neither would know of the other's words."""
        await uninterrupted(self._commit_all())

    async def _commit_all(self) -> None:
        async with self._committing:
            drafts, self._waiting = list(self._waiting), set()
            self._wanted.clear()
            batch = [(draft, draft.take()) for draft in drafts]
            if not batch:
                return
            passed("K5")
            try:
                failures = await self._stored(batch)
            except AWAY as error:
                await self._wait_for_the_database(batch, error)
                return
            self._waits, self._away_since = waits(), math.inf
            for draft, entries in batch:
                draft.error = failures.get(id(draft), draft.error)
                draft.stored += len(entries)
                draft.doubtful = 0

    async def _stored(self, batch: Batched) -> dict[int, Exception]:
        """Store the batch; what went wrong, by the id of the draft."""
        is_there = is_long_ago(self._away_since)
        try:
            return await in_database(_store, batch)
        except Exception as error:
            if isinstance(error, AWAY) and not is_there:
                raise
            # Something in one of the drafts is refused, which concerns no other.
            log.exception("A group commit failed; its drafts are stored one by one")
        return await in_database(_store_each, batch, () if is_there else AWAY)

    async def _wait_for_the_database(self, batch: Batched, error: Exception) -> None:
        """Keep what was said for the next commit, as long as its turn is surely in our hands."""
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
    """Write the batch in one transaction; a draft whose lease is gone is left out and named."""
    with transaction.atomic():
        transaction.on_commit(lambda: passed("K6"))
        held = held_of([draft.lease for draft, _entries in batch])
        journal.append_all(
            [
                Batch(
                    conversation_id=draft.lease.conversation_id,
                    turn_id=draft.lease.turn_id,
                    entries=_unstored(draft, entries),
                )
                for draft, entries in batch
                if draft.lease.hold in held
            ]
        )
    return {id(draft): LeaseLost() for draft, _entries in batch if draft.lease.hold not in held}


def _store_each(batch: Batched, fatal: tuple[type[Exception], ...]) -> dict[int, Exception]:
    """Write each draft in a transaction of its own. The ones that cannot be stored are named; an
    error of the `fatal` types is raised instead."""
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


def _unstored(draft: Draft, entries: list[Entry]) -> list[Entry]:
    """The entries without those that an earlier commit stored although its answer was lost."""
    if not draft.doubtful:
        return entries
    there = JournalEvent.objects.filter(
        turn=draft.lease.turn_id,
        kind__in=[Kind.TEXT, Kind.REASONING],
        data__step=draft.step,
        data__attempt=draft.attempt,
    )
    return entries[there.count() - draft.stored :]
