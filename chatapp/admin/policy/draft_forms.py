"""The forms of the policy simulator: the period of past calls and the draft of a policy."""

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.contrib.admin.widgets import AutocompleteSelect
from django.contrib.auth.models import Group
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from chatapp.models import (
    HousePolicy,
    Member,
    PolicyRule,
    PolicyTest,
    SecondSignature,
    ToolLimit,
)
from mcpconfig.models import Service

from .forms import (
    SERVICE_OR_OWN,
    AnyToolInput,
    RuleFieldsForm,
    ServiceChoiceField,
    ToolInput,
    clean_hosts,
)
from .sentences import describe_limit, describe_rule

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

ALL_SERVICES = _lazy("All services and built-in tools")
ALL_MEMBERS = _lazy("All members")
AS_FOR_MEDIUM = _lazy("Same as for medium-risk calls")
NO_SECOND_APPROVAL = _lazy("No second approval")
AS_IN_POLICY = _lazy("As in the policy for everybody")
EFFECT_CHOICES = [("", _lazy("no new rule")), *PolicyRule.Effect.choices]


class PeriodForm(forms.Form):
    """The period of past calls that a page covers."""

    days = forms.IntegerField(label=_lazy("Past days"), min_value=1, max_value=365, initial=30)


def make_second_signature_field(label: "StrOrPromise") -> "forms.ModelChoiceField[SecondSignature]":
    signatures = SecondSignature.objects.all()
    return forms.ModelChoiceField(
        signatures, required=False, label=label, empty_label=NO_SECOND_APPROVAL
    )


class RulesField(forms.ModelMultipleChoiceField):
    def label_from_instance(self, rule: Any) -> str:
        names = {"name": rule.name, "sentence": describe_rule(rule)}
        if rule.is_enabled:
            return _("%(name)s: %(sentence)s") % names
        return _("%(name)s (off): %(sentence)s") % names


class LimitsField(forms.ModelMultipleChoiceField):
    def label_from_instance(self, limit: Any) -> str:
        return describe_limit(limit)


class MemberSelect(AutocompleteSelect):
    """Finds members as the form of a policy test does, instead of listing all of them."""

    def __init__(self, choices: Any) -> None:
        super().__init__(PolicyTest._meta.get_field("person"), admin.site, choices=choices)

    def build_attrs(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return {**super().build_attrs(*args, **kwargs), "data-placeholder": str(ALL_MEMBERS)}


class SimulationForm(PeriodForm):
    """The draft of a policy and the past calls to simulate it on.

    The draft consists of the enabled rules and limits, the policy for everybody, and consents.
    """

    person = forms.ModelChoiceField(
        Member.objects.all(),
        label=_lazy("Member"),
        required=False,
        empty_label=ALL_MEMBERS,
    )
    service = ServiceChoiceField(
        Service.objects.all(), label=_lazy("Service"), required=False, empty_label=ALL_SERVICES
    )
    runs_up_to = forms.ChoiceField(
        label=_lazy("Tools that run without approval"),
        choices=HousePolicy.RunsUpTo.choices,
        required=False,
    )
    medium_needs = make_second_signature_field(_lazy("Second approval for medium-risk calls"))
    high_needs = make_second_signature_field(_lazy("Second approval for high-risk calls"))
    asks_everything = forms.BooleanField(label=_lazy("Ask for everything"), required=False)
    rules = RulesField(
        PolicyRule.objects.select_related("service").prefetch_related("groups"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        label=_lazy("Rules to apply"),
    )
    limits = LimitsField(
        ToolLimit.objects.select_related("service", "group"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        label=_lazy("Limits to apply"),
    )
    limit_calls = forms.IntegerField(
        label=_lazy("Calls per day (UTC)"), min_value=0, required=False
    )
    limit_tool = forms.CharField(label=_lazy("Tool"), widget=AnyToolInput, required=False)
    limit_service = ServiceChoiceField(
        Service.objects.all(),
        label=_lazy("Service"),
        required=False,
        empty_label=ALL_SERVICES,
    )
    limit_is_core = forms.BooleanField(label=_lazy("Only built-in tools"), required=False)
    limit_group = forms.ModelChoiceField(
        Group.objects.all(),
        label=_lazy("Group"),
        required=False,
        empty_label=ALL_MEMBERS,
    )
    widest_consent = forms.ChoiceField(
        label=_lazy("Members may allow"), choices=HousePolicy.WidestConsent.choices, required=False
    )
    consents_to_high = forms.BooleanField(label=_lazy("Also high-risk calls"), required=False)
    allowed_hosts = forms.CharField(
        label=_lazy("Allowed hosts after untrusted content"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false", "class": "code"}),
    )
    allowed_service = ServiceChoiceField(
        Service.objects.all(),
        label=_lazy("Assume that every member has also allowed"),
        required=False,
        empty_label=_lazy("nothing more"),
    )
    allowed_tool = forms.CharField(
        label=_lazy("Tool of this service"), widget=ToolInput, required=False
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        person: Any = self.fields["person"]
        # For each request, because it has the language of the request.
        person.widget = MemberSelect(person.choices)

    def clean_allowed_hosts(self) -> str:
        return clean_hosts(self.cleaned_data["allowed_hosts"])

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if cleaned.get("allowed_tool") and not cleaned.get("allowed_service"):
            self.add_error("allowed_service", _("Choose the service of this tool."))
        narrowing = [
            cleaned.get(f"limit_{name}") for name in ("tool", "service", "is_core", "group")
        ]
        if any(narrowing) and cleaned.get("limit_calls") is None:
            self.add_error("limit_calls", _("Enter the number of calls per day."))
        if cleaned.get("limit_is_core") and cleaned.get("limit_service"):
            self.add_error("limit_is_core", str(SERVICE_OR_OWN))
        return cleaned


class DraftedRuleForm(RuleFieldsForm):
    """A rule that is simulated before it is stored. Without an effect there is no rule."""

    effect = forms.ChoiceField(label=_lazy("Effect"), choices=EFFECT_CHOICES, required=False)
    service = ServiceChoiceField(
        Service.objects.all(), label=_lazy("Service"), required=False, empty_label=ALL_SERVICES
    )
    second = make_second_signature_field(_lazy("Second approval"))

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
            self.add_error("effect", _("Choose the effect of the rule."))
        return cleaned | {"effect": effect}
