"""The record of one operation: its exchanges for the trace, and the evidence for errors."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import anyio
import httpx2
from django.conf import settings
from django.utils import timezone
from django.utils.translation import gettext as _

from mcpconfig.values.challenge import Challenge
from mcpconfig.values.errors import Evidence, OperationError, Refusal, malformed_answer_error
from mcpconfig.values.limits import LIMITS
from mcpconfig.values.masking import list_secret_forms, mask_secrets
from mcpconfig.values.refusal_words import read_words, shorten_words

# A secret across the cut must still be complete when it is masked.
MASKING_MARGIN_BYTES = 8 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceMessage:
    """One message of the service. `kind` is "request", "response", "error" or "notification"."""

    kind: str
    method: str = ""
    id: str = ""


@dataclass(slots=True, kw_only=True)
class ExchangeRecord:
    """One HTTP request and its answer. Bodies are cut a little above the limit of the trace, and
    secrets are not masked yet. `kind` is that of the sent message; `attempt` counts equal
    requests. `refusal` has the beginning of the body of an error status."""

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
    refusal: bytearray = field(default_factory=bytearray)
    heard: list[ServiceMessage] = field(default_factory=list)
    heard_count: int = 0

    @property
    def is_tool_call(self) -> bool:
        return self.rpc_method == "tools/call"

    @property
    def tool(self) -> str:
        """The name of the tool that this request calls; empty for any other request."""
        name = self.params.get("name") if isinstance(self.params, dict) else None
        return name if self.is_tool_call and isinstance(name, str) else ""

    @property
    def was_turned_away(self) -> bool:
        """Whether the server refused the request before it processed it, by what HTTP says: it
        answered with a challenge, or with the time to wait. A bare status may come from anywhere,
        also after the tool ran."""
        if any(said.kind == "response" for said in self.heard):
            return False
        if self.status in (401, 403):
            challenge = self.response_headers.get("www-authenticate", "")
            return Challenge.read([challenge]).is_well_formed
        return self.status in (429, 503) and bool(self.response_headers.get("retry-after"))

    @property
    def is_refusal(self) -> bool:
        return self.status is not None and self.status >= 400

    def describe_refusal(self, secrets: Sequence[str]) -> str:
        """Return the server's message about an error status, without these secrets."""
        kind = self.response_headers.get("content-type", "")
        was_cut = len(self.refusal) >= LIMITS.refusal_bytes
        words = read_words(bytes(self.refusal), kind, self.status or 0)
        # Masked before it is shortened, so that no beginning of a secret is left.
        return shorten_words(mask_secrets(words, list_secret_forms(secrets), was_cut=was_cut))

    def update_duration(self) -> None:
        self.duration_ms = round((time.monotonic() - self.started) * 1000)


