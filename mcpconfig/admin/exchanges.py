"""The trace in the admin: the exchanges with services, read-only."""

from typing import Any

from django.conf import settings
from django.contrib import admin
from django.contrib.humanize.templatetags.humanize import intcomma
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from mcpconfig.models import Exchange
from mcpconfig.trace.formatting import format_body

from .display import EMPTY, render_json
from .filters import SeveralValuesFilter
from .read_only import ReadOnlyMixin


@admin.register(Exchange)
class ExchangeAdmin(ReadOnlyMixin, admin.ModelAdmin):
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
        *((name, SeveralValuesFilter) for name in ("operation", "status", "era", "kind")),
    )
    list_select_related = ("service",)
    search_fields = ("=operation_id", "=round_id", "rpc_method")
    date_hierarchy = "created_at"
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

    @admin.display(description=_lazy("Request"))
    def request_line(self, exchange: Exchange) -> str:
        return f"{exchange.method} {exchange.rpc_method}".strip()

    @admin.display(description=_lazy("Same operation"))
    def same_operation(self, exchange: Exchange) -> SafeString:
        return _render_filter_link("operation_id", exchange.operation_id)

    @admin.display(description=_lazy("Same tool call"))
    def same_round(self, exchange: Exchange) -> SafeString | str:
        return _render_filter_link("round_id", exchange.round_id) if exchange.round_id else EMPTY

    @admin.display(description=_lazy("Messages received"))
    def messages(self, exchange: Exchange) -> SafeString | str:
        lines = [
            (" ".join(filter(None, (heard["kind"], heard["method"], heard["id"]))),)
            for heard in exchange.heard
        ]
        if (more := exchange.heard_count - len(lines)) > 0:
            lines.append((_("and %(number)s more") % {"number": more},))
        return format_html_join("", "<div>{}</div>", lines) or EMPTY

    @admin.display(description=_lazy("Headers"))
    def sent_headers(self, exchange: Exchange) -> SafeString | str:
        return render_json(exchange.request_headers)

    @admin.display(description=_lazy("Headers"))
    def received_headers(self, exchange: Exchange) -> SafeString | str:
        return render_json(exchange.response_headers)

    @admin.display(description=_lazy("Body"))
    def sent_body(self, exchange: Exchange) -> SafeString | str:
        return _render_body(exchange.request_body, exchange.request_bytes)

    @admin.display(description=_lazy("Body"))
    def received_body(self, exchange: Exchange) -> SafeString | str:
        return _render_body(exchange.response_body, exchange.response_bytes)


def _render_filter_link(field: str, value: Any) -> SafeString:
    address = reverse("admin:mcpconfig_exchange_changelist")
    return format_html('<a href="{}?{}={}">{}</a>', address, field, value, value)


def _render_body(body: str, size: int) -> SafeString | str:
    """Return an escaped body, with a note if only the beginning of it was stored.

    `size` is the size of the whole body in bytes.
    """
    if not body:
        return EMPTY
    note = (
        ""
        if size <= settings.TRACE_BODY_BYTES
        else _("The first %(shown)s of %(size)s bytes.")
        % {
            "shown": intcomma(len(body)),
            "size": intcomma(size),
        }
    )
    return format_html("<pre>{}</pre>{}", format_body(body), note)
