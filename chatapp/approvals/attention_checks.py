"""Attention checks: now and then a person who approves a lot finds one request more, for a call
that does not exist, in the inbox and in a chat that waits for them. They are told right after the
answer.

There is no call, turn or approval in the database, so nothing can be sent, no model reads of it,
and no evidence of real approvals has it.
"""

import json
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from django.db import transaction
from django.db.models import Exists, Q, QuerySet
from django.db.models.functions import Now
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_noop

from chatapp.audit import audit_log
from chatapp.audit.audit_log import AuditEvent, Who
from chatapp.models import (
    Approval,
    AttentionCheck,
    Conversation,
    HousePolicy,
    LogEntry,
    Member,
    Message,
    ToolCall,
    Turn,
)
from chatapp.people.signals import notify
from chatapp.permissions import reasons
from chatapp.permissions.risk import ToolFacts, classify
from chatapp.rendering import page_values
from chatapp.rendering.page_values import CallFacts
from chatapp.rendering.pages import fragments
from chatapp.rendering.pages.inbox import WaitingCall
from mcpconfig.models import Service, ToolDefinition

State = AttentionCheck.State
Answer = Literal["allowed", "denied"]
LEAST_DAYS = timedelta(days=7)
OPEN_FOR = timedelta(days=7)
LOOKED_BACK = timedelta(days=90)
EXPIRED_AT_ONCE = 100
# How long a chat says what an answered check was.
TOLD_FOR = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class PretendedTool:
    """A tool that no service has. Its values lead out of the house, as a careful reader sees; the
    host is one that nobody can have. Texts are marked with `gettext_noop` and translated where they
    are shown or stored; the risk is that of the English ones, in every language."""

    name: str
    title: str
    description: str
    arguments: dict[str, str]


TOOLS = (
    PretendedTool(
        name="share_folder",
        title=gettext_noop("Share a folder"),
        description=gettext_noop("Shares a folder with somebody by mail."),
        arguments={
            "folder": gettext_noop("Contracts"),
            "share_with": "intake@partner-mail.example",
            "access": "edit",
        },
    ),
    PretendedTool(
        name="forward_messages",
        title=gettext_noop("Forward messages"),
        description=gettext_noop("Forwards all messages of a folder to an address."),
        arguments={"folder": gettext_noop("Inbox"), "to": "archive@partner-mail.example"},
    ),
    PretendedTool(
        name="export_contacts",
        title=gettext_noop("Export contacts"),
        description=gettext_noop("Sends all contacts to a web address."),
        arguments={"format": "csv", "send_to": "https://upload.partner-mail.example/contacts"},
    ),
)


# Values that are the same in every language.
_CODES = ("edit", "csv")


def _translate_arguments(tool: PretendedTool) -> dict[str, str]:
    return {
        name: value if value in _CODES else gettext(value) for name, value in tool.arguments.items()
    }


# --- placing -------------------------------------------------------------------------------------
def place(person: Member) -> AttentionCheck | None:
    """Place a check in the inbox of this person if one is due, and return it. One is due after
    about as many approvals as the policy says, at most once a week, and only beside a real
    request."""
    each = HousePolicy.current().check_each
    # Most visits of the inbox place none, so they take no lock.
    if not each or _choose_service(person, each) is None:
        return None
    with transaction.atomic():
        Member.objects.select_for_update().get(pk=person.pk)
        service = _choose_service(person, each)
        if service is None:
            return None
        now, tool = timezone.now(), TOOLS[_count_checks(person) % len(TOOLS)]
        check = AttentionCheck.objects.create(
            person=person,
            service=service.name,
            tool=tool.name,
            arguments=_translate_arguments(tool),
            created_at=now,
            expires_at=now + OPEN_FOR,
        )
        _log(check, "placed")
        notify(person.pk)
    return check


def _count_checks(person: Member) -> int:
    return AttentionCheck.objects.filter(person=person).count()


def _choose_service(person: Member, each: int) -> Service | None:
    """Return the service whose call the person approved last, or None if no check is due."""
    last = AttentionCheck.objects.filter(person=person).order_by("-created_at").first()
    since = timezone.now() - LOOKED_BACK
    if last is not None:
        if last.state == State.OPEN or last.created_at > timezone.now() - LEAST_DAYS:
            return None
        since = max(since, last.created_at)
    granted = Approval.objects.filter(
        decided_by=person, state=Approval.State.GRANTED, decided_at__gt=since
    )
    # Between half and one and a half times as many, so that nobody can count them off.
    seed = last.pk.int if last is not None else person.pk * 7_919
    if granted.count() < each // 2 + seed % (each + 1):
        return None
    waits = ToolCall.objects.filter(
        turn__conversation__owner=person, state=ToolCall.State.AWAITING_APPROVAL
    )
    latest = granted.filter(tool_call__service__isnull=False).order_by("-decided_at")
    found = latest.select_related("tool_call__service").first() if waits.exists() else None
    return found.tool_call.service if found is not None else None


# --- showing -------------------------------------------------------------------------------------
def filter_open(person: Member) -> QuerySet[AttentionCheck]:
    return AttentionCheck.objects.filter(person=person, state=State.OPEN, expires_at__gt=Now())


def find_open(person: Member, check_id: uuid.UUID | None = None) -> AttentionCheck | None:
    """Return the open check of this person, or the one of this id."""
    checks = filter_open(person)
    return (checks.filter(pk=check_id) if check_id else checks).first()


