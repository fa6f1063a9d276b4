"""The sweep: finds turns without a worker, and closes what has expired. Work that no turn waits for
is a task (`chatapp/background`)."""

import uuid

from django.db import transaction
from django.db.models.functions import Now

from chatapp.approvals.questions import approve_postponed_calls, expire_questions
from chatapp.approvals.reviews import expire_reviews
from chatapp.approvals.sign_ins import approve_missed_sign_ins, expire_sign_ins
from chatapp.calls.transitions import Actor, move_call
from chatapp.journal.journal import signal_turn
from chatapp.journal.lease import is_free
from chatapp.models import Approval, ToolCall, Turn

State = ToolCall.State


def find_abandoned_turns() -> list[uuid.UUID]:
    """Return the turns that have something to do and no worker."""
    waiting_to_run = [Turn.State.QUEUED, Turn.State.RUNNING]
    return list(
        Turn.objects.filter(is_free(), state__in=waiting_to_run)
        .order_by("created_at")
        .values_list("pk", flat=True)[:100]
    )


def queue_unsettled() -> None:
    """Queue turns that wait although one of their calls is `sending`: the next worker settles that
    call."""
    unsettled = Turn.objects.filter(state=Turn.State.WAITING, tool_calls__state=State.SENDING)
    for turn_id in set(unsettled.values_list("pk", flat=True)[:100]):
        with transaction.atomic():
            signal_turn(turn_id)


def find_stopped_turns(turn_ids: list[uuid.UUID]) -> list[uuid.UUID]:
    """Return those of these turns that a person has stopped."""
    return list(
        Turn.objects.filter(pk__in=turn_ids, stop_requested=True).values_list("pk", flat=True)
    )


def find_cancelled_calls(call_ids: list[uuid.UUID]) -> list[uuid.UUID]:
    """Return those of these calls that a person has cancelled."""
    asked = ToolCall.objects.filter(pk__in=call_ids, cancel_requested=True)
    return list(asked.values_list("pk", flat=True))


def expire_approvals() -> None:
    """Expire the approvals whose time has run out. Their calls do not run."""
    late = Approval.objects.filter(state=Approval.State.OPEN, expires_at__lte=Now())
    for approval in late.select_related("tool_call")[:100]:
        _expire(approval)


def _expire(approval: Approval) -> None:
    call = approval.tool_call
    with transaction.atomic():
        turn = signal_turn(call.turn_id)
        closed = Approval.objects.filter(pk=approval.pk, state=Approval.State.OPEN).update(
            state=Approval.State.EXPIRED, decided_at=Now()
        )
        if not closed:
            return
        move_call(
            turn,
            call.pk,
            State.EXPIRED,
            by=Actor.SWEEP,
            was=[State.AWAITING_APPROVAL],
            finished_at=Now(),
        )


# What the sweep does beside taking abandoned turns.
JOBS = (
    queue_unsettled,
    expire_approvals,
    expire_reviews,
    approve_missed_sign_ins,
    expire_sign_ins,
    expire_questions,
    approve_postponed_calls,
)
