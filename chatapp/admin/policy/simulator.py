"""Two admin pages: the policy simulator, and how often people are asked."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.db.models import F
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from chatapp.admin.badges import render_badge
from chatapp.models import HousePolicy, PolicyRule, ToolLimit
from chatapp.permissions.reasons import translate_reason
from chatapp.rendering.hidden_characters import draw_hidden
from chatapp.simulation.ask_rate import measure_ask_rate
from chatapp.simulation.attention import measure_attention, sum_attention
from chatapp.simulation.drafts import Draft, DraftedConsent, DraftedRule
from chatapp.simulation.past_calls import Scope
from chatapp.simulation.simulator import simulate
from chatapp.simulation.suggestions import (
    TOOLS_PER_PAGE,
    Suggestion,
    SuggestionPage,
    find_suggestions,
)
from chatapp.simulation.unused_tools import UNUSED_DAYS, list_unused, read_definition_ids
from mcpconfig.models import ToolSetting
from mcpconfig.values.numbers import read_number

from .draft_forms import DraftedRuleForm, PeriodForm, SimulationForm
from .drafted_saves import IN_CHANGE, NEW

Page = Callable[[HttpRequest], tuple[str, dict[str, Any]]]
MAX_CHANGES = 100
# Of each table of questions.
MOST_ROWS = 50
MAX_NAME = 120
RULE_EFFECT = "rule-effect"
# Fields of the policy for everybody, which have the same names in the form.
HOUSE_FIELDS = (
    *("runs_up_to", "asks_everything", "medium_needs", "high_needs"),
    *("widest_consent", "consents_to_high", "allowed_hosts"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestedRule:
    """A suggestion as a row of the page, with links that try it and add it."""

    row: Suggestion
    tool: SafeString
    service: SafeString
    risk_label: SafeString | str
    try_address: str
    add_address: str
    change_address: str
    groups: str = ""


def show_simulator(request: HttpRequest) -> tuple[str, dict[str, Any]]:
    """Simulate the draft in the query. Without one, show the form with the stored policy.

    The parameter `with` is the id of a disabled rule to enable in the draft. A link may give only a
    drafted rule, which is then added to the stored policy.
    """
    stored = _get_stored_values(request.GET.get("with", ""))
    query = request.GET if "days" in request.GET else None
    drafted = request.GET if query is not None or RULE_EFFECT in request.GET else None
    form = SimulationForm(stored if query is None else query, label_suffix="")
    rule = DraftedRuleForm(drafted, prefix="rule", label_suffix="")
    context: dict[str, Any] = {"title": _("Try a policy on past calls"), "form": form, "rule": rule}
    # A list, so that both forms are validated and show their errors.
    if drafted is not None and all([form.is_valid(), rule.is_valid()]):
        values = form.cleaned_data
        scope = Scope(days=values["days"], person=values["person"], service=values["service"])
        draft = _build_draft(values, rule)
        result = simulate(draft.policy_set, scope, draft.allowed)
        changes = [
            replace(change, reason=translate_reason(change.reason))
            for change in result.changes[:MAX_CHANGES]
        ]
        context |= {"found": result, "changes": changes}
    return "simulator", context


def _get_stored_values(enabled_rule_id: str) -> dict[str, Any]:
    house = HousePolicy.current()
    rules = PolicyRule.objects.all()
    rule_ids = [row.pk for row in rules if row.is_enabled or str(row.pk) == enabled_rule_id]
    return {
        "days": SimulationForm.base_fields["days"].initial,
        **{name: getattr(house, name) for name in HOUSE_FIELDS},
        "rules": rule_ids,
        "limits": [limit.pk for limit in ToolLimit.objects.all()],
    }


def _build_draft(values: dict[str, Any], rule: DraftedRuleForm) -> Draft:
    house, service = HousePolicy.current(), values["allowed_service"]
    for name in HOUSE_FIELDS:
        setattr(house, name, values[name])
    return Draft(
        house=house,
        rules=values["rules"],
        limits=(*values["limits"], *_build_limits(values)),
        allowed=DraftedConsent.for_tool(service, values["allowed_tool"]) if service else None,
        rule=_build_rule(rule),
    )


def _build_rule(form: DraftedRuleForm) -> DraftedRule | None:
    if not form.cleaned_data["effect"]:
        return None
    return DraftedRule(row=form.instance, groups=form.cleaned_data["groups"])


def _build_limits(values: dict[str, Any]) -> list[ToolLimit]:
    """Return the drafted limit, or an empty list if none was entered."""
    if values["limit_calls"] is None:
        return []
    fields = {name: values[f"limit_{name}"] for name in ("service", "is_core", "tool", "group")}
    return [ToolLimit(calls=values["limit_calls"], **fields)]


def show_questions(request: HttpRequest) -> tuple[str, dict[str, Any]]:
    form = PeriodForm(request.GET if "days" in request.GET else {"days": 30}, label_suffix="")
    days = form.cleaned_data["days"] if form.is_valid() else 30
    found = measure_ask_rate(days)
    since = found.starts_at or timezone.now() - timedelta(days=days)
    suggested = _find_suggestions(request, since)
    suggestions = _build_suggestions(suggested.rows)
    context = {
        "title": _("How often members are asked for approval"),
        "form": form,
        "found": found,
        "most_rows": MOST_ROWS,
        "suggestions": suggestions,
        "suggested": suggested,
        "tools_per_page": TOOLS_PER_PAGE,
        "attention": (attention := measure_attention(timezone.now() - timedelta(days=days))),
        "attention_total": sum_attention(attention),
        "saved": sum(each.row.per_week for each in suggestions),
        **_list_unused(request),
    }
    return "questions", context


def _list_unused(request: HttpRequest) -> dict[str, Any]:
    """Return the tools that nobody uses, and those that were switched off a moment ago, for an
    admin who may view services."""
    if not request.user.has_perm("mcpconfig.view_service"):
        return {}
    unused, count = list_unused()
    off = ToolSetting.objects.filter(
        is_enabled=False,
        service__definitions__in=read_definition_ids(request.GET.getlist("off")),
        service__definitions__name=F("name"),
    ).values_list("service__definitions", flat=True)
    return {
        "unused": [
            (each, draw_hidden(each.definition.name), draw_hidden(str(each.definition.service)))
            for each in unused
        ],
        "unused_count": count,
        "unused_days": UNUSED_DAYS,
        "switched_off": list(off) if request.GET.get("off") else [],
    }


def _find_suggestions(request: HttpRequest, since: datetime) -> SuggestionPage:
    """Return the suggestions for an admin who may view services. What calls have in common is said
    only to an admin who may view tool calls."""
    admin = request.user
    if not admin.has_perm("mcpconfig.view_service"):
        return SuggestionPage(rows=[])
    may_compare = admin.has_perm("chatapp.view_toolcall")
    page = read_number(request.GET.get("suggestions", "")) or 1
    return find_suggestions(since, compares_values=may_compare, page=page)


def _build_suggestions(found: Sequence[Suggestion]) -> list[SuggestedRule]:
    new_rule = reverse("admin:chatapp_policyrule_add")
    return [
        SuggestedRule(
            row=row,
            tool=draw_hidden(row.tool),
            service=draw_hidden(row.service),
            risk_label=render_badge(row.risk),
            try_address=f"{reverse('admin:policy_simulator')}?{row.build_query('rule-')}",
            add_address=f"{new_rule}?{_build_new_rule(row)}",
            change_address=f"{new_rule}?{_build_new_rule(row)}&{IN_CHANGE}={NEW}",
            groups=", ".join(group.name for group in row.scope.groups),
        )
        for row in found
    ]


def _build_new_rule(row: Suggestion) -> str:
    """Return the fields of the form that adds the rule, as a query."""
    name = _("Allow %(tool)s of %(service)s") % {"tool": row.tool, "service": row.service}
    return f"{row.build_query()}&{urlencode({'name': name[:MAX_NAME]})}"
