"""What a person does with a whole chat: read, rename, instruct, pin, archive, keep, delete and
restore it.

A deleted chat is out of reach at once and can be restored for `RESTORABLE`. After that a task
removes its rows, and also those of temporary chats. The log keeps what happened in them.
"""

import uuid
from datetime import timedelta

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.db.models.functions import Now
from django.http import Http404
from django.utils.translation import gettext as _

from chatapp.approvals.inbox import KEPT_SINCE
from chatapp.audit import audit_log
from chatapp.audit.audit_log import SERVER, AuditEvent, Who
from chatapp.audit.change_entries import log_parameters
from chatapp.models import Conversation, LogEntry, Member, ToolCall, Turn
from chatapp.models.conversations.conversation import RESTORABLE, TEMPORARY_KEPT
from chatapp.people.refused import Refused

from .intake import stop

Kind = LogEntry.Kind
CallState = ToolCall.State
TITLE_CHARACTERS = Conversation._meta.get_field("title").max_length or 0
# How long the list of chats offers to undo.
UNDO_OFFERED = timedelta(minutes=2)
# Chats that one run of the task removes at most.
REMOVED_AT_ONCE = 1_000


def rename(conversation: Conversation, title: str) -> None:
    """Give a chat another title, on one line. Raises Refused if it is empty or too long."""
    title = " ".join(title.split())
    if not title:
        raise Refused(_("Enter a title."))
    if len(title) > TITLE_CHARACTERS:
        sentence = _("This title has %(count)s characters. The limit is %(most)s.")
        raise Refused(sentence % {"count": len(title), "most": TITLE_CHARACTERS})
    _update(conversation, title=title, title_is_draft=False)


def set_instructions(conversation: Conversation, text: str) -> None:
    """Save what the person tells the assistant in this chat, from its next request to the model
    on. An empty text removes it."""
    _update(conversation, instructions=text)


@transaction.atomic
def set_parameters(
    conversation: Conversation, temperature: float | None, output_tokens: int | None
) -> None:
    """Save the temperature and the most tokens of an answer in this chat, from its next request to
    the model on. None leaves them to the model's settings."""
    rows = Conversation.objects.select_for_update(no_key=True).filter(pk=conversation.pk)
    before = rows.values("temperature", "output_tokens").get()
    _update(conversation, temperature=temperature, output_tokens=output_tokens)
    conversation.temperature, conversation.output_tokens = temperature, output_tokens
    log_parameters(conversation, dict(before))


def pin(conversation: Conversation, *, is_on: bool) -> None:
    """Keep a chat at the top of the list, from which it is neither archived nor temporary."""
    if is_on:
        _update(conversation, pinned_at=Now(), archived_at=None, is_temporary=False)
    else:
        _update(conversation, pinned_at=None)


def mark_read(conversation: Conversation) -> None:
    """Store that the person has seen this chat as it was read from the database. Most of the time
    there is nothing new, and nothing is written."""
    if conversation.read_at is None or conversation.has_news:
        seen = conversation.active_at
        unseen = Conversation.objects.filter(Q(read_at=None) | Q(read_at__lt=seen))
        unseen.filter(pk=conversation.pk).update(read_at=seen)
        conversation.read_at = seen


def mark_unread(conversation: Conversation) -> None:
    """Mark this chat in the list until the person opens it again."""
    _update(conversation, read_at=F("active_at") - timedelta(microseconds=1))


def archive(conversation: Conversation, *, is_on: bool) -> None:
    """Take a chat out of the list, or put it back, to the top if it was pinned. An archived chat is
    not temporary."""
    if is_on:
        _update(conversation, archived_at=Now(), is_temporary=False)
    else:
        _update(conversation, archived_at=None)


def keep(conversation: Conversation) -> None:
    """Make an ordinary chat of a temporary one."""
    _update(conversation, is_temporary=False)


