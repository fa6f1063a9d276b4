"""The trace in the admin: the exchanges with services, read-only."""

from functools import partial
from typing import Any

from django.contrib import admin
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _lazy
from django.views.decorators.http import require_safe

from mcpconfig.models import Exchange

from .big_lists import BigListMixin, PeriodFilter, RecentValuesFilter
from .display import EMPTY, render_json
from .exchange_display import describe_messages, describe_request, render_body
from .operation_page import show_operation
from .read_only import ReadOnlyMixin


@admin.register(Exchange)
class ExchangeAdmin(BigListMixin, ReadOnlyMixin, admin.ModelAdmin):
    empty_list = _lazy("No exchanges yet. Requests to services and their responses appear here.")
    list_display = (
        "created_at",
        "service",
        "operation",
        "request_line",
        "status",
        "attempt",
        "response_bytes",
        "duration_ms",
    )
    list_filter = (
        "service",
        *((name, RecentValuesFilter) for name in ("operation", "status", "era", "kind")),
        ("created_at", PeriodFilter),
    )
    list_select_related = ("service",)
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
        return render_json(exchange.request_headers)

    @admin.display(description=_lazy("Headers"))
    def received_headers(self, exchange: Exchange) -> SafeString | str:
        return render_json(exchange.response_headers)

    @admin.display(description=_lazy("Body"))
    def sent_body(self, exchange: Exchange) -> SafeString | str:
        return render_body(exchange.request_body, exchange.request_bytes)

    @admin.display(description=_lazy("Body"))
    def received_body(self, exchange: Exchange) -> SafeString | str:
        return render_body(exchange.response_body, exchange.response_bytes)


def _render_filter_link(field: str, value: Any) -> SafeString:
    address = reverse("admin:mcpconfig_exchange_changelist")
    return format_html('<a href="{}?{}={}">{}</a>', address, field, value, value)
