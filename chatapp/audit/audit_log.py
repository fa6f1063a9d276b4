"""The audit log: entries are written in the transaction of the event that they record."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self
from uuid import UUID

from django.contrib.auth.models import AnonymousUser
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from chatapp.models import LogEntry, LogHead, Member
from chatapp.server.database import snapshot
from chatapp.server.runtime import current_runtime
from mcpconfig.values.results import canonical_json, make_storable

from .hash_chain import FIELDS, START, Mark, Sealed, compute_digest, find_break, link_hash

Kind = LogEntry.Kind
ROWS_AT_ONCE = 5_000
ALL_ENTRIES = Q()


@dataclass(frozen=True, slots=True, kw_only=True)
class Who:
    """A member as the log records them. Without an id it is the server or its operator."""

    id: int | None = None
    name: str = ""

    @classmethod
    def of(cls, member: "Member | AnonymousUser | None") -> Self:
        if not isinstance(member, Member):
            return cls()
        return cls(id=member.pk, name=member.username[:150])


SERVER = Who()
# A person at the command line of the server.
OPERATOR = Who(name="operator")
# The person whose request changes a row, or the server. Used only for entries about rows that
# people configure; no decision depends on it.
_acting: ContextVar[Callable[[], Who]] = ContextVar("acting", default=lambda: OPERATOR)


@contextmanager
def acting_as(who: Callable[[], Who]) -> Iterator[None]:
    """Record this person as the actor of changes inside the block. `who` is called at each
    change."""
    token = _acting.set(who)
    try:
        yield
    finally:
        _acting.reset(token)


def get_actor() -> Who:
    return _acting.get()()


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    """An event to log. `data` is JSON without secrets."""

    kind: LogEntry.Kind
    data: Mapping[str, Any]
    actor: Who = SERVER
    person: Who = SERVER
    conversation_id: UUID | None = None
    turn_id: UUID | None = None
    call_id: UUID | None = None


def append(events: Sequence[AuditEvent], now: datetime | None = None) -> None:
    """Append these events in the caller's transaction. `now` is the database's time, if it is
    known.

    The end of the log stays locked until that transaction ends, so this is its last lock. Another
    transaction might hold an earlier row while it waits for the end of the log.
    """
    if not events:
        return
    with transaction.atomic(savepoint=False):
        entries = _seal_behind_known_end(events, now) if now else None
        if entries is None:
            head, now = _lock_end()
            entries = _seal_all(events, head, now)
            _move_end(entries[-1])
        LogEntry.objects.bulk_create(entries)
        # Before the commit: the next writer waits for it. After a rollback the log ends elsewhere.
        last = Mark(position=entries[-1].position, hash=entries[-1].hash)
        current_runtime().log_end = last


def _seal_behind_known_end(events: Sequence[AuditEvent], now: datetime) -> list[LogEntry] | None:
    """Seal the events behind the end that this process stored last, and lock and move the end, in
    one statement. Return None, and do nothing, if the log ends elsewhere."""
    known = current_runtime().log_end
    if not isinstance(known, Mark):
        return None
    entries = _seal_all(events, known, now)
    return entries if _move_end(entries[-1], position=known.position, hash=known.hash) else None


def _seal_all(events: Sequence[AuditEvent], head: Mark, now: datetime) -> list[LogEntry]:
    entries = []
    for event in events:
        entry = _seal(event, head, now)
        head = Mark(position=entry.position, hash=entry.hash)
        entries.append(entry)
    return entries


def _move_end(last: LogEntry, **was: Any) -> bool:
    """Store the end of the log, if it `was` there."""
    ends = LogHead.objects.filter(pk=1, **was)
    return bool(ends.update(position=last.position, hash=last.hash))


def _lock_end() -> tuple[Mark, datetime]:
    """Lock the end of the log. Return it with the database's time."""
    ends = LogHead.objects.select_for_update().annotate(now=Now())
    found = ends.filter(pk=1).first()
    if found is None:
        last = LogEntry.objects.last()
        start = {"position": last.position if last else 0, "hash": last.hash if last else START}
        LogHead.objects.get_or_create(pk=1, defaults=start)
        found = ends.get(pk=1)
    return Mark(position=found.position, hash=found.hash), found.now


def _seal(event: AuditEvent, head: Mark, now: datetime) -> LogEntry:
    entry = LogEntry(
        position=head.position + 1,
        at=now,
        kind=event.kind.value,
        actor_id=event.actor.id,
        actor_name=event.actor.name,
        person_id=event.person.id,
        person_name=event.person.name,
        conversation_id=event.conversation_id,
        turn_id=event.turn_id,
        call_id=event.call_id,
        data=canonical_json(make_storable(dict(event.data))).decode(),
        previous=head.hash,
    )
    entry.hash = link_hash(head.hash, compute_digest(entry))
    return entry


def read_end() -> Mark:
    """Return the end of the log. Stored elsewhere, it shows later whether an entry was changed."""
    found = LogHead.objects.filter(pk=1).first()
    return Mark(position=found.position if found else 0, hash=found.hash if found else START)


def iter_entries(chosen: Q = ALL_ENTRIES, *, after: int = 0, **narrowed: Any) -> Iterator[Sealed]:
    """Yield entries in order; reads a few thousand at a time."""
    rows = LogEntry.objects.filter(chosen, position__gt=after, **narrowed).values_list(*FIELDS)
    for row in rows.iterator(chunk_size=ROWS_AT_ONCE):
        yield _build_sealed(row)


def read_entries(after: int, until: int, most: int) -> list[Sealed]:
    """Return the first entries after one position, up to another."""
    rows = LogEntry.objects.filter(position__gt=after, position__lte=until).values_list(*FIELDS)
    return list(map(_build_sealed, rows[:most]))


def _build_sealed(row: Sequence[Any]) -> Sealed:
    return Sealed(**dict(zip(FIELDS, row, strict=True)))


def verify(known: Sequence[Mark] = ()) -> tuple[Mark, str]:
    """Return the end of an intact log and an empty string, or the first break and its reason."""
    with snapshot():
        head = read_end()
        found = find_break(iter_entries(), head, known)
    if found is None:
        return head, ""
    return Mark(position=found.position, hash=""), found.why
