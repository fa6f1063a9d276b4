"""What passes over the wire in one operation: exchanges for the trace, evidence for errors, and the
caps on bytes, events and silence."""

import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx2

from .errors import Evidence, OperationError, Refusal, timed_out
from .limits import LIMITS

EVENT_STREAM = "text/event-stream"


@dataclass(slots=True, kw_only=True)
class ExchangeRecord:
    """One HTTP request and its answer. Bodies are cut at the trace's cap; secrets are still in."""

    method: str
    rpc_method: str
    request_headers: dict[str, str]
    request_body: bytes
    request_bytes: int
    started: float
    status: int | None = None
    response_headers: dict[str, str] = field(default_factory=dict)
    response_body: bytearray = field(default_factory=bytearray)
    response_bytes: int = 0
    duration_ms: int = 0

    @property
    def is_tool_call(self) -> bool:
        return self.rpc_method == "tools/call"

    def touch(self) -> None:
        self.duration_ms = round((time.monotonic() - self.started) * 1000)


class Wire:
    """The wire of one operation. `end` stops the operation with a reason that the SDK cannot lose.

    The SDK swallows some failures (a POST of the SSE transport) and turns others into waiting, so
    the reason is kept here and the scope that holds the operation is cancelled.
    """

    def __init__(self) -> None:
        self.exchanges: list[ExchangeRecord] = []
        self.verdict: OperationError | None = None
        self.scope = anyio.CancelScope()
        self._was_sent = False
        self._status: int | None = None
        self._headers = httpx2.Headers()

    def reopen(self) -> None:
        """A second attempt to connect: its verdict and status are its own, the trace goes on."""
        self.verdict, self._status, self._headers = None, None, httpx2.Headers()
        self.scope = anyio.CancelScope()

    def begin(self, request: httpx2.Request, body: bytes) -> ExchangeRecord:
        exchange = ExchangeRecord(
            method=request.method,
            rpc_method=_rpc_method(body),
            request_headers=dict(request.headers),
            request_body=body[: LIMITS.traced_body_bytes],
            request_bytes=len(body),
            started=time.monotonic(),
        )
        self.exchanges.append(exchange)
        return exchange

    def body_leaves(self, exchange: ExchangeRecord) -> None:
        """From now on a byte of this request may be with the service."""
        self._was_sent = self._was_sent or exchange.is_tool_call

    def body_stayed(self, exchange: ExchangeRecord) -> None:
        """The connection was never made, so the body of this request is still here."""
        if exchange.is_tool_call:
            self._was_sent = False

    def answered(self, exchange: ExchangeRecord, response: httpx2.Response) -> None:
        exchange.status = response.status_code
        exchange.response_headers = dict(response.headers)
        exchange.touch()
        if exchange.method == "POST":
            self._status, self._headers = response.status_code, response.headers

    def end(self, error: OperationError) -> Refusal:
        """Stop the operation; the first reason counts. Returns what to raise on the wire."""
        if self.verdict is None:
            self.verdict = error
            self.scope.cancel()
        return Refusal(error)

    @property
    def evidence(self) -> Evidence:
        return Evidence(
            status=self._status,
            www_authenticate=self._headers.get("www-authenticate", ""),
            retry_after=_seconds(self._headers.get("retry-after", "")),
            was_sent=self._was_sent,
        )


class WatchedStream(httpx2.AsyncByteStream):
    """A response body that counts as it flows, keeps its beginning, and stops in time."""

    def __init__(
        self, stream: httpx2.AsyncByteStream, wire: Wire, exchange: ExchangeRecord
    ) -> None:
        self._stream = stream
        self._wire = wire
        self._exchange = exchange
        self._is_event_stream = EVENT_STREAM in exchange.response_headers.get("content-type", "")
        self._events = 0
        self._line_start = b"\n"

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._stream:
                self._count(chunk)
                yield chunk
        except httpx2.ReadTimeout as error:
            raise self._wire.end(timed_out()) from error
        finally:
            self._exchange.touch()

    async def aclose(self) -> None:
        await self._stream.aclose()

    def _count(self, chunk: bytes) -> None:
        exchange = self._exchange
        exchange.response_bytes += len(chunk)
        room = LIMITS.traced_body_bytes - len(exchange.response_body)
        exchange.response_body += chunk[: max(0, room)]
        if exchange.response_bytes > LIMITS.response_bytes:
            raise self._wire.end(too_large(f"{LIMITS.response_bytes // 1024**2} MB"))
        if self._is_event_stream:
            self._count_events(chunk)

    def _count_events(self, chunk: bytes) -> None:
        """Counts `data:` at the start of a line, also where a chunk's border cuts it."""
        text = self._line_start + chunk
        self._events += text.count(b"\ndata:")
        self._line_start = text[-5:]
        if self._events > LIMITS.events:
            raise self._wire.end(too_large(f"{LIMITS.events} messages"))


def too_large(bound: str) -> OperationError:
    return OperationError(
        kind="too_large",
        message=f"The service sent more than {bound} in one answer, which is not accepted.",
        hint="Ask for less at once.",
    )


def _rpc_method(body: bytes) -> str:
    """The JSON-RPC method of a request body that our own SDK wrote."""
    if not body:
        return ""
    try:
        message: Any = json.loads(body)
    except ValueError:
        return ""
    return str(message.get("method", "")) if isinstance(message, dict) else ""


def _seconds(retry_after: str) -> float | None:
    return float(retry_after) if retry_after.isdecimal() else None
