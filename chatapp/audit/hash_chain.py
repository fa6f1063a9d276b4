"""The hash chain of the log: what an entry's hash is made of, and where a chain first breaks.

An entry's digest is the SHA-256 of its canonical JSON; its hash is the SHA-256 of the hash before
it followed by that digest, as lower-case hexadecimal. So a chain can be shown to lead from an entry
to the end by digests alone, without a word of what other people did.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

START = "0" * 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A place in the log and the hash there: what is written down elsewhere."""

    position: int
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """The first position at which the log is not what was written, and why."""

    position: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """An entry as it was stored; `data` is canonical JSON."""

    position: int
    at: datetime
    kind: str
    actor_id: int | None
    actor_name: str
    person_id: int | None
    person_name: str
    conversation_id: UUID | None
    turn_id: UUID | None
    call_id: UUID | None
    data: str
    previous: str
    hash: str


FIELDS = tuple(Sealed.__dataclass_fields__)


def digest_of(entry: Any) -> str:
    return hashlib.sha256(canonical(entry).encode()).hexdigest()


def linked(previous: str, digest: str) -> str:
    """The hash of the entry with this digest that follows the hash `previous`."""
    return hashlib.sha256(f"{previous}{digest}".encode()).hexdigest()


def canonical(entry: Any) -> str:
    """The entry without its hashes, in RFC 8785 form. Written by hand, member by member, because a
    whole log is read at a time; a test compares it with the library's."""
    return (
        f'{{"actor":{_who(entry.actor_id, entry.actor_name)},"at":"{stamp(entry.at)}",'
        f'"call":{_id(entry.call_id)},"conversation":{_id(entry.conversation_id)},'
        f'"data":{entry.data},"kind":{_text(entry.kind)},'
        f'"person":{_who(entry.person_id, entry.person_name)},'
        f'"position":{entry.position},"turn":{_id(entry.turn_id)}}}'
    )


def exported(entry: Any) -> dict[str, Any]:
    """The entry with its hashes, as JSON has it: without them it is what `canonical` says."""
    value: dict[str, Any] = json.loads(canonical(entry))
    return value | {"previous": entry.previous, "hash": entry.hash}


def stamp(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _who(number: int | None, name: str) -> str:
    return f'{{"id":{"null" if number is None else number},"name":{_text(name)}}}'


def _id(value: UUID | None) -> str:
    return "null" if value is None else f'"{value}"'


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def first_break(entries: Iterable[Any], head: Mark, known: Iterable[Mark] = ()) -> Break | None:
    """Where the entries, oldest first, stop being what was written; None where they are whole.

    `head` is where the log says that it ends. Somebody who may write to the database could write
    the whole chain anew, and its head; `known` marks, kept elsewhere, show that as well.
    """
    marks = {mark.position: mark.hash for mark in known}
    last = Mark(position=0, hash=START)
    for entry in entries:
        if why := _why_broken(entry, last, marks):
            missing = entry.position != last.position + 1
            return Break(position=last.position + 1 if missing else entry.position, why=why)
        last = Mark(position=entry.position, hash=entry.hash)
    return _end_broken(last, head, max(marks, default=0))


def _why_broken(entry: Any, last: Mark, marks: dict[int, str]) -> str:
    if entry.position != last.position + 1:
        return "It is missing."
    if entry.previous != last.hash:
        return "It does not follow the entry before it."
    if entry.hash != linked(last.hash, _digest_or_nothing(entry)):
        return "It was changed."
    if marks.get(entry.position, entry.hash) != entry.hash:
        return "It is not the entry whose hash was written down."
    return ""


def _digest_or_nothing(entry: Any) -> str:
    """Nothing where the entry holds what cannot be encoded: nobody wrote that here."""
    try:
        return digest_of(entry)
    except (UnicodeEncodeError, ValueError):
        return ""


def _end_broken(last: Mark, head: Mark, furthest: int) -> Break | None:
    if max(head.position, furthest) > last.position:
        return Break(position=last.position + 1, why="It is missing, with all that followed it.")
    if head.position < last.position:
        return Break(position=head.position + 1, why="It was put behind the end of the log.")
    if head.hash != last.hash:
        return Break(position=last.position, why="The log ends with another hash than it should.")
    return None
