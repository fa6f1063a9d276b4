"""A person asks the model again after an answer that failed, was stopped, refused or filtered."""

from django.db import IntegrityError, transaction
from django.db.models import Max
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from chatapp.journal import journal
from chatapp.journal.journal import wake
from chatapp.models import Conversation, Member, Part, Step, Turn
from chatapp.people.refused import Refused

from .intake import STILL_WORKING, check_may_ask, lock_latest

GO_ON = "Go on where you stopped."


def ask_again(conversation: Conversation, person: Member, model: str) -> Turn:
    """Restart the last answer of a conversation, which has failed, perhaps with another model.

    Its text stays on the page. The model does not get text that was cut off, or a refusal. Raises
    Refused.
    """
    check_may_ask(person, model)
    try:
        with transaction.atomic():
            return _restart_answer(conversation, model)
    except IntegrityError:  # a message was accepted at this moment
        raise Refused(STILL_WORKING, 409) from None


def _restart_answer(conversation: Conversation, model: str) -> Turn:
    turn = lock_latest(conversation)
    if turn is None or not turn.may_be_tried_again or turn.is_direct:
        raise Refused(_("There is no answer to try again."), 409)
    _open_next_step(turn)
    Turn.objects.filter(pk=turn.pk).update(
        state=Turn.State.QUEUED,
        reason="",
        model=model,
        stop_requested=False,
        signals=turn.signals + 1,
        drops=0,
        finished_at=None,
    )
    Conversation.objects.filter(pk=conversation.pk).update(active_at=Now(), model=model)
    entry = journal.turn_entry(turn, Turn.State.QUEUED)
    journal.append(conversation.pk, turn.pk, [entry])
    transaction.on_commit(lambda: wake(turn.pk))
    return turn


def _open_next_step(turn: Turn) -> None:
    """Open a step for the model to answer in, after one that was cut off or given up, or after the
    notice if the model was never asked."""
    last = turn.steps.last()
    if last is None:
        noted = Part.objects.filter(message_id=turn.answer_id).aggregate(last=Max("step"))["last"]
        Step.objects.create(turn=turn, number=(noted or 0) + 1, attempt=0)
    elif turn.is_unanswered:
        Step.objects.filter(pk=last.pk).update(state=Step.State.INTERRUPTED)
        Step.objects.create(turn=turn, number=last.number + 1, attempt=0)
    elif last.state == Step.State.DONE:
        return
    elif last.state == Step.State.CALLING:
        Step.objects.filter(pk=last.pk).update(attempt=0)
    else:
        Step.objects.create(turn=turn, number=last.number + 1, attempt=0)
