"""The body of an answer as it flows: counted, its beginning kept, and stopped in time."""

import re
from collections.abc import AsyncIterator

import httpx2
from django.conf import settings

from .errors import OperationError, timed_out
from .limits import LIMITS
from .wire import BEYOND_THE_CUT, ExchangeRecord, Wire

EVENT_STREAM = "text/event-stream"
_PARSED = (EVENT_STREAM, "application/json")
# The strings of a piece of JSON; the group is one that does not end in this piece, or this line.
_STRINGS = re.compile(rb'"(?:[^"\\\r\n]++|\\[^\r\n])*+"|("[^\r\n]*)')
_UNENDED = re.compile(rb'"[^\r\n]*')


class WatchedStream(httpx2.AsyncByteStream):
    """A response body that counts as it flows, keeps its beginning, and stops in time."""

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
        room = settings.TRACE_BODY_BYTES + BEYOND_THE_CUT - len(exchange.response_body)
        exchange.response_body += chunk[: max(0, room)]
        if exchange.response_bytes > self._most_bytes:
            raise self._wire.end(too_large(self._most_bytes))
        self._pieces += 1
        if self._pieces > LIMITS.pieces:
            raise self._wire.end(_too_many(f"{LIMITS.pieces} pieces"))
        if self._is_event_stream:
            self._count_events(chunk)
        if self._is_parsed:
            self._count_values(chunk)

    def _count_events(self, chunk: bytes) -> None:
        """Counts `data` at the start of a line, also where a chunk's border cuts it; and the lines
        themselves, because each costs a parser something, also an empty one."""
        text = self._line_start + chunk
        self._events += text.count(b"\ndata") + text.count(b"\rdata")
        self._line_start = text[-4:]
        if self._events > LIMITS.events:
            raise self._wire.end(_too_many(f"{LIMITS.events} messages"))
        self._lines += chunk.count(b"\n") + chunk.count(b"\r")
        if self._lines > LIMITS.event_lines:
            raise self._wire.end(_too_many(f"{LIMITS.event_lines} lines"))

    def _count_values(self, chunk: bytes) -> None:
        """Counts what begins or follows a value, outside strings: a million empty objects are
        small on the wire and cost a hundred times that in memory, and a second of parsing."""
        text = _STRINGS.sub(rb"\1", self._open_string + chunk)
        self._open_string = b""
        if b'"' in text:
            last = text[text.rindex(b'"') :]
            if b"\n" not in last and b"\r" not in last:
                is_escaping = (len(last) - len(last.rstrip(b"\\"))) % 2
                self._open_string = b'"\\' if is_escaping else b'"'
            text = _UNENDED.sub(b"", text)
        # An object costs more than a value: it is parsed into several things on its way.
        self._wire.values += text.count(b",") + text.count(b"[") + 2 * text.count(b"{")
        if self._wire.values > LIMITS.values:
            raise self._wire.end(_too_many(f"{LIMITS.values} values"))


def too_large(most_bytes: int) -> OperationError:
    size = f"{most_bytes // 1024**2} MB" if most_bytes >= 1024**2 else f"{most_bytes // 1024} KB"
    return _too_many(size)


def _too_many(bound: str) -> OperationError:
    return OperationError(
        kind="too_large",
        message=f"The service sent more than {bound} in one answer, which is not accepted.",
        hint="Ask for less at once.",
    )
