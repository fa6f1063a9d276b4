"""The trace in the admin: exchanges with services, to read."""

from django.contrib import admin

from mcpconfig.models import Exchange

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
        "response_bytes",
        "duration_ms",
    )
    list_filter = ("service", "operation", "status")
    list_select_related = ("service",)
    search_fields = ("operation_id", "rpc_method")
    date_hierarchy = "created_at"
    fields = (
        "service",
        "operation",
        "operation_id",
        "what",
        "status",
        "duration_ms",
        "sent_headers",
        "request_bytes",
        "request_body",
        "received_headers",
        "response_bytes",
        "response_body",
        "created_at",
    )
    readonly_fields = ("what", "sent_headers", "received_headers")

    @admin.display(description="Request")
    def what(self, exchange: Exchange) -> str:
        return f"{exchange.method} {exchange.rpc_method}".strip()

    @admin.display(description="Headers sent")
    def sent_headers(self, exchange: Exchange) -> str:
        return pretty(exchange.request_headers)

    @admin.display(description="Headers received")
    def received_headers(self, exchange: Exchange) -> str:
        return pretty(exchange.response_headers)
