"""How a call pauses: the service wants something first, and said so before it did anything.

The worker lets go of the call here. What it waits for is in rows; whoever brings it approves the
call again, and any worker then sends the next leg through the ledger, under a new permit.
"""

import uuid
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F, Max
from django.db.models.functions import Now

from chatapp.models import Question, RemoteTask, ToolCall, Turn
from chatapp.storage import in_time
from mcpconfig.acting import Acting
from mcpconfig.errors import OperationError
from mcpconfig.models import Service
from mcpconfig.oauth.grants import sign_ins_of
from mcpconfig.results import InputRequest, InputRequired, TaskStarted
from mcpconfig.sharing import BY_PEOPLE

from . import journal
from .calling import wake
from .ending import signal
from .lease import Lease, fenced
from .ledger import NO_PROGRESS, Sending
from .milestones import passed

State = ToolCall.State


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInWanted:
    """The call did not run, because nobody who acts here has signed in to its service."""

    error: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PermitExpired:
    """The call was not sent, because too much time went by since everything was checked."""


def wants_sign_in(service: Service, error: OperationError) -> bool:
    """Whether a person can help by signing in, and the tool certainly did not run."""
    return error.is_definite and can_sign_in(service, error)


def can_sign_in(service: Service | None, error: OperationError) -> bool:
    """Whether what failed is fine again once a person has signed in."""
    wants = error.kind == "sign_in_needed"
    return wants and service is not None and service.authentication in BY_PEOPLE


def pause_for_sign_in(lease: Lease, sending: Sending, error: dict[str, Any]) -> None:
    """The call waits until somebody has signed in to its service. A sign-in that came while it was
    under way is not waited for again."""
    with fenced(lease) as turn:
        has_come = has_signed_in(sending.service, sending.acting, sending.call_id)
        state = State.APPROVED if has_come else State.AWAITING_SIGN_IN
        until = in_time(seconds=settings.SIGN_IN_SECONDS)
        if moved := pause(sending, state, error=None if has_come else error, waits_until=until):
            journal.tell_call(turn, sending.call_id, moved)
    passed("K23")


def pause_for_decision(lease: Lease, sending: Sending) -> None:
    """All of it is checked anew, and policy asked again, before the next attempt."""
    with fenced(lease) as turn:
        if moved := pause(sending, State.APPROVED):
            journal.tell_call(turn, sending.call_id, moved)


def has_signed_in(service: Service, acting: Acting, call_id: uuid.UUID) -> bool:
    """Whether a sign-in that serves this person came after the call was sent."""
    sent_at = ToolCall.objects.filter(pk=call_id).values("sent_at")
    return sign_ins_of(service, acting).filter(connected_at__gt=sent_at).exists()


def pause_for_answer(lease: Lease, sending: Sending, asked: InputRequired) -> None:
    """The service asks something first: the round is kept, and the call waits for a person. One
    that only wants to be asked again later waits for the sweep."""
    with fenced(lease) as turn:
        rounds = Question.objects.filter(tool_call=sending.call_id, source=Question.Source.LEG)
        number = rounds.count() + 1
        if number > settings.QUESTION_ROUNDS:
            return _give_up(turn, sending)
        if not asked.requests:
            wait = in_time(seconds=max(asked.wait_seconds, 1.0))
            moved = pause(sending, State.AWAITING_TASK, waits_until=wait)
        else:
            moved = pause(sending, State.AWAITING_INPUT)
        if moved in (State.AWAITING_INPUT, State.AWAITING_TASK):
            keep_question(sending.call_id, asked.requests, asked.request_state)
        if moved:
            journal.tell_call(turn, sending.call_id, moved)
    passed("K24")


def keep_question(
    call_id: uuid.UUID,
    requests: tuple[InputRequest, ...],
    request_state: str | None = None,
    **values: Any,
) -> Question:
    """One more round of questions about this call, inside the caller's transaction."""
    earlier = Question.objects.filter(tool_call=call_id).aggregate(last=Max("round"))["last"] or 0
    question = Question(
        tool_call_id=call_id,
        round=earlier + 1,
        requests=[request.to_json() for request in requests],
        **{"expires_at": in_time(days=settings.QUESTION_DAYS)} | values,
    )
    question.seal(request_state)
    question.save()
    return question


def _give_up(turn: Turn, sending: Sending) -> None:
    message = f"The service wants to ask more than {settings.QUESTION_ROUNDS} times in one call."
    error = {"kind": "protocol", "message": message, "hint": "Ask for it in another way."}
    if moved := pause(sending, State.FAILED, error=error, finished_at=Now()):
        journal.tell_call(turn, sending.call_id, moved)


def pause_for_task(lease: Lease, sending: Sending, started: TaskStarted) -> None:
    """The service goes on by itself, so nobody here holds a connection: the sweep asks after it."""
    days = settings.TASK_DAYS * 86_400
    bound = days if started.ttl_seconds is None else min(days, started.ttl_seconds)
    with fenced(lease) as turn:
        mine = ToolCall.objects.filter(
            pk=sending.call_id, state=State.SENDING, attempt=sending.attempt
        )
        is_unwanted = mine.filter(cancel_requested=True).exists()
        moved = mine.update(
            state=State.AWAITING_TASK, **NO_PROGRESS | {"progress": started.message[:200]}
        )
        if moved:
            RemoteTask.objects.update_or_create(
                tool_call_id=sending.call_id,
                defaults={
                    "task_id": started.task_id,
                    "status": started.status,
                    "message": started.message[:200],
                    "failures": 0,
                    "wants_cancel": is_unwanted,
                    "is_cancelled": False,
                    "poll_seconds": started.poll_seconds,
                    "next_poll_at": in_time(seconds=0 if is_unwanted else started.poll_seconds),
                    "deadline": in_time(seconds=bound),
                },
            )
            journal.tell_call(turn, sending.call_id, State.AWAITING_TASK)
    passed("K25")


def pause(sending: Sending, state: ToolCall.State, **values: Any) -> ToolCall.State | None:
    """Store, inside the caller's transaction, that this attempt ended before the service did it.
    The state that was stored: one that was to be cancelled is over; None when it is not this
    attempt's call any more."""
    mine = ToolCall.objects.filter(pk=sending.call_id, state=State.SENDING, attempt=sending.attempt)
    if mine.filter(cancel_requested=True).exists():
        state = State.UNKNOWN if sending.may_have_run else State.CANCELLED
        values = {"finished_at": Now()}
    moved = mine.update(state=state, pauses=F("pauses") + 1, **NO_PROGRESS, **values)
    return state if moved else None


def leave(
    call: ToolCall, waiting: ToolCall.State, state: ToolCall.State, **values: Any
) -> Turn | None:
    """Move a call out of its pause, inside the caller's transaction, and wake its turn; None when
    it does not wait any more: something else came first."""
    turn = signal(call.turn_id)
    moved = ToolCall.objects.filter(pk=call.pk, state=waiting).update(
        state=state, waits_until=None, **values
    )
    if not moved:
        return None
    journal.tell_call(turn, call.pk, state)
    transaction.on_commit(lambda: wake(turn.pk))
    return turn


def acting_for(call: ToolCall) -> Acting:
    """The person in whose conversation the call is."""
    return Acting.of(call.turn.conversation.owner, call.turn.conversation_id)
