"""The admin of tools, extended with the number of uses and failures in chats.

Hidden characters in the texts of services are made visible.
"""

from datetime import timedelta
from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _lazy

from chatapp.admin.badges import EMPTY, render_badge
from chatapp.models import ToolCall
from chatapp.permissions.reasons import is_opinion, translate_reason
from chatapp.rendering.hidden_characters import draw_hidden, draw_hidden_in
from chatapp.tool_menu.use_counts import DAYS
from chatapp.tools.catalogue import assess_risk
from mcpconfig.admin.display import draw_block
from mcpconfig.admin.tools import ToolDefinitionAdmin
from mcpconfig.models import ToolDefinition, ToolSetting

from .opinions import has_model, load_opinions

admin.site.unregister(ToolDefinition)


@admin.register(ToolDefinition)
class ChatToolDefinitionAdmin(ToolDefinitionAdmin):
    """Hidden characters in its name, title and description are visible."""

    fields: ClassVar[Any] = (
        *("service", "drawn_name", "drawn_title", "state", "risk", "drawn_opinion"),
        *("is_current", "drawn_description"),
        *("inputs", "outputs", "claims", "hash", "first_seen_at"),
    )

    @admin.display(description=_lazy("Name"), ordering="name")
    def drawn_name(self, definition: ToolDefinition) -> SafeString:
        return draw_hidden(definition.name)

    @admin.display(description=_lazy("Title"))
    def drawn_title(self, definition: ToolDefinition) -> SafeString:
        return draw_hidden(definition.title)

    @admin.display(description=_lazy("Description"))
    def first_words(self, definition: ToolDefinition) -> SafeString:
        return draw_hidden(definition.description.strip().split("\n", 1)[0][:100])

    @admin.display(description=_lazy("Description"))
    def drawn_description(self, definition: ToolDefinition) -> SafeString:
        return draw_block(draw_hidden(definition.description))

    @admin.display(description=_lazy("Risk"))
    def risk(self, definition: ToolDefinition) -> SafeString:
        """Return the level with our reasons. Those of a second opinion stand in their own field."""
        setting = ToolSetting.objects.filter(service=definition.service, name=definition.name)
        risk = assess_risk(definition.service, definition, setting.first())
        told = [translate_reason(each) for each in risk.reasons if not is_opinion(each)]
        return format_html("{} {}", render_badge(risk.level), " ".join(told))

    @admin.display(description=_lazy("Second opinion"))
    def drawn_opinion(self, definition: ToolDefinition) -> SafeString | str:
        opinion = load_opinions([definition]).get(definition.pk)
        if opinion is None:
            return EMPTY
        return render_to_string("admin/mcpconfig/service/_opinion.html", {"opinion": opinion})

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        context = {"opinion_model": has_model(), **(extra_context or {})}
        definition = self.get_object(request, object_id)
        if definition is not None:
            context["opinion"] = load_opinions([definition]).get(definition.pk)
        response: HttpResponse = super().change_view(request, object_id, form_url, context)
        return response

    @admin.display(description=_lazy("Arguments"))
    def inputs(self, definition: ToolDefinition) -> SafeString:
        return draw_hidden_in(super().inputs(definition))

    @admin.display(description=_lazy("Results"))
    def outputs(self, definition: ToolDefinition) -> SafeString:
        return draw_hidden_in(super().outputs(definition))

    @admin.display(description=_lazy("Annotations"))
    def claims(self, definition: ToolDefinition) -> SafeString:
        return draw_hidden_in(super().claims(definition))

    def get_list_display(self, request: HttpRequest) -> Any:
        return ["drawn_name", *super().get_list_display(request)[1:], "uses", "failures"]

    def get_readonly_fields(self, request: HttpRequest, obj: ToolDefinition | None = None) -> Any:
        drawn = ("drawn_name", "drawn_title", "drawn_description")
        return [*drawn, "risk", "drawn_opinion", *super().get_readonly_fields(request, obj)]

    def get_queryset(self, request: HttpRequest) -> QuerySet[ToolDefinition]:
        since = timezone.now() - timedelta(days=DAYS)
        sent = ToolCall.objects.filter(sent_at__gte=since, definition=OuterRef("pk")).order_by()
        failed = sent.filter(state=ToolCall.State.FAILED)
        definitions: QuerySet[ToolDefinition] = super().get_queryset(request)
        return definitions.annotate(
            used=_count_by_definition(sent), failed=_count_by_definition(failed)
        )

    @admin.display(
        description=format_lazy(_lazy("Uses in {days} days"), days=DAYS), ordering="used"
    )
    def uses(self, definition: ToolDefinition) -> int:
        return int(getattr(definition, "used", 0))

    @admin.display(description=_lazy("Failures"), ordering="failed")
    def failures(self, definition: ToolDefinition) -> int:
        return int(getattr(definition, "failed", 0))


def _count_by_definition(calls: QuerySet[ToolCall]) -> Coalesce:
    counts = calls.values("definition").annotate(number=Count("pk")).values("number")
    return Coalesce(Subquery(counts), 0)
