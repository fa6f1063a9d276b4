"""The admin of trials, which are tools that admins ran by hand; read-only."""

from django.contrib import admin
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from chatapp.admin.badges import EMPTY, describe_seconds, render_badge
from chatapp.models import Trial
from chatapp.permissions.reasons import translate_reason
from mcpconfig.admin.display import draw_block
from mcpconfig.admin.read_only import ReadOnlyMixin

from .filters import PersonFilter, RiskFilter, SentFilter, ServiceFilter


@admin.register(Trial)
class TrialAdmin(ReadOnlyMixin, admin.ModelAdmin):
    empty_list = _lazy(
        "No trials yet. To run a tool by hand, open its service and choose “Try it”."
    )
    person_path = "person"
    list_display = ("tool_id", "person", "risk_badge", "state_badge", "sent_at", "duration")
    list_filter = (
        "state",
        RiskFilter,
        ("service", ServiceFilter),
        ("sent_at", SentFilter),
        PersonFilter,
    )
    list_select_related = ("person",)
    search_fields = ("tool_id", "person__username")
    fields = (
        *("tool_id", "service", "person", "risk_badge", "policy_reason", "was_confirmed"),
        *("state_badge", "formatted_arguments", "sent_at", "duration", "result_link"),
    )
    readonly_fields = (
        "risk_badge",
        "policy_reason",
        "state_badge",
        "formatted_arguments",
        "duration",
        "result_link",
    )

    @admin.display(description=_lazy("Risk"), ordering="risk")
    def risk_badge(self, trial: Trial) -> SafeString | str:
        return render_badge(trial.risk)

    @admin.display(description=_lazy("Reason"))
    def policy_reason(self, trial: Trial) -> str:
        return translate_reason(trial.why) or EMPTY

    @admin.display(description=_lazy("State"), ordering="state")
    def state_badge(self, trial: Trial) -> SafeString | str:
        return render_badge(trial.state, trial.get_state_display())

    @admin.display(description=_lazy("Arguments"))
    def formatted_arguments(self, trial: Trial) -> SafeString:
        return draw_block(trial.arguments)

    @admin.display(description=_lazy("Duration"))
    def duration(self, trial: Trial) -> str:
        return EMPTY if trial.seconds is None else describe_seconds(trial.seconds)

    @admin.display(description=_lazy("Result"))
    def result_link(self, trial: Trial) -> SafeString | str:
        if trial.service_id is None:
            return EMPTY
        url = reverse("admin:mcpconfig_service_trial", args=[trial.service_id, trial.pk])
        return format_html('<a href="{}">{}</a>', url, _("View result"))
