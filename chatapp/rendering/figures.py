"""What answers took, counted for many turns at once."""

import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime

from chatapp.models import Step, ToolCall, Turn

from .page import Figures


def figures_of(turns: Iterable[Turn]) -> dict[uuid.UUID, Figures]:
    """Each turn's figures by its id, in two queries."""
    known = list(turns)
    made: Counter[uuid.UUID] = Counter()
    worked: dict[uuid.UUID, float] = defaultdict(float)
    steps = Step.objects.filter(turn__in=known)
    for turn_id, tokens, began, ended in steps.values_list(
        "turn_id", "output_tokens", "started_at", "finished_at"
    ):
        made[turn_id] += tokens
        worked[turn_id] += _seconds(began, ended)
    calls = ToolCall.objects.filter(turn__in=known)
    for turn_id, sent, ended in calls.values_list("turn_id", "sent_at", "finished_at"):
        worked[turn_id] += _seconds(sent, ended)
    return {
        turn.pk: Figures(output_tokens=made[turn.pk], seconds=worked[turn.pk]) for turn in known
    }


def _seconds(began: datetime | None, ended: datetime | None) -> float:
    return (ended - began).total_seconds() if began and ended else 0.0