class Wire:
    """The exchanges of one operation. `end` stops the operation with a reason that the SDK cannot
    lose.

    The SDK swallows some failures (a POST of the SSE transport) and turns others into waiting. So
    the reason is stored here, and the cancel scope of the operation is cancelled.
    """

    def __init__(self) -> None:
        self.exchanges: list[ExchangeRecord] = []
        self.failure: OperationError | None = None
        # The limit that the answer being read exceeds: the reason, unless its end can be read.
        self.exceeded: OperationError | None = None
        self.scope = anyio.CancelScope()
        self.values = 0
        # The credentials that the requests carry.
        self.secrets: Sequence[str] = ()
        # Whether the service said that its list of tools has changed.
        self.tools_changed = False
        self._has_failed_inside = False
        self._call: ExchangeRecord | None = None
        self._status: int | None = None
        self._headers = httpx2.Headers()
        self._refused: ExchangeRecord | None = None

    def reopen(self) -> None:
        """Prepare a second attempt to connect: it has its own failure and status, and the exchanges
        continue."""
        if not self.exchanges and self.failure is None:
            return
        self.failure, self._status, self._headers = None, None, httpx2.Headers()
        self.exceeded = None
        self._refused = None
        self.scope = anyio.CancelScope()

    @property
    def received_bytes(self) -> int:
        return sum(exchange.response_bytes for exchange in self.exchanges)

    def record_request(self, request: httpx2.Request, body: bytes) -> ExchangeRecord:
        exchange = _build_record(request, body)
        earlier = [other for other in self.exchanges if _is_same(other, exchange)]
        exchange.attempt = len(earlier) + 1
        is_storm = request.method == "GET" and len(earlier) >= LIMITS.reconnections
        if is_storm or len(self.exchanges) >= LIMITS.requests:
            raise self.end(too_many_requests_error())
        self.exchanges.append(exchange)
        return exchange

    def note_message(self, heard: ServiceMessage) -> bool:
        """Record a message of the service. Return False if it answers no request."""
        exchange = self._exchange_of(heard)
        if exchange is None:
            return False
        exchange.heard_count += 1
        if len(exchange.heard) < LIMITS.traced_messages:
            exchange.heard.append(heard)
        return True

    def _exchange_of(self, heard: ServiceMessage) -> ExchangeRecord | None:
        """An answer belongs to its request, any other message to the latest request."""
        if heard.kind in ("response", "error"):
            asked = (each for each in self.exchanges if each.rpc_id == heard.id != "")
            return next(asked, None)
        return self.exchanges[-1] if self.exchanges else None

    def mark_sending(self, exchange: ExchangeRecord) -> None:
        """From now on a byte of this request may have reached the service."""
        if exchange.is_tool_call:
            self._call = exchange

    def mark_unsent(self, exchange: ExchangeRecord) -> None:
        """No connection was made, so no byte of this request was sent."""
        if exchange.is_tool_call:
            self._call = None

    @property
    def was_call_sent(self) -> bool:
        return self._call is not None

    def is_call(self, rpc_id: str) -> bool:
        """Whether this is the id of the tool call on the wire."""
        return self._call is not None and self._call.rpc_id == rpc_id

    def record_answer(self, exchange: ExchangeRecord, response: httpx2.Response) -> None:
        exchange.status = response.status_code
        exchange.response_headers = dict(response.headers.items())
        exchange.update_duration()
        if exchange.method == "POST":
            self._status, self._headers = response.status_code, response.headers
        if exchange.method != "DELETE":
            self._refused = exchange if exchange.is_refusal else None

    def end(self, error: OperationError) -> Refusal:
        """Stop the operation; the first reason counts. Return the exception to raise."""
        if self.failure is None:
            self.failure = error
            self.scope.cancel()
        return Refusal(error)

    @contextmanager
    def track_failures(self) -> Iterator[None]:
        """Mark exceptions from code that uses the open connection, to tell them from those of the
        SDK."""
        try:
            yield
        except Exception:
            self._has_failed_inside = True
            raise

    def classify_unknown_error(self) -> OperationError | None:
        """Return the failure for an unknown exception. If the SDK failed while it handled an
        answer, the service caused it. Otherwise it is a bug of this project, and the result is
        None."""
        return None if self._has_failed_inside or not self.exchanges else malformed_answer_error()

    @property
    def evidence(self) -> Evidence:
        return Evidence(
            status=self._status,
            www_authenticate=self._headers.get("www-authenticate", ""),
            retry_after=_parse_retry_after(self._headers.get("retry-after", "")),
            was_sent=self.was_call_sent,
            was_turned_away=self._call is not None and self._call.was_turned_away,
            said=self._refused.describe_refusal(self.secrets) if self._refused else "",
            has_credentials=bool(self.secrets),
        )


def too_many_requests_error() -> OperationError:
    return OperationError(
        kind="too_large",
        message=_("The service required too many requests for one operation."),
        hint=_("Report it to the service’s operator."),
    )


def _build_record(request: httpx2.Request, body: bytes) -> ExchangeRecord:
    message = _parse_message(body)
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
        request_body=body[: settings.TRACE_BODY_BYTES + MASKING_MARGIN_BYTES],
        request_bytes=len(body),
        started=time.monotonic(),
        started_at=timezone.now(),
    )


def _kind_without_id(message: dict[str, Any]) -> str:
    if "method" in message:
        return "notification"
    return "response" if "id" in message else ""


def _is_same(one: ExchangeRecord, other: ExchangeRecord) -> bool:
    """Whether one request repeats the other."""
    return (one.method, one.url, one.rpc_method) == (
        other.method,
        other.url,
        other.rpc_method,
    ) and one.params == other.params


def _parse_message(body: bytes) -> dict[str, Any]:
    """Return the JSON-RPC message in a request's body; empty for any other body."""
    if not body.startswith(b"{"):
        return {}
    try:
        message: Any = json.loads(body)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}


def _parse_retry_after(retry_after: str) -> float | None:
    """Return the seconds, at most one day."""
    is_number = retry_after.isdecimal() and len(retry_after) < 10
    return min(float(retry_after), 86_400.0) if is_number else None
