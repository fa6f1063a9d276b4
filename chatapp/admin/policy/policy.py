"""Policy in the admin: rules, limits, what holds for everybody, tests of it, and the simulator."""

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.html import format_html
from django.utils.safestring import SafeString

from chatapp.models import HousePolicy, PolicyRule, PolicyTest, ToolLimit
from chatapp.turns.admins_word import stored_word
from chatapp.turns.policy_tests import Failing, cases, failing, newly_failing

from . import policy_pages
from .badges import badge
from .policy_forms import HouseForm, LimitForm, PolicyTestForm, RuleForm, sentences_of
from .policy_words import sentence_of_limit, sentence_of_rule, sentence_of_test

TONE_OF_EFFECT = {"allow": "low", "ask": "medium", "deny": "high"}


class PolicyAdmin(admin.ModelAdmin):
    """No bulk actions: each change is tried on the policy tests by itself."""

    actions = None

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        broken = failing(stored_word(), cases())
        if broken:
            said = " ".join(failure.sentence for failure in broken)
            messages.warning(request, f"Saved. These policy tests fail: {said}")


class RemovableAdmin(PolicyAdmin):
    """Rows that count by being there: what goes with them is tried as well."""

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        row = self.get_object(request, object_id)
        may = row is not None and self.has_delete_permission(request, row)
        if request.method == "POST" and may and (broken := _broken_without(row)):
            for sentence in sentences_of(broken):
                messages.error(request, sentence)
            name = f"admin:{self.opts.app_label}_{self.opts.model_name}_change"
            return redirect(name, object_id)
        response: HttpResponse = super().delete_view(request, object_id, extra_context)
        return response


def _broken_without(row: Any) -> list[Failing]:
    return newly_failing(stored_word(), stored_word(but=row))


@admin.register(PolicyRule)
class RuleAdmin(RemovableAdmin):
    form = RuleForm
    list_display = ("name", "effect_badge", "sentence", "is_enabled")
    list_filter = ("effect", "is_enabled", "service")
    list_select_related = ("service", "second")
    search_fields = ("name", "tool", "note", "condition")
    change_list_template = "admin/chatapp/policyrule/change_list.html"
    fieldsets = (
        ("What it does", {"fields": ("name", "effect", "note", "is_enabled")}),
        ("How it is allowed", {"fields": ("wants_typing", "second")}),
        ("Which tools", {"fields": ("service", "is_core", "tool", "levels")}),
        ("Whose calls", {"fields": ("groups",)}),
        (
            "Which values",
            {
                "fields": ("condition",),
                "description": "A condition that cannot be applied to a call, because a value is "
                "missing or of another kind, holds for a rule that asks or forbids, and does not "
                "for one that allows.",
            },
        ),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[PolicyRule]:
        rows: QuerySet[PolicyRule] = super().get_queryset(request)
        return rows.prefetch_related("groups")

    def get_urls(self) -> list[URLPattern]:
        own = [
            path("simulator/", self._opened(policy_pages.simulator), name="policy_simulator"),
            path("questions/", self._opened(policy_pages.questions), name="policy_questions"),
        ]
        return own + super().get_urls()

    def _opened(self, page: policy_pages.Page) -> Any:
        """A page of policy, in the admin's frame, for those who may see rules."""

        def opened(request: HttpRequest) -> HttpResponse:
            if not self.has_view_permission(request):
                raise PermissionDenied
            template, context = page(request)
            framed = {**self.admin_site.each_context(request), "opts": self.opts, **context}
            return TemplateResponse(request, f"admin/chatapp/policyrule/{template}.html", framed)

        return self.admin_site.admin_view(opened)

    @admin.display(description="Effect", ordering="effect")
    def effect_badge(self, rule: PolicyRule) -> SafeString | str:
        return badge(TONE_OF_EFFECT[rule.effect], rule.get_effect_display())

    @admin.display(description="What it does")
    def sentence(self, rule: PolicyRule) -> str:
        return sentence_of_rule(rule)


@admin.register(ToolLimit)
class LimitAdmin(RemovableAdmin):
    form = LimitForm
    list_display = ("sentence", "service", "group", "calls")
    list_filter = ("service", "group")
    list_select_related = ("service", "group")

    @admin.display(description="What it does")
    def sentence(self, limit: ToolLimit) -> str:
        return sentence_of_limit(limit)


@admin.register(HousePolicy)
class HouseAdmin(PolicyAdmin):
    """One row, which is there once it is saved: its page opens instead of a list."""

    form = HouseForm
    fieldsets = (
        ("Without a question", {"fields": ("asks_everything", "runs_up_to")}),
        ("How it is allowed", {"fields": ("types_high", "medium_needs", "high_needs")}),
        (
            "What people may allow in advance",
            {"fields": ("widest_consent", "consents_to_high", "consent_days")},
        ),
        ("Services of their own", {"fields": ("lets_add_services", "adding_groups")}),
    )

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        return redirect("admin:chatapp_housepolicy_change", 1)

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> HousePolicy | None:
        return HousePolicy.current() if object_id == "1" else None

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        named = {"title": "Policy for everybody", "subtitle": None, **(extra_context or {})}
        response: HttpResponse = super().change_view(request, object_id, form_url, named)
        return response

    def response_post_save_change(
        self, request: HttpRequest, obj: HousePolicy
    ) -> HttpResponseRedirect:
        return HttpResponseRedirect(request.path)


@admin.register(PolicyTest)
class PolicyTestAdmin(admin.ModelAdmin):
    form = PolicyTestForm
    list_display = ("name", "sentence", "verdict")
    list_filter = ("expected", "service", "person")
    list_select_related = ("person", "service")
    search_fields = ("name", "tool")
    autocomplete_fields = ("person",)

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """The tests that are listed are tried, all on the same policy."""
        response: HttpResponse = super().changelist_view(request, extra_context)
        if isinstance(response, TemplateResponse) and response.context_data:
            listed = response.context_data.get("cl")
            if isinstance(listed, ChangeList):
                listed.result_list = _tried(list(listed.result_list))
        return response

    def save_model(
        self, request: HttpRequest, obj: PolicyTest, form: ModelForm, change: bool
    ) -> None:
        super().save_model(request, obj, form, change)
        for failure in failing(stored_word(), cases([obj])):
            messages.warning(request, f"This test fails as policy is now. {failure.sentence}")

    @admin.display(description="Test")
    def sentence(self, test: PolicyTest) -> str:
        return sentence_of_test(test)

    @admin.display(description="Now")
    def verdict(self, test: Any) -> SafeString | str:
        failure: Failing | None = test.failure
        if failure is None:
            return badge("low", "holds")
        tone = badge("high", f"fails: {failure.decided}")
        return format_html('{}<p class="help">{}</p>', tone, failure.decision.reason)


def _tried(rows: list[Any]) -> list[Any]:
    word = stored_word()
    for row, case in zip(rows, cases(rows), strict=True):
        row.failure = next(iter(failing(word, [case])), None)
    return rows