def find_for_chat(person: Member, conversation_id: uuid.UUID) -> AttentionCheck | None:
    """Return the check that this chat of the person shows: an open one beside a request that waits
    there for their approval, placed now if one is due, or one that was answered a moment ago."""
    waiting = ToolCall.objects.filter(
        turn__conversation=conversation_id,
        turn__conversation__owner=person,
        state=ToolCall.State.AWAITING_APPROVAL,
        approval__first_at=None,
    )
    told = Q(answered_at__gt=timezone.now() - TOLD_FOR)
    answered = AttentionCheck.objects.filter(told, person=person)
    waits, was_answered = (
        Member.objects.filter(pk=person.pk).values_list(Exists(waiting), Exists(answered)).get()
    )
    if was_answered:
        return answered.order_by("-answered_at").first()
    return find_open(person) or place(person) if waits else None


def hide_open(entries: QuerySet[LogEntry], person: Member) -> QuerySet[LogEntry]:
    """Leave out what the log says of a check that this person has not answered yet."""
    check = find_open(person)
    if check is None:
        return entries
    return entries.exclude(kind=LogEntry.Kind.ATTENTION_CHECK, data__contains=str(check.pk))


def find_answered(person: Member, check_id: uuid.UUID) -> AttentionCheck | None:
    checks = AttentionCheck.objects.filter(person=person, answered_at__isnull=False)
    return checks.filter(pk=check_id).first()


def build_waiting_call(check: AttentionCheck) -> WaitingCall:
    """Return the call that a check pretends, for the inbox. It is not stored."""
    call = build_call(check)
    return WaitingCall(
        kind="approval",
        call_id=check.pk,
        since=check.created_at,
        expires_at=check.expires_at,
        call=call,
    )


def build_call(check: AttentionCheck) -> ToolCall:
    tool = next((each for each in TOOLS if each.name == check.tool), TOOLS[0])
    service = Service.objects.filter(name=check.service).first()
    chats = Conversation.objects.filter(owner=check.person, deleted_at=None)
    chat = chats.order_by("-active_at").first() or Conversation(owner=check.person)
    facts = ToolFacts(
        name=tool.name, description=tool.description, input_schema={}, annotations=None
    )
    risk = classify(facts)
    message = Message(conversation=chat, role="user")
    turn = Turn(conversation=chat, question=message, created_at=check.created_at)
    call = ToolCall(
        id=check.pk,
        turn=turn,
        step=1,
        position=1,
        tool_id=f"{check.service}_{tool.name}",
        tool_name=tool.name,
        service=service,
        definition=ToolDefinition(
            name=tool.name,
            title=gettext(tool.title),
            description=gettext(tool.description),
            first_seen_at=check.created_at,
        ),
        arguments=json.dumps(check.arguments),
        state=ToolCall.State.AWAITING_APPROVAL,
        risk=risk.level,
        reasons=list(risk.reasons),
        why=reasons.NEEDS_APPROVAL[risk.level],
    )
    call.approval = Approval(
        tool_call=call,
        binding=check.pk.hex,
        created_at=check.created_at,
        expires_at=check.expires_at,
    )
    return call


def render_for_chat(check: AttentionCheck | None, csrf_token: str = "") -> str:
    """Return the element of a chat with the card of a check, or with what an answered one was."""
    context = {"element_id": page_values.MORE_ID, "keep": ""}
    if check is None:
        return render_to_string("chat/_more_requests.html", context)
    context["keep"] = f"{check.pk}-{check.state}"
    if check.state != State.OPEN:
        return render_to_string("chat/_more_requests.html", {**context, "checked": check})
    mark_shown(check, timezone.now())
    card = SafeString(fragments.render_tool_call(build_call(check), CallFacts(), csrf_token))
    return render_to_string("chat/_more_requests.html", {**context, "card": card})


# --- answering -----------------------------------------------------------------------------------
def mark_shown(check: AttentionCheck, at: datetime) -> None:
    AttentionCheck.objects.filter(pk=check.pk, shown_at=None).update(shown_at=at)


@transaction.atomic
def answer(check: AttentionCheck, given: Answer) -> bool:
    """Store the answer. Return whether it was the first."""
    mine = AttentionCheck.objects.filter(pk=check.pk, state=State.OPEN)
    is_first = bool(mine.update(state=given, answered_at=timezone.now()))
    check.refresh_from_db()
    if is_first:
        _log(check, given)
        notify(check.person_id)
    return is_first


def filter_old() -> QuerySet[AttentionCheck]:
    return AttentionCheck.objects.filter(state=State.OPEN, expires_at__lte=timezone.now())


def has_old() -> bool:
    return filter_old().exists()


@transaction.atomic
def expire_old() -> None:
    """Let the checks that nobody answered in time expire."""
    for check in filter_old().select_related("person")[:EXPIRED_AT_ONCE]:
        if AttentionCheck.objects.filter(pk=check.pk, state=State.OPEN).update(state=State.EXPIRED):
            _log(check, "expired")


def _log(check: AttentionCheck, act: str) -> None:
    seconds = None
    if check.answered_at is not None and check.shown_at is not None:
        seconds = round((check.answered_at - check.shown_at).total_seconds(), 1)
    person = Who.of(check.person)
    audit_log.append(
        [
            AuditEvent(
                kind=audit_log.Kind.ATTENTION_CHECK,
                data={"act": act, "check": str(check.pk), "of": check.tool, "seconds": seconds},
                actor=person if act in (State.ALLOWED, State.DENIED) else audit_log.SERVER,
                person=person,
            )
        ]
    )
