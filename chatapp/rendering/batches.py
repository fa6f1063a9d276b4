"""What pages show where several calls wait at once: each card's number, and one form for them."""

from dataclasses import dataclass
from typing import Any

from chatapp.models import Approval, ToolCall, Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """Which one of several calls that were asked about together this is."""

    own: int
    of: int


def number_of(call: ToolCall) -> Number | None:
    """The call's number in its step; it stays while the others are answered. None for a call that
    was asked about alone."""
    asked = ToolCall.objects.filter(turn=call.turn_id, step=call.step, approval__isnull=False)
    ids = list(asked.order_by("position").values_list("pk", flat=True))
    return Number(own=ids.index(call.pk) + 1, of=len(ids)) if len(ids) > 1 else None


def panel_of(turn: Turn) -> dict[str, Any] | None:
    """The form that answers several calls of a waiting turn; None where fewer than two wait for
    their person's approval."""
    if turn.state != Turn.State.WAITING:
        return None
    waiting = Approval.objects.filter(
        tool_call__turn=turn, state=Approval.State.OPEN, first_at=None
    ).select_related("tool_call")
    may_run = [approval.may_be_batched for approval in waiting]
    if len(may_run) < 2:
        return None
    return {
        "count": len(may_run),
        "may_run": sum(may_run),
        "alone": len(may_run) - sum(may_run),
        "chat": turn.conversation_id,
    }
