"""Confirmed tools that nobody has called for a long time. Each costs tokens in every request and
could be called by mistake."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.utils import timezone

from chatapp.models import ToolCall
from mcpconfig.models import ToolDefinition, ToolSetting
from mcpconfig.values.numbers import read_number
from mcpconfig.values.tool_tokens import estimate_tool_tokens

UNUSED_DAYS = 60
MOST_SHOWN = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusedTool:
    definition: ToolDefinition
    tokens: int


def read_definition_ids(values: Iterable[str]) -> list[int]:
    """Return the ids of definitions that a page named, as many as it can show."""
    ids = map(read_number, values)
    return [each for each in ids if each is not None][:MOST_SHOWN]


def filter_unused() -> QuerySet[ToolDefinition]:
    """Return the definitions that were confirmed and switched on, and not called, for as long. One
    that changed or was switched on again meanwhile is left out."""
    since = timezone.now() - timedelta(days=UNUSED_DAYS)
    confirmed = ToolSetting.objects.filter(
        Q(switched_on_at=None) | Q(switched_on_at__lt=since),
        service=OuterRef("service"),
        name=OuterRef("name"),
        confirmed_hash=OuterRef("hash"),
        is_enabled=True,
    )
    used = ToolCall.objects.filter(definition=OuterRef("pk"), turn__created_at__gte=since)
    known = ToolDefinition.objects.filter(
        is_current=True, first_seen_at__lt=since, service__is_enabled=True
    )
    return known.filter(Exists(confirmed), ~Exists(used.order_by()))


def list_unused() -> tuple[list[UnusedTool], int]:
    """Return the unused tools, by service and name, and the number of all."""
    unused = filter_unused()
    ordered = unused.select_related("service").order_by(F("service__name"), "name")
    shown = [
        UnusedTool(definition=each, tokens=estimate_tool_tokens([each]))
        for each in ordered[:MOST_SHOWN]
    ]
    return shown, unused.count() if len(shown) == MOST_SHOWN else len(shown)
