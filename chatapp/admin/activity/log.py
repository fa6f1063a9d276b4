"""The log, to read, and the evidence of one conversation as a file."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timezone import localtime

from chatapp.models import LogEntry
from chatapp.rendering.log import line_of
from chatapp.rendering.visible import draw_hidden
from chatapp.turns import evidence, log

from .read_only import ReadOnly


class Named(admin.AllValuesFieldListFilter):
    """By name. Some entries have none, and a link needs words."""

    def choices(self, changelist: Any) -> Iterator[Any]:
        for choice in super().choices(changelist):
            yield {**choice, "display": choice["display"] or "nobody"}


@admin.register(LogEntry)
class LogAdmin(ReadOnly, admin.ModelAdmin):
    list_display = ("position", "moment", "kind", "about", "said", "who")
    list_filter = ("kind", "at", ("actor_name", Named), ("person_name", Named))
    search_fields = ("data", "actor_name", "person_name", "=hash")
    date_hierarchy = "at"
    ordering = ("-position",)
    show_full_result_count = False
    fields = (
        *("position", "at", "kind", "actor_name", "actor_id", "person_name", "person_id"),
        *("conversation_id", "turn_id", "call_id", "said", "readable", "previous", "hash"),
    )
    readonly_fields = ("said", "readable")
    change_list_template = "admin/chatapp/logentry/change_list.html"

    @admin.display(description="At", ordering="at")
    def moment(self, entry: LogEntry) -> SafeString:
        words = date_format(localtime(entry.at), "j M H:i:s")
        return format_html('<span class="nowrap">{}</span>', words)

    @admin.display(description="By, for", ordering="actor_name")
    def who(self, entry: LogEntry) -> str:
        names = dict.fromkeys((entry.actor_name or "server", entry.person_name))
        return ", ".join(name for name in names if name)

    @admin.display(description="About")
    def about(self, entry: LogEntry) -> SafeString:
        return line_of(entry).about

    @admin.display(description="Said")
    def said(self, entry: LogEntry) -> SafeString:
        return line_of(entry).said

    @admin.display(description="Data")
    def readable(self, entry: LogEntry) -> SafeString:
        text = json.dumps(json.loads(entry.data), ensure_ascii=False, indent=2)
        return format_html("<pre>{}</pre>", draw_hidden(text))

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        context = {**(extra_context or {}), "end": log.end()}
        return super().changelist_view(request, context)


def evidence_file(_request: HttpRequest, conversation_id: UUID) -> HttpResponse:
    """The evidence of one conversation, to be kept."""
    text = evidence.as_text(evidence.of_conversation(conversation_id))
    answer = HttpResponse(text, content_type="application/json")
    name = f"evidence-{conversation_id}.json"
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    return answer
