"""The pauses of a call: the service wants something first, and said so before it did anything.

The worker releases the call here. What the call waits for is in rows. When it arrives, the call is
approved again, and any worker then sends the next leg through the ledger, under a new permit.
"""

import uuid
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from chatapp.calls.ledger import NO_PROGRESS, Sending
from chatapp.journal import journal
from chatapp.journal.fault_points import FaultPoint, reach
from chatapp.journal.journal import Entry, signal_turn, wake
from chatapp.journal.lease import Lease, lock_turn
from chatapp.models import Question, RemoteTask, ToolCall, Turn
from chatapp.server.database import from_now
from mcpconfig.models import Service
from mcpconfig.oauth.grants.grants import filter_sign_ins
from mcpconfig.services.sharing import SIGNED_IN_BY_PEOPLE
from mcpconfig.values.acting import Acting
from mcpconfig.values.errors import OperationError
from mcpconfig.values.results import InputRequired, TaskStarted

from .question_rounds import store_question
from .transitions import Actor, Worker, move_call

State = ToolCall.State


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInWanted:
    """The call did not run, because the person it acts for has not signed in to its service."""

    error: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PermitExpired:
    """The call was not sent: too much time has passed since everything was checked."""


def wants_sign_in(service: Service, error: OperationError) -> bool:
    """Whether a person can help by signing in, and the tool certainly did not run."""
    return error.is_definite and can_sign_in(service, error)


def can_sign_in(service: Service | None, error: OperationError) -> bool:
    """Whether a sign-in of a person mends what failed."""
    wants = error.kind == "sign_in_needed"
    return wants and service is not None and service.authentication in SIGNED_IN_BY_PEOPLE


def pause_for_sign_in(lease: Lease, sending: Sending, error: dict[str, Any]) -> None:
    """Let the call wait until somebody signs in to its service. After a sign-in that came while the
    call was under way, it is approved again at once."""
    with lock_turn(lease) as turn:
        has_come = has_signed_in(sending.service, sending.acting, sending.call_id)
        state = State.APPROVED if has_come else State.AWAITING_SIGN_IN
        until = from_now(seconds=settings.SIGN_IN_SECONDS)
        pause(lease, turn, sending, state, error=None if has_come else error, waits_until=until)
    reach(FaultPoint.SIGN_IN_PAUSE_COMMITTED)


def pause_for_decision(lease: Lease, sending: Sending) -> None:
    """Return the call to approved: everything is checked again before the next attempt."""
    with lock_turn(lease) as turn:
        pause(lease, turn, sending, State.APPROVED)


def has_signed_in(service: Service, acting: Acting, call_id: uuid.UUID) -> bool:
    """Whether a sign-in that serves this person came after the call was sent."""
    sent_at = ToolCall.objects.filter(pk=call_id).values("sent_at")
    return filter_sign_ins(service, acting).filter(connected_at__gt=sent_at).exists()


def pause_for_answer(lease: Lease, sending: Sending, asked: InputRequired) -> None:
    """Store a round of questions, and let the call wait for a person. A call that the service only
    wants to receive again later waits for the sweep."""
    with lock_turn(lease) as turn:
        rounds = Question.objects.filter(tool_call=sending.call_id, source=Question.Source.LEG)
        if rounds.count() + 1 > settings.QUESTION_ROUNDS:
            return _give_up(lease, turn, sending)
        entries: list[Entry] = []
        if not asked.requests:
            wait = from_now(seconds=max(asked.wait_seconds, 1.0))
            moved = pause(
                lease, turn, sending, State.AWAITING_TASK, entries=entries, waits_until=wait
            )
        else:
            moved = pause(lease, turn, sending, State.AWAITING_INPUT, entries=entries)
        if moved in (State.AWAITING_INPUT, State.AWAITING_TASK):
            store_question(sending.call_id, asked.requests, asked.request_state)
        journal.append(turn.conversation_id, turn.pk, entries)
    reach(FaultPoint.QUESTION_PAUSE_COMMITTED)


def _give_up(lease: Lease, turn: Turn, sending: Sending) -> None:
    message = ngettext(
        "The service asked more than %(count)d time in one call.",
        "The service asked more than %(count)d times in one call.",
        settings.QUESTION_ROUNDS,
    ) % {"count": settings.QUESTION_ROUNDS}
    error = {"kind": "protocol", "message": message, "hint": _("Rephrase your request.")}
    pause(lease, turn, sending, State.FAILED, error=error, finished_at=Now())


def pause_for_task(lease: Lease, sending: Sending, started: TaskStarted) -> None:
    """Store that the service continues without a connection. The sweep polls the task."""
    days = settings.TASK_DAYS * 86_400
    bound = days if started.ttl_seconds is None else min(days, started.ttl_seconds)
    with lock_turn(lease) as turn:
        call = ToolCall.objects.filter(pk=sending.call_id)
        is_unwanted = call.filter(cancel_requested=True).exists()
        entries: list[Entry] = []
        if move_call(
            turn,
            sending.call_id,
            State.AWAITING_TASK,
            by=Worker(lease=lease, attempt=sending.attempt),
            was=[State.SENDING],
            entries=entries,
            **NO_PROGRESS | {"progress": started.message[:200]},
        ):
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
                    "next_poll_at": from_now(seconds=0 if is_unwanted else started.poll_seconds),
                    "deadline": from_now(seconds=bound),
                },
            )
        journal.append(turn.conversation_id, turn.pk, entries)
    reach(FaultPoint.TASK_PAUSE_COMMITTED)


def pause(
    lease: Lease,
    turn: Turn,
    sending: Sending,
    state: ToolCall.State,
    *,
    entries: list[Entry] | None = None,
    **values: Any,
) -> ToolCall.State | None:
    """Store, inside the caller's transaction, that this attempt ended before the service did it.

    Return the state that was stored: a call that was to be cancelled is over. Return None if the
    call is no longer at this attempt.
    """
    call = ToolCall.objects.filter(pk=sending.call_id)
    if call.filter(cancel_requested=True).exists():
        state = State.UNKNOWN if sending.may_have_run else State.CANCELLED
        values = {"finished_at": Now()}
    moved = move_call(
        turn,
        sending.call_id,
        state,
        by=Worker(lease=lease, attempt=sending.attempt),
        was=[State.SENDING],
        entries=entries,
        pauses=F("pauses") + 1,
        **NO_PROGRESS,
        **values,
    )
    return state if moved else None


def end_pause(
    call: ToolCall, waiting: ToolCall.State, state: ToolCall.State, *, by: Actor, **values: Any
) -> Turn | None:
    """Move a call out of its pause, inside the caller's transaction, and wake its turn. Return None
    if the call no longer waits."""
    turn = signal_turn(call.turn_id)
    if not move_call(turn, call.pk, state, by=by, was=[waiting], waits_until=None, **values):
        return None
    transaction.on_commit(lambda: wake(turn.pk))
    return turn


def build_acting(call: ToolCall) -> Acting:
    """Return the owner of the call's conversation, for whom it acts."""
    return Acting.of(call.turn.conversation.owner, call.turn.conversation_id)
