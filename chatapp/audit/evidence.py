"""The evidence of one conversation as one file: its log entries, the approvals as they were shown,
and the proof that the entries belong to the log with the given end."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.utils import timezone
from django.utils.translation import gettext as _

from chatapp.models import Approval, LogEntry, Member
from chatapp.server.database import snapshot
from mcpconfig.values.masking import mask_secrets
from mcpconfig.values.results import canonical_json

from . import audit_log
from .call_entries import compute_hash, list_secrets, mask_arguments
from .hash_chain import Break, Mark, Sealed, compute_digest, export_entry, format_time, link_hash

FORMAT = "countersign-evidence-1"
# A digest has about 80 bytes.
LINKS_AT_ONCE = 2_000
SEALS = ("previous", "hash")
# The fields that an entry shares with its approval.
BOUND = ("binding", "arguments_hash")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the file says beside the entries: where they start, and the end of the log that they
    lead to."""

    conversation_id: UUID
    start: Mark
    head: Mark
    approvals: list[dict[str, Any]]


def read_evidence(conversation_id: UUID) -> Evidence:
    """Return the evidence as of one moment."""
    with snapshot():
        head = audit_log.read_end()
        first = LogEntry.objects.filter(conversation_id=conversation_id).first()
        approvals = list(_export_approvals(conversation_id))
    start = Mark(position=first.position - 1, hash=first.previous) if first else head
    return Evidence(conversation_id=conversation_id, start=start, head=head, approvals=approvals)


def write_evidence(evidence: Evidence) -> Iterator[str]:
    """Yield the file in pieces. Other people's entries appear only as digests.

    The entries of each piece are read when it is asked for, because a long log does not fit into
    memory. They are the same at any time: entries are only added, and behind the end.
    """
    opening = {
        "format": FORMAT,
        "conversation": str(evidence.conversation_id),
        "made_at": format_time(timezone.now()),
        "start": {"position": evidence.start.position, "hash": evidence.start.hash},
        "head": {"position": evidence.head.position, "hash": evidence.head.hash},
        "approvals": evidence.approvals,
    }
    yield _format(opening).removesuffix("\n}") + ',\n "chain": ['
    separator = "\n"
    for entries in _read_batches(evidence.start.position, evidence.head.position):
        links = (_format(_export_link(each, evidence.conversation_id), None) for each in entries)
        yield separator + ",\n".join(links)
        separator = ",\n"
    yield "\n ]\n}\n"


def _read_batches(after: int, until: int) -> Iterator[list[Sealed]]:
    while entries := audit_log.read_entries(after, until, LINKS_AT_ONCE):
        yield entries
        after = entries[-1].position


def _export_link(entry: Sealed, conversation_id: UUID) -> dict[str, Any]:
    if entry.conversation_id == conversation_id:
        return {"entry": export_entry(entry)}
    return {"digest": compute_digest(entry)}


def _export_approvals(conversation_id: UUID) -> Iterator[dict[str, Any]]:
    """Yield what each person was shown and what they decided. `binding` is the hash of it."""
    asked = Approval.objects.filter(tool_call__turn__conversation=conversation_id)
    related = ("service", "definition", "turn__conversation__owner")
    people = ("decided_by", "first_by", "signed_for", "second")
    asked = asked.select_related(*people, *(f"tool_call__{name}" for name in related))
    for approval in asked.order_by("created_at"):
        yield _export_approval(approval)


def _export_approval(approval: Approval) -> dict[str, Any]:
    call = approval.tool_call
    service, definition = call.service, call.definition
    return {
        "call": str(call.pk),
        "tool": call.tool_name or call.tool_id,
        "description": definition.description if definition else "",
        "definition": definition.hash if definition else "",
        "service": service.name if service else "",
        "endpoint": mask_secrets(service.endpoint, ()) if service else "",
        "as": call.turn.conversation.owner.username,
        "why": call.why,
        "note": call.note,
        "risk": call.risk,
        "risk_reasons": call.reasons,
        "arguments": mask_arguments(call.arguments, service),
        "arguments_hash": compute_hash(call.arguments),
        "binding": approval.binding,
        "asked_at": format_time(approval.created_at),
        "state": approval.state,
        "second_signature": approval.second.name if approval.second else "",
        "first_by": _get_name(approval.first_by),
        "first_at": format_time(approval.first_at) if approval.first_at else None,
        "decided_by": _get_name(approval.decided_by),
        "signed_for": _get_name(approval.signed_for),
        "decided_at": format_time(approval.decided_at) if approval.decided_at else None,
        "word": mask_secrets(approval.reason, list_secrets(service)),
    }


def _get_name(person: Member | None) -> str:
    return person.username if person else ""


def _format(value: dict[str, Any], indent: int | None = 1) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def find_break(evidence: dict[str, Any], known: Iterable[Mark] = ()) -> Break | None:
    """Return the first place where the file contradicts its chain, or None. Needs no database, so a
    file can be checked anywhere."""
    marks = {mark.position: mark.hash for mark in known}
    position, last = evidence["start"]["position"], evidence["start"]["hash"]
    for link in evidence["chain"]:
        position += 1
        last = link_hash(last, _compute_digest(link))
        entry = link.get("entry")
        if entry is not None and (entry["position"], entry["hash"]) != (position, last):
            return Break(position=position, why=_("The entry was changed or moved."))
        if marks.get(position, last) != last:
            return Break(position=position, why=_("The entry’s hash differs from the saved one."))
    if (position, last) != (evidence["head"]["position"], evidence["head"]["hash"]):
        return Break(position=position, why=_("The chain does not lead to the named end."))
    return _find_broken_approval(evidence)


def _find_broken_approval(evidence: dict[str, Any]) -> Break | None:
    """Return an approval that differs from its log entries, if any."""
    cards = {card["call"]: card for card in evidence["approvals"]}
    entries = [link["entry"] for link in evidence["chain"] if "entry" in link]
    last = {entry["call"]: entry for entry in entries if "binding" in entry["data"]}
    for call, entry in last.items():
        card = cards.get(call)
        if card and any(card[name] != entry["data"][name] for name in BOUND):
            why = _("The entry’s approval is not the one that was shown.")
            return Break(position=entry["position"], why=why)
    return None


def _compute_digest(link: dict[str, Any]) -> str:
    if "entry" not in link:
        return str(link["digest"])
    entry = {name: link["entry"][name] for name in link["entry"] if name not in SEALS}
    return hashlib.sha256(canonical_json(entry)).hexdigest()
