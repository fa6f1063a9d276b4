"""The forms of the policy. They refuse to save what would make a policy test fail."""

from collections.abc import Iterable
from typing import Any, cast

from django import forms
from django.core.exceptions import ValidationError
from django.forms.utils import flatatt
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext

from chatapp.models import HousePolicy, PolicyRule, PolicyTest, SecondSignature, ToolLimit
from chatapp.models.policy.policy import LEVEL_CHOICES, OPINION_HELP
from chatapp.permissions.hosts import BadHost, read_patterns
from chatapp.permissions.lazy import conditions
from chatapp.policy.condition_names import check_names
from chatapp.policy.policy_set import PolicySet, load_policy_set
from chatapp.policy.stored_policy import build_house, build_limit, build_rule
from chatapp.providers.access.model_choice import list_offered_models
from chatapp.providers.registry import DEMO_MODEL
from chatapp.simulation.policy_tests import FailedTest, list_newly_failing, name_failing
from chatapp.tools.core import CORE_TOOLS
from mcpconfig.models import Service, ToolDefinition

from .sentences import OWN_TOOLS_OWNER

MAX_SUGGESTIONS = 500
SERVICE_OR_OWN = _lazy("Choose a service or the built-in tools, not both.")


class LongSelect(forms.Select):
    """A select whose options are written at once. Django renders a template for each."""

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        widget = self.get_context(name, value, attrs)["widget"]
        options = [option for _group, options, _index in widget["optgroups"] for option in options]
        return format_html(
            '<select name="{}"{}>{}</select>',
            name,
            flatatt(widget["attrs"]),
            format_html_join(
                "",
                '<option value="{}"{}>{}</option>',
                ((each["value"], flatatt(each["attrs"]), each["label"]) for each in options),
            ),
        )


class ServiceChoiceField(forms.ModelChoiceField):
    """A choice of a service. Names of services may be equal, so each has its short name too."""

    widget = LongSelect

    def label_from_instance(self, service: Any) -> str:
        return f"{service.title} ({service.name})" if service.title else str(service.name)


class ToolInput(forms.TextInput):
    """A text field for the name of a tool, which suggests the tools that services offer."""

    own_tools: Iterable[str] = ()

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        list_id = f"{name}-offered"
        field = super().render(name, value, {**(attrs or {}), "list": list_id}, renderer)
        offered = ToolDefinition.objects.filter(is_current=True).order_by("name", "service__name")
        rows = [(tool, OWN_TOOLS_OWNER) for tool in self.own_tools]
        rows += offered.values_list("name", "service__name")[:MAX_SUGGESTIONS]
        options = format_html_join("", '<option value="{}">{}</option>', rows)
        return format_html('{}<datalist id="{}">{}</datalist>', field, list_id, options)


class AnyToolInput(ToolInput):
    """The same field, which also suggests the built-in tools."""

    own_tools = sorted(CORE_TOOLS)


class ToolForm(forms.ModelForm):
    """A form about a tool. It refuses a tool that neither the service nor Countersign has."""

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        is_core = self.is_about_own_tools(cleaned)
        if is_core and cleaned.get("service"):
            self.add_error("is_core", str(SERVICE_OR_OWN))
        elif problem := explain_unknown_tool(
            cleaned.get("service"), cleaned.get("tool"), is_core=is_core
        ):
            self.add_error("tool", problem)
        return cleaned

    def is_about_own_tools(self, cleaned: dict[str, Any]) -> bool:
        return bool(cleaned.get("is_core", False))


def explain_unknown_tool(service: Service | None, tool: str | None, *, is_core: bool) -> str:
    """Return why the tool is unknown, or an empty string if it is known."""
    names = (
        {definition.name for definition in service.definitions.only("name")} if service else set()
    )
    known = sorted(CORE_TOOLS if is_core else names)
    if not tool or not known or tool in known:
        return ""
    some = ", ".join(f"“{name}”" for name in known[:5])
    owner = OWN_TOOLS_OWNER if is_core else service
    return _("%(owner)s has never offered this tool. Its tools: %(tools)s.") % {
        "owner": owner,
        "tools": some,
    }


