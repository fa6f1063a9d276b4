"""How many turns run, wait and have no worker now."""

from dataclasses import dataclass

from django.db.models import Count, Q

from chatapp.journal.lease import is_free
from chatapp.models import Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    running: int = 0
    queued: int = 0
    waiting: int = 0
    abandoned: int = 0
    workers: int = 0


def count_running() -> Running:
    """Count in one statement. `workers` are those that have a turn."""
    State = Turn.State
    is_running = Q(state=State.RUNNING)
    counts = Turn.objects.filter(state__in=Turn.LIVE).aggregate(
        running=Count("pk", filter=is_running),
        queued=Count("pk", filter=Q(state=State.QUEUED)),
        waiting=Count("pk", filter=Q(state=State.WAITING)),
        abandoned=Count("pk", filter=is_running & is_free()),
        workers=Count("lease_owner", distinct=True, filter=is_running & ~is_free()),
    )
    return Running(**counts)
