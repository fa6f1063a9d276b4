"""The trace: what an operation exchanged with a service, masked, cut and kept for a while."""

import atexit
import logging
import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from channels.db import database_sync_to_async
from django.conf import settings
from django.db import Error, connection, connections, transaction
from django.db.models import Field
from django.utils import timezone

from .masking import forms_of, masked, masked_headers
from .models import Exchange, Service
from .results import storable
from .wire import ExchangeRecord, Wire

logger = logging.getLogger(__name__)

PRUNE_EVERY = 50
PRUNE_AT_ONCE = 100
MOST_WAITING = 100

_round_id: ContextVar[str] = ContextVar("round_id", default="")


@contextmanager
def round_of(identity: str) -> Iterator[None]:
    """What is done in here belongs to one tool call, however many operations that takes: a service
    may ask back, and the answer is sent by an operation of its own."""
    token = _round_id.set(identity[:64])
    try:
        yield
    finally:
        _round_id.reset(token)


async def keep(service: Service, operation: str, wire: Wire, secrets: Iterable[str]) -> None:
    """Store an operation's exchanges, a moment later and together with those of other operations.

    A trace that cannot be kept must not cost the result, and neither must one that is slow to keep.
    What waits to be stored when a process is killed is lost; a process that ends stores it. A
    service that is only tried, and not stored, has no trace.
    """
    if not wire.exchanges or service.pk is None:
        return
    entry = Entry(
        service=service,
        operation=operation,
        round_id=_round_id.get(),
        exchanges=wire.exchanges,
        secrets=list(secrets),
    )
    if settings.TRACE_DELAY_SECONDS > 0 and _waiting.add(entry):
        return
    await database_sync_to_async(_store)([*_waiting.take(), entry])


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What one operation exchanged, with its secrets still in."""

    service: Service
    operation: str
    round_id: str
    exchanges: list[ExchangeRecord]
    secrets: list[str]


class Waiting:
    """What is to be stored soon, by a thread that nobody waits for."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._lock = threading.Lock()

    def add(self, entry: Entry) -> bool:
        """False if so much waits already that the caller must do the storing."""
        with self._lock:
            if len(self._entries) >= MOST_WAITING:
                return False
            self._entries.append(entry)
            if len(self._entries) == 1:
                timer = threading.Timer(settings.TRACE_DELAY_SECONDS, flush)
                timer.daemon = True
                timer.start()
        return True

    def take(self) -> list[Entry]:
        with self._lock:
            entries, self._entries = self._entries, []
        return entries


_waiting = Waiting()


def flush() -> None:
    """Store what waits. It runs in a thread of its own, or when the process ends."""
    try:
        _store(_waiting.take())
    except Exception:
        logger.exception("A part of the trace was not kept.")
    finally:
        if threading.current_thread() is not threading.main_thread():
            connections.close_all()


atexit.register(flush)


def _store(entries: list[Entry]) -> None:
    """All in one transaction; if that fails, one by one: a service may be gone in the meantime."""
    try:
        _insert(entries)
    except Error:
        if len(entries) > 1:
            for entry in entries:
                _store([entry])
            return
        logger.exception("A trace of %s was not kept.", entries[0].service.name)


def _insert(entries: list[Entry]) -> None:
    rows = [row for entry in entries for row in _rows(entry)]
    if not rows:
        return
    fields = [field for field in Exchange._meta.concrete_fields if not field.primary_key]
    names = ", ".join(connection.ops.quote_name(str(field.column)) for field in fields)
    marks = ", ".join(["%s"] * len(fields))
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO {Exchange._meta.db_table} ({names}) VALUES ({marks})",  # noqa: S608
            [[_as_stored(field, row[field.attname]) for field in fields] for row in rows],
        )
    last = Exchange.objects.values_list("pk", flat=True).first() or 0
    if last % PRUNE_EVERY < len(rows):
        for service in {entry.service.pk: entry.service for entry in entries}.values():
            prune(service)


def _as_stored(field: "Field[Any, Any]", value: Any) -> Any:
    """The ORM asks several times for each value of each row what is clear for nearly all of them,
    and that takes longer than any database to store them."""
    plain = isinstance(value, str | int) or value is None
    return value if plain else field.get_db_prep_save(value, connection)


def _rows(entry: Entry) -> list[dict[str, Any]]:
    shared = {
        "service_id": entry.service.pk,
        "operation": entry.operation,
        "operation_id": uuid.uuid4(),
        "round_id": entry.round_id,
        "created_at": timezone.now(),
    }
    secrets = forms_of(entry.secrets)
    return [shared | _fields(each, secrets) for each in entry.exchanges]


def _fields(exchange: ExchangeRecord, secrets: list[str]) -> dict[str, Any]:
    return {
        "method": exchange.method,
        "url": _line(exchange.url, secrets),
        "kind": exchange.kind,
        "rpc_method": exchange.rpc_method[:100],
        "rpc_id": exchange.rpc_id[:100],
        "era": _line(exchange.request_headers.get("mcp-protocol-version", ""), secrets)[:20],
        "attempt": exchange.attempt,
        "status": exchange.status,
        "request_headers": storable(masked_headers(exchange.request_headers, secrets)),
        "request_body": _text(exchange.request_body, exchange.request_bytes, secrets),
        "request_bytes": exchange.request_bytes,
        "response_headers": storable(masked_headers(exchange.response_headers, secrets)),
        "response_body": _text(bytes(exchange.response_body), exchange.response_bytes, secrets),
        "response_bytes": exchange.response_bytes,
        "heard": [
            {
                "kind": said.kind,
                "method": _line(said.method, secrets),
                "id": _line(said.id, secrets),
            }
            for said in exchange.heard
        ],
        "heard_count": exchange.heard_count,
        "duration_ms": exchange.duration_ms,
        "started_at": exchange.started_at,
    }


def _text(body: bytes, whole_bytes: int, secrets: list[str]) -> str:
    """Masked first and cut then, so that no cut leaves half a secret behind."""
    text = masked(body.decode("utf-8", "replace"), secrets, was_cut=len(body) < whole_bytes)
    return str(storable(text[: settings.TRACE_BODY_BYTES]))


def _line(text: str, secrets: list[str]) -> str:
    return str(storable(masked(text, secrets)))


def prune(service: Service) -> None:
    """Keep only the newest exchanges of a service, and none that are old."""
    Exchange.objects.filter(service=service, created_at__lt=_oldest_kept()).delete()
    _keep_newest(service.pk)


def prune_all() -> None:
    """As `prune`, for every service, also those that nobody uses any more. From the oldest
    exchange to the first young one: no index leads to their dates, and their bodies are long."""
    while True:
        oldest = Exchange.objects.order_by("pk").values_list("pk", "created_at")[:PRUNE_AT_ONCE]
        old = [pk for pk, created_at in oldest if created_at < _oldest_kept()]
        Exchange.objects.filter(pk__in=old).delete()
        if len(old) < PRUNE_AT_ONCE:
            break
    for service_id in Service.objects.values_list("pk", flat=True):
        _keep_newest(service_id)


def _oldest_kept() -> datetime:
    return timezone.now() - timedelta(days=settings.TRACE_DAYS)


def _keep_newest(service_id: int) -> None:
    kept = Exchange.objects.filter(service_id=service_id)
    newest = kept.order_by("-pk").values_list("pk", flat=True)
    oldest_kept = newest[max(0, settings.TRACE_EXCHANGES - 1) :][:1]
    for pk in list(oldest_kept):
        kept.filter(pk__lt=pk).delete()
