"""Entries of the activity log as text, for members and admins."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib.auth.models import Group
from django.db.models import Model
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from chatapp.models import (
    Allowance,
    ChatModel,
    Consent,
    EmbeddingSettings,
    HousePolicy,
    LogEntry,
    Member,
    ModelProvider,
    PolicyRule,
    PolicyTest,
    SecondSignature,
    SharedLink,
    StandIn,
    ToolCall,
    ToolLimit,
    Webhook,
)
from chatapp.permissions.reasons import translate_reason
from chatapp.rendering.hidden_characters import draw_hidden
from chatapp.rendering.stored_sentences import translate_stored
from mcpconfig.models import Credential, IdentityProvider, Service, ToolSetting

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

Kind = LogEntry.Kind
SCOPES: "dict[str, StrOrPromise]" = dict(Consent.Scope.choices)
STATES: "dict[str, StrOrPromise]" = dict(ToolCall.State.choices)
AUDIENCES: "dict[str, StrOrPromise]" = dict(SharedLink.Audience.choices)
SHARED_TOOLS: "dict[str, StrOrPromise]" = dict(SharedLink.Tools.choices)
VERDICTS = {
    "worked": gettext_lazy("It worked."),
    "did-not": gettext_lazy("It did not work."),
    "again": gettext_lazy("It was run again."),
}
MODES = {"plan": gettext_lazy("Plan mode is on."), "act": gettext_lazy("Plan mode is off.")}
PROJECT_ACTS = {
    "created": gettext_lazy("Created."),
    "changed": gettext_lazy("Settings changed."),
    "instructions": gettext_lazy("Instructions changed."),
    "archived": gettext_lazy("Archived."),
    "unarchived": gettext_lazy("Restored from the archive."),
    "deleted": gettext_lazy("Deleted."),
    "restored": gettext_lazy("Restored."),
    "purged": gettext_lazy("Removed permanently."),
    "member added": gettext_lazy("Member added: %(member)s."),
    "member removed": gettext_lazy("Member removed: %(member)s."),
    "role changed": gettext_lazy("Role changed: %(member)s."),
    "left": gettext_lazy("%(member)s left."),
    "owner changed": gettext_lazy("%(member)s is the owner now."),
    "file added": gettext_lazy("File added: %(file)s."),
    "file deleted": gettext_lazy("File deleted: %(file)s."),
}
OFF_BOARDINGS = {
    "locked out": gettext_lazy("Locked out. The rest of the access ends next."),
    "finished": gettext_lazy("All access has ended."),
    "incomplete": gettext_lazy("Some access could not be ended. Off-board again to finish."),
}
INVITATIONS = {
    "created": gettext_lazy("Created."),
    "accepted": gettext_lazy("Accepted."),
    "revoked": gettext_lazy("Revoked."),
}
# Acts of admins that change no row.
ADMIN_ACTS = {
    "address checked": gettext_lazy("The address was checked before the service is added."),
    "tested": gettext_lazy("Tested."),
    "retried": gettext_lazy("Retried by hand."),
    "tools fetched": gettext_lazy("Its tools were fetched."),
    "tools read again": gettext_lazy("Its tools were read again before it is added."),
    "resource read": gettext_lazy("A resource was read."),
    "prompt read": gettext_lazy("A prompt was read."),
    "draft discarded": gettext_lazy("The draft was discarded."),
    "account checked": gettext_lazy("The account was checked before the provider is added."),
    "models fetched": gettext_lazy("Its models were fetched."),
    "servers searched": gettext_lazy("Model servers on this machine were searched for."),
    "sent": gettext_lazy("Sent."),
    "configuration": gettext_lazy("The configuration of services, without secrets."),
    "services": gettext_lazy("%(services)s (%(count)s in total), without secrets."),
    "evidence": gettext_lazy("The evidence of a chat."),
}
DRAFT_ACTS = {
    "started": gettext_lazy("Started."),
    "described": gettext_lazy("Its title or reason was changed."),
    "edited": gettext_lazy("Edited: %(row)s."),
    "edit removed": gettext_lazy("Edit removed: %(row)s."),
    "checked": gettext_lazy("Its tests and simulation were run."),
}
CHECK_ACTS = {
    "placed": gettext_lazy("Placed in the inbox. There is no such call."),
    "allowed": gettext_lazy("Allowed. Nothing was sent: there is no such call."),
    "denied": gettext_lazy("Denied. There is no such call."),
    "expired": gettext_lazy("Not answered. There is no such call."),
}
ANSWERS = {
    "accept": gettext_lazy("Answered."),
    "decline": gettext_lazy("Declined."),
    "cancel": gettext_lazy("Cancelled."),
}
CHANGES = {
    "added": gettext_lazy("Fields set: %(fields)s."),
    "changed": gettext_lazy("Changed: %(fields)s."),
}
MEMBERSHIPS = {
    "put into": gettext_lazy("Added to these groups: %(groups)s."),
    "taken from": gettext_lazy("Removed from these groups: %(groups)s."),
    "taken from all": gettext_lazy("Removed from all groups."),
}
# The same in entries about a group: these rules, services or models are in it.
MEMBERS = {
    "put into": gettext_lazy("Added: %(names)s."),
    "taken from": gettext_lazy("Removed: %(names)s."),
    "taken from all": gettext_lazy("Removed all."),
}
GROUP = "group "
# The titles of entries about a new or a deleted row, by the first word of what they are about,
# which is then left out.
TITLES = {
    "service": {
        "added": gettext_lazy("service added"),
        "removed": gettext_lazy("service deleted"),
    },
    "member": {"added": gettext_lazy("member added"), "removed": gettext_lazy("member deleted")},
    "group": {"added": gettext_lazy("group added"), "removed": gettext_lazy("group deleted")},
}

EMPTY: tuple[Any, ...] = (None, "", False, [], {}, "not set")
WORDS = {
    "is_active": gettext_lazy("permission to sign in"),
    "is_staff": gettext_lazy("admin rights"),
    "is_superuser": gettext_lazy("all rights"),
    "rights": gettext_lazy("rights"),
    "second_opinion": gettext_lazy("second opinion"),
}
PARAMETERS = {
    "temperature": gettext_lazy("temperature"),
    "output_tokens": gettext_lazy("longest answer (tokens)"),
}
# The models whose changes are entries of a kind. An entry has the names of their fields.
CHANGED_MODELS: dict[str, tuple[type[Model], ...]] = {
    Kind.POLICY: (PolicyRule, HousePolicy, ToolLimit, PolicyTest, SecondSignature, StandIn),
    Kind.SERVICE: (Service, Credential, IdentityProvider),
    Kind.TOOL: (ToolSetting,),
    Kind.MODELS: (ModelProvider, ChatModel, Allowance, EmbeddingSettings),
    Kind.MEMBER: (Member, Group),
    Kind.NOTIFICATIONS: (Webhook,),
}


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


def build_line(entry: LogEntry, data: dict[str, Any] | None = None) -> LogLine:
    """Return the entry as text. `data` is used instead of its own, if some of it is hidden."""
    data = json.loads(entry.data) if data is None else data
    title, about = entry.get_kind_display(), describe_subject(data)
    kind_of_row, _space, name = about.partition(" ")
    if event := TITLES.get(kind_of_row, {}).get(data.get("act", "")):
        title, about = str(event), name
    return LogLine(
        position=entry.position,
        at=entry.at,
        title=title,
        about=draw_hidden(about),
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
            return translate_reason(data["reason"])
        case Kind.SENT:
            return _describe_grantor(data["granted_by"])
        case Kind.MODE:
            return str(MODES[data["mode"]])
        case Kind.SHARE_MADE | Kind.SHARE_UPDATED | Kind.SHARE_OPENED | Kind.SHARE_REVOKED:
            return _describe_link(data)
        case Kind.PROJECT:
            return str(PROJECT_ACTS[data["act"]]) % data
        case Kind.OFF_BOARDED:
            return str(OFF_BOARDINGS[data["act"]])
        case Kind.SECRETS_ROTATED:
            return _("Encrypted: %(rotated)s. Already current: %(were_current)s.") % data
        case (
            Kind.SERVICE_CHECKED | Kind.MODELS_CHECKED | Kind.NOTIFICATIONS_TESTED | Kind.DOWNLOADED
        ):
            return str(ADMIN_ACTS[data["act"]]) % data
        case Kind.CHANGE_DRAFTED:
            return str(DRAFT_ACTS[data["act"]]) % data
        case Kind.ATTENTION_CHECK:
            return str(CHECK_ACTS[data["act"]])
        case Kind.INVITED:
            return _describe_invitation(data)
        case Kind.CHAT_HANDED_OVER:
            return _("From %(from)s to %(to)s. %(reason)s") % data
        case Kind.RESOLVED:
            return str(VERDICTS.get(data["verdict"], data["verdict"]))
        case Kind.ENDED | Kind.TRIAL_ENDED:
            error = data["error"] or {}
            state = capfirst(str(STATES.get(data["state"], data["state"])))
            return f"{state}. {translate_stored(error.get('message'))}".strip()
        case Kind.ANSWERED:
            return str(ANSWERS.get(data["action"], data["action"]))
        case Kind.SIGNED | Kind.GRANTED if data.get("second_signature"):
            return _describe_signature(kind, data)
        case Kind.PARAMETERS:
            names = [str(PARAMETERS[each]) for each in data["changed"]]
            return str(CHANGES["changed"]) % {"fields": ", ".join(names)}
        case (
            Kind.POLICY | Kind.TOOL | Kind.SERVICE | Kind.MODELS | Kind.MEMBER | Kind.NOTIFICATIONS
        ):
            return _describe_change(kind, data)
    scope = str(data.get("scope") or "")
    return str(data.get("reason") or SCOPES.get(scope, scope))


def _describe_invitation(data: dict[str, Any]) -> str:
    text = str(INVITATIONS[data["act"]])
    if data["act"] == "created" and data["groups"]:
        groups = _("It joins these groups: %(groups)s.") % {"groups": ", ".join(data["groups"])}
        return f"{text} {groups}"
    return text


def _describe_link(data: dict[str, Any]) -> str:
    """Return who may open a shared link, and what it shows of tool calls."""
    audience = AUDIENCES.get(data["audience"], data["audience"])
    return capfirst(f"{audience}; {SHARED_TOOLS.get(data['tools'], data['tools'])}")


def _describe_grantor(granted_by: str) -> str:
    """Return who allowed a call: people, or `policy:` and the reason of its decision."""
    if granted_by.startswith("policy: "):
        return translate_reason(granted_by.removeprefix("policy: "))
    return _("Approved by %(reason)s") % {"reason": granted_by}


def _describe_signature(kind: str, data: dict[str, Any]) -> str:
    named = {"group": data["second_signature"]}
    if kind == Kind.SIGNED:
        return _("Waiting for a second approval from “%(group)s”.") % named
    named |= {"first": data["first_by"], "delegator": data["stands_in_for"]}
    if data["stands_in_for"]:
        return (
            _(
                "First approved by %(first)s. Second approval for “%(group)s” as delegate of "
                "%(delegator)s."
            )
            % named
        )
    return _("First approved by %(first)s. Second approval for “%(group)s”.") % named


def _describe_change(kind: str, data: dict[str, Any]) -> str:
    if "groups" in data:
        others = ", ".join(data["groups"])
        if data["of"].startswith(GROUP) and kind == Kind.MEMBER:
            return _describe_members(data["act"], data["groups"])
        if data["of"].startswith(GROUP):
            return str(MEMBERS[data["act"]]) % {"names": others}
        return str(MEMBERSHIPS[data["act"]]) % {"groups": others}
    if data["act"] == "link made":
        return _("A sign-in link was created.")
    act, changed = data["act"], data.get("changed", {})
    if act == "removed":
        return _("Removed.")
    # Empty fields of a new row are left out.
    told = [
        name for name, each in changed.items() if act != "added" or each.get("after") not in EMPTY
    ]
    names = [_name_field(kind, name) for name in told]
    if names:
        return str(CHANGES[act]) % {"fields": ", ".join(names)}
    return _("Added.") if act == "added" else _("Changed.")


def _describe_members(act: str, members: list[str]) -> str:
    """Return who was added to a group or removed from it."""
    named = {"names": ", ".join(members)}
    match act:
        case "put into":
            text = ngettext("Member added: %(names)s.", "Members added: %(names)s.", len(members))
        case "taken from":
            text = ngettext(
                "Member removed: %(names)s.", "Members removed: %(names)s.", len(members)
            )
        case _:
            text = _("All members removed.")
    return text % named


def _name_field(kind: str, name: str) -> str:
    """Return the label of a changed field. One that no model has any more keeps its name."""
    if name in WORDS:
        return str(WORDS[name])
    for model in CHANGED_MODELS[kind]:
        for field in model._meta.concrete_fields:
            if field.attname == name:
                return str(field.verbose_name)
    return name.removesuffix("_id").replace("_", " ")
