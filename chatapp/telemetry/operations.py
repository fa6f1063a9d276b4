"""What `mcpconfig` reports of its operations, through its `Hooks`: counts and spans."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from mcpconfig.values.errors import OperationError

from . import metrics, tracing
from .metrics import LabelledService, label_service
from .spans import Value


class Exchange(Protocol):
    """What a span needs of one HTTP request and its answer."""

    method: str
    rpc_method: str
    status: int | None
    duration_ms: int
    started_at: Any


class Exchanges(Protocol):
    @property
    def exchanges(self) -> Iterable[Exchange]: ...


@contextmanager
def observe_operation(service: LabelledService, operation: str, wire: Exchanges) -> Iterator[None]:
    """Time an operation. Addresses, bodies and headers stay out of it."""
    began, outcome, name = time.monotonic(), "ok", label_service(service)
    attributes = {"countersign.service": name, "countersign.operation": operation}
    with tracing.use_span(f"mcp {operation}", attributes, is_client=True) as span:
        try:
            yield
        except OperationError as error:
            outcome = error.kind
            span.fail(outcome)
            raise
        except BaseException as error:
            outcome = "internal" if isinstance(error, Exception) else "cancelled"
            raise
        finally:
            sent = list(wire.exchanges)
            metrics.OPERATIONS.labels(name, operation, outcome).inc()
            metrics.OPERATION_SECONDS.labels(operation).observe(time.monotonic() - began)
            metrics.OPERATION_REQUESTS.labels(operation).inc(len(sent))
            for exchange in sent:
                _add_exchange(exchange)


def _add_exchange(exchange: Exchange) -> None:
    if exchange.started_at is None:
        return
    began = exchange.started_at.timestamp()
    attributes: dict[str, Value] = {"http.request.method": exchange.method}
    if exchange.rpc_method:
        attributes["mcp.method.name"] = exchange.rpc_method
    if exchange.status is not None:
        attributes["http.response.status_code"] = exchange.status
    is_error = exchange.status is None or exchange.status >= 400
    error = ("no_answer" if exchange.status is None else str(exchange.status)) if is_error else ""
    name = exchange.rpc_method or exchange.method
    tracing.add_span(name, attributes, began, began + exchange.duration_ms / 1000, error)


def count_refused_connection(reason: str) -> None:
    metrics.CONNECTIONS_REFUSED.labels(reason).inc()
