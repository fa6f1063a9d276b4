"""Writing to the log: inside the transaction of what happened, so that neither is without the
other."""

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
from chatapp.storage import snapshot
from mcpconfig.results import canonical_json, storable

from .chain import FIELDS, START, Mark, Sealed, digest_of, first_break, linked

Kind = LogEntry.Kind
ROWS_AT_ONCE = 5_000
EVERY = Q()


@dataclass(frozen=True, slots=True, kw_only=True)
class Who:
    """A member as the log names them for good; without an id it is the server or its operator."""

    id: int | None = None
    name: str = ""

    @classmethod
    def of(cls, member: "Member | AnonymousUser | None") -> Self:
        if not isinstance(member, Member):
            return cls()
        return cls(id=member.pk, name=member.username[:150])


SERVER = Who()
# Whoever is at the server's own command line.
OPERATOR = Who(name="operator")
# Who is at the page that changes a row, or the server where it works by itself. Only the log asks,
# and only about rows that people configure: nothing is decided by it.
_acting: ContextVar[Callable[[], Who]] = ContextVar("acting", default=lambda: OPERATOR)


@contextmanager
def acting_as(who: Callable[[], Who]) -> Iterator[None]:
    """What is changed meanwhile, this person changes; they are looked up when something is."""
    token = _acting.set(who)
    try:
        yield
    finally:
        _acting.reset(token)


def acting() -> Who:
    return _acting.get()()


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """Something to be logged. `data` holds JSON and no secret."""

    kind: LogEntry.Kind
    data: Mapping[str, Any]
    actor: Who = SERVER
    person: Who = SERVER
    conversation_id: UUID | None = None
    turn_id: UUID | None = None
    call_id: UUID | None = None


def append(happenings: Sequence[Happening]) -> None:
    """Add these, in order, in the caller's transaction.

    The end of the log stays locked until that transaction ends, so this comes last in it: after
    rows that another transaction might hold while it waits for the end of the log.
    """
    if not happenings:
        return
    with transaction.atomic(savepoint=False):
        head, now = _locked_end()
        entries = []
        for happening in happenings:
            entry = _sealed(happening, head, now)
            head = Mark(position=entry.position, hash=entry.hash)
            entries.append(entry)
        LogEntry.objects.bulk_create(entries)
        LogHead.objects.filter(pk=1).update(position=head.position, hash=head.hash)


def _locked_end() -> tuple[Mark, datetime]:
    """Where the log ends and what time it is there, locked."""
    ends = LogHead.objects.select_for_update().annotate(now=Now())
    found = ends.filter(pk=1).first()
    if found is None:
        last = LogEntry.objects.last()
        start = {"position": last.position if last else 0, "hash": last.hash if last else START}
        LogHead.objects.get_or_create(pk=1, defaults=start)
        found = ends.get(pk=1)
    return Mark(position=found.position, hash=found.hash), found.now


def _sealed(happening: Happening, head: Mark, now: datetime) -> LogEntry:
    entry = LogEntry(
        position=head.position + 1,
        at=now,
        kind=happening.kind.value,
        actor_id=happening.actor.id,
        actor_name=happening.actor.name,
        person_id=happening.person.id,
        person_name=happening.person.name,
        conversation_id=happening.conversation_id,
        turn_id=happening.turn_id,
        call_id=happening.call_id,
        data=canonical_json(storable(dict(happening.data))).decode(),
        previous=head.hash,
    )
    entry.hash = linked(head.hash, digest_of(entry))
    return entry


def end() -> Mark:
    """Where the log ends: to be written down where nobody who may write to this database can."""
    found = LogHead.objects.filter(pk=1).first()
    return Mark(position=found.position if found else 0, hash=found.hash if found else START)


def entries(chosen: Q = EVERY, *, after: int = 0, **narrowed: Any) -> Iterator[Sealed]:
    """Entries in order, read a few thousand at a time."""
    rows = LogEntry.objects.filter(chosen, position__gt=after, **narrowed).values_list(*FIELDS)
    for row in rows.iterator(chunk_size=ROWS_AT_ONCE):
        yield Sealed(**dict(zip(FIELDS, row, strict=True)))


def verify(known: Sequence[Mark] = ()) -> tuple[Mark, str]:
    """The end of a log that is whole, and nothing; or where it first is not, and why."""
    with snapshot():
        head = end()
        found = first_break(entries(), head, known)
    if found is None:
        return head, ""
    return Mark(position=found.position, hash=""), found.why
