"""The forms of the policy simulator: the period of past calls and the draft of a policy."""

from typing import Any

from django import forms
from django.contrib.auth.models import Group

from chatapp.models import HousePolicy, Member, PolicyRule, SecondSignature, ToolLimit
from mcpconfig.models import Service

from .forms import SERVICE_OR_OWN, AnyToolInput, RuleFieldsForm, ToolInput, clean_hosts
from .sentences import describe_limit, describe_rule

EFFECT_CHOICES = [("", "no new rule"), *PolicyRule.Effect.choices]


class PeriodForm(forms.Form):
    """The period of past calls that a page covers."""

    days = forms.IntegerField(label="Days back", min_value=1, max_value=365, initial=30)


def make_second_signature_field(label: str) -> "forms.ModelChoiceField[SecondSignature]":
    signatures = SecondSignature.objects.all()
    return forms.ModelChoiceField(signatures, required=False, label=label, empty_label="none")


class RulesField(forms.ModelMultipleChoiceField):
    def label_from_instance(self, rule: Any) -> str:
        suffix = "" if rule.is_enabled else " (switched off)"
        return f"{rule.name}{suffix}: {describe_rule(rule)}"


class LimitsField(forms.ModelMultipleChoiceField):
    def label_from_instance(self, limit: Any) -> str:
        return describe_limit(limit)


class SimulationForm(PeriodForm):
    """The draft of a policy and the past calls to simulate it on.

    The draft consists of the enabled rules and limits, the policy for everybody, and consents.
    """

    person = forms.ModelChoiceField(Member.objects.all(), required=False, empty_label="everybody")
    service = forms.ModelChoiceField(Service.objects.all(), required=False, empty_label="all")
    runs_up_to = forms.ChoiceField(
        label="Runs by itself", choices=HousePolicy.RunsUpTo.choices, required=False
    )
    medium_needs = make_second_signature_field("Second signature for medium risks")
    high_needs = make_second_signature_field("Second signature for high risks")
    asks_everything = forms.BooleanField(label="Ask for everything", required=False)
    rules = RulesField(
        PolicyRule.objects.select_related("service").prefetch_related("groups"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        label="Rules that count",
    )
    limits = LimitsField(
        ToolLimit.objects.select_related("service", "group"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        label="Limits that count",
    )
    limit_calls = forms.IntegerField(label="Calls a day", min_value=0, required=False)
    limit_tool = forms.CharField(label="Of the tool", widget=AnyToolInput, required=False)
    limit_service = forms.ModelChoiceField(
        Service.objects.all(), label="Of the service", required=False, empty_label="all"
    )
    limit_is_core = forms.BooleanField(label="Only Countersign’s own tools", required=False)
    limit_group = forms.ModelChoiceField(
        Group.objects.all(), label="By the group", required=False, empty_label="everybody"
    )
    widest_consent = forms.ChoiceField(
        label="People may allow", choices=HousePolicy.WidestConsent.choices, required=False
    )
    consents_to_high = forms.BooleanField(label="Also for high risks", required=False)
    allowed_hosts = forms.CharField(
        label="Allowed hosts after untrusted content",
        required=False,
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false", "class": "code"}),
    )
    allowed_service = forms.ModelChoiceField(
        Service.objects.all(),
        label="As if everybody had allowed",
        required=False,
        empty_label="nothing more",
    )
    allowed_tool = forms.CharField(label="Its tool", widget=ToolInput, required=False)

    def clean_allowed_hosts(self) -> str:
        return clean_hosts(self.cleaned_data["allowed_hosts"])

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if cleaned.get("allowed_tool") and not cleaned.get("allowed_service"):
            self.add_error("allowed_service", "Choose the service of this tool.")
        narrowing = [
            cleaned.get(f"limit_{name}") for name in ("tool", "service", "is_core", "group")
        ]
        if any(narrowing) and cleaned.get("limit_calls") is None:
            self.add_error("limit_calls", "Say how many calls a day.")
        if cleaned.get("limit_is_core") and cleaned.get("limit_service"):
            self.add_error("limit_is_core", SERVICE_OR_OWN)
        return cleaned


class DraftedRuleForm(RuleFieldsForm):
    """A rule that is simulated before it is stored. Without an effect there is no rule."""

    effect = forms.ChoiceField(label="It says", choices=EFFECT_CHOICES, required=False)
    service = forms.ModelChoiceField(Service.objects.all(), required=False, empty_label="all")
    second = make_second_signature_field("Second signature")

    class Meta:
        model = PolicyRule
        fields = (
            *("effect", "tool", "service", "is_core"),
            *("groups", "levels", "condition", "second"),
        )
        widgets = {
            "tool": AnyToolInput,
            "groups": forms.CheckboxSelectMultiple,
            "condition": forms.TextInput(attrs={"spellcheck": "false", "class": "code"}),
        }

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        effect = cleaned.pop("effect", "")
        if not effect and any(cleaned.values()):
            self.add_error("effect", "Say what this rule says.")
        return cleaned | {"effect": effect}
