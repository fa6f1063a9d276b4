"""Two pages to think with: the simulator, and how often people are asked."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest

from chatapp.models import HousePolicy, PolicyRule, ToolLimit
from chatapp.turns.drafted_consents import DraftedConsent
from chatapp.turns.past_facts import Scope
from chatapp.turns.policy_drafts import Draft, DraftedRule
from chatapp.turns.prompting import prompting
from chatapp.turns.replay import replay

from .draft_forms import DraftedRuleForm, QuestionsForm, SimulationForm

Page = Callable[[HttpRequest], tuple[str, dict[str, Any]]]
MOST_CHANGES = 100
# What holds for everybody, by its names in the policy and in the form.
OF_EVERYBODY = (
    *("runs_up_to", "asks_everything", "medium_needs", "high_needs"),
    *("widest_consent", "consents_to_high"),
)


def simulator(request: HttpRequest) -> tuple[str, dict[str, Any]]:
    """Without a draft the form shows what is stored, and beside it the rule that is to be tried."""
    stored = _as_stored(request.GET.get("with", ""))
    typed = request.GET if "days" in request.GET else None
    form = SimulationForm(stored if typed is None else typed, label_suffix="")
    rule = DraftedRuleForm(typed, prefix="rule", label_suffix="")
    context: dict[str, Any] = {"title": "Simulator", "form": form, "rule": rule}
    # Both are asked, so that both say what is wrong.
    if typed is not None and all([form.is_valid(), rule.is_valid()]):
        values = form.cleaned_data
        scope = Scope(days=values["days"], person=values["person"], service=values["service"])
        draft = _drafted(values, rule)
        found = replay(draft.word, scope, draft.allowed)
        context |= {"found": found, "changes": found.changes[:MOST_CHANGES]}
    return "simulator", context


def _as_stored(also: str) -> dict[str, Any]:
    house = HousePolicy.current()
    rules = PolicyRule.objects.all()
    return {
        "days": SimulationForm.base_fields["days"].initial,
        **{name: getattr(house, name) for name in OF_EVERYBODY},
        "rules": [row.pk for row in rules if row.is_enabled or str(row.pk) == also],
        "limits": [limit.pk for limit in ToolLimit.objects.all()],
    }


def _drafted(values: dict[str, Any], rule: DraftedRuleForm) -> Draft:
    house, service = HousePolicy.current(), values["allowed_service"]
    for name in OF_EVERYBODY:
        setattr(house, name, values[name])
    return Draft(
        house=house,
        rules=values["rules"],
        limits=(*values["limits"], *_new_limit(values)),
        allowed=DraftedConsent.to(service, values["allowed_tool"]) if service else None,
        rule=_new_rule(rule),
    )


def _new_rule(form: DraftedRuleForm) -> DraftedRule | None:
    if not form.cleaned_data["effect"]:
        return None
    return DraftedRule(row=form.instance, groups=form.cleaned_data["groups"])


def _new_limit(values: dict[str, Any]) -> list[ToolLimit]:
    """A limit that is not stored; none where none was typed."""
    if values["limit_calls"] is None:
        return []
    narrowed = {name: values[f"limit_{name}"] for name in ("service", "is_core", "tool", "group")}
    return [ToolLimit(calls=values["limit_calls"], **narrowed)]


def questions(request: HttpRequest) -> tuple[str, dict[str, Any]]:
    form = QuestionsForm(request.GET if "days" in request.GET else {"days": 30}, label_suffix="")
    days = form.cleaned_data["days"] if form.is_valid() else 30
    context = {"title": "Questions to people", "form": form, "found": prompting(days)}
    return "questions", context
