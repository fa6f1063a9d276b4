"""The hash chain of the log: how an entry's hash is computed, and where a chain first breaks.

An entry's digest is the SHA-256 of its canonical JSON. Its hash is the SHA-256 of the hash before
it followed by that digest, in lower-case hexadecimal. So digests alone prove that a chain leads
from an entry to the end, without the entries of other people.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.utils.translation import gettext as _

START = "0" * 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A position in the log and its hash, as kept elsewhere."""

    position: int
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """The first position at which the log differs from what was written, and why."""

    position: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """A stored entry. `data` is canonical JSON."""

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


def compute_digest(entry: Any) -> str:
    return hashlib.sha256(canonicalize(entry).encode()).hexdigest()


def link_hash(previous: str, digest: str) -> str:
    """Return the hash of the entry with this digest that follows the hash `previous`."""
    return hashlib.sha256(f"{previous}{digest}".encode()).hexdigest()


def canonicalize(entry: Any) -> str:
    """Return the entry without its hashes in RFC 8785 form. Written by hand for speed, since a
    whole log is read at a time; a test compares it with the library."""
    return (
        f'{{"actor":{_format_who(entry.actor_id, entry.actor_name)},"at":"{format_time(entry.at)}",'
        f'"call":{_format_id(entry.call_id)},"conversation":{_format_id(entry.conversation_id)},'
        f'"data":{entry.data},"kind":{_format_text(entry.kind)},'
        f'"person":{_format_who(entry.person_id, entry.person_name)},'
        f'"position":{entry.position},"turn":{_format_id(entry.turn_id)}}}'
    )


def export_entry(entry: Any) -> dict[str, Any]:
    """Return the entry with its hashes as JSON. Without them it is what `canonicalize` returns."""
    value: dict[str, Any] = json.loads(canonicalize(entry))
    return value | {"previous": entry.previous, "hash": entry.hash}


def format_time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _format_who(number: int | None, name: str) -> str:
    return f'{{"id":{"null" if number is None else number},"name":{_format_text(name)}}}'


def _format_id(value: UUID | None) -> str:
    return "null" if value is None else f'"{value}"'


def _format_text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def find_break(entries: Iterable[Any], head: Mark, known: Iterable[Mark] = ()) -> Break | None:
    """Return the first break of the entries, oldest first, or None.

    `head` is the end that the log records. A person with write access to the database could rewrite
    the whole chain and its head; `known` marks, kept elsewhere, reveal that too.
    """
    marks: dict[int, str] = {}
    for mark in known:
        if marks.setdefault(mark.position, mark.hash) != mark.hash:
            return Break(
                position=mark.position, why=_("Two different hashes were saved for the entry.")
            )
    last = Mark(position=0, hash=START)
    for entry in entries:
        if why := _explain_break(entry, last, marks):
            missing = entry.position != last.position + 1
            return Break(position=last.position + 1 if missing else entry.position, why=why)
        last = Mark(position=entry.position, hash=entry.hash)
    return _check_end(last, head, max(marks, default=0))


def _explain_break(entry: Any, last: Mark, marks: dict[int, str]) -> str:
    if entry.position != last.position + 1:
        return _("The entry is missing.")
    if entry.previous != last.hash:
        return _("The entry does not follow the one before it.")
    if entry.hash != link_hash(last.hash, _try_digest(entry)):
        return _("The entry was changed.")
    if marks.get(entry.position, entry.hash) != entry.hash:
        return _("The entry’s hash differs from the saved one.")
    return ""


def _try_digest(entry: Any) -> str:
    """Return an empty string for an entry that cannot be encoded: this program did not write it."""
    try:
        return compute_digest(entry)
    except (UnicodeEncodeError, ValueError):
        return ""


def _check_end(last: Mark, head: Mark, furthest: int) -> Break | None:
    if max(head.position, furthest) > last.position:
        return Break(
            position=last.position + 1, why=_("This entry and all later ones are missing.")
        )
    if head.position < last.position:
        return Break(
            position=head.position + 1, why=_("The entry was added after the end of the log.")
        )
    if head.hash != last.hash:
        return Break(position=last.position, why=_("The log ends with an unexpected hash."))
    return None
