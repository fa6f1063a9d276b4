"""The group commit: the deltas of all running turns of this process, in one transaction each tick.

No text is painted that is not stored: listeners hear of an event only after its commit. The first
text of an answer does not wait for the tick.
"""

import asyncio
import logging
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction

from . import journal
from .journal import Batch, Entry, Kind
from .lease import Lease, LeaseLost, held_of
from .milestones import passed
from .storage import in_database

log = logging.getLogger(__name__)
TICK_SECONDS = 0.075


@dataclass(slots=True, kw_only=True, eq=False)
class Draft:
    """What one running step has said and the database does not have yet."""

    lease: Lease
    message_id: uuid.UUID
    step: int
    attempt: int
    entries: list[Entry] = field(default_factory=list)
    has_spoken: bool = False
    error: Exception | None = None

    def add(self, kind: Kind, position: int, text: str) -> None:
        """Add a delta; neighbours of one part become one event."""
        if self.entries and self.entries[-1].kind == kind:
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


class GroupCommit:
    """One per process and event loop: `run` as a task, `say` from the turns."""

    def __init__(self) -> None:
        self._waiting: set[Draft] = set()
        self._wanted = asyncio.Event()
        self._urgent = asyncio.Event()
        self._committing = asyncio.Lock()

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
        while draft.error is None and draft in self._waiting:
            await self._commit()
        async with self._committing:
            pass
        if draft.error is not None:
            raise draft.error

    def forget(self, draft: Draft) -> None:
        """Drop what was not stored: nobody has seen it."""
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
        async with self._committing:
            drafts, self._waiting = list(self._waiting), set()
            self._wanted.clear()
            batch = [(draft, draft.take()) for draft in drafts]
            if not batch:
                return
            passed("K5")
            try:
                failures = await in_database(_store, batch)
            except Exception as error:  # the database is away: every turn of the batch stops here
                log.exception("A group commit failed")
                failures = {id(draft): error for draft in drafts}
            for draft in drafts:
                draft.error = failures.get(id(draft), draft.error)


def _store(batch: Sequence[tuple[Draft, list[Entry]]]) -> dict[int, Exception]:
    """Write the batch in one transaction; a draft whose lease is gone is left out and named."""
    with transaction.atomic():
        transaction.on_commit(lambda: passed("K6"))
        held = held_of([draft.lease for draft, _entries in batch])
        journal.append_all(
            [
                Batch(
                    conversation_id=draft.lease.conversation_id,
                    turn_id=draft.lease.turn_id,
                    entries=entries,
                )
                for draft, entries in batch
                if draft.lease.turn_id in held
            ]
        )
    return {id(d): LeaseLost() for d, _entries in batch if d.lease.turn_id not in held}
