"""Chats of a member who leaves, given to somebody else by an admin."""

from django.db import models, transaction
from django.db.models.functions import Now

from chatapp.audit import audit_log
from chatapp.audit.audit_log import AuditEvent, Who
from chatapp.models import (
    Attachment,
    Conversation,
    LogEntry,
    Member,
    MessageDraft,
    QueuedMessage,
    SharedLink,
    ToolSwitch,
    Turn,
)

MARK_CHARACTERS = Conversation._meta.get_field("tainted_by").max_length


def filter_to_hand_over(owner: Member) -> models.QuerySet[Conversation]:
    """Return the chats that another person can get: temporary and deleted ones stay behind."""
    return Conversation.filter_listed(owner)


@transaction.atomic
def hand_over(conversation: Conversation, heir: Member, *, by: Member, reason: str) -> bool:
    """Give a chat in which nothing runs to the heir. Return whether it was done.

    The heir did not write its past, so it counts as untrusted content, as in a copy of a shared
    chat. What its person set for themselves is left behind: links, drafts and switches.
    """
    mine = Conversation.objects.select_for_update().filter(pk=conversation.pk, deleted_at=None)
    chat = mine.filter(owner=conversation.owner).first()
    if chat is None or Turn.objects.filter(conversation=chat, state__in=Turn.LIVE).exists():
        return False
    SharedLink.objects.filter(conversation=chat, revoked_at=None).update(revoked_at=Now())
    for model in (MessageDraft, QueuedMessage, ToolSwitch):
        model._default_manager.filter(conversation=chat).delete()
    Attachment.objects.filter(part__message__conversation=chat).update(owner=heir)
    mine.update(
        owner=heir,
        token=None,
        assistant=None,
        project=None,
        pinned_at=None,
        is_shared_copy=True,
        tainted_by=f"chat of {conversation.owner.display_name}"[:MARK_CHARACTERS],
        opened_by_admin_at=None,
    )
    event = AuditEvent(
        kind=LogEntry.Kind.CHAT_HANDED_OVER,
        data={"from": conversation.owner.username, "to": heir.username, "reason": reason},
        actor=Who.of(by),
        person=Who.of(heir),
        conversation_id=chat.pk,
    )
    audit_log.append([event])
    return True
