"""Cancelling one call and not the turn: what came of it, or that nobody knows, then goes to the
model."""

from django.db import transaction
from django.db.models.functions import Now

from chatapp.models import Question, RemoteTask, ToolCall

from . import journal
from .calling import wake
from .ending import signal
from .pausing import leave
from .refusals import Refused

State = ToolCall.State


def cancel(call: ToolCall) -> None:
    """Cancel a call that runs. The worker that has it in hand looks for this twice a second, and
    the service is told, here and where it works on by itself."""
    with transaction.atomic():
        turn = signal(call.turn_id)
        running = ToolCall.objects.filter(pk=call.pk)
        is_sending = running.filter(state=State.SENDING).update(cancel_requested=True)
        if is_sending or _is_task(call):
            running.update(cancel_requested=True)
            RemoteTask.objects.filter(tool_call=call).update(wants_cancel=True, next_poll_at=Now())
            journal.tell_call(turn, call.pk, State.SENDING if is_sending else State.AWAITING_TASK)
            transaction.on_commit(lambda: wake(turn.pk))
        elif not _dropped(call):
            raise Refused("This call does not run any more.", 409)


def _is_task(call: ToolCall) -> bool:
    return RemoteTask.objects.filter(tool_call=call, tool_call__state=State.AWAITING_TASK).exists()


def _dropped(call: ToolCall) -> bool:
    """Whether the call was found before it was sent, or between two legs, and is over by that."""
    state = State.UNKNOWN if call.may_have_run else State.CANCELLED
    for waiting in (State.APPROVED, State.AWAITING_TASK):
        if leave(call, waiting, state, finished_at=Now()):
            Question.withdraw_open(call)
            return True
    return False
