"""Limits on an HTTP response: refusals by its headers, and limits on its body while it arrives."""

import re
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import cast

import anyio
import httpx2
from django.conf import settings
from django.utils.translation import gettext as _

from mcpconfig.values.errors import (
    Evidence,
    OperationError,
    malformed_answer_error,
    status_error,
    timeout_error,
)
from mcpconfig.values.limits import LIMITS

from .lone_surrogates import SurrogateRepair
from .wire import MASKING_MARGIN_BYTES, ExchangeRecord, Wire

EVENT_STREAM = "text/event-stream"
_PARSED = (EVENT_STREAM, "application/json")
# The strings in a piece of JSON; the group is a string that does not end in this piece or line.
_STRINGS = re.compile(rb'"(?:[^"\\\r\n]++|\\[^\r\n])*+"|("[^\r\n]*)')
_UNENDED = re.compile(rb'"[^\r\n]*')
# The session ids that the protocol allows and that can be sent back.
_SESSION_ID = re.compile(r"[\x21-\x7e]{1,4096}")


def find_refusal(
    exchange: ExchangeRecord,
    response: httpx2.Response,
    *,
    is_sse: bool,
    is_named: bool,
    most_bytes: int,
    evidence: Evidence,
) -> OperationError | None:
    """Return why this answer ends the operation at once; None if it does not.

    Redirects are never followed: 307 and 308 would send a tool call a second time. 401 and 429 end
    the operation because the SDK would send a second request, and because the SSE transport would
    wait for an answer to a POST that the service has refused. Requests to a URL that a server named
    come from this project's own code, which handles every other status itself.
    """
    status = response.status_code
    if exchange.method == "DELETE" and not is_named:
        return None
    if 300 <= status < 400:
        return _redirect_error(response)
    if response.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
        return _compression_error()
    # Ten digits exceed every limit; int() itself refuses a number of thousands of digits.
    length = response.headers.get("content-length", "0")
    if not length.isdecimal() or len(length.lstrip("0")) > 10 or int(length[-10:]) > most_bytes:
        return too_large_error(most_bytes)
    if is_named:
        return None
    if not _SESSION_ID.fullmatch(response.headers.get("mcp-session-id", "none")):
        return malformed_answer_error()
    if status in (401, 429) or (is_sse and status >= 400):
        return status_error(status, evidence)
    if is_sse and exchange.method == "GET":
        return _check_event_stream(response)
    return None


def _compression_error() -> OperationError:
    return OperationError(
        kind="protocol",
        message=_("The service sent a compressed response, which is not accepted."),
        hint=_("Turn off compression for this URL at the service or its proxy."),
    )


def _check_event_stream(response: httpx2.Response) -> OperationError | None:
    if EVENT_STREAM in response.headers.get("content-type", ""):
        return None
    return OperationError(
        kind="not_mcp",
        message=_("The server at this URL is not an MCP service."),
        hint=_("The URL usually ends in /mcp or /sse. The trace shows the response."),
    )


def _redirect_error(response: httpx2.Response) -> OperationError:
    try:
        target = httpx2.URL(response.headers.get("location", ""))
        place = str(target.copy_with(userinfo=b"", query=None, fragment=None))[:200]
    except (httpx2.InvalidURL, TypeError):
        place = ""
    return OperationError(
        kind="configuration",
        message=_("The service redirects to %(place)s, which is not followed.") % {"place": place}
        if place
        else _("The service redirects to another address, which is not followed."),
        hint=_("If that is the intended server, use it as the service’s URL."),
    )


async def read_refusal(response: httpx2.Response, exchange: ExchangeRecord) -> None:
    """Read the beginning of the body of an error status, which nothing else reads. A server that
    sends it slowly, or breaks off, has said nothing.

    The end of a body of known length is not waited for, so that the connection is closed: many
    servers close it after a refusal without saying so, and the next request would be lost on it.
    """
    stream = cast(httpx2.AsyncByteStream, response.stream)
    length = response.headers.get("content-length", "")
    room = min(LIMITS.refusal_bytes, int(length) if length.isdecimal() else LIMITS.refusal_bytes)
    with anyio.move_on_after(LIMITS.goodbye_seconds), suppress(httpx2.TransportError):
        if room:
            async for chunk in stream:
                exchange.refusal += chunk[: room - len(exchange.refusal)]
                if len(exchange.refusal) >= room:
                    break
    exchange.response_body += exchange.refusal[: settings.TRACE_BODY_BYTES + MASKING_MARGIN_BYTES]
    exchange.response_bytes += len(exchange.refusal)
    exchange.update_duration()
    await response.aclose()
    response.stream = httpx2.ByteStream(bytes(exchange.refusal))


