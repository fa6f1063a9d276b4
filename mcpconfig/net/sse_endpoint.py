"""Where an HTTP+SSE server wants its messages: an event of its stream says so, before any other."""

import re
from collections.abc import AsyncIterator
from urllib.parse import urljoin, urlparse

import httpx2

from .errors import OperationError
from .wire import Wire

# Of a "\r" that ends a piece it is not known yet whether it is a line's whole end.
_LINE_END = re.compile(rb"\r\n|\n|\r(?=.)", re.DOTALL)
_LONGEST_BYTES = 8 * 1024


class AnnouncingStream(httpx2.AsyncByteStream):
    """Such a stream; ends the operation when it names a place at another origin than its own. The
    SDK does not go there either, but tells nobody and waits for the deadline."""

    def __init__(self, stream: httpx2.AsyncByteStream, wire: Wire, url: str) -> None:
        self._stream = stream
        self._wire = wire
        self._url = url
        self._is_over = False
        self._line = b""
        self._event: dict[bytes, bytes] = {}

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            if not self._is_over:
                self._read(chunk)
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()

    def _read(self, chunk: bytes) -> None:
        *lines, self._line = _LINE_END.split(self._line + chunk)
        for line in lines:
            if line:
                name, _, value = line.partition(b":")
                self._event[name] = value.removeprefix(b" ")
                continue
            if self._event.get(b"event") == b"endpoint":
                self._check(self._event.get(b"data", b"").decode(errors="replace"))
                return
            self._event = {}
        # So long a line is no address: whoever parses the stream has a bound for it.
        self._is_over = len(self._line) > _LONGEST_BYTES

    def _check(self, endpoint: str) -> None:
        self._is_over = True
        if not _is_at_origin_of(self._url, endpoint):
            raise self._wire.end(_elsewhere())


def _is_at_origin_of(url: str, endpoint: str) -> bool:
    """By the letter, as the SDK compares them."""
    try:
        here, there = urlparse(url), urlparse(urljoin(url, endpoint))
    except ValueError:
        return False
    return (here.scheme, here.netloc) == (there.scheme, there.netloc)


def _elsewhere() -> OperationError:
    return OperationError(
        kind="protocol",
        message="The service wants its messages at another address than its own, "
        "which is not followed.",
        hint="Behind a proxy, a service must name its public address there, or a path alone.",
    )
