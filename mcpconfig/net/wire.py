"""What passes over the wire in one operation: exchanges for the trace, and evidence for errors."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import anyio
import httpx2
from django.conf import settings
from django.utils import timezone

from .errors import Evidence, OperationError, Refusal, malformed
from .limits import LIMITS

# A secret that lies across the cut must still be found whole when it is masked.
BEYOND_THE_CUT = 8 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """One message of the service: "request", "response", "error" or "notification"."""

    kind: str
    method: str = ""
    id: str = ""


@dataclass(slots=True, kw_only=True)
class ExchangeRecord:
    """One HTTP request and its answer. Bodies are cut a little beyond the trace's cap; secrets are
    still in. `kind` is that of the message that was sent; `attempt` counts equal requests."""

    method: str
    url: str = ""
    kind: str = ""
    rpc_method: str
    rpc_id: str = ""
    params: Any = None
    attempt: int = 1
    request_headers: dict[str, str]
    request_body: bytes
    request_bytes: int
    started: float
    started_at: datetime | None = None
    status: int | None = None
    response_headers: dict[str, str] = field(default_factory=dict)
    response_body: bytearray = field(default_factory=bytearray)
    response_bytes: int = 0
    duration_ms: int = 0
    heard: list[Heard] = field(default_factory=list)
    heard_count: int = 0

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
        self.values = 0
        self._has_failed_inside = False
        self._was_sent = False
        self._status: int | None = None
        self._headers = httpx2.Headers()

    def reopen(self) -> None:
        """A second attempt to connect: its verdict and status are its own, the trace goes on."""
        if not self.exchanges and self.verdict is None:
            return
        self.verdict, self._status, self._headers = None, None, httpx2.Headers()
        self.scope = anyio.CancelScope()

    @property
    def received_bytes(self) -> int:
        return sum(exchange.response_bytes for exchange in self.exchanges)

    def begin(self, request: httpx2.Request, body: bytes) -> ExchangeRecord:
        exchange = _record(request, body)
        earlier = [other for other in self.exchanges if _is_same(other, exchange)]
        exchange.attempt = len(earlier) + 1
        is_storm = request.method == "GET" and len(earlier) >= LIMITS.reconnections
        if is_storm or len(self.exchanges) >= LIMITS.requests:
            raise self.end(restless())
        self.exchanges.append(exchange)
        return exchange

    def hear(self, heard: Heard) -> bool:
        """Note a message of the service. False if it answers what nobody asked."""
        exchange = self._exchange_of(heard)
        if exchange is None:
            return False
        exchange.heard_count += 1
        if len(exchange.heard) < LIMITS.traced_messages:
            exchange.heard.append(heard)
        return True

    def _exchange_of(self, heard: Heard) -> ExchangeRecord | None:
        """An answer belongs to its question; anything else to whatever was asked last."""
        if heard.kind in ("response", "error"):
            asked = (each for each in self.exchanges if each.rpc_id == heard.id != "")
            return next(asked, None)
        return self.exchanges[-1] if self.exchanges else None

    def body_leaves(self, exchange: ExchangeRecord) -> None:
        """From now on a byte of this request may be with the service."""
        self._was_sent = self._was_sent or exchange.is_tool_call

    def body_stayed(self, exchange: ExchangeRecord) -> None:
        """The connection was never made, so the body of this request is still here."""
        if exchange.is_tool_call:
            self._was_sent = False

    def answered(self, exchange: ExchangeRecord, response: httpx2.Response) -> None:
        exchange.status = response.status_code
        exchange.response_headers = dict(response.headers.items())
        exchange.touch()
        if exchange.method == "POST":
            self._status, self._headers = response.status_code, response.headers

    def end(self, error: OperationError) -> Refusal:
        """Stop the operation; the first reason counts. Returns what to raise on the wire."""
        if self.verdict is None:
            self.verdict = error
            self.scope.cancel()
        return Refusal(error)

    @contextmanager
    def use(self) -> Iterator[None]:
        """Around what is done with the open connection, to know its failures from the SDK's."""
        try:
            yield
        except Exception:
            self._has_failed_inside = True
            raise

    def blame(self) -> OperationError | None:
        """What an exception that nobody knows means. If the SDK itself broke down over an answer,
        the service caused it. Otherwise the bug is ours, and None says so."""
        return None if self._has_failed_inside or not self.exchanges else malformed()

    @property
    def evidence(self) -> Evidence:
        return Evidence(
            status=self._status,
            www_authenticate=self._headers.get("www-authenticate", ""),
            retry_after=_seconds(self._headers.get("retry-after", "")),
            was_sent=self._was_sent,
        )


def restless() -> OperationError:
    return OperationError(
        kind="too_large",
        message="The service wanted more and more requests for one operation.",
        hint="Tell whoever runs the service.",
    )


def _record(request: httpx2.Request, body: bytes) -> ExchangeRecord:
    message = _message(body)
    params = message.get("params")
    is_request = "method" in message and "id" in message
    return ExchangeRecord(
        method=request.method,
        url=str(request.url),
        kind="request" if is_request else _kind_without_id(message),
        rpc_method=str(message.get("method", "")),
        rpc_id=str(message.get("id", "")),
        params={name: value for name, value in params.items() if name != "_meta"}
        if isinstance(params, dict)
        else params,
        request_headers=dict(request.headers.items()),
        request_body=body[: settings.TRACE_BODY_BYTES + BEYOND_THE_CUT],
        request_bytes=len(body),
        started=time.monotonic(),
        started_at=timezone.now(),
    )


def _kind_without_id(message: dict[str, Any]) -> str:
    if "method" in message:
        return "notification"
    return "response" if "id" in message else ""


def _is_same(one: ExchangeRecord, other: ExchangeRecord) -> bool:
    """Whether the one request repeats the other."""
    return (one.method, one.url, one.rpc_method) == (
        other.method,
        other.url,
        other.rpc_method,
    ) and one.params == other.params


def _message(body: bytes) -> dict[str, Any]:
    """A request's body that our own SDK wrote; empty for anything but JSON-RPC."""
    if not body.startswith(b"{"):
        return {}
    try:
        message: Any = json.loads(body)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}


def _seconds(retry_after: str) -> float | None:
    """No service makes anybody wait longer than a day."""
    is_number = retry_after.isdecimal() and len(retry_after) < 10
    return min(float(retry_after), 86_400.0) if is_number else None
