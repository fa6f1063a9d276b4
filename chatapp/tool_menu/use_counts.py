"""How often tools were used and failed, counted from the calls."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import Count, Q, QuerySet
from django.utils import timezone

from chatapp.models import Member, ToolCall
from chatapp.tools.core import CORE_TOOLS

DAYS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Uses:
    """Uses within the last days. A call with an unknown outcome counts as a use, not as a
    failure."""

    calls: int = 0
    failures: int = 0


def count_uses(
    services: Iterable[int], person: Member | None = None
) -> Mapping[tuple[int, str], Uses]:
    """Return the uses by service and tool, of one person or of everybody."""
    sent = ToolCall.objects.filter(service__in=services)
    mine = sent if person is None else sent.filter(turn__conversation__owner=person)
    return {(service, tool): uses for service, tool, uses in _count_by_tool(mine)}


def count_own_uses(person: Member) -> Mapping[str, Uses]:
    """Return this person's uses of core tools by name."""
    own = ToolCall.objects.filter(service=None, tool_name__in=list(CORE_TOOLS))
    return {
        tool: uses for _, tool, uses in _count_by_tool(own.filter(turn__conversation__owner=person))
    }


def _count_by_tool(calls: QuerySet[ToolCall]) -> Iterator[tuple[Any, str, Uses]]:
    since = timezone.now() - timedelta(days=DAYS)
    sent = calls.filter(sent_at__gte=since).order_by()
    failed = Count("pk", filter=Q(state=ToolCall.State.FAILED))
    rows = sent.values_list("service", "tool_name").annotate(calls=Count("pk"), failed=failed)
    for service, tool, used, failures in rows:
        yield service, tool, Uses(calls=used, failures=failures)