def delete(conversation: Conversation) -> None:
    """Stop the answer in a chat and put the chat out of reach. Its open requests end."""
    stop(conversation)
    # A restored chat sends nothing by itself.
    conversation.queued_messages.filter(is_urgent=True).update(is_urgent=False)
    _move(conversation, Kind.CHAT_DELETED, deleted_at=Now())


def restore(conversation: Conversation) -> None:
    """Put a deleted chat back to where it was."""
    _move(conversation, Kind.CHAT_RESTORED, deleted_at=None)


def find_deleted(person: Member, conversation_id: uuid.UUID) -> Conversation:
    """Return this person's deleted chat, or raise 404."""
    found = filter_deleted(person).filter(pk=conversation_id).first()
    if found is None:
        raise Http404("No such deleted chat.")
    return found


def filter_deleted(person: Member) -> QuerySet[Conversation]:
    """Return the deleted chats that this person can still restore, latest first."""
    kept = Conversation.objects.filter(owner=person, deleted_at__gt=Now() - RESTORABLE)
    return kept.order_by("-deleted_at")


def find_just_removed(person: Member, conversation_id: uuid.UUID) -> Conversation | None:
    """Return this person's chat if it was deleted or archived so lately that the list offers to
    undo it."""
    since = Now() - UNDO_OFFERED
    left = Q(deleted_at__gt=since) | Q(archived_at__gt=since, deleted_at=None)
    return Conversation.objects.filter(left, owner=person, pk=conversation_id).first()


def filter_archived(person: Member) -> QuerySet[Conversation]:
    archived = Conversation.filter_owned(person).filter(archived_at__isnull=False)
    return archived.order_by("-archived_at")


def filter_removable() -> QuerySet[Conversation]:
    """Return the chats that nobody can restore any more, and the temporary ones whose time is over
    and in which no outcome waits for the person's word, all without those in which something runs
    or waits."""
    is_deleted = Q(deleted_at__lte=Now() - RESTORABLE)
    unknown = ToolCall.objects.filter(turn__conversation=OuterRef("pk"), state=CallState.UNKNOWN)
    is_open = Exists(unknown.filter(sent_at__gte=KEPT_SINCE))
    is_over = Q(is_temporary=True, active_at__lte=Now() - TEMPORARY_KEPT) & ~is_open
    return Conversation.objects.filter(is_deleted | is_over).exclude(turns__state__in=Turn.LIVE)


def remove_old() -> None:
    """Remove the rows of the chats that are removable."""
    for conversation in filter_removable().select_related("owner")[:REMOVED_AT_ONCE]:
        _remove(conversation)


@transaction.atomic
def _remove(conversation: Conversation) -> None:
    """Remove a chat unless it was kept or has gone on meanwhile. While its row is locked, no
    message can be stored in it."""
    list(Conversation.objects.select_for_update().filter(pk=conversation.pk).only("pk"))
    if filter_removable().filter(pk=conversation.pk).exists():
        entry = _build_entry(conversation, Kind.CHAT_REMOVED, SERVER)
        Conversation.objects.filter(pk=conversation.pk).delete()
        audit_log.append([entry])


def _update(conversation: Conversation, **values: object) -> None:
    Conversation.objects.filter(pk=conversation.pk).update(**values)


@transaction.atomic
def _move(conversation: Conversation, kind: LogEntry.Kind, **values: object) -> None:
    """Delete or restore a chat, and log it once."""
    is_deleted = kind == Kind.CHAT_DELETED
    rows = Conversation.objects.filter(pk=conversation.pk, deleted_at__isnull=is_deleted)
    if rows.update(**values):
        audit_log.append([_build_entry(conversation, kind, Who.of(conversation.owner))])


def _build_entry(conversation: Conversation, kind: LogEntry.Kind, actor: Who) -> AuditEvent:
    """Return the entry, without the title: a deleted chat leaves no words."""
    return AuditEvent(
        kind=kind,
        data={},
        actor=actor,
        person=Who.of(conversation.owner),
        conversation_id=conversation.pk,
    )
