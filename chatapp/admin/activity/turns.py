"""The admin of turns with their steps, and of tool calls; read-only."""

import json
from typing import ClassVar

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from chatapp.admin.badges import EMPTY, describe_seconds, render_badge, render_call_state
from chatapp.models import Approval, Step, ToolCall, Turn
from chatapp.permissions.reasons import translate_reason
from mcpconfig.admin.filters import SeveralValuesFilter
from mcpconfig.admin.read_only import ReadOnlyMixin

from .chat_reasons import ReasonFirstMixin
from .filters import CallStateFilter, CreatedFilter, ServiceFilter


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
class TurnAdmin(ReasonFirstMixin, ReadOnlyMixin, admin.ModelAdmin):
    empty_list = _lazy("No turns yet. Each message of a member starts one.")
    conversation_path = "conversation_id"
    list_display = (
        "created_at",
        "conversation",
        "owner",
        "model",
        "state_badge",
        "reason",
        "duration",
    )
    list_filter = ("state", ("created_at", CreatedFilter), ("model", SeveralValuesFilter))
    list_select_related = ("conversation__owner",)
    search_fields = ("conversation__title", "conversation__owner__username", "model")
    ordering = ("-created_at",)
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

    @admin.display(description=_lazy("Member"), ordering="conversation__owner__username")
    def owner(self, turn: Turn) -> str:
        return str(turn.conversation.owner)

    @admin.display(description=_lazy("State"), ordering="state")
    def state_badge(self, turn: Turn) -> SafeString | str:
        return render_badge(turn.state, turn.get_state_display())

    @admin.display(description=_lazy("Duration"))
    def duration(self, turn: Turn) -> str:
        if turn.started_at is None or turn.finished_at is None:
            return EMPTY
        return describe_seconds((turn.finished_at - turn.started_at).total_seconds())


@admin.register(ToolCall)
class ToolCallAdmin(ReasonFirstMixin, ReadOnlyMixin, admin.ModelAdmin):
    empty_list = _lazy(
        "No tool calls yet. They appear here when the assistant uses a tool in a chat."
    )
    conversation_path = "turn.conversation_id"
    list_display = (
        "tool_id",
        "owner",
        "risk_badge",
        "state_badge",
        "decided_by",
        "sent_at",
    )
    list_filter = (CallStateFilter, ("risk", SeveralValuesFilter), ("service", ServiceFilter))
    list_select_related = ("service", "turn__conversation__owner", "approval__decided_by")
    search_fields = ("tool_id", "turn__conversation__owner__username")
    ordering = ("-turn__created_at", "step", "position")
    fields: ClassVar[tuple[str, ...]] = (
        "tool_id",
        "service",
        "turn",
        "risk_badge",
        "risk_reasons",
        "state_badge",
        "policy_reason",
        "decided_by",
        "formatted_arguments",
        "formatted_result",
        "attempt",
        "sent_at",
        "finished_at",
        "resolution",
        "resolved_by",
    )
    readonly_fields = fields

    @admin.display(description=_lazy("Member"), ordering="turn__conversation__owner__username")
    def owner(self, call: ToolCall) -> str:
        return str(call.turn.conversation.owner)

    @admin.display(description=_lazy("Risk"), ordering="risk")
    def risk_badge(self, call: ToolCall) -> SafeString | str:
        return render_badge(call.risk)

    @admin.display(description=_lazy("Risk reasons"))
    def risk_reasons(self, call: ToolCall) -> str:
        return " ".join(map(translate_reason, call.reasons)) or EMPTY

    @admin.display(description=_lazy("Reason"))
    def policy_reason(self, call: ToolCall) -> str:
        return translate_reason(call.why) or EMPTY

    @admin.display(description=_lazy("State"), ordering="state")
    def state_badge(self, call: ToolCall) -> SafeString | str:
        return render_call_state(call)

    @admin.display(description=_lazy("Decided by"))
    def decided_by(self, call: ToolCall) -> str:
        return name_decider(call)

    @admin.display(description=_lazy("Arguments"))
    def formatted_arguments(self, call: ToolCall) -> SafeString:
        return format_html("<pre>{}</pre>", call.arguments)

    @admin.display(description=_lazy("Result"))
    def formatted_result(self, call: ToolCall) -> SafeString | str:
        result = call.result or call.error
        if result is None:
            return EMPTY
        return format_html("<pre>{}</pre>", json.dumps(result, indent=2, ensure_ascii=False))
