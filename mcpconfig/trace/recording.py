"""Recording of the trace: the exchanges of an operation, masked and stored."""

import atexit
import logging
import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from channels.db import database_sync_to_async
from django.conf import settings
from django.db import Error, connection, connections, transaction
from django.db.models import Field
from django.utils import timezone

from mcpconfig.models import Exchange, Service
from mcpconfig.net.wire import ExchangeRecord, Wire
from mcpconfig.values.masking import list_secret_forms, mask_headers, mask_secrets
from mcpconfig.values.results import make_storable

from .retention import prune

logger = logging.getLogger(__name__)

PRUNE_EVERY = 50
MAX_QUEUED = 100

_round_id: ContextVar[str] = ContextVar("round_id", default="")


@contextmanager
def use_round(identity: str) -> Iterator[None]:
    """Record the exchanges of the enclosed operations as one tool call: a service may ask a
    question, whose answer is sent by another operation."""
    token = _round_id.set(identity[:64])
    try:
        yield
    finally:
        _round_id.reset(token)


async def record_exchanges(
    service: Service,
    operation: str,
    wire: Wire,
    secrets: Iterable[str],
    person_id: int | None = None,
) -> None:
    """Store an operation's exchanges, a little later and together with those of other operations.

    A trace that cannot be stored must neither fail nor delay the operation. Queued exchanges are
    lost when a process is killed; a process that ends normally stores them. A service that is only
    tested, and not stored, has no trace.
    """
    if not wire.exchanges or service.pk is None:
        return
    entry = TraceEntry(
        service=service,
        operation=operation,
        round_id=_round_id.get(),
        exchanges=wire.exchanges,
        secrets=list(secrets),
        person_id=person_id,
    )
    if settings.TRACE_DELAY_SECONDS > 0 and _queue.add(entry):
        return
    await database_sync_to_async(_store)([*_queue.take(), entry])


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEntry:
    """The exchanges of one operation, with its secrets not masked yet."""

    service: Service
    operation: str
    round_id: str
    exchanges: list[ExchangeRecord]
    secrets: list[str]
    person_id: int | None = None


class TraceQueue:
    """Entries that a background thread stores soon."""

    def __init__(self) -> None:
        self._entries: list[TraceEntry] = []
        self._lock = threading.Lock()

    def add(self, entry: TraceEntry) -> bool:
        """Queue the entry. Return False if the queue is full and the caller must store it."""
        with self._lock:
            if len(self._entries) >= MAX_QUEUED:
                return False
            self._entries.append(entry)
            if len(self._entries) == 1:
                timer = threading.Timer(settings.TRACE_DELAY_SECONDS, flush)
                timer.daemon = True
                timer.start()
        return True

    def take(self) -> list[TraceEntry]:
        with self._lock:
            entries, self._entries = self._entries, []
        return entries


_queue = TraceQueue()


def flush() -> None:
    """Store the queued entries. Runs in a thread of its own, or when the process ends."""
    try:
        _store(_queue.take())
    except Exception:
        logger.exception("A part of the trace was not kept.")
    finally:
        if threading.current_thread() is not threading.main_thread():
            connections.close_all()


atexit.register(flush)


def _store(entries: list[TraceEntry]) -> None:
    """Store all entries in one transaction; if that fails, one by one, because a service may be
    deleted already."""
    try:
        _insert(entries)
    except Error:
        if len(entries) > 1:
            for entry in entries:
                _store([entry])
            return
        logger.exception("A trace of %s was not kept.", entries[0].service.name)


def _insert(entries: list[TraceEntry]) -> None:
    rows = [row for entry in entries for row in _build_rows(entry)]
    if not rows:
        return
    fields = [field for field in Exchange._meta.concrete_fields if not field.primary_key]
    names = ", ".join(connection.ops.quote_name(str(field.column)) for field in fields)
    marks = ", ".join(["%s"] * len(fields))
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO {Exchange._meta.db_table} ({names}) VALUES ({marks})",  # noqa: S608
            [[_prepare_value(field, row[field.attname]) for field in fields] for row in rows],
        )
    last = Exchange.objects.values_list("pk", flat=True).first() or 0
    if last % PRUNE_EVERY < len(rows):
        for service in {entry.service.pk: entry.service for entry in entries}.values():
            prune(service)


def _prepare_value(field: "Field[Any, Any]", value: Any) -> Any:
    """Skip the ORM's conversion for values that need none. It would take longer than the insert."""
    plain = isinstance(value, str | int) or value is None
    return value if plain else field.get_db_prep_save(value, connection)


def _build_rows(entry: TraceEntry) -> list[dict[str, Any]]:
    shared = {
        "service_id": entry.service.pk,
        "operation": entry.operation,
        "operation_id": uuid.uuid4(),
        "round_id": entry.round_id,
        "person_id": entry.person_id,
        "created_at": timezone.now(),
    }
    secrets = list_secret_forms(entry.secrets)
    return [shared | _build_fields(each, secrets) for each in entry.exchanges]


def _build_fields(exchange: ExchangeRecord, secrets: list[str]) -> dict[str, Any]:
    return {
        "method": exchange.method,
        "url": _mask_text(exchange.url, secrets),
        "kind": exchange.kind,
        "rpc_method": exchange.rpc_method[:100],
        "rpc_id": exchange.rpc_id[:100],
        "tool": _mask_text(exchange.tool, secrets)[:255],
        "era": _mask_text(exchange.request_headers.get("mcp-protocol-version", ""), secrets)[:20],
        "attempt": exchange.attempt,
        "status": exchange.status,
        "request_headers": make_storable(mask_headers(exchange.request_headers, secrets)),
        "request_body": _mask_body(exchange.request_body, exchange.request_bytes, secrets),
        "request_bytes": exchange.request_bytes,
        "response_headers": make_storable(mask_headers(exchange.response_headers, secrets)),
        "response_body": _mask_body(
            bytes(exchange.response_body), exchange.response_bytes, secrets
        ),
        "response_bytes": exchange.response_bytes,
        "heard": [
            {
                "kind": said.kind,
                "method": _mask_text(said.method, secrets),
                "id": _mask_text(said.id, secrets),
            }
            for said in exchange.heard
        ],
        "heard_count": exchange.heard_count,
        "duration_ms": exchange.duration_ms,
        "started_at": exchange.started_at,
    }


def _mask_body(body: bytes, whole_bytes: int, secrets: list[str]) -> str:
    """Mask, then cut, so that no cut leaves half a secret."""
    text = mask_secrets(body.decode("utf-8", "replace"), secrets, was_cut=len(body) < whole_bytes)
    return str(make_storable(text[: settings.TRACE_BODY_BYTES]))


def _mask_text(text: str, secrets: list[str]) -> str:
    return str(make_storable(mask_secrets(text, secrets)))
