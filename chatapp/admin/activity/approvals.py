"""The admin of approvals, read-only."""

from django.contrib import admin
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _lazy

from chatapp.admin.badges import render_badge
from chatapp.models import Approval
from mcpconfig.admin.big_lists import BigListMixin
from mcpconfig.admin.read_only import ReadOnlyMixin

from .chat_reasons import ReasonFirstMixin
from .filters import CreatedFilter, PersonFilter, RiskOfCallFilter, ServiceFilter


@admin.register(Approval)
class ApprovalAdmin(ReasonFirstMixin, BigListMixin, ReadOnlyMixin, admin.ModelAdmin):
    empty_list = _lazy(
        "No approvals yet. Requests to approve a tool call appear here, with who decided."
    )
    conversation_path = "tool_call.turn.conversation_id"
    person_path = "tool_call__turn__conversation__owner"
    person_fields = (person_path,)
    list_display = (
        "tool",
        "owner",
        "risk_badge",
        "state_badge",
        "decided_by",
        "created_at",
        "decided_at",
        "expires_at",
    )
    list_filter = (
        "state",
        RiskOfCallFilter,
        ("created_at", CreatedFilter),
        ("tool_call__service", ServiceFilter),
        PersonFilter,
    )
    list_select_related = (
        "tool_call__service",
        "tool_call__turn__conversation__owner",
        "decided_by",
    )
    search_fields = ("tool_call__tool_id", "tool_call__turn__conversation__owner__username")
    ordering = ("-created_at",)
    newest_first = ordering
    sortable_by = ("created_at",)
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

    @admin.display(description=_lazy("Tool"))
    def tool(self, approval: Approval) -> str:
        return approval.tool_call.tool_id

    @admin.display(description=_lazy("Member"))
    def owner(self, approval: Approval) -> str:
        return str(approval.tool_call.turn.conversation.owner)

    @admin.display(description=_lazy("Risk"))
    def risk_badge(self, approval: Approval) -> SafeString | str:
        return render_badge(approval.tool_call.risk)

    @admin.display(description=_lazy("State"))
    def state_badge(self, approval: Approval) -> SafeString | str:
        return render_badge(approval.state, approval.get_state_display())
