"""The trace in the admin: exchanges with services, to read."""

from typing import Any

from django.conf import settings
from django.contrib import admin
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from mcpconfig.models import Exchange
from mcpconfig.readable import readable

from .read_only import ReadOnly
from .tools import pretty


@admin.register(Exchange)
class ExchangeAdmin(ReadOnly, admin.ModelAdmin):
    list_display = (
        "created_at",
        "service",
        "operation",
        "what",
        "status",
        "attempt",
        "response_bytes",
        "duration_ms",
    )
    list_filter = ("service", "operation", "status", "era", "kind")
    list_select_related = ("service",)
    search_fields = ("=operation_id", "=round_id", "rpc_method")
    date_hierarchy = "created_at"
    fieldsets = (
        (None, {"fields": ("service", "operation", "same_operation", "same_round", "started_at")}),
        ("Request", {"fields": ("what", "url", "kind", "rpc_id", "era", "attempt")}),
        ("Sent", {"fields": ("request_bytes", "sent_headers", "sent_body")}),
        (
            "Received",
            {
                "fields": (
                    *("status", "duration_ms", "response_bytes"),
                    *("messages", "received_headers", "received_body"),
                )
            },
        ),
    )
    readonly_fields = (
        *("what", "same_operation", "same_round", "messages"),
        *("sent_headers", "sent_body", "received_headers", "received_body"),
    )

    @admin.display(description="Request")
    def what(self, exchange: Exchange) -> str:
        return f"{exchange.method} {exchange.rpc_method}".strip()

    @admin.display(description="All of this operation")
    def same_operation(self, exchange: Exchange) -> SafeString:
        return _list_of("operation_id", exchange.operation_id)

    @admin.display(description="All of this tool call")
    def same_round(self, exchange: Exchange) -> SafeString | str:
        return _list_of("round_id", exchange.round_id) if exchange.round_id else "–"

    @admin.display(description="Messages received")
    def messages(self, exchange: Exchange) -> SafeString | str:
        lines = [
            (" ".join(filter(None, (heard["kind"], heard["method"], heard["id"]))),)
            for heard in exchange.heard
        ]
        if (more := exchange.heard_count - len(lines)) > 0:
            lines.append((f"and {more} more",))
        return format_html_join("", "<div>{}</div>", lines) or "–"

    @admin.display(description="Headers")
    def sent_headers(self, exchange: Exchange) -> SafeString | str:
        return pretty(exchange.request_headers)

    @admin.display(description="Headers")
    def received_headers(self, exchange: Exchange) -> SafeString | str:
        return pretty(exchange.response_headers)

    @admin.display(description="Body")
    def sent_body(self, exchange: Exchange) -> SafeString | str:
        return _shown(exchange.request_body, exchange.request_bytes)

    @admin.display(description="Body")
    def received_body(self, exchange: Exchange) -> SafeString | str:
        return _shown(exchange.response_body, exchange.response_bytes)


def _list_of(field: str, value: Any) -> SafeString:
    address = reverse("admin:mcpconfig_exchange_changelist")
    return format_html('<a href="{}?{}={}">{}</a>', address, field, value, value)


def _shown(body: str, size: int) -> SafeString | str:
    """A body in which nothing is markup, and a word if it was longer than what is kept."""
    if not body:
        return "–"
    note = (
        "" if size <= settings.TRACE_BODY_BYTES else f"The first {len(body):,} of {size:,} bytes."
    )
    return format_html("<pre>{}</pre>{}", readable(body), note)
