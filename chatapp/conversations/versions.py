"""Versions of messages: a person edits a message or asks for another answer, and the earlier
version stays."""

import uuid

from django.db import IntegrityError, transaction
from django.http import Http404

from chatapp.models import Conversation, Member, Message, ToolCall, Turn
from chatapp.models.turns.turn import is_of_program
from chatapp.people.refused import Refused

from . import branches, intake


def find_message(person: Member, conversation_id: uuid.UUID, message_id: uuid.UUID) -> Message:
    """Return a message that this person wrote in this chat of theirs, or that was copied into it,
    or raise 404."""
    conversation = Conversation.of(person, conversation_id)
    asked = conversation.messages.filter(pk=message_id, role=Message.Role.USER).first()
    if asked is None or is_of_program(asked.turns_asked.first(), conversation):
        raise Http404("No such message.")
    asked.conversation = conversation
    return asked


def count_sent_calls(message: Message) -> int:
    """Return how many tool calls the shown answers from this message on have sent."""
    return ToolCall.objects.filter(
        turn__conversation=message.conversation_id,
        turn__answer__is_shown=True,
        turn__answer__created_seq__gt=message.created_seq,
        sent_at__isnull=False,
    ).count()


def has_open_request(message: Message) -> bool:
    """Return whether a turn of the chat waits for the person, which an edit ends."""
    turns = Turn.objects.filter(conversation=message.conversation_id, state=Turn.State.WAITING)
    return turns.exists()


def edit_message(
    person: Member, message: Message, *, text: str, model: str, client_id: uuid.UUID | None = None
) -> Turn:
    """Send another version of a message, with the same attachments, and queue its turn. Raises
    Refused.

    What followed the message stays with its earlier version. A turn that waits for the person is
    ended, as by a new message.
    """
    return intake.receive(
        person, message.conversation, text=text, model=model, client_id=client_id, edited=message
    )


def answer_again(person: Member, message: Message, model: str) -> Turn:
    """Queue another answer to a message. Raises Refused.

    The earlier answer and what followed it stay as a version.
    """
    intake.check_may_ask(person, model)
    try:
        with transaction.atomic():
            return intake.accept_other_answer(message, model)
    except IntegrityError:  # a message was accepted at this moment
        raise Refused(intake.STILL_WORKING, 409) from None


def show_version(conversation: Conversation, message_id: uuid.UUID) -> None:
    """Show the branch with this message and with the newest of what followed it. Raises Refused or
    404."""
    with transaction.atomic():
        latest = intake.lock_latest(conversation)
        intake.refuse_while_live(latest)
        # Copied messages have no turns.
        turn_id = latest.pk if latest is not None else None
        try:
            branches.show_branch(conversation, message_id, turn_id)
        except Message.DoesNotExist:
            raise Http404("No such message.") from None
