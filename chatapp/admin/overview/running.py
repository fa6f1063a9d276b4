"""How many turns run, wait and have no worker now, and how many processes report."""

from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Q, Value
from django.db.models.functions import Now

from chatapp.background.heartbeat import DEAD_AFTER
from chatapp.journal.lease import is_free
from chatapp.models import Turn, Worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    running: int = 0
    queued: int = 0
    waiting: int = 0
    abandoned: int = 0
    workers: int = 0
    busy: int = 0


def count_running() -> Running:
    """Count in one statement. `workers` are the processes that report; the `busy` ones had a turn
    or a task at that moment."""
    State = Turn.State
    is_running = Q(state=State.RUNNING)
    turns = (
        Turn.objects.filter(state__in=Turn.LIVE)
        .order_by()
        .values(of=Value("turns"))
        .annotate(
            running=Count("pk", filter=is_running),
            queued=Count("pk", filter=Q(state=State.QUEUED)),
            waiting=Count("pk", filter=Q(state=State.WAITING)),
            abandoned=Count("pk", filter=is_running & is_free()),
        )
    )
    nothing = Count("pk", filter=Q(pk=None))
    workers = (
        Worker.objects.filter(beat_at__gte=Now() - DEAD_AFTER)
        .order_by()
        .values(of=Value("workers"))
        .annotate(
            running=Count("pk"),
            queued=Count("pk", filter=Q(turns__gt=0) | Q(runs_task=True)),
            waiting=nothing,
            abandoned=nothing,
        )
    )
    rows: Any = turns.union(workers, all=True)
    found: dict[str, dict[str, int]] = {row.pop("of"): row for row in rows}
    # The columns of the second part have the names of those of the first.
    alive = found.get("workers", {"running": 0, "queued": 0})
    return Running(**found.get("turns", {}), workers=alive["running"], busy=alive["queued"])
