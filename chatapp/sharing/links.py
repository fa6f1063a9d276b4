"""What a person does with the links to a chat: create, update and revoke them. Each act is logged,
without the title or any text of the chat."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Max
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext as _

from chatapp.audit import audit_log
from chatapp.audit.audit_log import AuditEvent, Who
from chatapp.conversations import intake
from chatapp.conversations.forks import has_messages_of_programs, list_messages_up_to
from chatapp.models import Conversation, LogEntry, Message, Part, SharedLink, ToolCall, Turn
from chatapp.people.refused import Refused

MAX_LINKS = 20
Kind = LogEntry.Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What a person chooses for a new link. Without `days` it does not expire."""

    audience: SharedLink.Audience
    tools: SharedLink.Tools
    includes_files: bool
    days: int | None


def create(conversation: Conversation, choices: Choices) -> SharedLink:
    """Return a new link to the chat as it is shown now. Raises Refused."""
    if choices.audience == SharedLink.Audience.ANYONE and not settings.SHARE_WITH_ANYONE:
        raise Refused(_("On this server, only people who are signed in can open a link."))
    with transaction.atomic():
        taken = _take_snapshot(conversation)
        if SharedLink.objects.live().filter(conversation=conversation).count() >= MAX_LINKS:
            sentence = _("This chat already has %(count)s links. Revoke one first.")
            raise Refused(sentence % {"count": MAX_LINKS}, 409)
        link = SharedLink.objects.create(
            conversation=conversation,
            audience=choices.audience,
            tools=choices.tools,
            includes_files=choices.includes_files,
            expires_at=_find_end(choices.days),
            **taken,
        )
        log(link, Kind.SHARE_MADE)
    return link


def update(link: SharedLink) -> None:
    """Let the link show the chat as it is shown now. Raises Refused."""
    with transaction.atomic():
        taken = _take_snapshot(link.conversation)
        if not SharedLink.objects.live().filter(pk=link.pk).update(**taken):
            raise Refused(_("This link has ended. Create a new one."), 409)
        log(link, Kind.SHARE_UPDATED)


def revoke(link: SharedLink) -> bool:
    """End the link for all further requests. Return whether it was not revoked before."""
    with transaction.atomic():
        mine = SharedLink.objects.filter(pk=link.pk, revoked_at=None)
        if not mine.update(revoked_at=Now()):
            return False
        log(link, Kind.SHARE_REVOKED)
        return True


def list_outdated(conversation: Conversation, known: Iterable[SharedLink]) -> set[uuid.UUID]:
    """Return the ids of those of its links that show something else than the chat does now: they
    end at an earlier message, on another branch, or before the end of the last answer, or the
    outcome of a call became known later."""
    latest = find_latest(conversation)
    newest = Part.objects.filter(message=latest).aggregate(newest=Max("pk"))["newest"] or 0
    changed_at = _find_last_outcome(conversation)
    return {
        link.pk
        for link in known
        if latest is None
        or link.last_message_id != latest.pk
        or link.last_part < newest
        or (link.tools != SharedLink.Tools.NONE and changed_at and link.taken_at < changed_at)
    }


def _find_last_outcome(conversation: Conversation) -> datetime | None:
    """Return when the outcome of a call that the chat shows changed last."""
    calls = ToolCall.objects.filter(turn__conversation=conversation, turn__answer__is_shown=True)
    times = calls.aggregate(Max("sent_at"), Max("finished_at"), Max("resolved_at")).values()
    return max((time for time in times if time is not None), default=None)


def find_latest(conversation: Conversation) -> Message | None:
    """Return the last message that the chat shows."""
    latest = conversation.messages.filter(is_shown=True).order_by("created_seq").last()
    if latest is not None:
        latest.conversation = conversation
    return latest


def _take_snapshot(conversation: Conversation) -> dict[str, Any]:
    """Return what a link stores of the chat as it is shown now, while nothing can be added to it.
    Raises Refused."""
    if conversation.is_temporary:
        raise Refused(_("A temporary chat cannot be shared. Keep this chat first."), 409)
    intake.refuse_while_live(intake.lock_latest(conversation))
    latest = find_latest(conversation)
    if latest is None:
        raise Refused(_("This chat has no messages yet."), 409)
    messages = list_messages_up_to(latest)
    if has_messages_of_programs(messages):
        sentence = _("This chat has messages from a program or an app, so it cannot be shared.")
        raise Refused(sentence, 409)
    newest = Part.objects.filter(message__in=messages).aggregate(newest=Max("pk"))["newest"]
    return {
        "title": conversation.title,
        "last_message": latest,
        "last_part": newest or 0,
        "last_state": getattr(Turn.objects.filter(answer=latest).first(), "state", ""),
        "messages": len(messages),
        "taken_at": timezone.now(),
    }


def _find_end(days: int | None) -> datetime | None:
    return None if days is None else timezone.now() + timedelta(days=days)


def log(link: SharedLink, kind: LogEntry.Kind, actor: Who | None = None) -> None:
    """Log an act of the person of this request, or of `actor`."""
    data = {
        "of": f"shared link {link}",
        "link": str(link.pk),
        "audience": link.audience,
        "tools": link.tools,
        "includes_files": link.includes_files,
        "expires_at": link.expires_at.isoformat() if link.expires_at else None,
    }
    event = AuditEvent(
        kind=kind,
        data=data,
        actor=actor or audit_log.get_actor(),
        person=Who.of(link.conversation.owner),
        conversation_id=link.conversation_id,
    )
    audit_log.append([event])
