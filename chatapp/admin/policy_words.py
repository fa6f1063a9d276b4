"""What rules, limits and tests say, in a sentence for an admin."""

import json
from collections.abc import Iterable

from django.contrib.auth.models import Group

from chatapp.models import PolicyRule, PolicyTest, SecondSignature, ToolLimit
from chatapp.turns.policy_tests import WORDS
from mcpconfig.models import Service

OURSELVES = "Countersign itself"
VERBS = {"allow": "Lets {} run", "ask": "Asks every time before {} runs", "deny": "Forbids {}"}


def sentence_of_rule(rule: PolicyRule) -> str:
    said = VERBS[rule.effect].format(_which(rule.service, rule.tool, is_core=rule.is_core))
    if people := _people(rule.groups.all()):
        said += f" for {people}"
    if rule.levels:
        said += f", at {' or '.join(rule.levels)} risk"
    if rule.condition:
        said += f", if {rule.condition}"
    if rule.wants_typing:
        said += "; whoever allows it types the tool’s name"
    if rule.second:
        said += f"; somebody signs for “{rule.second}”, too"
    return f"{said}."


def sentence_of_limit(limit: ToolLimit) -> str:
    which = _which(limit.service, limit.tool, "each tool", is_core=limit.is_core)
    who = f"each member of {limit.group}" if limit.group else "each person"
    times = "once" if limit.calls == 1 else f"{limit.calls:,} times"
    return f"Lets {who} use {which} {times} a day; each further use asks."


def sentence_of_test(test: PolicyTest) -> str:
    values = json.dumps(test.arguments, ensure_ascii=False) if test.arguments else "no values"
    plans = ", in a chat that only plans" if test.mode == PolicyTest.Mode.PLAN else ""
    tool = _which(test.service, test.tool, is_core=test.service is None)
    return f"{tool} with {values}, for {test.person}{plans}, must {WORDS[test.expected]}."


def _which(
    service: Service | None, tool: str, every: str = "every tool", *, is_core: bool = False
) -> str:
    whose = OURSELVES if is_core else service
    if tool:
        return f"“{tool}” of {whose or 'any service'}"
    return f"{every} of {whose}" if whose else every


def _people(groups: Iterable[Group]) -> str:
    names = [group.name for group in groups]
    return f"members of {' or '.join(names)}" if names else ""


def sentence_of_second(second: SecondSignature) -> str:
    said = f"A member of {second.approvers} signs within {_hours(second.deadline_hours)}"
    if second.escalation is not None and second.escalates_after_hours is not None:
        after = _hours(second.escalates_after_hours)
        said += f"; after {after} a member of {second.escalation} may sign, too"
    return f"{said}."


def _hours(count: int) -> str:
    return "an hour" if count == 1 else f"{count:,} hours"
