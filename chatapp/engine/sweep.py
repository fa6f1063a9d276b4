"""The sweep: finds what no worker has in hand, so that no turn waits for a process that is gone."""

import uuid
from datetime import timedelta

from django.db import transaction
from django.db.models.functions import Now

from chatapp.models import Approval, JournalEvent, Step, ToolCall, Turn

from . import journal
from .ending import signal
from .lease import is_free
from .log_of_changes import note_lapsed
from .person_signals import clear_signals
from .questions import ask_again_later, expire_questions
from .reviews import expire_reviews
from .sign_ins import expire_sign_ins, notice_sign_ins

KEPT = timedelta(minutes=1)
State = ToolCall.State


def abandoned_turns() -> list[uuid.UUID]:
    """Turns with something to do and nobody who does it."""
    waiting_to_run = [Turn.State.QUEUED, Turn.State.RUNNING]
    return list(
        Turn.objects.filter(is_free(), state__in=waiting_to_run)
        .order_by("created_at")
        .values_list("pk", flat=True)[:100]
    )


def queue_unsettled() -> None:
    """A turn that waits although a call of it is `sending` has nobody who will say what became of
    that call: the next worker does, as with any call that it finds so."""
    unsettled = Turn.objects.filter(state=Turn.State.WAITING, tool_calls__state=State.SENDING)
    for turn_id in set(unsettled.values_list("pk", flat=True)[:100]):
        with transaction.atomic():
            signal(turn_id)


def stopped_turns(turn_ids: list[uuid.UUID]) -> list[uuid.UUID]:
    """Of these turns, the ones that somebody asked to stop."""
    return list(
        Turn.objects.filter(pk__in=turn_ids, stop_requested=True).values_list("pk", flat=True)
    )


def cancelled_calls(call_ids: list[uuid.UUID]) -> list[uuid.UUID]:
    """Of these calls, the ones that somebody asked to cancel."""
    asked = ToolCall.objects.filter(pk__in=call_ids, cancel_requested=True)
    return list(asked.values_list("pk", flat=True))


def expire_approvals() -> None:
    """Close the approvals whose time ran out; silence never runs anything."""
    late = Approval.objects.filter(state=Approval.State.OPEN, expires_at__lte=Now())
    for approval in late.select_related("tool_call")[:100]:
        _expire(approval)


def _expire(approval: Approval) -> None:
    call = approval.tool_call
    with transaction.atomic():
        turn = signal(call.turn_id)
        closed = Approval.objects.filter(pk=approval.pk, state=Approval.State.OPEN).update(
            state=Approval.State.EXPIRED, decided_at=Now()
        )
        if not closed:
            return
        ToolCall.objects.filter(pk=call.pk, state=State.AWAITING_APPROVAL).update(
            state=State.EXPIRED, finished_at=Now()
        )
        journal.tell_call(turn, call.pk, State.EXPIRED)


def clear_journal() -> None:
    """Drop events whose words are in parts by now; tabs that are further behind are sent the
    state."""
    calling = Step.objects.filter(state=Step.State.CALLING).values("turn_id")
    JournalEvent.objects.filter(created_at__lt=Now() - KEPT).exclude(turn_id__in=calling).delete()


# What the sweep does beside taking up abandoned turns.
JOBS = (
    queue_unsettled,
    expire_approvals,
    expire_reviews,
    notice_sign_ins,
    expire_sign_ins,
    expire_questions,
    ask_again_later,
    note_lapsed,
    clear_journal,
    clear_signals,
)
