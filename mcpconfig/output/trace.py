"""The trace as the `mcp` command prints it: exchanges as JSON, or as lines grouped by operation."""

from collections.abc import Iterable
from itertools import groupby
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from .management.verbs import wrong
from .models import Exchange, Service
from .readable import readable

Json = dict[str, Any]


def exchanges_of(service: Service, operation: str, limit: int) -> QuerySet[Exchange]:
    """The newest exchanges with a service, of one operation or of all."""
    found = Exchange.objects.filter(service=service)
    if operation:
        try:
            found = found.filter(operation_id=UUID(operation))
        except ValueError as error:
            raise wrong("An operation is named by its id, as the trace shows it.") from error
    return found[: max(0, limit)]


def exchange_value(exchange: Exchange) -> Json:
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


def trace_lines(exchanges: Iterable[Exchange], *, has_bodies: bool) -> list[str]:
    """Each operation with its exchanges, the newest operation first and its exchanges in order."""
    lines: list[str] = []
    for _unused, group in groupby(exchanges, key=lambda exchange: exchange.operation_id):
        members = sorted(group, key=lambda exchange: exchange.pk)
        lines.append(_heading(members[0]))
        for exchange in members:
            lines.append(_line(exchange))
            if has_bodies:
                lines += _bodies(exchange)
    return lines


def _heading(first: Exchange) -> str:
    when = first.started_at or first.created_at
    belongs = f" round {first.round_id}" if first.round_id else ""
    return f"{when:%Y-%m-%d %H:%M:%S} {first.operation} {first.operation_id}{belongs}"


def _line(exchange: Exchange) -> str:
    what = exchange.rpc_method or exchange.method
    again = f" ×{exchange.attempt}" if exchange.attempt > 1 else ""
    heard = f" {exchange.heard_count} received" if exchange.heard_count > 1 else ""
    return (
        f"  {what + again:<28} {exchange.status or 'no answer'!s:<9} {exchange.era:<10} "
        f"{exchange.response_bytes:>8} B {exchange.duration_ms:>6} ms{heard}"
    )


def _bodies(exchange: Exchange) -> list[str]:
    sent = readable(exchange.request_body).splitlines()
    received = readable(exchange.response_body).splitlines()
    return [*(f"    → {line}" for line in sent), *(f"    ← {line}" for line in received)]
