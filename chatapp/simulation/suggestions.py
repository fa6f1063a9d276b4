"""Rules that would save questions: tools whose calls people always approved.

A suggestion is a draft. It changes nothing until an admin has tried it and stored it as a rule.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, Q

from chatapp.models import Approval, PolicyRule
from chatapp.permissions.lazy import conditions

# With fewer answers, the next one may well differ.
LEAST_APPROVALS = 10
MOST_SUGGESTIONS = 5
# The values of so many calls are compared.
MOST_CALLS = 500
MAX_VALUE = 100
State = Approval.State


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A tool of which every call was approved. `condition` holds for all those calls, and is empty
    if they have no value in common."""

    service_id: int
    service: str
    tool: str
    risk: str
    approved: int
    condition: str

    def build_query(self, prefix: str = "") -> str:
        """Return the fields of the drafted rule as the query of a form."""
        fields = {"effect": PolicyRule.Effect.ALLOW, "tool": self.tool, "service": self.service_id}
        if self.condition:
            fields["condition"] = self.condition
        return urlencode({f"{prefix}{name}": value for name, value in fields.items()})


def list_suggestions(since: datetime, *, compares_values: bool) -> list[Suggestion]:
    """Return the suggestions that save most questions. A tool with a high risk is suggested only
    with a condition, and so only if the values may be compared."""
    found = []
    for row in _count_approved(since):
        condition = _find_condition(row, since) if compares_values else ""
        if condition or row["risk"] != "high":
            found.append(_build(row, condition))
        if len(found) == MOST_SUGGESTIONS:
            break
    return found


def _count_approved(since: datetime) -> Sequence[dict[str, Any]]:
    """Return the tools of services whose calls were all approved, without a second approval, and
    which no rule allows yet."""
    allowed = PolicyRule.objects.filter(effect=PolicyRule.Effect.ALLOW, is_enabled=True)
    names = set(allowed.values_list("service_id", "tool"))
    rows = (
        Approval.objects.filter(created_at__gte=since, tool_call__service__is_enabled=True)
        .filter(is_once_only=False, second=None)
        .values(
            "tool_call__service_id",
            "tool_call__service__title",
            "tool_call__service__name",
            "tool_call__tool_name",
            "tool_call__risk",
        )
        .annotate(
            approved=Count("pk", filter=Q(state=State.GRANTED)),
            others=Count("pk", filter=~Q(state__in=(State.GRANTED, State.OPEN))),
        )
        .filter(approved__gte=LEAST_APPROVALS, others=0)
        .order_by("-approved", "tool_call__tool_name")
    )
    named = [
        {name.removeprefix("tool_call__"): value for name, value in row.items()} for row in rows
    ]
    return [row for row in named if (row["service_id"], row["tool_name"]) not in names]


def _build(row: dict[str, Any], condition: str) -> Suggestion:
    return Suggestion(
        service_id=row["service_id"],
        service=row["service__title"] or row["service__name"],
        tool=row["tool_name"],
        risk=row["risk"],
        approved=row["approved"],
        condition=condition,
    )


def _find_condition(row: dict[str, Any], since: datetime) -> str:
    """Return a condition on the values that were the same in all these calls."""
    granted = Approval.objects.filter(created_at__gte=since, state=State.GRANTED).filter(
        tool_call__service_id=row["service_id"],
        tool_call__tool_name=row["tool_name"],
        tool_call__risk=row["risk"],
    )
    texts = granted.order_by("-created_at").values_list("tool_call__arguments", flat=True)
    common: dict[str, object] | None = None
    for text in texts[:MOST_CALLS]:
        values = json.loads(text)
        if not isinstance(values, dict):
            return ""
        same = values if common is None else common
        common = {
            name: value
            for name, value in same.items()
            if name in values and values[name] == value and type(values[name]) is type(value)
        }
    parts = [_write_part(name, value) for name, value in (common or {}).items()]
    return " and ".join(part for part in parts if part)


def _write_part(name: str, value: object) -> str:
    """Return `name == value`, or nothing where a condition could not say it plainly."""
    if isinstance(value, bool | int):
        literal = json.dumps(value)
    elif isinstance(value, str) and _is_plain(value):
        literal = f'"{value}"'
    else:
        return ""
    part = f"{name} == {literal}"
    try:
        conditions.check_condition(part)
        # It is not where the language has a meaning of its own for the name, such as null.
        holds = name.isidentifier() and conditions.is_met(part, {name: value})
    except (conditions.BadCondition, conditions.Undecidable):
        return ""
    return part if holds else ""


def _is_plain(text: str) -> bool:
    return text.isprintable() and len(text) <= MAX_VALUE and not set('"\\') & set(text)