class PolicyForm(ToolForm):
    """A form of a part of the policy. All policy tests are run on it before it is stored, unless
    it is stored in a draft, which shows them."""

    runs_tests = True

    def build_policy_set(self, cleaned: dict[str, Any]) -> PolicySet:
        """Return the whole policy as it would be after this save."""
        raise NotImplementedError

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        if (
            self.runs_tests
            and not self.errors
            and (failing := list_newly_failing(load_policy_set(), self.build_policy_set(cleaned)))
        ):
            for sentence in describe_failing(failing):
                self.add_error(None, sentence)
        return cleaned

    def get_row_values(self, cleaned: dict[str, Any]) -> dict[str, Any]:
        """Return the values of all fields of the row. A field without an input is unchanged."""
        attnames = {
            field.name: field.attname for field in type(self.instance)._meta.concrete_fields
        }
        unchanged = {attname: getattr(self.instance, attname) for attname in attnames.values()}
        return unchanged | {
            attnames[name]: getattr(value, "pk", value)
            for name, value in cleaned.items()
            if name in attnames
        }


def describe_failing(failing: list[FailedTest]) -> list[str]:
    """Return sentences for the person whose save would make these tests fail."""
    text = ngettext(
        "Nothing was saved, because a policy test would fail.",
        "Nothing was saved, because %(number)s policy tests would fail.",
        len(failing),
    )
    return [text % {"number": len(failing)}, *name_failing(failing)]


class RuleFieldsForm(ToolForm):
    """The fields that a stored rule and the draft of a rule have in common."""

    levels = forms.MultipleChoiceField(
        label=_lazy("Risks"),
        choices=LEVEL_CHOICES,
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=_lazy("If none is ticked, all risks."),
    )

    def clean_condition(self) -> str:
        text: str = self.cleaned_data["condition"].strip()
        if text:
            try:
                conditions.check_condition(text)
            except conditions.BadCondition as error:
                raise ValidationError(error.message) from error
        return text

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        if text := cleaned.get("condition"):
            try:
                check_names(
                    text,
                    service=cleaned.get("service"),
                    tool=cleaned.get("tool") or "",
                    is_core=self.is_about_own_tools(cleaned),
                )
            except conditions.BadCondition as error:
                self.add_error("condition", error.message)
        return cleaned

    def clean_second(self) -> SecondSignature | None:
        second: SecondSignature | None = self.cleaned_data["second"]
        if second is not None and self.cleaned_data.get("effect") != PolicyRule.Effect.ASK:
            raise ValidationError(_("Only a rule that asks can require a second approval."))
        return second


class RuleForm(RuleFieldsForm, PolicyForm):
    effect = forms.ChoiceField(
        label=_lazy("Effect"),
        choices=PolicyRule.Effect.choices,
        widget=forms.RadioSelect,
        initial=PolicyRule.Effect.ASK,
    )

    class Meta:
        model = PolicyRule
        fields = (
            *("name", "effect", "is_enabled"),
            *("service", "is_core", "tool", "groups", "levels", "condition", "note"),
            *("wants_typing", "second"),
        )
        widgets = {
            "tool": AnyToolInput,
            "groups": forms.CheckboxSelectMultiple,
            "condition": forms.Textarea(attrs={"rows": 2, "spellcheck": "false", "class": "code"}),
            "note": forms.TextInput(attrs={"class": "vTextField"}),
        }

    def clean_wants_typing(self) -> bool:
        wants_typing: bool = self.cleaned_data["wants_typing"]
        if wants_typing and self.cleaned_data.get("effect") != PolicyRule.Effect.ASK:
            raise ValidationError(_("Only a rule that asks can require a typed confirmation."))
        return wants_typing

    def build_policy_set(self, cleaned: dict[str, Any]) -> PolicySet:
        others = load_policy_set(but=self.instance)
        rule = build_rule(PolicyRule(**self.get_row_values(cleaned)), cleaned["groups"])
        return others.with_rule(rule) if cleaned["is_enabled"] else others


