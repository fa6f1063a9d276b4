"""Rules that would save questions: tools whose calls people always approved, those that save most
first, each for the narrowest groups whose approvals were counted.

A suggestion is a draft. It changes nothing until an admin has tried it and stored it as a rule.
Values that are mail or web addresses are compared by their domain too.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import ceil
from typing import Any, Self
from urllib.parse import urlencode

from django.contrib.auth.models import Group
from django.db.models import Count, Q, QuerySet
from django.utils import timezone

from chatapp.models import Approval, Member, PolicyRule
from chatapp.permissions.hosts import read_address_host, read_mail_host
from chatapp.permissions.lazy import conditions

# With fewer answers, the next one may well differ.
LEAST_APPROVALS = 10
# So many tools are on one page: the values of their calls are compared.
TOOLS_PER_PAGE = 8
MAX_VALUE = 100
MOST_DOMAINS = 3
# A rule for more groups than this is one for nearly everybody.
MOST_GROUPS = 3
State = Approval.State
Key = tuple[int, str, str]  # a service, a tool and a risk


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Whom a rule would be for. Without groups it is for everybody, who are so many `members`;
    `approvers` are the people whose approvals were counted."""

    groups: tuple[Group, ...] = ()
    members: int
    approvers: frozenset[int]

    @property
    def is_wide(self) -> bool:
        """Whether the rule would be for everybody, although not everybody approved: no groups have
        all those people and leave others out."""
        return not self.groups and len(self.approvers) < self.members


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A tool of which every call in this scope was approved. `condition` holds for all those
    calls, and is empty if they have no value in common."""

    service_id: int
    service: str
    tool: str
    risk: str
    approved: int
    scope: Scope
    condition: str = ""
    # How many questions the rule would save a week, if the next weeks are like those looked at.
    per_week: float = 0.0

    @property
    def key(self) -> Key:
        return self.service_id, self.tool, self.risk

    def build_query(self, prefix: str = "") -> str:
        """Return the fields of the drafted rule as the query of a form. The form that adds a row
        reads the groups from one field, the form of a draft from one field each."""
        groups = [group.pk for group in self.scope.groups]
        fields: dict[str, Any] = {
            "effect": PolicyRule.Effect.ALLOW,
            "tool": self.tool,
            "service": self.service_id,
        }
        if self.condition:
            fields["condition"] = self.condition
        if groups:
            fields["groups"] = groups if prefix else ",".join(map(str, groups))
        named = {f"{prefix}{name}": value for name, value in fields.items()}
        return urlencode(named, doseq=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestionPage:
    """The suggestions among the tools of one page, those that save most questions first. A tool
    with a high risk and without a condition is none, so a page may have fewer than another."""

    rows: list[Suggestion]
    number: int = 1
    pages: int = 1

    @property
    def previous(self) -> int:
        return self.number - 1

    @property
    def next(self) -> int:
        return self.number + 1


@dataclass(slots=True)
class _Answers:
    """What one person answered to the calls of one tool."""

    approved: int = 0
    others: int = 0


@dataclass(slots=True)
class _Asked:
    """What people answered to the calls of one tool."""

    service: str
    by_person: dict[int, _Answers] = field(default_factory=dict)


def find_suggestions(since: datetime, *, compares_values: bool, page: int = 1) -> SuggestionPage:
    """Return the suggestions of one page. A tool with a high risk is suggested only with a
    condition, and so only if the values may be compared. The values of all counted calls are read,
    so `since` has to limit how many there are."""
    found = _list_candidates(since)
    pages = max(1, ceil(len(found) / TOOLS_PER_PAGE))
    page = min(max(page, 1), pages)
    shown = found[(page - 1) * TOOLS_PER_PAGE : page * TOOLS_PER_PAGE]
    if compares_values and shown:
        shown = _add_conditions(shown, since)
    rows = [each for each in shown if each.condition or each.risk != "high"]
    return SuggestionPage(rows=rows, number=page, pages=pages)


def _list_candidates(since: datetime) -> list[Suggestion]:
    """Return the tools of services whose calls were all approved, by everybody or by the members
    of a group, without a second approval, and which no rule allows them yet."""
    asked = _count_answers(since)
    if not asked:
        return []
    people = _People.load({person for each in asked.values() for person in each.by_person})
    allowed = _load_allowed()
    weeks = max((timezone.now() - since) / timedelta(weeks=1), 1 / 7)
    found = []
    for (service, tool, risk), each in asked.items():
        scope = people.choose_scope(each.by_person)
        if scope is None or _is_allowed(scope, allowed.get((service, tool), [])):
            continue
        approved = sum(each.by_person[person].approved for person in scope.approvers)
        found.append(
            Suggestion(
                service_id=service,
                service=each.service,
                tool=tool,
                risk=risk,
                approved=approved,
                scope=scope,
                per_week=approved / weeks,
            )
        )
    return sorted(found, key=lambda each: (-each.approved, each.tool, each.service_id))


def _count_answers(since: datetime) -> dict[Key, _Asked]:
    rows = (
        _filter_counted(since)
        .order_by()
        .values_list(
            "tool_call__service_id",
            "tool_call__tool_name",
            "tool_call__risk",
            "tool_call__turn__conversation__owner",
            "tool_call__service__title",
            "tool_call__service__name",
        )
        .annotate(
            approved=Count("pk", filter=Q(state=State.GRANTED)),
            others=Count("pk", filter=~Q(state__in=(State.GRANTED, State.OPEN))),
        )
    )
    found: dict[Key, _Asked] = {}
    for service, tool, risk, person, title, name, approved, others in rows:
        asked = found.setdefault((service, tool, risk), _Asked(service=title or name))
        if approved or others:
            asked.by_person[person] = _Answers(approved=approved, others=others)
    # Leave out the tools that have too few approvals even from all people together.
    return {key: each for key, each in found.items() if _is_enough(each.by_person.values())}


def _filter_counted(since: datetime) -> QuerySet[Approval]:
    """Return the questions that count: those that a rule could have saved."""
    return Approval.objects.filter(
        created_at__gte=since,
        tool_call__service__is_enabled=True,
        is_once_only=False,
        second=None,
    )


def _is_enough(answers: Iterable[_Answers]) -> bool:
    return sum(each.approved for each in answers) >= LEAST_APPROVALS


def _load_allowed() -> dict[tuple[int, str], list[frozenset[int]]]:
    """Return the groups of the rules that allow a tool of a service; none means everybody."""
    rules = PolicyRule.objects.filter(
        effect=PolicyRule.Effect.ALLOW, is_enabled=True, service__isnull=False
    )
    found: dict[tuple[int, str], list[frozenset[int]]] = defaultdict(list)
    for rule in rules.prefetch_related("groups"):
        groups = frozenset(group.pk for group in rule.groups.all())
        found[rule.service_id or 0, rule.tool].append(groups)
    return found


def _is_allowed(scope: Scope, allowed: Iterable[frozenset[int]]) -> bool:
    """Whether a rule is for everybody, or for all groups of the scope."""
    wanted = {group.pk for group in scope.groups}
    return any(not groups or (wanted and wanted <= groups) for groups in allowed)


@dataclass(frozen=True, slots=True, kw_only=True)
class _People:
    """The groups of the people who were asked, the smallest first, and who is in them."""

    active: int
    groups: list[Group]
    asked_in: dict[int, set[int]]

    @classmethod
    def load(cls, asked: Collection[int]) -> Self:
        through = Member.groups.through.objects.filter(member__in=asked)
        asked_in: dict[int, set[int]] = defaultdict(set)
        for group, person in through.values_list("group_id", "member_id"):
            asked_in[group].add(person)
        size = Count("user", filter=Q(user__is_active=True))
        groups = Group.objects.filter(pk__in=asked_in).annotate(size=size).order_by("size", "name")
        active = Member.objects.filter(is_active=True).count()
        return cls(active=active, groups=list(groups), asked_in=asked_in)

    def choose_scope(self, answers: Mapping[int, _Answers]) -> Scope | None:
        """Return the narrowest scope in which all calls were approved, and enough of them."""
        approvers = frozenset(person for person, each in answers.items() if each.approved)
        if not any(each.others for each in answers.values()):
            groups = self._find_cover(approvers) if len(approvers) < self.active else ()
            return self._build(groups, approvers)
        return self._find_unanimous_group(answers)

    def _build(self, groups: Sequence[Group], approvers: frozenset[int]) -> Scope:
        members = sum(map(_get_size, groups)) if groups else self.active
        return Scope(groups=tuple(groups), members=members, approvers=approvers)

    def _find_cover(self, approvers: frozenset[int]) -> Sequence[Group]:
        """Return the smallest group with all these people, or else a few groups that have them
        together; none where that would be no fewer people than all."""
        narrower = [group for group in self.groups if _get_size(group) < self.active]
        for group in narrower:
            if approvers <= self.asked_in[group.pk]:
                return (group,)
        chosen: list[Group] = []
        left = set(approvers)
        while left and len(chosen) < MOST_GROUPS:
            best = max(narrower, key=lambda each: len(left & self.asked_in[each.pk]), default=None)
            if best is None or not left & self.asked_in[best.pk]:
                return ()
            chosen.append(best)
            left -= self.asked_in[best.pk]
        is_narrower = sum(map(_get_size, chosen)) < self.active
        return chosen if not left and is_narrower else ()

    def _find_unanimous_group(self, answers: Mapping[int, _Answers]) -> Scope | None:
        """Return the group whose members approved all of their calls although others did not: the
        one with the most approvals, and of these the smallest."""
        found: list[tuple[int, Group, frozenset[int]]] = []
        for group in self.groups:
            own = {each: answers[each] for each in self.asked_in[group.pk] if each in answers}
            if _is_enough(own.values()) and not any(each.others for each in own.values()):
                approvers = frozenset(person for person, each in own.items() if each.approved)
                found.append((sum(each.approved for each in own.values()), group, approvers))
        if not found:
            return None
        _approved, group, approvers = max(found, key=lambda each: each[0])
        return self._build((group,), approvers)


def _get_size(group: Group) -> int:
    return int(getattr(group, "size", 0))


# --- what the calls had in common ----------------------------------------------------------------
def _add_conditions(found: Sequence[Suggestion], since: datetime) -> list[Suggestion]:
    """Add what the values in all calls of each suggestion had in common. One statement."""
    calls = _load_values(found, since)
    return [replace(each, condition=_find_condition(calls[each.key])) for each in found]


def _load_values(found: Sequence[Suggestion], since: datetime) -> dict[Key, list[Any]]:
    """Return the arguments of all counted calls of these tools that the approvers approved."""
    approvers = {each.key: each.scope.approvers for each in found}
    granted = _filter_counted(since).filter(
        state=State.GRANTED,
        tool_call__service_id__in={each.service_id for each in found},
        tool_call__tool_name__in={each.tool for each in found},
    )
    rows = granted.order_by("-created_at").values_list(
        "tool_call__service_id",
        "tool_call__tool_name",
        "tool_call__risk",
        "tool_call__turn__conversation__owner",
        "tool_call__arguments",
    )
    calls: dict[Key, list[Any]] = defaultdict(list)
    for service, tool, risk, person, arguments in rows.iterator():
        key = (service, tool, risk)
        if person in approvers.get(key, ()):
            calls[key].append(json.loads(arguments))
    return calls


def _find_condition(calls: Sequence[Any]) -> str:
    """Return a condition on what the values in all these calls had in common."""
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
