"""The forms of policy. A save that would make a policy test fail is held back."""

from collections.abc import Iterable
from typing import Any, cast

from django import forms
from django.core.exceptions import ValidationError
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from chatapp.models import (
    HousePolicy,
    PolicyRule,
    PolicyTest,
    SecondSignature,
    ToolLimit,
)
from chatapp.models.policy import LEVEL_CHOICES
from chatapp.permissions import conditions
from chatapp.tools.core import CORE_TOOLS
from chatapp.turns.admins_word import AdminsWord, stored_word
from chatapp.turns.policy import house_of, limit_of, rule_of
from chatapp.turns.policy_tests import Failing, newly_failing
from mcpconfig.models import Service, ToolDefinition

from .policy_words import OURSELVES

MOST_NAMED = 10
TOOLS_OFFERED = 500
WHOSE = "Choose a service, or our own tools, not both."


class ToolInput(forms.TextInput):
    """A tool's name, with those that services offer now to choose from."""

    own: Iterable[str] = ()

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        known = f"{name}-offered"
        field = super().render(name, value, {**(attrs or {}), "list": known}, renderer)
        offered = ToolDefinition.objects.filter(is_current=True).order_by("name", "service__name")
        rows = [(tool, OURSELVES) for tool in self.own]
        rows += offered.values_list("name", "service__name")[:TOOLS_OFFERED]
        options = format_html_join("", '<option value="{}">{}</option>', rows)
        return format_html('{}<datalist id="{}">{}</datalist>', field, known, options)


class AnyToolInput(ToolInput):
    """The same, with our own tools before them."""

    own = sorted(CORE_TOOLS)


class ToolForm(forms.ModelForm):
    """What is said about a tool of a service, or of ours, is about one that is there."""

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        is_core = self.is_about_ours(cleaned)
        if is_core and cleaned.get("service"):
            self.add_error("is_core", WHOSE)
        elif wrong := unknown_tool(cleaned.get("service"), cleaned.get("tool"), is_core=is_core):
            self.add_error("tool", wrong)
        return cleaned

    def is_about_ours(self, cleaned: dict[str, Any]) -> bool:
        return bool(cleaned.get("is_core", False))


def unknown_tool(service: Service | None, tool: str | None, *, is_core: bool) -> str:
    """Why nobody offers this tool, or nothing."""
    names = {each.name for each in service.definitions.only("name")} if service else set()
    seen = sorted(CORE_TOOLS if is_core else names)
    if not tool or not seen or tool in seen:
        return ""
    some = ", ".join(f"“{name}”" for name in seen[:5])
    whose = OURSELVES if is_core else service
    return f"{whose} has never offered this tool. It has {some}."


class PolicyForm(ToolForm):
    """What was typed is tried on all policy tests before it is stored."""

    def drafted(self, cleaned: dict[str, Any]) -> AdminsWord:
        """All that admins would have said once this is saved."""
        raise NotImplementedError

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        if not self.errors and (broken := newly_failing(stored_word(), self.drafted(cleaned))):
            for sentence in sentences_of(broken):
                self.add_error(None, sentence)
        return cleaned

    def typed(self, cleaned: dict[str, Any]) -> dict[str, Any]:
        """The values of the row's own fields, with what the form does not show as it was."""
        own = {field.name: field.attname for field in type(self.instance)._meta.concrete_fields}
        kept = {attname: getattr(self.instance, attname) for attname in own.values()}
        return kept | {
            own[name]: getattr(value, "pk", value) for name, value in cleaned.items() if name in own
        }


def sentences_of(broken: list[Failing]) -> list[str]:
    """What a policy would break, for whoever tried to save it."""
    count = f"{len(broken)} policy tests" if len(broken) > 1 else "a policy test"
    said = [f"Nothing was saved, because it would make {count} fail."]
    said += [failure.sentence for failure in broken[:MOST_NAMED]]
    more = len(broken) - MOST_NAMED
    return [*said, f"So would {more} more."] if more > 0 else said


class RuleFields(ToolForm):
    """What is typed of a rule, whether or not it is to be stored."""

    levels = forms.MultipleChoiceField(
        label="Risks",
        choices=LEVEL_CHOICES,
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="None ticked: all.",
    )

    def clean_condition(self) -> str:
        text: str = self.cleaned_data["condition"].strip()
        if text:
            try:
                conditions.check(text)
            except conditions.BadCondition as error:
                raise ValidationError(error.message) from error
        return text

    def clean_second(self) -> SecondSignature | None:
        second: SecondSignature | None = self.cleaned_data["second"]
        if second is not None and self.cleaned_data.get("effect") != PolicyRule.Effect.ASK:
            raise ValidationError("Only a rule that asks can demand a second signature.")
        return second


class RuleForm(RuleFields, PolicyForm):
    effect = forms.ChoiceField(
        choices=PolicyRule.Effect.choices, widget=forms.RadioSelect, initial=PolicyRule.Effect.ASK
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
            raise ValidationError("Only a rule that asks can have the tool’s name typed.")
        return wants_typing

    def drafted(self, cleaned: dict[str, Any]) -> AdminsWord:
        others = stored_word(but=self.instance)
        rule = rule_of(PolicyRule(**self.typed(cleaned)), cleaned["groups"])
        return others.with_rule(rule) if cleaned["is_enabled"] else others


class HouseForm(PolicyForm):
    class Meta:
        model = HousePolicy
        fields = (
            *("asks_everything", "runs_up_to", "types_high", "medium_needs", "high_needs"),
            *("widest_consent", "consents_to_high", "consent_days"),
            *("lets_add_services", "adding_groups"),
        )
        widgets = {"adding_groups": forms.CheckboxSelectMultiple}
        help_texts = {
            "medium_needs": "Also for high risks, unless they have their own. No consent stands in "
            "for it; a rule that allows does.",
        }

    def drafted(self, cleaned: dict[str, Any]) -> AdminsWord:
        return stored_word().with_house(house_of(HousePolicy(**self.typed(cleaned))))


class LimitForm(PolicyForm):
    class Meta:
        model = ToolLimit
        fields = ("service", "is_core", "tool", "group", "calls")
        widgets = {"tool": AnyToolInput}

    def drafted(self, cleaned: dict[str, Any]) -> AdminsWord:
        limit = limit_of(ToolLimit(**self.typed(cleaned)))
        return stored_word(but=self.instance).with_rule(limit)


class PolicyTestForm(ToolForm):
    class Meta:
        model = PolicyTest
        fields = ("name", "person", "service", "tool", "arguments", "mode", "expected")
        labels = {"arguments": "Values"}
        widgets = {
            "tool": AnyToolInput,
            "arguments": forms.Textarea(attrs={"rows": 3, "spellcheck": "false", "class": "code"}),
        }
        help_texts = {
            "person": "Who the call acts for. What they allowed in advance does not count.",
            "arguments": 'The values of the call, such as {"amount": 120}',
        }

    def is_about_ours(self, cleaned: dict[str, Any]) -> bool:
        return "service" in cleaned and cleaned["service"] is None

    def clean_arguments(self) -> dict[str, Any]:
        values = self.cleaned_data["arguments"]
        if not isinstance(values or {}, dict):
            raise ValidationError('Write an object, such as {"amount": 120}.')
        return cast(dict[str, Any], values or {})
