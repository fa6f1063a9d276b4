"""The admin of turns with their steps, and of tool calls; read-only."""

from datetime import datetime
from typing import Any, cast

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from chatapp.admin.badges import EMPTY, describe_seconds, render_badge, render_call_state
from chatapp.audit import chat_access
from chatapp.models import Approval, Member, Step, ToolCall, Turn
from chatapp.people.admin_rights import VIEW_CHATS
from chatapp.permissions.reasons import translate_reason
from mcpconfig.admin.big_lists import BigListMixin, RecentValuesFilter
from mcpconfig.admin.read_only import ReadOnlyMixin

from .call_story import build_story
from .chat_reasons import FilteredLookupsMixin, ReasonFirstMixin, make_open_address
from .filters import CallStateFilter, CreatedFilter, PersonFilter, RiskFilter, ServiceFilter


class StepInline(ReadOnlyMixin, admin.TabularInline):
    model = Step
    fields = (
        "number",
        "attempt",
        "state",
        "finish_reason",
        "input_tokens",
        "output_tokens",
        "started_at",
        "finished_at",
    )
    readonly_fields = fields
    extra = 0


class ToolCallInline(ReadOnlyMixin, admin.TabularInline):
    model = ToolCall
    fields = (
        *("step", "call", "risk_badge", "state_badge"),
        *("policy_reason", "decided_by", "duration"),
    )
    readonly_fields = fields
    extra = 0

    def get_queryset(self, request: HttpRequest) -> QuerySet[ToolCall]:
        return super().get_queryset(request).select_related("approval__decided_by")

    @admin.display(description=_lazy("Tool"))
    def call(self, call: ToolCall) -> SafeString:
        url = reverse("admin:chatapp_toolcall_change", args=[call.pk])
        return format_html('<a href="{}"><code>{}</code></a>', url, call.tool_id)

    @admin.display(description=_lazy("Risk"))
    def risk_badge(self, call: ToolCall) -> SafeString | str:
        return render_badge(call.risk)

    @admin.display(description=_lazy("State"))
    def state_badge(self, call: ToolCall) -> SafeString | str:
        return render_call_state(call)

    @admin.display(description=_lazy("Reason"))
    def policy_reason(self, call: ToolCall) -> str:
        return translate_reason(call.why) or EMPTY

    @admin.display(description=_lazy("Decided by"))
    def decided_by(self, call: ToolCall) -> str:
        return name_decider(call)

    @admin.display(description=_lazy("Duration"))
    def duration(self, call: ToolCall) -> str:
        return EMPTY if call.seconds is None else describe_seconds(call.seconds)


def name_decider(call: ToolCall) -> str:
    """Return the person who decided the approval, or "policy" for a call without an approval."""
    if call.state == ToolCall.State.PROPOSED or not call.risk:  # failed before the policy check
        return EMPTY
    approval: Approval | None = getattr(call, "approval", None)
    if approval is None:
        return _("policy")
    return str(approval.decided_by or EMPTY)


@admin.register(Turn)
class TurnAdmin(ReasonFirstMixin, BigListMixin, ReadOnlyMixin, admin.ModelAdmin):
    empty_list = _lazy("No turns yet. Each message of a member starts one.")
    conversation_path = "conversation_id"
    person_path = "conversation__owner"
    person_fields = (person_path,)
    list_display = (
        "created_at",
        "conversation",
        "owner",
        "model",
        "state_badge",
        "reason",
        "duration",
    )
    list_filter = (
        "state",
        ("created_at", CreatedFilter),
        ("model", RecentValuesFilter),
        PersonFilter,
    )
    list_select_related = ("conversation__owner",)
    search_fields = ("conversation__title", "conversation__owner__username", "model")
    ordering = ("-created_at",)
    newest_first = ordering
    sortable_by = ("created_at",)
    fields = (
        "conversation",
        "model",
        "state_badge",
        "reason",
        "services",
        "created_at",
        "started_at",
        "finished_at",
    )
    readonly_fields = ("state_badge",)
    inlines = (StepInline, ToolCallInline)

    def get_list_display(self, request: HttpRequest) -> Any:
        """Leave out titles, which tell what a chat is about, without the right to chats."""
        has_right = request.user.has_perm(VIEW_CHATS)
        return [name for name in self.list_display if has_right or name != "conversation"]

    def get_search_fields(self, request: HttpRequest) -> Any:
        has_right = request.user.has_perm(VIEW_CHATS)
        return [name for name in self.search_fields if has_right or not name.endswith("__title")]

    @admin.display(description=_lazy("Member"))
    def owner(self, turn: Turn) -> str:
        return str(turn.conversation.owner)

    @admin.display(description=_lazy("State"))
    def state_badge(self, turn: Turn) -> SafeString | str:
        return render_badge(turn.state, turn.get_state_display())

    @admin.display(description=_lazy("Duration"))
    def duration(self, turn: Turn) -> str:
        if turn.started_at is None or turn.finished_at is None:
            return EMPTY
        return describe_seconds((turn.finished_at - turn.started_at).total_seconds())


