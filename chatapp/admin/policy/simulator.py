"""Two admin pages: the policy simulator, and how often people are asked."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext as _

from chatapp.models import HousePolicy, PolicyRule, ToolLimit
from chatapp.permissions.reasons import translate_reason
from chatapp.simulation.ask_rate import measure_ask_rate
from chatapp.simulation.drafts import Draft, DraftedConsent, DraftedRule
from chatapp.simulation.past_calls import Scope
from chatapp.simulation.simulator import simulate

from .draft_forms import DraftedRuleForm, PeriodForm, SimulationForm

Page = Callable[[HttpRequest], tuple[str, dict[str, Any]]]
MAX_CHANGES = 100
# Fields of the policy for everybody, which have the same names in the form.
HOUSE_FIELDS = (
    *("runs_up_to", "asks_everything", "medium_needs", "high_needs"),
    *("widest_consent", "consents_to_high", "allowed_hosts"),
)


def show_simulator(request: HttpRequest) -> tuple[str, dict[str, Any]]:
    """Simulate the draft in the query. Without one, show the form with the stored policy.

    The parameter `with` is the id of a disabled rule to enable in the draft.
    """
    stored = _get_stored_values(request.GET.get("with", ""))
    query = request.GET if "days" in request.GET else None
    form = SimulationForm(stored if query is None else query, label_suffix="")
    rule = DraftedRuleForm(query, prefix="rule", label_suffix="")
    context: dict[str, Any] = {"title": _("Try a policy on past calls"), "form": form, "rule": rule}
    # A list, so that both forms are validated and show their errors.
    if query is not None and all([form.is_valid(), rule.is_valid()]):
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
    context = {
        "title": _("How often members are asked for approval"),
        "form": form,
        "found": measure_ask_rate(days),
    }
    return "questions", context
