"""Which tools rules forbid to a person whatever the values are and whatever came before a call, so
that offering them would be of no use."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Protocol

from .findings import Level
from .risk import Risk
from .rules import AdminRule, PersonFacts, Rule

Denied = Mapping[tuple[str | None, str | None], list[frozenset[Level]]]


class Judged(Protocol):
    """What is looked at of a tool. The service of our own tools is `OWN_TOOLS`."""

    @property
    def service_name(self) -> str: ...
    @property
    def tool_name(self) -> str: ...
    @property
    def risk(self) -> Risk: ...


def forbidden_among(
    tools: Mapping[str, Judged], rules: Iterable[Rule], person: PersonFacts
) -> frozenset[str]:
    """The ids of the tools that `decide` denies to this person in any case. A rule with a condition
    may let a call pass, so it forbids none of them; a risk that is raised keeps its own level."""
    denied = _denied(rules, person)
    if not denied:
        return frozenset()
    return frozenset(name for name, tool in tools.items() if _is_forbidden(tool, denied))


def _denied(rules: Iterable[Rule], person: PersonFacts) -> Denied:
    """The levels that are denied, by service and tool."""
    denied = defaultdict(list)
    for rule in rules:
        if not isinstance(rule, AdminRule) or rule.effect != "deny" or rule.condition:
            continue
        if not rule.groups or rule.groups & person.groups:
            denied[rule.service, rule.tool].append(rule.levels)
    return denied


def _is_forbidden(tool: Judged, denied: Denied) -> bool:
    service, name = tool.service_name, tool.tool_name
    places = ((service, name), (service, None), (None, name), (None, None))
    said = (levels for place in places for levels in denied.get(place, ()))
    return any(not levels or tool.risk.level in levels for levels in said)
