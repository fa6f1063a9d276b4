"""A real receiver of OTLP over HTTP, which keeps the spans that it is sent."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One span. `parent` is empty for a root."""

    name: str
    trace: str
    id: str
    parent: str
    attributes: dict[str, Any]
    is_error: bool
    began: int
    ended: int


@dataclass(slots=True)
class Receiver:
    address: str = ""
    paths: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    resources: list[dict[str, Any]] = field(default_factory=list)
    spans: list[Received] = field(default_factory=list)

    def take(self, path: str, body: bytes) -> None:
        self.paths.append(path)
        self.bodies.append(body)
        for group in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resources.append(_read_attributes(group.resource.attributes))
            for scope in group.scope_spans:
                self.spans += [_read_span(span) for span in scope.spans]

    def named(self, beginning: str) -> list[Received]:
        found = [span for span in self.spans if span.name.startswith(beginning)]
        return sorted(found, key=lambda span: span.began)


def _read_span(span: Any) -> Received:
    return Received(
        name=span.name,
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        attributes=_read_attributes(span.attributes),
        is_error=span.status.code == 2,
        began=span.start_time_unix_nano,
        ended=span.end_time_unix_nano,
    )


def _read_attributes(attributes: Any) -> dict[str, Any]:
    return {each.key: _read_value(each.value) for each in attributes}


def _read_value(value: Any) -> Any:
    if value.HasField("array_value"):
        return [_read_value(each) for each in value.array_value.values]
    return getattr(value, value.WhichOneof("value"))


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.take(self.path, body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield receiver
        server.shutdown()
        thread.join(10)
