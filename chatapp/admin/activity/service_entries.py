"""The log entries about one service, under each name that it had."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import JSONField, Q, QuerySet, TextField
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from chatapp.models import LogEntry
from mcpconfig.admin.big_lists import MOST_SEARCHED

Kind = LogEntry.Kind
CHANGES = (Kind.SERVICE, Kind.TOOL)
SIGN_INS = (Kind.CONNECTED, Kind.DISCONNECTED)
# Of a service that was renamed more often, the entries under its latest names are found.
MOST_NAMES = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class NamePeriod:
    """The entries in which a service has this name: from the position `first` to before `end`,
    which is None for its present name."""

    name: str
    first: int
    end: int | None


def list_changes_of_services() -> tuple[QuerySet[LogEntry], bool]:
    """Return the newest MOST_SEARCHED entries about changes of any service and its sign-ins, and
    whether there are more."""
    return keep_newest(LogEntry.objects.filter(kind__in=(*CHANGES, *SIGN_INS)))


def keep_newest(entries: QuerySet[LogEntry]) -> tuple[QuerySet[LogEntry], bool]:
    """Return the newest MOST_SEARCHED of these entries, and whether there are more. No index has
    the names of services."""
    entries = entries.order_by("-position")
    positions = entries.values_list("position", flat=True)
    oldest = positions[MOST_SEARCHED - 1 : MOST_SEARCHED].first()
    if oldest is None:
        return entries, False
    return entries.filter(position__gte=oldest), True


def find_names(name: str, changes: QuerySet[LogEntry]) -> list[NamePeriod]:
    """Return when the service that has this name now had which name, from the present one back.

    An entry keeps the name of its time. Another service may have had that name before or after, so
    that entries under a name count only while this service had it.
    """
    periods: list[NamePeriod] = []
    end: int | None = None
    while name and len(periods) < MOST_NAMES:
        first, earlier = _find_naming(name, changes, end)
        periods.append(NamePeriod(name=name, first=first, end=end))
        name, end = earlier, first
    return periods


def _find_naming(name: str, changes: QuerySet[LogEntry], end: int | None) -> tuple[int, str]:
    """Return where a service got this name last before `end`, 0 if no entry says it, and the name
    that it had before, which is empty if it was added then."""
    before = Q() if end is None else Q(position__lt=end)
    # As text, because few entries are about names. A name is a slug, so JSON writes it as it is.
    entry = changes.filter(
        before,
        kind=Kind.SERVICE,
        data__contains=f'"name":{{"after":"{name}","before":',
    ).filter(data__contains=f'"of":"service {name}"')
    found: LogEntry | None = entry.first()
    if found is None:
        return 0, ""
    changed: dict[str, Any] = json.loads(found.data)["changed"]
    return found.position, changed["name"]["before"] or ""


def filter_by_names(
    entries: QuerySet[LogEntry], periods: Sequence[NamePeriod]
) -> QuerySet[LogEntry]:
    """Return the entries that name the service: calls, trials, permissions, sign-ins, and changes
    of the service and its tools. No value that may be hidden is compared."""
    data = Cast("data", JSONField())
    # As text, because a key of JSON is compared with JSON.
    named = entries.annotate(
        named_service=Cast(KeyTextTransform("service", data), TextField()),
        named_of=Cast(KeyTextTransform("of", data), TextField()),
    )
    found = Q(pk__in=())
    for period in periods:
        name = period.name
        of_changes = Q(named_of__in=[f"service {name}", f"credentials of {name}"])
        of_changes |= Q(named_of__endswith=f"” of {name}")
        is_of_service = Q(named_service=name) | (Q(kind__in=CHANGES) & of_changes)
        during = Q(position__gte=period.first)
        if period.end is not None:
            during &= Q(position__lt=period.end)
        found |= during & is_of_service
    return named.filter(found)
