"""How members answered attention checks."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, F, Q
from django.utils import timezone

from chatapp.models import AttentionCheck

from .ask_rate import QUICK_SECONDS

State = AttentionCheck.State
MOST_PEOPLE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionStats:
    """The checks of one person, or of all. `quick` counts those allowed within QUICK_SECONDS."""

    label: str
    placed: int
    quick: int
    allowed: int
    denied: int
    expired: int


def measure_attention(since: datetime) -> list[AttentionStats]:
    """Return the checks since that time by person, those who allowed most first, in one
    statement."""
    quick = Q(state=State.ALLOWED, answered_at__lt=F("shown_at") + timedelta(seconds=QUICK_SECONDS))
    late = Q(state=State.OPEN, expires_at__lte=timezone.now())
    rows = (
        AttentionCheck.objects.filter(created_at__gte=since)
        .values_list("person__username")
        .annotate(
            placed=Count("pk"),
            quick=Count("pk", filter=quick),
            allowed=Count("pk", filter=Q(state=State.ALLOWED)),
            denied=Count("pk", filter=Q(state=State.DENIED)),
            expired=Count("pk", filter=Q(state=State.EXPIRED) | late),
        )
        .order_by("-allowed", "person__username")
    )
    return [
        AttentionStats(
            label=name, placed=placed, quick=quick, allowed=allowed, denied=denied, expired=expired
        )
        for name, placed, quick, allowed, denied, expired in rows[:MOST_PEOPLE]
    ]


def sum_attention(rows: Sequence[AttentionStats]) -> AttentionStats:
    return AttentionStats(
        label="",
        placed=sum(each.placed for each in rows),
        quick=sum(each.quick for each in rows),
        allowed=sum(each.allowed for each in rows),
        denied=sum(each.denied for each in rows),
        expired=sum(each.expired for each in rows),
    )
