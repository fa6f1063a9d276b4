"""Rules that would save questions: tools whose calls people always approved, those that save most
first.

A suggestion is a draft. It changes nothing until an admin has tried it and stored it as a rule.
Values that are mail or web addresses are compared by their domain too.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, Q
from django.utils import timezone

from chatapp.models import Approval, PolicyRule
from chatapp.permissions.hosts import read_address_host, read_mail_host
from chatapp.permissions.lazy import conditions

# With fewer answers, the next one may well differ.
LEAST_APPROVALS = 10
MOST_SUGGESTIONS = 5
# The values of so many calls are compared.
MOST_CALLS = 500
MAX_VALUE = 100
# Values are compared of so many tools, with a statement for each.
MOST_COMPARED = 8
MOST_DOMAINS = 3
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
    # How many questions the rule would save a week, if the next weeks are like those looked at.
    per_week: float = 0.0

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
    weeks = max((timezone.now() - since) / timedelta(weeks=1), 1 / 7)
    for row in _count_approved(since)[:MOST_COMPARED]:
        condition = _find_condition(row, since) if compares_values else ""
        if condition or row["risk"] != "high":
            found.append(_build(row, condition, row["approved"] / weeks))
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


def _build(row: dict[str, Any], condition: str, per_week: float) -> Suggestion:
    return Suggestion(
        service_id=row["service_id"],
        service=row["service__title"] or row["service__name"],
        tool=row["tool_name"],
        risk=row["risk"],
        approved=row["approved"],
        condition=condition,
        per_week=per_week,
    )


def _find_condition(row: dict[str, Any], since: datetime) -> str:
    """Return a condition on what the values in all these calls had in common."""
    granted = Approval.objects.filter(created_at__gte=since, state=State.GRANTED).filter(
        tool_call__service_id=row["service_id"],
        tool_call__tool_name=row["tool_name"],
        tool_call__risk=row["risk"],
    )
    texts = granted.order_by("-created_at").values_list("tool_call__arguments", flat=True)
    calls = [json.loads(text) for text in texts[:MOST_CALLS]]
    if not calls or not all(isinstance(values, dict) for values in calls):
        return ""
    parts = []
    for name, first in calls[0].items():
        values = [call[name] for call in calls if name in call]
        if len(values) == len(calls):
            is_same = all(each == first and type(each) is type(first) for each in values)
            part = _write_part(name, first) if is_same else ""
            parts.append(part or _write_domains(name, values))
    return _join_parts(part for part in parts if part)


def _join_parts(parts: Iterable[str]) -> str:
    """Join as many parts as a condition has room for. With fewer, the rule would allow more, so
    there is no condition then."""
    joined = " and ".join(parts)
    return joined if len(joined) <= conditions.MAX_CHARACTERS else ""


def _write_domains(name: str, values: Sequence[object]) -> str:
    """Return a condition on the domain of addresses that were at few domains, or nothing."""
    for function, read in (("mail_domain", _read_mail_domain), ("host", _read_web_host)):
        found = {read(value) for value in values}
        if "" in found or len(found) > MOST_DOMAINS:
            continue
        known = [f'"{domain}"' for domain in sorted(found)]
        compared = f"== {known[0]}" if len(known) == 1 else f"in [{', '.join(known)}]"
        part = f"${function}({name}) {compared}"
        if name.isidentifier() and all(_holds(part, {name: value}) for value in values):
            return part
    return ""


def _read_mail_domain(value: object) -> str:
    return _read_one(value, lambda text: read_mail_host(text).removeprefix("@"))


def _read_web_host(value: object) -> str:
    """Return the host of an address with a scheme. Without one, it could be any dotted name."""
    return _read_one(value, lambda text: read_address_host(text) if "://" in text else "")


def _read_one(value: object, read: Callable[[str], str]) -> str:
    """Return the domain of a text, or that of all texts of a list; empty if there is not one."""
    texts = value if isinstance(value, list) else [value]
    found = {read(text) if isinstance(text, str) else "" for text in texts}
    return found.pop() if len(found) == 1 else ""


def _write_part(name: str, value: object) -> str:
    """Return `name == value`, or nothing where a condition could not say it plainly."""
    if isinstance(value, bool | int):
        literal = json.dumps(value)
    elif isinstance(value, str) and _is_plain(value):
        literal = f'"{value}"'
    else:
        return ""
    part = f"{name} == {literal}"
    # It does not hold where the language has a meaning of its own for the name, such as null.
    return part if name.isidentifier() and _holds(part, {name: value}) else ""


def _holds(part: str, arguments: dict[str, Any]) -> bool:
    try:
        conditions.check_condition(part)
        return conditions.is_met(part, arguments)
    except (conditions.BadCondition, conditions.Undecidable):
        return False


def _is_plain(text: str) -> bool:
    return text.isprintable() and len(text) <= MAX_VALUE and not set('"\\') & set(text)
