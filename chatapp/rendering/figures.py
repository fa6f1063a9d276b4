"""What answers took and cost, counted for many turns at once."""

import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal

from chatapp.models import Step, ToolCall, Turn

from .page import Figures


def figures_of(turns: Iterable[Turn]) -> dict[uuid.UUID, Figures]:
    """Each turn's figures by its id, in two queries."""
    known = list(turns)
    made: Counter[uuid.UUID] = Counter()
    spent: dict[uuid.UUID, dict[str, Decimal]] = defaultdict(dict)
    worked: dict[uuid.UUID, float] = defaultdict(float)
    steps = Step.objects.filter(turn__in=known)
    for turn_id, said, noted, began, ended, cost, currency in steps.values_list(
        *("turn_id", "output_tokens", "summary_output_tokens"),
        *("started_at", "finished_at", "cost", "currency"),
    ):
        made[turn_id] += said + noted
        worked[turn_id] += _seconds(began, ended)
        if cost:
            spent[turn_id][currency] = spent[turn_id].get(currency, Decimal(0)) + cost
    calls = ToolCall.objects.filter(turn__in=known)
    for turn_id, sent, ended in calls.values_list("turn_id", "sent_at", "finished_at"):
        worked[turn_id] += _seconds(sent, ended)
    return {
        turn.pk: Figures(
            output_tokens=made[turn.pk],
            seconds=worked[turn.pk],
            costs=costs_of(spent[turn.pk]),
        )
        for turn in known
    }


def costs_of(spent: Mapping[str, Decimal]) -> tuple[tuple[Decimal, str], ...]:
    """Money by currency, rounded to what people read: two digits that count."""
    return tuple((_readable(cost), currency) for currency, cost in sorted(spent.items()))


def _readable(cost: Decimal) -> Decimal:
    if cost >= 1:
        return cost.quantize(Decimal("0.01"))
    digits = max(2, 1 - cost.adjusted()) if cost else 2
    return cost.quantize(Decimal(1).scaleb(-digits))


def _seconds(began: datetime | None, ended: datetime | None) -> float:
    return (ended - began).total_seconds() if began and ended else 0.0
