"""The message endpoint of an HTTP+SSE server, which an event of its stream names before any
other."""

import re
from collections.abc import AsyncIterator
from urllib.parse import urljoin, urlparse

import httpx2
from django.utils.translation import gettext as _

from mcpconfig.values.errors import OperationError

from .wire import Wire

# A "\r" at the end of a piece may be the first half of a "\r\n".
_LINE_END = re.compile(rb"\r\n|\n|\r(?=.)", re.DOTALL)
_MAX_LINE_BYTES = 8 * 1024


class EndpointCheckStream(httpx2.AsyncByteStream):
    """The event stream of an HTTP+SSE server. It ends the operation if the endpoint is at another
    origin: the SDK does not use it either, but waits silently until the deadline."""

    def __init__(self, stream: httpx2.AsyncByteStream, wire: Wire, url: str) -> None:
        self._stream = stream
        self._wire = wire
        self._url = url
        self._is_done = False
        self._line = b""
        self._event: dict[bytes, bytes] = {}

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            if not self._is_done:
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
        # A line of this length is no endpoint; the parser of the stream has its own limit.
        self._is_done = len(self._line) > _MAX_LINE_BYTES

    def _check(self, endpoint: str) -> None:
        self._is_done = True
        if not _has_same_origin(self._url, endpoint):
            raise self._wire.end(_foreign_endpoint_error())


def _has_same_origin(url: str, endpoint: str) -> bool:
    """Compare as the SDK does: as text."""
    try:
        here, there = urlparse(url), urlparse(urljoin(url, endpoint))
    except ValueError:
        return False
    return (here.scheme, here.netloc) == (there.scheme, there.netloc)


def _foreign_endpoint_error() -> OperationError:
    return OperationError(
        kind="protocol",
        message=_("The service sends its messages to another address, which is not followed."),
        hint=_("A service behind a proxy must name its public address there, or only a path."),
    )
