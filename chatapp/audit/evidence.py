"""The evidence of one conversation, as one file: what the log says of it, the approvals as they
were shown, and the proof that these entries stand in the log whose end is named."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any
from uuid import UUID

from django.utils import timezone

from chatapp.models import Approval, LogEntry, Member
from chatapp.storage import snapshot
from mcpconfig.masking import masked
from mcpconfig.results import canonical_json

from . import log
from .chain import Break, Mark, Sealed, digest_of, exported, linked, stamp
from .log_of_calls import hash_of, known_secrets, masked_arguments

FORMAT = "countersign-evidence-1"
SEALS = ("previous", "hash")
# What an entry and the approval that goes with it both say.
BOUND = ("binding", "arguments_hash")


def of_conversation(conversation_id: UUID) -> dict[str, Any]:
    """All of it as of one moment. Of other people's entries it has digests, and nothing else."""
    with snapshot():
        head = log.end()
        first = LogEntry.objects.filter(conversation_id=conversation_id).first()
        after = first.position - 1 if first else head.position
        chain = [_link(each, conversation_id) for each in log.entries(after=after)]
        approvals = list(_approvals(conversation_id))
    return {
        "format": FORMAT,
        "conversation": str(conversation_id),
        "made_at": stamp(timezone.now()),
        "start": {"position": after, "hash": first.previous if first else head.hash},
        "chain": chain,
        "head": {"position": head.position, "hash": head.hash},
        "approvals": approvals,
    }


def _link(entry: Sealed, conversation_id: UUID) -> dict[str, Any]:
    if entry.conversation_id == conversation_id:
        return {"entry": exported(entry)}
    return {"digest": digest_of(entry)}


def _approvals(conversation_id: UUID) -> Iterator[dict[str, Any]]:
    """What a person was shown, and what they said; `binding` is the hash of it all."""
    asked = Approval.objects.filter(tool_call__turn__conversation=conversation_id)
    related = ("service", "definition", "turn__conversation__owner")
    people = ("decided_by", "first_by", "signed_for", "second")
    asked = asked.select_related(*people, *(f"tool_call__{name}" for name in related))
    for approval in asked.order_by("created_at"):
        yield _shown(approval)


def _shown(approval: Approval) -> dict[str, Any]:
    call = approval.tool_call
    service, definition = call.service, call.definition
    return {
        "call": str(call.pk),
        "tool": call.tool_name or call.tool_id,
        "description": definition.description if definition else "",
        "definition": definition.hash if definition else "",
        "service": service.name if service else "",
        "endpoint": masked(service.endpoint, ()) if service else "",
        "as": call.turn.conversation.owner.username,
        "why": call.why,
        "note": call.note,
        "risk": call.risk,
        "risk_reasons": call.reasons,
        "arguments": masked_arguments(call.arguments, service),
        "arguments_hash": hash_of(call.arguments),
        "binding": approval.binding,
        "asked_at": stamp(approval.created_at),
        "state": approval.state,
        "second_signature": approval.second.name if approval.second else "",
        "first_by": _name(approval.first_by),
        "first_at": stamp(approval.first_at) if approval.first_at else None,
        "decided_by": _name(approval.decided_by),
        "signed_for": _name(approval.signed_for),
        "decided_at": stamp(approval.decided_at) if approval.decided_at else None,
        "word": masked(approval.reason, known_secrets(service)),
    }


def _name(person: Member | None) -> str:
    return person.username if person else ""


def as_text(evidence: dict[str, Any]) -> str:
    return json.dumps(evidence, ensure_ascii=False, indent=1) + "\n"


def first_break(evidence: dict[str, Any], known: Iterable[Mark] = ()) -> Break | None:
    """Where the file is not what the log would say; None where it proves what it holds. It asks no
    database, so that it can be checked anywhere."""
    marks = {mark.position: mark.hash for mark in known}
    position, last = evidence["start"]["position"], evidence["start"]["hash"]
    for link in evidence["chain"]:
        position += 1
        last = linked(last, _digest(link))
        entry = link.get("entry")
        if entry is not None and (entry["position"], entry["hash"]) != (position, last):
            return Break(position=position, why="It was changed, or stands in a wrong place.")
        if marks.get(position, last) != last:
            return Break(position=position, why="It is not the entry whose hash was written down.")
    if (position, last) != (evidence["head"]["position"], evidence["head"]["hash"]):
        return Break(position=position, why="The chain does not lead to the end that is named.")
    return _broken_card(evidence)


def _broken_card(evidence: dict[str, Any]) -> Break | None:
    """An approval that is not what the log says was asked or answered about."""
    cards = {card["call"]: card for card in evidence["approvals"]}
    entries = [link["entry"] for link in evidence["chain"] if "entry" in link]
    last = {entry["call"]: entry for entry in entries if "binding" in entry["data"]}
    for call, entry in last.items():
        card = cards.get(call)
        if card and any(card[name] != entry["data"][name] for name in BOUND):
            why = "The approval that goes with it is not the one that was shown."
            return Break(position=entry["position"], why=why)
    return None


def _digest(link: dict[str, Any]) -> str:
    if "entry" not in link:
        return str(link["digest"])
    entry = {name: link["entry"][name] for name in link["entry"] if name not in SEALS}
    return hashlib.sha256(canonical_json(entry)).hexdigest()
