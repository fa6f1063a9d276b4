"""The admin of the policy: rules, limits, the policy for everybody, policy tests, the simulator."""

from typing import TYPE_CHECKING, Any, ClassVar, cast

from django.contrib import admin, messages
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from chatapp.admin.activity.filters import PersonFilter
from chatapp.admin.badges import render_badge
from chatapp.admin.single_row import SingleRowMixin
from chatapp.models import HousePolicy, Member, PolicyRule, PolicyTest, ToolLimit
from chatapp.permissions.reasons import translate_reason
from chatapp.policy.policy_set import load_policy_set
from chatapp.simulation.policy_tests import FailedTest, list_failing, list_newly_failing, load_cases
from mcpconfig.admin.filters import EmptyChoiceMixin

from . import simulator, who_can
from .draft_forms import (
    ALL_MEMBERS,
    ALL_SERVICES,
    AS_FOR_MEDIUM,
    AS_IN_POLICY,
    NO_SECOND_APPROVAL,
)
from .drafted_saves import DraftedSavesMixin
from .forms import (
    HousePolicyForm,
    LimitForm,
    PolicyTestForm,
    RuleForm,
    ServiceChoiceField,
    describe_failing,
)
from .sentences import describe_limit, describe_rule, describe_test

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

TONE_OF_EFFECT = {"allow": "low", "ask": "medium", "deny": "high"}


class ServicesFilter(EmptyChoiceMixin, admin.RelatedFieldListFilter):
    empty_choice = _lazy("For all services")


class GroupsFilter(EmptyChoiceMixin, admin.RelatedFieldListFilter):
    empty_choice = ALL_MEMBERS


class ServiceOfCallFilter(EmptyChoiceMixin, admin.RelatedFieldListFilter):
    empty_choice = _lazy("Built-in tools")


class ChoicesMixin:
    """Names the empty choice of a field, for which Django shows dashes, and each service."""

    # The labels by the name of the field.
    empty_choices: "ClassVar[dict[str, StrOrPromise]]" = {}

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name in self.empty_choices:
            kwargs["empty_label"] = self.empty_choices[db_field.name]
        if db_field.name == "service":
            kwargs["form_class"] = ServiceChoiceField
        page: Any = super()
        return page.formfield_for_foreignkey(db_field, request, **kwargs)


class PolicyAdmin(DraftedSavesMixin, ChoicesMixin, admin.ModelAdmin):
    """A part of the policy. There are no bulk actions, because policy tests run for each change."""

    actions = None

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        if self.get_drafting(request) is not None:
            return
        failing = list_failing(load_policy_set(), load_cases())
        if failing:
            sentences = " ".join(failure.sentence for failure in failing)
            messages.warning(
                request, _("Saved. These policy tests fail: %(tests)s") % {"tests": sentences}
            )


class DeletableAdmin(PolicyAdmin):
    """A part of the policy that can be deleted. Policy tests run before a deletion as well."""

    def delete_at_once(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any]
    ) -> HttpResponse:
        row = self.get_object(request, object_id)
        can_delete = row is not None and self.has_delete_permission(request, row)
        if request.method == "POST" and can_delete and (failing := _list_failing_without(row)):
            for sentence in describe_failing(failing):
                messages.error(request, sentence)
            name = f"admin:{self.opts.app_label}_{self.opts.model_name}_change"
            return redirect(name, object_id)
        return super().delete_at_once(request, object_id, extra_context)


def _list_failing_without(row: Any) -> list[FailedTest]:
    """Return the tests that would newly fail without this row."""
    return list_newly_failing(load_policy_set(), load_policy_set(but=row))


