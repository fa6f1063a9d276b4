"""Descriptions of rules, limits, tests and second-approval requirements, in short sentences."""

import json
from collections.abc import Iterable

from django.contrib.auth.models import Group
from django.contrib.humanize.templatetags.humanize import intcomma
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext

from chatapp.models import PolicyRule, PolicyTest, SecondSignature, ToolLimit
from chatapp.models.policy.policy import LEVEL_LABELS
from chatapp.simulation.policy_tests import WORDS
from mcpconfig.models import Service

OWN_TOOLS_OWNER = "Countersign"
EFFECTS = {
    "allow": _lazy("Lets %(tool)s run."),
    "ask": _lazy("Asks every time before %(tool)s runs."),
    "deny": _lazy("Refuses %(tool)s."),
}


def describe_rule(rule: PolicyRule) -> str:
    return " ".join(list_rule_sentences(rule, rule.groups.all()))


def list_rule_sentences(rule: PolicyRule, groups: Iterable[Group]) -> list[str]:
    """Return what the rule does. `groups` are its groups, also of a rule that is not stored."""
    tool = _name_tool(rule.service, rule.tool, is_core=rule.is_core)
    sentences = [str(EFFECTS[rule.effect]) % {"tool": tool}]
    if names := _name_groups(groups):
        sentences.append(_("Only for members of %(groups)s.") % {"groups": names})
    if rule.levels:
        levels = ", ".join(str(LEVEL_LABELS.get(level, level)) for level in rule.levels)
        sentences.append(_("Only at this risk: %(levels)s.") % {"levels": levels})
    if rule.condition:
        sentences.append(_("Only if %(condition)s.") % {"condition": rule.condition})
    if rule.wants_typing:
        sentences.append(_("To approve it, the member types the tool’s name."))
    if rule.second:
        sentences.append(_("Needs a second approval: “%(name)s”.") % {"name": rule.second})
    return sentences


def describe_limit(limit: ToolLimit) -> str:
    tool = _name_tool(limit.service, limit.tool, is_each=True, is_core=limit.is_core)
    values = {
        "tool": tool,
        "group": limit.group,
        "number": intcomma(limit.calls),
    }
    if limit.group:
        text = _(
            "For each member of %(group)s, calls of %(tool)s need approval after %(number)s "
            "per day."
        )
    else:
        text = _("For each member, calls of %(tool)s need approval after %(number)s per day.")
    return text % values


def describe_test(test: PolicyTest) -> str:
    values = json.dumps(test.arguments, ensure_ascii=False) if test.arguments else ""
    tool = _name_tool(test.service, test.tool, is_core=test.service is None)
    names = {"tool": tool, "values": values, "person": test.person}
    if values:
        sentences = [_("Call of %(tool)s for %(person)s with %(values)s.") % names]
    else:
        sentences = [_("Call of %(tool)s for %(person)s without arguments.") % names]
    if test.mode == PolicyTest.Mode.PLAN:
        sentences.append(_("In plan mode."))
    if test.is_tainted:
        sentences.append(_("After untrusted content."))
    sentences.append(_("Expected: %(decision)s.") % {"decision": WORDS[test.expected]})
    return " ".join(sentences)


def _name_tool(
    service: Service | None, tool: str, *, is_each: bool = False, is_core: bool = False
) -> str:
    owner = OWN_TOOLS_OWNER if is_core else service
    names = {"tool": tool, "owner": owner}
    if tool and owner:
        return _("“%(tool)s” of %(owner)s") % names
    if tool:
        return _("“%(tool)s” of any service") % names
    if owner:
        return (_("each tool of %(owner)s") if is_each else _("every tool of %(owner)s")) % names
    return _("each tool") if is_each else _("every tool")


def _name_groups(groups: Iterable[Group]) -> str:
    return ", ".join(group.name for group in groups)


def describe_second_signature(second: SecondSignature) -> str:
    text = ngettext(
        "A member of %(group)s must approve within %(number)s hour.",
        "A member of %(group)s must approve within %(number)s hours.",
        second.deadline_hours,
    )
    sentence = text % {
        "group": second.approvers,
        "number": intcomma(second.deadline_hours),
    }
    if second.escalation is None or second.escalates_after_hours is None:
        return sentence
    text = ngettext(
        "After %(number)s hour, a member of %(group)s can also approve.",
        "After %(number)s hours, a member of %(group)s can also approve.",
        second.escalates_after_hours,
    )
    after = text % {
        "group": second.escalation,
        "number": intcomma(second.escalates_after_hours),
    }
    return f"{sentence} {after}"
