"""How often tools were used, and how often they failed: counted from the calls themselves, so that
it says what happened."""

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
    """Of the last days. A call whose outcome nobody knows is a use, and no failure."""

    calls: int = 0
    failures: int = 0


def uses_of(
    services: Iterable[int], person: Member | None = None
) -> Mapping[tuple[int, str], Uses]:
    """By service and tool; those of one person, or of everybody."""
    sent = ToolCall.objects.filter(service__in=services)
    mine = sent if person is None else sent.filter(turn__conversation__owner=person)
    return {(service, tool): uses for service, tool, uses in _counted(mine)}


def uses_of_own(person: Member) -> Mapping[str, Uses]:
    """Of our own tools by this person, by name."""
    own = ToolCall.objects.filter(service=None, tool_name__in=list(CORE_TOOLS))
    return {tool: uses for _, tool, uses in _counted(own.filter(turn__conversation__owner=person))}


def _counted(calls: QuerySet[ToolCall]) -> Iterator[tuple[Any, str, Uses]]:
    since = timezone.now() - timedelta(days=DAYS)
    sent = calls.filter(sent_at__gte=since).order_by()
    failed = Count("pk", filter=Q(state=ToolCall.State.FAILED))
    rows = sent.values_list("service", "tool_name").annotate(calls=Count("pk"), failed=failed)
    for service, tool, used, failures in rows:
        yield service, tool, Uses(calls=used, failures=failures)