def clean_hosts(text: str) -> str:
    """Return a list of allowed hosts in its normal form, one a line."""
    try:
        return "\n".join(read_patterns(text))
    except BadHost as error:
        raise ValidationError(str(error)) from error


def _list_opinion_models(stored: str) -> list[tuple[str, str]]:
    """Return the models that everybody may use, and the stored one. The demo assistant has no
    opinions."""
    offered = {each.id: each.label for each in list_offered_models(None) if each.id != DEMO_MODEL}
    known = {stored: stored, **offered} if stored else offered
    return [("", _("None: no second opinions")), *known.items()]


class HousePolicyForm(PolicyForm):
    opinion_model = forms.ChoiceField(
        label=_lazy("Model for second opinions"), required=False, help_text=OPINION_HELP
    )

    class Meta:
        model = HousePolicy
        fields = (
            *("asks_everything", "runs_up_to", "types_high", "medium_needs", "high_needs"),
            *("widest_consent", "consents_to_high", "consent_days"),
            *("lets_add_services", "adding_groups", "allowed_hosts"),
            *("opinion_model", "opinions_for_new", "check_each", "changes_need_second"),
        )
        widgets = {
            "adding_groups": forms.CheckboxSelectMultiple,
            "allowed_hosts": forms.Textarea(
                attrs={"rows": 4, "spellcheck": "false", "class": "code"}
            ),
        }
        help_texts = {
            "medium_needs": _lazy(
                "Applies to high-risk calls too, unless you choose otherwise below. Required "
                "even if the member has allowed the tool in advance. If a rule allows the call, "
                "a second approval is required only when something else makes the call need "
                "approval, such as untrusted content."
            ),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields.get("opinion_model")
        # An admin who may only view the policy has no such field.
        if isinstance(field, forms.ChoiceField):
            field.choices = _list_opinion_models(self.instance.opinion_model)

    def clean_opinions_for_new(self) -> bool:
        is_wanted: bool = self.cleaned_data["opinions_for_new"]
        if is_wanted and not self.cleaned_data.get("opinion_model"):
            raise ValidationError(_("Choose a model for second opinions first."))
        return is_wanted

    def clean_allowed_hosts(self) -> str:
        return clean_hosts(self.cleaned_data["allowed_hosts"])

    def build_policy_set(self, cleaned: dict[str, Any]) -> PolicySet:
        return load_policy_set().with_house(
            build_house(HousePolicy(**self.get_row_values(cleaned)))
        )


class LimitForm(PolicyForm):
    class Meta:
        model = ToolLimit
        fields = ("service", "is_core", "tool", "group", "calls")
        widgets = {"tool": AnyToolInput}

    def build_policy_set(self, cleaned: dict[str, Any]) -> PolicySet:
        limit = build_limit(ToolLimit(**self.get_row_values(cleaned)))
        return load_policy_set(but=self.instance).with_rule(limit)


class PolicyTestForm(ToolForm):
    class Meta:
        model = PolicyTest
        fields = (
            "name",
            "person",
            "service",
            "tool",
            "arguments",
            "mode",
            "is_tainted",
            "expected",
        )
        labels = {"arguments": _lazy("Arguments")}
        widgets = {
            "tool": AnyToolInput,
            "arguments": forms.Textarea(attrs={"rows": 3, "spellcheck": "false", "class": "code"}),
        }
        help_texts = {
            "person": _lazy(
                "The member whose call it is. Permissions that they gave in advance are ignored."
            ),
            "arguments": _lazy('The arguments of the call, such as {"amount": 120}'),
        }

    def is_about_own_tools(self, cleaned: dict[str, Any]) -> bool:
        return "service" in cleaned and cleaned["service"] is None

    def clean_arguments(self) -> dict[str, Any]:
        values = self.cleaned_data["arguments"]
        if not isinstance(values or {}, dict):
            raise ValidationError(_('Enter a JSON object, such as {"amount": 120}.'))
        return cast(dict[str, Any], values or {})
