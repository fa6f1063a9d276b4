"""The sweep: finds what no worker has in hand, so that no turn waits for a process that is gone."""

import uuid
from datetime import timedelta

from django.db import transaction
from django.db.models.functions import Now

from chatapp.models import Approval, JournalEvent, Step, ToolCall, Turn

from . import journal
from .ending import signal
from .lease import is_free

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


def stopped_turns(turn_ids: list[uuid.UUID]) -> list[uuid.UUID]:
    """Of these turns, the ones that somebody asked to stop."""
    return list(
        Turn.objects.filter(pk__in=turn_ids, stop_requested=True).values_list("pk", flat=True)
    )


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
        entry = journal.call_entry(call.pk, turn.answer_id, State.EXPIRED)
        journal.append(turn.conversation_id, turn.pk, [entry])


def clear_journal() -> None:
    """Drop events whose words are in parts by now; tabs that are further behind are sent the
    state."""
    calling = Step.objects.filter(state=Step.State.CALLING).values("turn_id")
    JournalEvent.objects.filter(created_at__lt=Now() - KEPT).exclude(turn_id__in=calling).delete()