@admin.register(PolicyRule)
class RuleAdmin(DeletableAdmin):
    empty_list = _lazy(
        "No rules yet. Add one to allow certain calls, require approval for them or refuse them."
    )
    form = RuleForm
    empty_choices: ClassVar = {"service": ALL_SERVICES, "second": AS_IN_POLICY}
    list_display = ("name", "effect_badge", "sentence", "is_enabled")
    list_filter = ("effect", "is_enabled", ("service", ServicesFilter))
    list_select_related = ("service", "second")
    search_fields = ("name", "tool", "note", "condition")
    change_list_template = "admin/chatapp/policyrule/change_list.html"
    fieldsets = (
        (
            _lazy("Effect"),
            {
                "fields": ("name", "effect", "note", "is_enabled"),
                "description": _lazy(
                    "A rule that refuses overrides rules that ask, and a rule that asks overrides "
                    "rules that allow."
                ),
            },
        ),
        (
            _lazy("Approval"),
            {
                "fields": ("wants_typing", "second"),
                "description": _lazy("Only for rules that ask."),
            },
        ),
        (_lazy("Tools"), {"fields": ("service", "is_core", "tool", "levels")}),
        (_lazy("Members"), {"fields": ("groups",)}),
        (
            _lazy("Arguments"),
            {
                "fields": ("condition",),
                "description": _lazy(
                    "If an argument is missing or its type does not fit, the condition can’t be "
                    "checked. A rule that asks or refuses then applies; a rule that allows "
                    "does not."
                ),
            },
        ),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[PolicyRule]:
        rows: QuerySet[PolicyRule] = super().get_queryset(request)
        return rows.prefetch_related("groups")

    def get_urls(self) -> list[URLPattern]:
        own = [
            path("simulator/", self._make_view(simulator.show_simulator), name="policy_simulator"),
            path("questions/", self._make_view(simulator.show_questions), name="policy_questions"),
            path("who-can/", self._make_view(who_can.show_who_can), name="policy_who_can"),
            path("as-member/", self._make_view(who_can.show_as_person), name="policy_as_person"),
        ]
        return own + super().get_urls()

    def _make_view(self, page: simulator.Page) -> Any:
        """Return the view of a page, for people with the permission to view rules."""

        def show_page(request: HttpRequest) -> HttpResponse:
            if not self.has_view_permission(request):
                raise PermissionDenied
            name, values = page(request)
            context = {**self.admin_site.each_context(request), "opts": self.opts, **values}
            return TemplateResponse(request, f"admin/chatapp/policyrule/{name}.html", context)

        return self.admin_site.admin_view(show_page)

    @admin.display(description=_lazy("Effect"), ordering="effect")
    def effect_badge(self, rule: PolicyRule) -> SafeString | str:
        return render_badge(TONE_OF_EFFECT[rule.effect], rule.get_effect_display())

    @admin.display(description=_lazy("Effect"))
    def sentence(self, rule: PolicyRule) -> str:
        return describe_rule(rule)


@admin.register(ToolLimit)
class LimitAdmin(DeletableAdmin):
    empty_list = _lazy(
        "No tool limits yet. Add one to require approval after a number of calls per day."
    )
    form = LimitForm
    empty_choices: ClassVar = {"service": ALL_SERVICES, "group": ALL_MEMBERS}
    list_display = ("sentence", "service", "group", "calls")
    list_filter = (("service", ServicesFilter), ("group", GroupsFilter))
    list_select_related = ("service", "group")

    @admin.display(description=_lazy("Effect"))
    def sentence(self, limit: ToolLimit) -> str:
        return describe_limit(limit)


@admin.register(HousePolicy)
class HousePolicyAdmin(SingleRowMixin, PolicyAdmin):
    """The policy for everybody."""

    form = HousePolicyForm
    empty_choices: ClassVar = {"medium_needs": NO_SECOND_APPROVAL, "high_needs": AS_FOR_MEDIUM}
    fieldsets = (
        (_lazy("When to ask"), {"fields": ("asks_everything", "runs_up_to")}),
        (_lazy("Approval"), {"fields": ("types_high", "medium_needs", "high_needs")}),
        (
            _lazy("What members may allow in advance"),
            {"fields": ("widest_consent", "consents_to_high", "consent_days")},
        ),
        (
            _lazy("After untrusted content"),
            {
                "fields": ("allowed_hosts",),
                "description": _lazy(
                    "After the assistant reads untrusted content, any tool that is not read-only "
                    "needs approval. So do calls that send data to an address or a recipient. "
                    "Sending to the hosts below does not, by itself, require approval."
                ),
            },
        ),
        (_lazy("Second opinions"), {"fields": ("opinion_model", "opinions_for_new")}),
        (_lazy("Attention checks"), {"fields": ("check_each",)}),
        (_lazy("Services that members add"), {"fields": ("lets_add_services", "adding_groups")}),
        (_lazy("Changes of the policy"), {"fields": ("changes_need_second",)}),
    )
    change_form_template = "admin/chatapp/housepolicy/change_form.html"

    def save_model(
        self, request: HttpRequest, obj: HousePolicy, form: ModelForm, change: bool
    ) -> None:
        """Record for whom the automatic opinions are counted. The form may begin with the values
        of a draft, so compare with the stored row."""
        stored = HousePolicy.current()
        if obj.opinions_for_new and (True, obj.opinion_model) != (
            stored.opinions_for_new,
            stored.opinion_model,
        ):
            obj.opinions_paid_by = cast(Member, request.user)
        super().save_model(request, obj, form, change)


@admin.register(PolicyTest)
class PolicyTestAdmin(ChoicesMixin, admin.ModelAdmin):
    empty_list = _lazy(
        "No policy tests yet. Add a call and its expected decision. A policy change that fails a "
        "test is not saved."
    )
    form = PolicyTestForm
    empty_choices: ClassVar = {"service": _lazy("Built-in tools")}
    list_display = ("name", "sentence", "verdict")
    list_filter = ("expected", ("service", ServiceOfCallFilter), PersonFilter)
    person_path = "person"
    list_select_related = ("person", "service__owner")
    search_fields = ("name", "tool")
    autocomplete_fields = ("person",)

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Run the listed tests, all on the same policy."""
        response: HttpResponse = super().changelist_view(request, extra_context)
        if isinstance(response, TemplateResponse) and response.context_data:
            changelist = response.context_data.get("cl")
            if isinstance(changelist, ChangeList):
                changelist.result_list = _run_tests(list(changelist.result_list))
        return response

    def save_model(
        self, request: HttpRequest, obj: PolicyTest, form: ModelForm, change: bool
    ) -> None:
        super().save_model(request, obj, form, change)
        for failure in list_failing(load_policy_set(), load_cases([obj])):
            messages.warning(
                request,
                _("This test fails under the current policy. %(reason)s")
                % {"reason": failure.sentence},
            )

    @admin.display(description=_lazy("Test"))
    def sentence(self, test: PolicyTest) -> str:
        return describe_test(test)

    @admin.display(description=_lazy("Result"))
    def verdict(self, test: Any) -> SafeString | str:
        failure: FailedTest | None = test.failure
        if failure is None:
            return render_badge("low", _("passes"))
        badge = render_badge("high", _("fails: %(decision)s") % {"decision": failure.decided})
        return format_html(
            '{}<p class="help">{}</p>', badge, translate_reason(failure.decision.reason)
        )


def _run_tests(rows: list[Any]) -> list[Any]:
    """Return the rows, each with its failure or None as the attribute `failure`."""
    policy_set = load_policy_set()
    for row, case in zip(rows, load_cases(rows), strict=True):
        row.failure = next(iter(list_failing(policy_set, [case])), None)
    return rows
