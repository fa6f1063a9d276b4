"""Asking the model again: by itself before the first word, counted where people see it; and by a
person, after an answer that failed, was stopped, refused or held back by a filter."""

import asyncio
import math

from django.db import IntegrityError, transaction
from django.db.models import Max
from django.db.models.functions import Now

from chatapp.models import Conversation, Member, Part, Step, Turn
from chatapp.providers.events import ProviderError

from . import journal
from .calling import wake
from .intake import STILL_WORKING, check_may_ask, lock_latest
from .lease import Lease, fenced
from .patience import kept_trying
from .refusals import Refused
from .steps import OpenStep

GO_ON = "Go on where you stopped."


async def wait_visibly(
    lease: Lease, step: OpenStep, error: ProviderError, seconds: float, tries: str
) -> None:
    """Wait before the model is asked again. `tries` says how often it was ("2 of 3").

    Each second is a row, so that a page that loads meanwhile counts down as well.
    """
    left = seconds
    try:
        while left > 0:
            count = math.ceil(left)
            unit = "second" if count == 1 else "seconds"
            sentence = f"{error.message} Asking again in {count} {unit} (try {tries})."
            await tell_wait(lease, step, sentence)
            await asyncio.sleep(min(1.0, left))
            left -= 1.0
    finally:
        await tell_wait(lease, step, "")


async def tell_wait(lease: Lease, step: OpenStep, sentence: str) -> None:
    """Let the page say why the model is not being asked just now; nothing when it is."""
    await kept_trying(lease, _note, lease, step, sentence)


def _note(lease: Lease, step: OpenStep, sentence: str) -> None:
    with fenced(lease) as turn:
        Step.objects.filter(pk=step.id).update(waits_because=sentence)
        entry = journal.turn_entry(turn, Turn.State.RUNNING)
        journal.append(turn.conversation_id, turn.pk, [entry])


def ask_again(conversation: Conversation, person: Member, model: str) -> Turn:
    """Begin the last answer anew where it is none, perhaps with another model.

    What was said stays on the page; the model is not told of words that were cut off, nor of a
    refusal.
    """
    check_may_ask(person, model)
    try:
        with transaction.atomic():
            return _begin_anew(conversation, model)
    except IntegrityError:  # a message came at this moment
        raise Refused(STILL_WORKING, 409) from None


def _begin_anew(conversation: Conversation, model: str) -> Turn:
    turn = lock_latest(conversation)
    if turn is None or not turn.may_be_tried_again or turn.is_direct:
        raise Refused("There is no answer here that could be tried again.", 409)
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
    """A step for the model to answer in, after one that was cut off or given up; after the notice
    of its end where the model was never asked."""
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