class LimitedBody(httpx2.AsyncByteStream):
    """A response body that counts what arrives, records its beginning, and fails at a limit."""

    def __init__(
        self,
        stream: httpx2.AsyncByteStream,
        wire: Wire,
        exchange: ExchangeRecord,
        most_bytes: int,
    ) -> None:
        self._stream = stream
        self._wire = wire
        self._exchange = exchange
        self._most_bytes = most_bytes
        kind = exchange.response_headers.get("content-type", "").lower()
        self._is_event_stream = EVENT_STREAM in kind
        self._is_parsed = any(parsed in kind for parsed in _PARSED)
        self._pieces = 0
        self._events = self._lines = 0
        self._line_start = b"\n"
        self._open_string = b""
        self._repair = SurrogateRepair()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._stream:
                self._count(chunk)
                yield self._repair.repair(chunk) if self._is_parsed else chunk
            if rest := self._repair.finish():
                yield rest
        except httpx2.ReadTimeout as error:
            raise self._wire.end(timeout_error()) from error
        finally:
            self._exchange.update_duration()

    async def aclose(self) -> None:
        await self._stream.aclose()

    def _count(self, chunk: bytes) -> None:
        exchange = self._exchange
        exchange.response_bytes += len(chunk)
        room = settings.TRACE_BODY_BYTES + MASKING_MARGIN_BYTES - len(exchange.response_body)
        exchange.response_body += chunk[: max(0, room)]
        if exchange.is_refusal:
            exchange.refusal += chunk[: max(0, LIMITS.refusal_bytes - len(exchange.refusal))]
        if exchange.response_bytes > self._most_bytes:
            raise self._exceed(too_large_error(self._most_bytes))
        self._pieces += 1
        if self._pieces > LIMITS.pieces:
            raise self._wire.end(_limit_error(_("%(count)s parts") % {"count": LIMITS.pieces}))
        if self._is_event_stream:
            self._count_events(chunk)
        if self._is_parsed:
            self._count_values(chunk)

    def _count_events(self, chunk: bytes) -> None:
        """Count `data` at the start of a line, also across chunks, and count the lines: each costs
        a parser time, even an empty one."""
        text = self._line_start + chunk
        self._events += text.count(b"\ndata") + text.count(b"\rdata")
        self._line_start = text[-4:]
        if self._events > LIMITS.events:
            raise self._exceed(_limit_error(_("%(count)s messages") % {"count": LIMITS.events}))
        self._lines += chunk.count(b"\n") + chunk.count(b"\r")
        if self._lines > LIMITS.event_lines:
            raise self._exceed(_limit_error(_("%(count)s lines") % {"count": LIMITS.event_lines}))

    def _count_values(self, chunk: bytes) -> None:
        """Count what starts or follows a value, outside strings. A million empty objects are small
        on the wire and take a hundred times that in memory, and a second of parsing."""
        text = _STRINGS.sub(rb"\1", self._open_string + chunk)
        self._open_string = b""
        if b'"' in text:
            last = text[text.rindex(b'"') :]
            if b"\n" not in last and b"\r" not in last:
                is_escaping = (len(last) - len(last.rstrip(b"\\"))) % 2
                self._open_string = b'"\\' if is_escaping else b'"'
            text = _UNENDED.sub(b"", text)
        # An object costs more than another value: it is parsed into several objects.
        self._wire.values += text.count(b",") + text.count(b"[") + 2 * text.count(b"{")
        if self._wire.values > LIMITS.values:
            raise self._exceed(_limit_error(_("%(count)s values") % {"count": LIMITS.values}))

    def _exceed(self, error: OperationError) -> Exception:
        """Return the exception to raise where the body exceeds a limit."""
        return self._wire.end(error)


def too_large_error(most_bytes: int) -> OperationError:
    size = f"{most_bytes // 1024**2} MB" if most_bytes >= 1024**2 else f"{most_bytes // 1024} KB"
    return _limit_error(size)


def _limit_error(bound: str) -> OperationError:
    return OperationError(
        kind="too_large",
        message=_("The service sent more than %(bound)s in one response, which is not accepted.")
        % {"bound": bound},
        hint=_("Ask for less at once."),
        bound=bound,
    )
