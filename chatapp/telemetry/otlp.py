"""The only file that imports OpenTelemetry: spans, sent by OTLP over HTTP.

Endpoint, headers, sampler and limits are those of OpenTelemetry's own environment variables.
"""

import hashlib
import threading
import uuid
from contextvars import ContextVar

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)
from opentelemetry.trace import Span as SdkSpan

from .spans import Attributes

CLOSE_SECONDS = 3.0
NANOSECONDS = 1_000_000_000

_turn_ids: ContextVar[tuple[int, int] | None] = ContextVar("turn_ids", default=None)


class TurnIds(RandomIdGenerator):
    """Random ids, except for the first span of a turn."""

    def generate_trace_id(self) -> int:
        ids = _turn_ids.get()
        return ids[0] if ids else super().generate_trace_id()

    def generate_span_id(self) -> int:
        ids = _turn_ids.get()
        return ids[1] if ids else super().generate_span_id()


class OpenSpan:
    """A span that has begun."""

    def __init__(self, span: SdkSpan) -> None:
        self.span = span

    @property
    def trace_id(self) -> str:
        return f"{self.span.get_span_context().trace_id:032x}"

    @property
    def traceparent(self) -> str:
        context = self.span.get_span_context()
        return f"00-{self.trace_id}-{context.span_id:016x}-{context.trace_flags:02x}"

    def set(self, attributes: Attributes) -> None:
        self.span.set_attributes(dict(attributes))

    def fail(self, kind: str) -> None:
        self.span.set_attribute("error.type", kind)
        self.span.set_status(Status(StatusCode.ERROR))

    def end(self, ended: float | None = None) -> None:
        self.span.end(None if ended is None else round(ended * NANOSECONDS))


class Tracer:
    """Makes spans and sends them in batches from a thread of its own. A receiver that is away costs
    the spans, and nothing else."""

    def __init__(self, version: str) -> None:
        # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES are read by `Resource.create`.
        named = Resource.create(
            {"service.version": version, "service.instance.id": str(uuid.uuid4())}
        )
        if str(named.attributes.get("service.name", "")).startswith("unknown_service"):
            named = named.merge(Resource({"service.name": "countersign"}))
        self._provider = TracerProvider(
            resource=named, id_generator=TurnIds(), shutdown_on_exit=False
        )
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("countersign", version)

    def start(
        self,
        name: str,
        attributes: Attributes,
        parent: OpenSpan | None,
        *,
        is_client: bool = False,
        began: float | None = None,
    ) -> OpenSpan:
        context = set_span_in_context(parent.span, Context()) if parent else Context()
        return OpenSpan(
            self._tracer.start_span(
                name,
                context,
                kind=SpanKind.CLIENT if is_client else SpanKind.INTERNAL,
                attributes=dict(attributes),
                start_time=None if began is None else round(began * NANOSECONDS),
            )
        )

    def start_turn(self, turn_id: uuid.UUID, attributes: Attributes, *, is_first: bool) -> OpenSpan:
        """Start the span of one run of a turn. The first run is the root of the trace and the
        parent of the others, which need to know nothing but the turn's id."""
        trace_id, span_id = derive_ids(turn_id)
        name = "invoke_agent countersign"
        if is_first:
            token = _turn_ids.set((trace_id, span_id))
            try:
                return self.start(name, attributes, None)
            finally:
                _turn_ids.reset(token)
        # Samplers that go by the trace id decide as they did for the first run.
        decided = self._provider.sampler.should_sample(None, trace_id, name).decision
        first = SpanContext(
            trace_id,
            span_id,
            is_remote=True,
            trace_flags=TraceFlags(decided is Decision.RECORD_AND_SAMPLE),
        )
        return self.start(name, attributes, OpenSpan(NonRecordingSpan(first)))

    def flush(self) -> None:
        self._provider.force_flush()

    def close(self) -> None:
        """Send what is left. A receiver that does not answer must not delay the end of the server,
        and the SDK would wait for it for half a minute."""
        closing = threading.Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        closing.join(CLOSE_SECONDS)


def derive_ids(turn_id: uuid.UUID) -> tuple[int, int]:
    """Return the id of the turn's trace and of its first span. The turn's id cannot be computed
    from them, since services may be sent them."""
    digest = hashlib.sha256(b"countersign trace" + turn_id.bytes).digest()
    return int.from_bytes(digest[:16]) or 1, int.from_bytes(digest[16:24]) or 1
