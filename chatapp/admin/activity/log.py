"""The admin of the audit log, read-only."""

import json
from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from chatapp.audit import audit_log
from chatapp.models import LogEntry
from chatapp.rendering.hidden_characters import draw_hidden
from chatapp.rendering.pages.log import build_line
from mcpconfig.admin.big_lists import BigListMixin
from mcpconfig.admin.display import format_to_the_second
from mcpconfig.admin.read_only import ReadOnlyMixin

from .filters import ActorFilter, ConcernedFilter, DateFilter


@admin.register(LogEntry)
class LogAdmin(BigListMixin, ReadOnlyMixin, admin.ModelAdmin):
    empty_list = _lazy(
        "No entries yet. Decisions, tool calls and changes by admins are recorded here."
    )
    list_display = ("position", "time", "title", "about", "sentence", "actor", "person")
    list_filter = (
        "kind",
        ("at", DateFilter),
        ActorFilter,
        ConcernedFilter,
    )
    search_fields = ("data", "actor_name", "person_name", "=hash")
    ordering = ("-position",)
    newest_first = ordering
    person_fields = ("person_id", "actor_id")
    sortable_by = ("position", "time")
    fields = (
        *("position", "at", "title", "actor_name", "actor_id", "person_name", "person_id"),
        *(
            "conversation_id",
            "turn_id",
            "call_id",
            "sentence",
            "formatted_data",
            "previous",
            "hash",
        ),
    )
    readonly_fields = ("title", "sentence", "formatted_data")
    change_list_template = "admin/chatapp/logentry/change_list.html"

    @admin.display(description=_lazy("Time"), ordering="at")
    def time(self, entry: LogEntry) -> SafeString:
        time = format_to_the_second(entry.at, "SHORT_DATETIME_FORMAT")
        return format_html('<span class="nowrap">{}</span>', time)

    @admin.display(description=_lazy("Kind"))
    def title(self, entry: LogEntry) -> str:
        return build_line(entry).title

    @admin.display(description=_lazy("Actor"))
    def actor(self, entry: LogEntry) -> SafeString | str:
        name = entry.actor_name or _("server")
        return _link_person(name, "actor", entry.actor_id)

    @admin.display(description=_lazy("Member"))
    def person(self, entry: LogEntry) -> SafeString | str:
        return _link_person(entry.person_name, "person", entry.person_id)

    @admin.display(description=_lazy("About"))
    def about(self, entry: LogEntry) -> SafeString:
        return build_line(entry).about

    @admin.display(description=_lazy("Entry"))
    def sentence(self, entry: LogEntry) -> SafeString:
        return build_line(entry).said

    @admin.display(description=_lazy("Data"))
    def formatted_data(self, entry: LogEntry) -> SafeString:
        text = json.dumps(json.loads(entry.data), ensure_ascii=False, indent=2)
        return format_html("<pre>{}</pre>", draw_hidden(text))

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        context = {**(extra_context or {}), "end": audit_log.read_end()}
        return super().changelist_view(request, context)


def _link_person(name: str, parameter: str, pk: int | None) -> SafeString | str:
    """Return the name as a link to the entries of this person."""
    return name if pk is None else format_html('<a href="?{}={}">{}</a>', parameter, pk, name)
