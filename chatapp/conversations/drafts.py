"""Drafts of messages: kept for each chat of a person, and one for a new chat, until they are
sent."""

import uuid
from collections.abc import Sequence
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Now

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
    content = _build_content(text, attachments) | {"client_id": client_id}
    kept = _filter_drafts(person, conversation)
    if client_id is not None:
        kept = kept.exclude(replaced_id=client_id)
    # What the server puts into the box at this moment stays: each statement looks for it itself.
    for _ in range(2):
        if kept.update(saved_at=Now(), **content):
            return
        made = MessageDraft(owner=person, conversation=conversation, **content)
        MessageDraft.objects.bulk_create([made], ignore_conflicts=True)


def store_draft(
    person: Member,
    conversation: Conversation | None,
    text: str,
    attachments: Sequence[uuid.UUID],
    **ids: uuid.UUID | None,
) -> None:
    MessageDraft.objects.update_or_create(
        owner=person,
        conversation=conversation,
        defaults=_build_content(text, attachments) | ids,
    )


def _build_content(text: str, attachments: Sequence[uuid.UUID]) -> dict[str, Any]:
    return {"text": text, "attachments": [str(each) for each in attachments]}


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