RELATED = (
    *("service", "turn__conversation__owner", "rule", "review", "resolved_by"),
    *(f"approval__{name}" for name in ("second", "first_by", "decided_by", "signed_for")),
)


class DecisionFilter(admin.SimpleListFilter):
    """A filter of tool calls by how the policy decided."""

    title = _lazy("decision")
    parameter_name = "decision"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [
            ("ran", _("Ran without asking")),
            ("asked", _("Needed approval")),
            ("two", _("Needed two approvals")),
            ("refused", _("Refused by policy")),
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[ToolCall]) -> QuerySet[ToolCall]:
        refused = Q(state=ToolCall.State.REFUSED, approval=None)
        conditions = {
            "ran": Q(approval=None) & ~Q(risk="") & ~refused,
            "asked": Q(approval__isnull=False),
            "two": Q(approval__second__isnull=False),
            "refused": refused,
        }
        return queryset.filter(conditions.get(self.value() or "", Q()))


@admin.register(ToolCall)
class ToolCallAdmin(FilteredLookupsMixin, BigListMixin, ReadOnlyMixin, admin.ModelAdmin):
    """The calls, and for each of them the story of its decision."""

    empty_list = _lazy(
        "No tool calls yet. They appear here when the assistant uses a tool in a chat."
    )
    list_display = (
        "created",
        "tool_id",
        "owner",
        "service",
        "risk_badge",
        "state_badge",
        "decided_by",
    )
    list_display_links = ("tool_id",)
    list_filter = (
        DecisionFilter,
        CallStateFilter,
        ("turn__created_at", CreatedFilter),
        RiskFilter,
        ("service", ServiceFilter),
        PersonFilter,
    )
    search_fields = ("tool_id", "turn__conversation__owner__username")
    ordering = ("-turn__created_at", "step", "position")
    newest_first = ordering
    sortable_by = ("created",)
    person_path = "turn__conversation__owner"
    person_fields = (person_path,)
    fields = ("tool_id",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[ToolCall]:
        calls: QuerySet[ToolCall] = super().get_queryset(request)
        return calls.select_related(*RELATED)

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Show the story. What the chat says is in it only after a reason, as on other pages."""
        call: ToolCall = context["original"]
        reader = cast(Member, request.user)
        may_read = chat_access.may_read(reader, call.turn.conversation_id)
        address = make_open_address(request, call.turn.conversation_id)
        context |= {
            "title": call.tool_id,
            "subtitle": None,
            "story": build_story(call, reader, may_read=may_read),
            "owner": call.turn.conversation.owner.display_name,
            "open_address": address if not may_read and reader.has_perm(VIEW_CHATS) else "",
            "lacks_right": not may_read and not reader.has_perm(VIEW_CHATS),
            "state_badge": render_call_state(call),
            "risk_badge": render_badge(call.risk),
        }
        return TemplateResponse(request, "admin/chatapp/toolcall/story.html", context)

    @admin.display(description=_lazy("Created"), ordering="turn__created_at")
    def created(self, call: ToolCall) -> datetime:
        return call.turn.created_at

    @admin.display(description=_lazy("Member"))
    def owner(self, call: ToolCall) -> str:
        return str(call.turn.conversation.owner)

    @admin.display(description=_lazy("Risk"))
    def risk_badge(self, call: ToolCall) -> SafeString | str:
        return render_badge(call.risk)

    @admin.display(description=_lazy("State"))
    def state_badge(self, call: ToolCall) -> SafeString | str:
        return render_call_state(call)

    @admin.display(description=_lazy("Decided by"))
    def decided_by(self, call: ToolCall) -> str:
        return name_decider(call)
