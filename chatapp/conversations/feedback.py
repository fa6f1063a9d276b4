"""What a person thinks of an answer: a rating, with a comment for the admins."""

import uuid

from django.db import transaction
from django.http import Http404

from chatapp.journal import journal
from chatapp.models import AnswerFeedback, Conversation, Member, Turn


def find_rateable(person: Member, conversation_id: uuid.UUID, message_id: uuid.UUID) -> Turn:
    """Return the turn of an answer that this person can rate, with its rating, or raise 404. The
    answer may be a version that is not shown."""
    conversation = Conversation.of(person, conversation_id)
    turns = Turn.objects.filter(conversation=conversation, answer=message_id)
    turn = turns.select_related("answer__feedback").first()
    if turn is None or not turn.may_be_rated:
        raise Http404("No such answer.")
    turn.answer.conversation = turn.conversation = conversation
    return turn


def rate(turn: Turn, *, is_good: bool, comment: str) -> AnswerFeedback:
    """Store the rating of an answer in place of the one before."""
    with transaction.atomic():
        journal.lock_turn(turn.pk)
        values = {"is_good": is_good, "comment": comment, "model": turn.model}
        row, _ = AnswerFeedback.objects.update_or_create(message=turn.answer, defaults=values)
        _tell_pages(turn)
    return row


def take_back(turn: Turn) -> None:
    """Delete the rating of an answer with its comment."""
    with transaction.atomic():
        journal.lock_turn(turn.pk)
        AnswerFeedback.objects.filter(message=turn.answer_id).delete()
        _tell_pages(turn)


def _tell_pages(turn: Turn) -> None:
    journal.append(turn.conversation_id, turn.pk, [journal.feedback_entry(turn)])
