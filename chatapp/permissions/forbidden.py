"""Which tools the rules forbid to a person for all arguments and in every state of a turn. They
need not be offered to a model."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Protocol

from chatapp.permissions.risk_evidence import Level

from .risk import Risk
from .rules import AdminRule, PersonFacts, Rule

Denials = Mapping[tuple[str | None, str | None], list[frozenset[Level]]]


class JudgedTool(Protocol):
    """The attributes of a tool that count here. The service of a core tool is `OWN_TOOLS`."""

    @property
    def service_name(self) -> str: ...
    @property
    def tool_name(self) -> str: ...
    @property
    def risk(self) -> Risk: ...


def find_forbidden(
    tools: Mapping[str, JudgedTool], rules: Iterable[Rule], person: PersonFacts
) -> frozenset[str]:
    """Return the ids of the tools that `decide` always denies to this person.

    A rule with a condition forbids no tool, because it may let a call pass. A raised risk keeps its
    own level, so a rule for the unraised level still counts.
    """
    denied = _collect_denials(rules, person)
    if not denied:
        return frozenset()
    return frozenset(name for name, tool in tools.items() if _is_forbidden(tool, denied))


def _collect_denials(rules: Iterable[Rule], person: PersonFacts) -> Denials:
    """Return the levels that rules deny, keyed by service and tool."""
    denied = defaultdict(list)
    for rule in rules:
        if not isinstance(rule, AdminRule) or rule.effect != "deny" or rule.condition:
            continue
        if not rule.groups or rule.groups & person.groups:
            denied[rule.service, rule.tool].append(rule.levels)
    return denied


def _is_forbidden(tool: JudgedTool, denied: Denials) -> bool:
    service, name = tool.service_name, tool.tool_name
    places = ((service, name), (service, None), (None, name), (None, None))
    said = (levels for place in places for levels in denied.get(place, ()))
    return any(not levels or tool.risk.level in levels for levels in said)
