"""Trials: the tools that admins ran by hand, to read."""

from django.contrib import admin
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from chatapp.models import Trial

from .badges import EMPTY, badge
from .read_only import ReadOnly


@admin.register(Trial)
class TrialAdmin(ReadOnly, admin.ModelAdmin):
    list_display = ("tool_id", "person", "risk_badge", "state_badge", "sent_at", "took")
    list_filter = ("state", "risk", "service", "sent_at")
    list_select_related = ("person",)
    search_fields = ("tool_id", "person__username")
    fields = (
        *("tool_id", "service", "person", "risk_badge", "why", "was_confirmed"),
        *("state_badge", "shown_arguments", "sent_at", "took", "page"),
    )
    readonly_fields = ("risk_badge", "state_badge", "shown_arguments", "took", "page")

    @admin.display(description="Risk", ordering="risk")
    def risk_badge(self, trial: Trial) -> SafeString | str:
        return badge(trial.risk)

    @admin.display(description="State", ordering="state")
    def state_badge(self, trial: Trial) -> SafeString | str:
        return badge(trial.state, trial.get_state_display())

    @admin.display(description="Arguments")
    def shown_arguments(self, trial: Trial) -> SafeString:
        return format_html("<pre>{}</pre>", trial.arguments)

    @admin.display(description="Took")
    def took(self, trial: Trial) -> str:
        return EMPTY if trial.seconds is None else f"{trial.seconds:.1f} s"

    @admin.display(description="Result")
    def page(self, trial: Trial) -> SafeString | str:
        if trial.service_id is None:
            return EMPTY
        address = reverse("admin:mcpconfig_service_trial", args=[trial.service_id, trial.pk])
        return format_html('<a href="{}">See what came of it</a>', address)
