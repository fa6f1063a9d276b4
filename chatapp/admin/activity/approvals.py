"""The admin of approvals, read-only."""

from django.contrib import admin
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _lazy

from chatapp.admin.badges import render_badge
from chatapp.models import Approval
from mcpconfig.admin.filters import SeveralValuesFilter
from mcpconfig.admin.read_only import ReadOnlyMixin

from .chat_reasons import ReasonFirstMixin
from .filters import CreatedFilter, ServiceFilter


@admin.register(Approval)
class ApprovalAdmin(ReasonFirstMixin, ReadOnlyMixin, admin.ModelAdmin):
    empty_list = _lazy(
        "No approvals yet. Requests to approve a tool call appear here, with who decided."
    )
    conversation_path = "tool_call.turn.conversation_id"
    list_display = (
        "tool",
        "owner",
        "risk_badge",
        "state_badge",
        "decided_by",
        "decided_at",
        "expires_at",
    )
    list_filter = (
        "state",
        ("tool_call__risk", SeveralValuesFilter),
        ("created_at", CreatedFilter),
        ("tool_call__service", ServiceFilter),
    )
    list_select_related = (
        "tool_call__service",
        "tool_call__turn__conversation__owner",
        "decided_by",
    )
    search_fields = ("tool_call__tool_id", "tool_call__turn__conversation__owner__username")
    ordering = ("-created_at",)
    fields = (
        "tool_call",
        "risk_badge",
        "state_badge",
        "second",
        "first_by",
        "first_at",
        "escalates_at",
        "decided_by",
        "signed_for",
        "decided_at",
        "reason",
        "binding",
        "created_at",
        "expires_at",
    )
    readonly_fields = ("risk_badge", "state_badge")

    @admin.display(description=_lazy("Tool"), ordering="tool_call__tool_id")
    def tool(self, approval: Approval) -> str:
        return approval.tool_call.tool_id

    @admin.display(description=_lazy("Member"))
    def owner(self, approval: Approval) -> str:
        return str(approval.tool_call.turn.conversation.owner)

    @admin.display(description=_lazy("Risk"), ordering="tool_call__risk")
    def risk_badge(self, approval: Approval) -> SafeString | str:
        return render_badge(approval.tool_call.risk)

    @admin.display(description=_lazy("State"), ordering="state")
    def state_badge(self, approval: Approval) -> SafeString | str:
        return render_badge(approval.state, approval.get_state_display())
