"""The branch of a chat that pages show. A message and its other versions have the same parent, and
one of them is shown."""

import uuid

from django.db.models import F
from django.utils.translation import gettext_lazy

from chatapp.journal import journal
from chatapp.journal.journal import Entry
from chatapp.models import Conversation, Message
from chatapp.models.conversations.message_tree import find_branch
from chatapp.people.refused import Refused

CHANGED_MEANWHILE = gettext_lazy(
    "Another version of this message is shown now. Copy what you typed, then reload the page."
)


def hide_branch(message: Message, *, with_message: bool) -> Entry:
    """Hide what follows this message, or with it the message itself, for another version that the
    caller stores next. Return the entry that goes before those of that version. Raises Refused.

    Called inside a transaction that has locked the latest turn, if there is one. Like everywhere,
    the conversation is locked before its messages.
    """
    journal.lock_conversation(message.conversation_id)
    shown = Message.objects.filter(conversation=message.conversation_id, is_shown=True)
    if not shown.filter(pk=message.pk).exists():
        raise Refused(CHANGED_MEANWHILE, 409)
    first = message.created_seq if with_message else message.created_seq + 1
    shown.filter(created_seq__gte=first).update(is_shown=False)
    return journal.branch_entry(message.pk)


def show_branch(
    conversation: Conversation, message_id: uuid.UUID, turn_id: uuid.UUID | None
) -> None:
    """Show the branch with this message and with the newest of what followed it. Raises
    Message.DoesNotExist.

    Called inside a transaction that has locked the latest turn of the chat, `turn_id`, if it has
    one.
    """
    journal.lock_conversation(conversation.pk)
    messages = Message.objects.filter(conversation=conversation.pk)
    branch = find_branch(conversation.pk, message_id)
    shown = set(messages.filter(is_shown=True).values_list("pk", flat=True))
    if message_id in shown:
        return
    messages.filter(pk__in=shown - branch).update(is_shown=False)
    messages.filter(pk__in=branch - shown).update(is_shown=True)
    journal.append(conversation.pk, turn_id, [journal.branch_entry(message_id)])
    mark_branched(conversation.pk)


def mark_branched(conversation_id: uuid.UUID) -> None:
    """Store that a page with an earlier frame than the last needs the whole thread."""
    Conversation.objects.filter(pk=conversation_id).update(branched_seq=F("last_seq"))
