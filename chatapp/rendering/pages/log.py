"""Entries of the activity log as text, for members and admins."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils.safestring import SafeString

from chatapp.models import Consent, LogEntry
from chatapp.rendering.hidden_characters import draw_hidden

Kind = LogEntry.Kind
EFFECTS = {"allow": "may run", "ask": "asks first", "deny": "is refused"}
SCOPES = dict(Consent.Scope.choices)
VERDICTS = {"worked": "it worked", "did-not": "it did not work", "again": "run it again"}
MODES = {"plan": "It only plans from here on.", "act": "It acts from here on."}

EMPTY: tuple[Any, ...] = (None, "", False, [], {}, "not set")
WORDS = {"is_active": "may sign in", "is_staff": "admin", "is_superuser": "every right"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One entry as a list shows it. `said` is a reason or an outcome."""

    position: int
    at: datetime
    title: str
    about: SafeString
    by: str
    said: SafeString
    conversation_id: UUID | None


def build_line(entry: LogEntry) -> LogLine:
    data = json.loads(entry.data)
    return LogLine(
        position=entry.position,
        at=entry.at,
        title=entry.get_kind_display(),
        about=draw_hidden(describe_subject(data)),
        by=entry.actor_name,
        said=draw_hidden(_describe_outcome(entry.kind, data)),
        conversation_id=entry.conversation_id,
    )


def describe_subject(data: dict[str, Any]) -> str:
    """Return the tool, service or row that an entry is about."""
    if tool := data.get("tool"):
        return f"{tool} ({data['service']})" if data.get("service") else str(tool)
    return str(data.get("of") or data.get("service") or data.get("company") or "")


def _describe_outcome(kind: str, data: dict[str, Any]) -> str:
    match kind:
        case Kind.DECIDED:
            return f"It {EFFECTS[data['effect']]}. {data['reason']}"
        case Kind.SENT:
            return f"Allowed by {data['granted_by']}"
        case Kind.MODE:
            return MODES[data["mode"]]
        case Kind.RESOLVED:
            return f"Said of it: {VERDICTS.get(data['verdict'], data['verdict'])}."
        case Kind.ENDED | Kind.TRIAL_ENDED:
            error = data["error"] or {}
            return f"{data['state'].capitalize()}. {error.get('message', '')}".strip()
        case Kind.ANSWERED:
            return str(data["action"]).capitalize() + "."
        case Kind.SIGNED | Kind.GRANTED if data.get("second_signature"):
            return _describe_signature(kind, data)
        case Kind.POLICY | Kind.TOOL | Kind.SERVICE | Kind.MODELS | Kind.MEMBER:
            return _describe_change(data)
    scope = str(data.get("scope") or "")
    return str(data.get("reason") or SCOPES.get(scope, scope))


def _describe_signature(kind: str, data: dict[str, Any]) -> str:
    wanted = f"“{data['second_signature']}”"
    if kind == Kind.SIGNED:
        return f"It waits for {wanted}."
    stood_in = f", in place of {data['stands_in_for']}" if data["stands_in_for"] else ""
    return f"Signed first by {data['first_by']}, second for {wanted}{stood_in}."


def _describe_change(data: dict[str, Any]) -> str:
    if "groups" in data:
        return f"{data['act'].capitalize()} {', '.join(data['groups'])}".strip() + "."
    act, changed = data["act"], data["changed"]
    if act == "removed":
        return "Removed."
    # Empty fields of a new row are not changes.
    told = [
        name for name, each in changed.items() if act != "added" or each.get("after") not in EMPTY
    ]
    names = ", ".join(WORDS.get(name, name.removesuffix("_id").replace("_", " ")) for name in told)
    return f"{act.capitalize()}: {names}." if names else f"{act.capitalize()}."
