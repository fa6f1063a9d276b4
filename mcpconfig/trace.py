"""The trace: what an operation exchanged with a service, masked, cut and kept for a while."""

import logging
import uuid
from collections.abc import Iterable

from channels.db import database_sync_to_async
from django.db import DatabaseError

from .limits import LIMITS
from .models import Exchange, Service
from .results import storable
from .secrets import masked, masked_headers
from .wire import ExchangeRecord, Wire

logger = logging.getLogger(__name__)

PRUNE_EVERY = 50


async def keep(service: Service, operation: str, wire: Wire, secrets: Iterable[str]) -> None:
    """Store an operation's exchanges. A trace that cannot be kept must not cost the result."""
    known = list(secrets)
    operation_id = uuid.uuid4()
    rows = [_row(service, operation, operation_id, exchange, known) for exchange in wire.exchanges]
    try:
        await database_sync_to_async(_store)(service, rows)
    except DatabaseError:
        logger.exception("The trace of %s on %s was not kept.", operation, service.name)


def _row(
    service: Service,
    operation: str,
    operation_id: uuid.UUID,
    exchange: ExchangeRecord,
    secrets: list[str],
) -> Exchange:
    return Exchange(
        service=service,
        operation=operation,
        operation_id=operation_id,
        method=exchange.method,
        rpc_method=exchange.rpc_method[:100],
        status=exchange.status,
        request_headers=storable(masked_headers(exchange.request_headers, secrets)),
        request_body=_text(exchange.request_body, secrets),
        request_bytes=exchange.request_bytes,
        response_headers=storable(masked_headers(exchange.response_headers, secrets)),
        response_body=_text(bytes(exchange.response_body), secrets),
        response_bytes=exchange.response_bytes,
        duration_ms=exchange.duration_ms,
    )


def _text(body: bytes, secrets: list[str]) -> str:
    return str(storable(masked(body.decode("utf-8", "replace"), secrets)))


def _store(service: Service, rows: list[Exchange]) -> None:
    stored = Exchange.objects.bulk_create(rows)
    if any(row.pk % PRUNE_EVERY == 0 for row in stored):
        prune(service)


def prune(service: Service) -> None:
    """Keep only the newest exchanges of a service."""
    newest = Exchange.objects.filter(service=service).order_by("-pk")
    oldest_kept = newest.values_list("pk", flat=True)[LIMITS.traced_exchanges - 1 :][:1]
    for pk in list(oldest_kept):
        Exchange.objects.filter(service=service, pk__lt=pk).delete()
