"""Spans for traces. Off, and nearly free, unless an OTLP endpoint is set in the environment.

The current span is kept here and not in OpenTelemetry's own context, and no global tracer provider
is set. The MCP SDK and the SDKs of models would otherwise send spans of their own, which may have
text of messages, and trace ids to every service.
"""

import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from mcpconfig.values.lazy_module import LazyModule

from .spans import NO_SPAN, Attributes, OpenSpan, Span, Value

if TYPE_CHECKING:
    from . import otlp
else:
    otlp = LazyModule("chatapp.telemetry.otlp")

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_tracer: "otlp.Tracer | None" = None
_current: ContextVar["otlp.OpenSpan | None"] = ContextVar("span", default=None)


def is_wanted() -> bool:
    """Whether the environment asks for traces, by the variables that OpenTelemetry documents."""
    is_disabled = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    has_exporter = os.environ.get("OTEL_TRACES_EXPORTER", "otlp").strip().lower() != "none"
    return has_exporter and not is_disabled and any(os.environ.get(name) for name in ENDPOINTS)


def start(service_version: str) -> None:
    """Begin to send spans, if the environment asks for it."""
    global _tracer
    if _tracer is None and is_wanted():
        _tracer = otlp.Tracer(service_version)


def stop() -> None:
    """Send what is left, for a few seconds at most."""
    global _tracer
    tracer, _tracer = _tracer, None
    if tracer is not None:
        tracer.close()


@contextmanager
def use_span(name: str, attributes: Attributes, *, is_client: bool = False) -> Iterator[Span]:
    """Time the block as a part of the current span. An exception marks the span as failed."""
    if _tracer is None:
        yield NO_SPAN
        return
    with _use(_tracer.start(name, attributes, _current.get(), is_client=is_client)) as span:
        yield span


@contextmanager
def use_turn_span(turn_id: uuid.UUID, fence: int, attributes: Attributes) -> Iterator[Span]:
    """Time one run of a turn. All runs of a turn, on whatever worker, are one trace: its id and the
    id of the first run's span follow from the turn's id."""
    if _tracer is None:
        yield NO_SPAN
        return
    with _use(_tracer.start_turn(turn_id, attributes, is_first=fence == 1)) as span:
        yield span


def use_tool_span(
    call_id: uuid.UUID, service: str, tool: str, attempt: int
) -> AbstractContextManager[Span]:
    """Time a tool call. The tools of a person's own services have no name here: they belong to one
    person."""
    is_named = service != "own"
    attributes: dict[str, Value] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.type": "function" if service == "core" else "extension",
        "countersign.call.id": str(call_id),
        "countersign.call.attempt": attempt,
        "countersign.service": service,
    }
    if is_named:
        attributes["gen_ai.tool.name"] = tool
    return use_span(f"execute_tool {tool}" if is_named else "execute_tool", attributes)


@contextmanager
def _use(span: "otlp.OpenSpan") -> Iterator[Span]:
    token = _current.set(span)
    try:
        yield span
    except BaseException as error:
        span.fail(type(error).__name__)
        raise
    finally:
        _current.reset(token)
        span.end()


def open_span(name: str, attributes: Attributes, *, is_client: bool = False) -> OpenSpan:
    """Begin a span that does not become the current one. The caller ends it."""
    if _tracer is None:
        return NO_SPAN
    return _tracer.start(name, attributes, _current.get(), is_client=is_client)


def add_span(name: str, attributes: Attributes, began: float, ended: float, error: str) -> None:
    """Add a part of the current span that is over, by the Unix times of its begin and end."""
    if _tracer is not None:
        span = _tracer.start(name, attributes, _current.get(), is_client=True, began=began)
        if error:
            span.fail(error)
        span.end(ended)


def get_trace_id() -> str:
    span = _current.get()
    return span.trace_id if span is not None else ""


def get_trace_context() -> Mapping[str, str]:
    """Return the W3C trace context of the current span; empty without one."""
    span = _current.get()
    return {"traceparent": span.traceparent} if span is not None else {}
