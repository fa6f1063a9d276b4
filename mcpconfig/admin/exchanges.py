"""The trace in the admin: the exchanges with services, read-only."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.views.decorators.http import require_safe

from mcpconfig.models import Exchange, Service
from mcpconfig.values.numbers import read_number

from .big_lists import BigListMixin, RecentValuesFilter
from .display import EMPTY, format_to_the_second, render_json
from .exchange_display import describe_messages, describe_request, render_body
from .operation_page import HIDDEN, Lock, LockedPages, show_operation
from .read_only import ReadOnlyMixin
from .service_pages import list_tab_rights, may_view_services
from .trace_filters import TYPED_FILTERS

FOLDER = "admin/mcpconfig/exchange"
TYPED_NAMES = tuple(each.parameter_name for each in TYPED_FILTERS)
# What the form of the filters replaces in the address. The list then begins at its first page.
REPLACED = {*TYPED_NAMES, "p"} - {"live"}


# The filter by one service, which the tabs of that service link to.
SERVICE_LOOKUP = "service__id__exact"


@admin.register(Exchange)
class ExchangeAdmin(BigListMixin, ReadOnlyMixin, LockedPages):
    empty_list = _lazy("No exchanges yet. Requests to services and their responses appear here.")
    list_display = (
        "moment",
        "service",
        "operation_link",
        "request_line",
        "person",
        "status",
        "attempt",
        "response_bytes",
        "duration_ms",
    )
    list_filter = (
        "service",
        *((name, RecentValuesFilter) for name in ("operation", "status", "era", "kind")),
        *TYPED_FILTERS,
    )
    list_display_links = None
    change_form_template = f"{FOLDER}/change_form.html"
    list_select_related = ("service",)
    exact_fields = ("operation_id", "round_id")
    search_fields = ("=operation_id", "=round_id", "rpc_method")
    fieldsets = (
        (None, {"fields": ("service", "operation", "same_operation", "same_round", "started_at")}),
        (_lazy("Request"), {"fields": ("request_line", "url", "kind", "rpc_id", "era", "attempt")}),
        (_lazy("Sent"), {"fields": ("request_bytes", "sent_headers", "sent_body")}),
        (
            _lazy("Received"),
            {
                "fields": (
                    *("status", "duration_ms", "response_bytes"),
                    *("messages", "received_headers", "received_body"),
                )
            },
        ),
    )
    readonly_fields = (
        *("request_line", "same_operation", "same_round", "messages"),
        *("sent_headers", "sent_body", "received_headers", "received_body"),
    )

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(require_safe(partial(show_operation, self)))
        own = path("operation/<uuid:operation_id>/", view, name="mcpconfig_exchange_operation")
        return [own, *super().get_urls()]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Exchange]:
        people = get_user_model().objects.filter(pk=OuterRef("person_id"))
        exchanges: QuerySet[Exchange] = super().get_queryset(request)
        return exchanges.annotate(person_name=Subquery(people.values("username")[:1]))

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the list. While it is live, the page asks for what is new, and gets nothing if
        nothing is."""
        query = request.GET.copy()
        since = query.pop("since", [""])[-1]
        request.GET = query  # type: ignore[assignment]  # Django's lists read it only
        is_asking = "HX-Request" in request.headers
        if is_asking and not self._has_newer(request, since):
            return HttpResponse(status=204)
        newest = Exchange.objects.values_list("pk", flat=True).first()
        context = {
            "typed": {name: query.get(name, "") for name in TYPED_NAMES},
            "is_live": bool(query.get("live")),
            "newest": newest or 0,
            "now": timezone.localtime(),
            **_build_tabs(request, query.getlist(SERVICE_LOOKUP)),
            **(extra_context or {}),
        }
        response: HttpResponse = super().changelist_view(request, context)
        if isinstance(response, TemplateResponse) and response.context_data is not None:
            changes: Any = response.context_data["cl"]
            changes.result_list = _mark_groups(changes.result_list)
            response.context_data |= {
                "live_query": changes.get_query_string({"live": "on"}, ["p"]),
                "pause_query": changes.get_query_string(remove=["live"]),
                "kept": [(name, query[name]) for name in query if name not in REPLACED],
            }
            if is_asking:
                response.template_name = f"{FOLDER}/_tail.html"
        return response

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Exchange | None:
        found: Exchange | None = super().get_object(request, object_id, from_field)
        if found is not None:
            found.lock = self.find_lock(request, found)  # type: ignore[attr-defined]
        return found

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Add why values are hidden, and where they can be opened."""
        lock: Lock | None = context["original"].lock
        context |= lock.context if lock else {}
        return super().render_change_form(request, context, *args, **kwargs)

    def _has_newer(self, request: HttpRequest, since: str) -> bool:
        """Return whether there are exchanges that the page does not show. True also without the
        right to see them: the list then refuses the request."""
        last = read_number(since)
        if last is None or not self.has_view_permission(request):
            return True
        return Exchange.objects.filter(pk__gt=last).exists()

    @admin.display(description=_lazy("Created at"), ordering="created_at")
    def moment(self, exchange: Exchange) -> SafeString:
        """Return the time with a link. Its id keeps the focus when rows come in above it."""
        address = reverse("admin:mcpconfig_exchange_change", args=[exchange.pk])
        time = format_to_the_second(exchange.created_at, "DATETIME_FORMAT")
        return format_html('<a id="exchange-{}" href="{}">{}</a>', exchange.pk, address, time)

    @admin.display(description=_lazy("Operation"), ordering="operation")
    def operation_link(self, exchange: Exchange) -> SafeString:
        group = getattr(exchange, "group", "")
        if group == "operation":
            return format_html('<span class="same">↳ {}</span>', _("same operation"))
        address = reverse("admin:mcpconfig_exchange_operation", args=[exchange.operation_id])
        return format_html(
            '{}<a id="operation-{}" href="{}">{}</a>{}',
            format_html('<span class="same">↳ {}</span> ', _("same call")) if group else "",
            exchange.pk,
            address,
            exchange.operation,
            format_html(" <code>{}</code>", exchange.tool) if exchange.tool else "",
        )

    @admin.display(description=_lazy("Member"))
    def person(self, exchange: Exchange) -> str:
        return str(getattr(exchange, "person_name", None) or EMPTY)

    @admin.display(description=_lazy("Request"))
    def request_line(self, exchange: Exchange) -> str:
        return describe_request(exchange)

    @admin.display(description=_lazy("Same operation"))
    def same_operation(self, exchange: Exchange) -> SafeString:
        address = reverse("admin:mcpconfig_exchange_operation", args=[exchange.operation_id])
        return format_html('<a href="{}">{}</a>', address, exchange.operation_id)

    @admin.display(description=_lazy("Same tool call"))
    def same_round(self, exchange: Exchange) -> SafeString | str:
        return _render_filter_link("round_id", exchange.round_id) if exchange.round_id else EMPTY

    @admin.display(description=_lazy("Messages received"))
    def messages(self, exchange: Exchange) -> SafeString | str:
        lines = [(line,) for line in describe_messages(exchange)]
        return format_html_join("", "<div>{}</div>", lines) or EMPTY

    @admin.display(description=_lazy("Headers"))
    def sent_headers(self, exchange: Exchange) -> SafeString | str:
        return _hide(exchange) or render_json(exchange.request_headers)

    @admin.display(description=_lazy("Headers"))
    def received_headers(self, exchange: Exchange) -> SafeString | str:
        return _hide(exchange) or render_json(exchange.response_headers)

    @admin.display(description=_lazy("Body"))
    def sent_body(self, exchange: Exchange) -> SafeString | str:
        return _hide(exchange) or render_body(exchange.request_body, exchange.request_bytes)

    @admin.display(description=_lazy("Body"))
    def received_body(self, exchange: Exchange) -> SafeString | str:
        return _hide(exchange) or render_body(exchange.response_body, exchange.response_bytes)


def _mark_groups(rows: Iterable[Exchange]) -> list[Exchange]:
    """Return the rows of a page, each with what it has in common with the row above: the operation,
    the tool call with all its operations, or nothing."""
    marked: list[Exchange] = []
    for row in rows:
        above = marked[-1] if marked else None
        group = ""
        if above is not None and above.operation_id == row.operation_id:
            group = "operation"
        elif above is not None and row.round_id and above.round_id == row.round_id:
            group = "round"
        row.group = group  # type: ignore[attr-defined]
        marked.append(row)
    return marked


def _hide(exchange: Exchange) -> str:
    """Return what stands in place of values that this admin may not see."""
    return HIDDEN if getattr(exchange, "lock", None) else ""


def _build_tabs(request: HttpRequest, chosen: list[str]) -> dict[str, Any]:
    """Return what shows the list as a page of the service that was chosen as the filter."""
    number = read_number(chosen[0]) if len(chosen) == 1 else None
    if number is None or not may_view_services(request):
        return {}
    service = Service.objects.filter(pk=number).first()
    if service is None:
        return {}
    return {
        "service": service,
        "title": _("Exchanges of %(service)s") % {"service": service},
        **list_tab_rights(request),
    }


def _render_filter_link(field: str, value: Any) -> SafeString:
    address = reverse("admin:mcpconfig_exchange_changelist")
    return format_html('<a href="{}?{}={}">{}</a>', address, field, value, value)
