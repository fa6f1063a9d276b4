"""Drafts of messages: kept for each chat of a person, and one for a new chat, until they are
sent."""

import uuid
from collections.abc import Sequence

from django.db.models import Exists, OuterRef

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
) -> None:
    """Store the content of the message box in place of what was stored before; an empty box leaves
    no draft. Raises Refused if the text could not be sent either."""
    if not text and not attachments:
        delete_draft(person, conversation)
        return
    check_characters(text)
    check_number(len(attachments))
    MessageDraft.objects.update_or_create(
        owner=person,
        conversation=conversation,
        defaults={
            "text": text,
            "attachments": [str(each) for each in attachments],
            "client_id": client_id,
        },
    )


def find_draft(person: Member, conversation: Conversation | None) -> MessageDraft | None:
    """Return what this person has begun to write in their chat, or in a new one. A draft that was
    saved after its message was sent or queued does not count."""
    same = {"client_id": OuterRef("client_id"), "conversation__owner": person}
    sent, queued = Message.objects.filter(**same), QueuedMessage.objects.filter(**same)
    drafts = MessageDraft.objects.filter(owner=person, conversation=conversation)
    return drafts.exclude(Exists(sent)).exclude(Exists(queued)).first()


def delete_draft(person: Member, conversation: Conversation | None) -> None:
    MessageDraft.objects.filter(owner=person, conversation=conversation).delete()
