"""The admin of the audit log, read-only. Values of other people's calls need a reason, as on the
page of the call."""

import json
from typing import Any, cast

from django.contrib import admin
from django.db.models import OuterRef, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from chatapp.audit import audit_log, chat_access
from chatapp.models import LogEntry, Member, ToolCall
from chatapp.people.admin_rights import VIEW_CHATS
from chatapp.rendering.hidden_characters import draw_hidden
from chatapp.rendering.pages.log import LogLine, build_line
from mcpconfig.admin.big_lists import BigListMixin
from mcpconfig.admin.display import draw_block, format_to_the_second
from mcpconfig.admin.read_only import ReadOnlyMixin

from .chat_reasons import FilteredLookupsMixin, make_open_address
from .filters import ActorFilter, ConcernedFilter, DateFilter, NamedServiceFilter, mark_id
from .log_values import (
    TRIALS,
    annotate_searched,
    build_trial_condition,
    has_hidden_values,
    read_values,
)

# The lookups of links to the entries of a call, beside those of the filters.
LINKED = frozenset({"conversation_id", "call_id"})


@admin.register(LogEntry)
class LogAdmin(FilteredLookupsMixin, BigListMixin, ReadOnlyMixin, admin.ModelAdmin):
    empty_list = _lazy(
        "No entries yet. Decisions, tool calls and changes by admins are recorded here."
    )
    list_display = ("position", "time", "title", "about", "sentence", "actor", "person")
    list_filter = (
        "kind",
        ("at", DateFilter),
        ActorFilter,
        ConcernedFilter,
        # The last, so that it searches the newest entries that match the others.
        NamedServiceFilter,
    )
    search_fields = ("searched", "actor_name", "person_name", "=hash")
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
    change_form_template = "admin/chatapp/logentry/change_form.html"

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        return lookup in LINKED or super().lookup_allowed(lookup, value, request)

    def get_queryset(self, request: HttpRequest) -> QuerySet[LogEntry]:
        reader = cast(Member, request.user)
        may_read = chat_access.build_condition(reader, OuterRef("conversation_id"))
        may_read |= build_trial_condition(reader)
        entries: QuerySet[LogEntry] = super().get_queryset(request).annotate(may_read=may_read)
        return entries

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[LogEntry], search_term: str
    ) -> tuple[QuerySet[LogEntry], bool]:
        entries = annotate_searched(queryset) if search_term else queryset
        return super().get_search_results(request, entries, search_term)

    @admin.display(description=_lazy("Time"), ordering="at")
    def time(self, entry: LogEntry) -> SafeString:
        time = format_to_the_second(entry.at, "SHORT_DATETIME_FORMAT")
        return format_html('<span class="nowrap">{}</span>', time)

    @admin.display(description=_lazy("Kind"))
    def title(self, entry: LogEntry) -> str:
        return _build_line(entry).title

    @admin.display(description=_lazy("Actor"))
    def actor(self, entry: LogEntry) -> SafeString | str:
        name = entry.actor_name or _("server")
        return _link_person(name, "actor", entry.actor_id)

    @admin.display(description=_lazy("Member"))
    def person(self, entry: LogEntry) -> SafeString | str:
        return _link_person(entry.person_name, "person", entry.person_id)

    @admin.display(description=_lazy("About"))
    def about(self, entry: LogEntry) -> SafeString:
        return _build_line(entry).about

    @admin.display(description=_lazy("Entry"))
    def sentence(self, entry: LogEntry) -> SafeString:
        return _build_line(entry).said

    @admin.display(description=_lazy("Data"))
    def formatted_data(self, entry: LogEntry) -> SafeString:
        text = json.dumps(_read_values(entry), ensure_ascii=False, indent=2)
        return draw_block(draw_hidden(text))

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        context = {**(extra_context or {}), "end": audit_log.read_end()}
        return super().changelist_view(request, context)

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Add where the hidden values of the entry can be opened."""
        entry, reader = context["original"], cast(Member, request.user)
        context["owner"] = entry.person_name
        if has_hidden_values(entry) and not entry.may_read:
            is_trial = entry.kind in TRIALS
            has_right = not is_trial and reader.has_perm(VIEW_CHATS)
            context["open_address"] = _find_open_address(request, entry) if has_right else ""
            context["lacks_right"] = not has_right and not is_trial
            context["lacks_trials"] = is_trial
        return super().render_change_form(request, context, *args, **kwargs)


def _read_values(entry: Any) -> dict[str, Any]:
    return read_values(entry, may_read=entry.may_read)


def _build_line(entry: Any) -> LogLine:
    return build_line(entry, _read_values(entry))


def _find_open_address(request: HttpRequest, entry: LogEntry) -> str:
    """Return the page of the call, which opens its values. If there is none, return the form that
    asks for the reason."""
    may_view = request.user.has_perm("chatapp.view_toolcall")
    if may_view and entry.call_id and ToolCall.objects.filter(pk=entry.call_id).exists():
        return reverse("admin:chatapp_toolcall_change", args=[entry.call_id])
    if entry.conversation_id is None:
        return ""
    return make_open_address(request, entry.conversation_id)


def _link_person(name: str, parameter: str, pk: int | None) -> SafeString | str:
    """Return the name as a link to the entries of this person."""
    if pk is None:
        return name
    return format_html('<a href="?{}={}">{}</a>', parameter, mark_id(pk), name)
