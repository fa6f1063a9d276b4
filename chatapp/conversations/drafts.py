"""Drafts of messages: kept for each chat of a person, and one for a new chat, until they are
sent."""

import uuid
from collections.abc import Sequence

from django.db.models import Exists, OuterRef, QuerySet

from chatapp.context.attachments import check_number
from chatapp.models import Conversation, Member, Message, MessageDraft, QueuedMessage

from .intake import check_characters


def keep_draft(
    person: Member,
    conversation: Conversation | None,
    *,
    text: str,
    attachments: Sequence[uuid.UUID] = (),
    client_id: uuid.UUID | None = None,
    draft: uuid.UUID | None = None,
) -> None:
    """Store the content of the message box in place of what was stored before. An empty box deletes
    the draft that it has saved or shown. Raises Refused if the text could not be sent either.

    `client_id` is the id of the box, and `draft` that of the draft which its page was loaded with.
    """
    if not text and not attachments:
        delete_draft(person, conversation, client_id, draft)
        return
    check_characters(text)
    check_number(len(attachments))
    kept = _filter_drafts(person, conversation)
    if client_id is None or not kept.filter(replaced_id=client_id).exists():
        store_draft(person, conversation, text, attachments, client_id=client_id)


def store_draft(
    person: Member,
    conversation: Conversation | None,
    text: str,
    attachments: Sequence[uuid.UUID],
    **ids: uuid.UUID | None,
) -> None:
    content = {"text": text, "attachments": [str(each) for each in attachments]}
    MessageDraft.objects.update_or_create(
        owner=person, conversation=conversation, defaults=content | ids
    )


def find_draft(person: Member, conversation: Conversation | None) -> MessageDraft | None:
    """Return what this person has begun to write in their chat, or in a new one. A draft that was
    saved after its message was sent or queued does not count."""
    same = {"client_id": OuterRef("client_id"), "conversation__owner": person}
    sent, queued = Message.objects.filter(**same), QueuedMessage.objects.filter(**same)
    drafts = _filter_drafts(person, conversation)
    return drafts.exclude(Exists(sent)).exclude(Exists(queued)).first()


def delete_draft(person: Member, conversation: Conversation | None, *ids: uuid.UUID | None) -> None:
    """Delete a draft with one of these ids. Another device may have stored a later one."""
    known = [each for each in ids if each is not None]
    _filter_drafts(person, conversation).filter(client_id__in=known).delete()


def _filter_drafts(person: Member, conversation: Conversation | None) -> QuerySet[MessageDraft]:
    return MessageDraft.objects.filter(owner=person, conversation=conversation)
