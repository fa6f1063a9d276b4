"""The output of the trace: exchanges as JSON, or as lines grouped by operation."""

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from django.utils.translation import gettext as _

from mcpconfig.models import Exchange
from mcpconfig.trace.formatting import format_body

Json = dict[str, Any]


def build_exchange_value(exchange: Exchange) -> Json:
    return {
        "at": (exchange.started_at or exchange.created_at).isoformat(),
        "operation": exchange.operation,
        "operation_id": str(exchange.operation_id),
        "round_id": exchange.round_id,
        "direction": "sent",
        "method": exchange.method,
        "url": exchange.url,
        "kind": exchange.kind,
        "rpc_method": exchange.rpc_method,
        "rpc_id": exchange.rpc_id,
        "era": exchange.era,
        "attempt": exchange.attempt,
        "status": exchange.status,
        "request_headers": exchange.request_headers,
        "request_body": exchange.request_body,
        "request_bytes": exchange.request_bytes,
        "response_headers": exchange.response_headers,
        "response_body": exchange.response_body,
        "response_bytes": exchange.response_bytes,
        "received": [{"direction": "received", **message} for message in exchange.heard],
        "received_count": exchange.heard_count,
        "duration_ms": exchange.duration_ms,
    }


def format_trace(exchanges: Iterable[Exchange], *, has_bodies: bool) -> list[str]:
    """Return lines for each operation, newest first, and its exchanges in chronological order."""
    lines: list[str] = []
    for _operation_id, group in groupby(exchanges, key=lambda exchange: exchange.operation_id):
        members = sorted(group, key=lambda exchange: exchange.pk)
        lines.append(_format_heading(members[0]))
        for exchange in members:
            lines.append(_format_exchange(exchange))
            if has_bodies:
                lines += _format_bodies(exchange)
    return lines


def _format_heading(first: Exchange) -> str:
    when = first.started_at or first.created_at
    round_text = " " + _("round %(id)s") % {"id": first.round_id} if first.round_id else ""
    return f"{when:%Y-%m-%d %H:%M:%S} {first.operation} {first.operation_id}{round_text}"


def _format_exchange(exchange: Exchange) -> str:
    method = exchange.rpc_method or exchange.method
    attempt = f" ×{exchange.attempt}" if exchange.attempt > 1 else ""
    received = (
        " " + _("%(count)s received") % {"count": exchange.heard_count}
        if exchange.heard_count > 1
        else ""
    )
    return (
        f"  {method + attempt:<28} {exchange.status or _('no answer')!s:<9} {exchange.era:<10} "
        f"{exchange.response_bytes:>8} B {exchange.duration_ms:>6} ms{received}"
    )


def _format_bodies(exchange: Exchange) -> list[str]:
    sent = format_body(exchange.request_body).splitlines()
    received = format_body(exchange.response_body).splitlines()
    return [*(f"    → {line}" for line in sent), *(f"    ← {line}" for line in received)]
