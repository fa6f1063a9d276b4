"""Descriptions of rules, limits, tests and second signatures, in a sentence each."""

import json
from collections.abc import Iterable

from django.contrib.auth.models import Group

from chatapp.models import PolicyRule, PolicyTest, SecondSignature, ToolLimit
from chatapp.simulation.policy_tests import WORDS
from mcpconfig.models import Service

OWN_TOOLS_OWNER = "Countersign itself"
VERBS = {"allow": "Lets {} run", "ask": "Asks every time before {} runs", "deny": "Forbids {}"}


def describe_rule(rule: PolicyRule) -> str:
    sentence = VERBS[rule.effect].format(_name_tool(rule.service, rule.tool, is_core=rule.is_core))
    if people := _name_groups(rule.groups.all()):
        sentence += f" for {people}"
    if rule.levels:
        sentence += f", at {' or '.join(rule.levels)} risk"
    if rule.condition:
        sentence += f", if {rule.condition}"
    if rule.wants_typing:
        sentence += "; the person who allows it types the tool’s name"
    if rule.second:
        sentence += f"; somebody signs for “{rule.second}”, too"
    return f"{sentence}."


def describe_limit(limit: ToolLimit) -> str:
    tool = _name_tool(limit.service, limit.tool, "each tool", is_core=limit.is_core)
    who = f"each member of {limit.group}" if limit.group else "each person"
    times = "once" if limit.calls == 1 else f"{limit.calls:,} times"
    return f"Lets {who} use {tool} {times} a day; each further use asks."


def describe_test(test: PolicyTest) -> str:
    values = json.dumps(test.arguments, ensure_ascii=False) if test.arguments else "no values"
    mode = ", in a chat that only plans" if test.mode == PolicyTest.Mode.PLAN else ""
    if test.is_tainted:
        mode += ", after untrusted content"
    tool = _name_tool(test.service, test.tool, is_core=test.service is None)
    return f"{tool} with {values}, for {test.person}{mode}, must {WORDS[test.expected]}."


def _name_tool(
    service: Service | None, tool: str, every: str = "every tool", *, is_core: bool = False
) -> str:
    owner = OWN_TOOLS_OWNER if is_core else service
    if tool:
        return f"“{tool}” of {owner or 'any service'}"
    return f"{every} of {owner}" if owner else every


def _name_groups(groups: Iterable[Group]) -> str:
    names = [group.name for group in groups]
    return f"members of {' or '.join(names)}" if names else ""


def describe_second_signature(second: SecondSignature) -> str:
    sentence = f"A member of {second.approvers} signs within {_count_hours(second.deadline_hours)}"
    if second.escalation is not None and second.escalates_after_hours is not None:
        after = _count_hours(second.escalates_after_hours)
        sentence += f"; after {after} a member of {second.escalation} may sign, too"
    return f"{sentence}."


def _count_hours(count: int) -> str:
    return "an hour" if count == 1 else f"{count:,} hours"
