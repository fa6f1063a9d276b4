"""The connections under all requests to services: opened to vetted addresses only, and read in
small pieces that are counted before the HTTP library parses them."""

import ssl
from base64 import b64encode
from collections.abc import Awaitable, Callable
from typing import Any, Self

import httpcore2
import httpx2

from . import tcp
from .errors import OperationError
from .limits import LIMITS

_LONGEST_HEAD = 8 * 1024
Vet = Callable[[str, int], Awaitable[list[str]]]
End = Callable[[OperationError], Exception]


class MeteredStream(httpcore2.AsyncNetworkStream):
    """A connection that hands over little at a time and ends when an answer grows too large.

    What the HTTP library swallows by itself is bounded nowhere else: headers, interim responses,
    chunk extensions, trailers. Small reads let other tasks run between the pieces.
    """

    def __init__(self, stream: httpcore2.AsyncNetworkStream, end: End) -> None:
        self._stream = stream
        self._end = end
        self._room = LIMITS.head_bytes

    def expect_body(self, most_bytes: int) -> None:
        """The headers of an answer have come, so that its body may follow. Half as much again is
        for what frames it: a body in one-byte chunks is an attack."""
        self._room += most_bytes * 3 // 2

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        data = await self._stream.read(min(max_bytes, LIMITS.read_bytes), timeout)
        self._room -= len(data)
        if self._room < 0:
            raise self._end(_too_much())
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        self._room = LIMITS.head_bytes
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the HTTP library calls it by this name
    ) -> Self:
        secured = await self._stream.start_tls(ssl_context, server_hostname, timeout)
        return type(self)(secured, self._end)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class Connections:
    """The connections of one operation, in the place of the HTTP library's own pool: made to the
    addresses that `vet` lets through and not to the name, so that a second DNS answer changes
    nothing. TLS still checks the certificate for the name. One is used again when its answer has
    been read to the end.

    `proxy` is asked to connect to a vetted address too; it never sees a name.
    """

    def __init__(
        self, vet: Vet, end: End, proxy: httpx2.URL | None, tls: Callable[[], ssl.SSLContext]
    ) -> None:
        self._vet = vet
        self._end = end
        self._proxy = proxy
        self._tls = tls
        self._open: list[httpcore2.AsyncHTTP11Connection] = []
        self._opening = 0

    async def handle_async_request(self, request: httpcore2.Request) -> httpcore2.Response:
        origin = request.url.origin
        for connection in await self._idle(origin):
            try:
                return await connection.handle_async_request(request)
            except httpcore2.ConnectionNotAvailable:
                continue  # another request of this operation was faster
        return await (await self._opened(origin, request)).handle_async_request(request)

    async def aclose(self) -> None:
        for connection in self._open:
            await connection.aclose()

    async def _idle(self, origin: httpcore2.Origin) -> list[httpcore2.AsyncHTTP11Connection]:
        for connection in self._open:
            if connection.is_idle() and connection.has_expired():
                await connection.aclose()
        self._open = [each for each in self._open if not each.is_closed()]
        return [
            each for each in self._open if each.is_available() and each.can_handle_request(origin)
        ]

    async def _opened(
        self, origin: httpcore2.Origin, request: httpcore2.Request
    ) -> httpcore2.AsyncHTTP11Connection:
        if len(self._open) + self._opening >= LIMITS.connections:
            raise httpcore2.PoolTimeout("too many connections for one operation")
        seconds = request.extensions.get("timeout", {}).get("connect")
        self._opening += 1
        try:
            stream = await self._secured(origin, seconds)
        finally:
            self._opening -= 1
        connection = httpcore2.AsyncHTTP11Connection(origin, stream)
        self._open.append(connection)
        return connection

    async def _secured(self, origin: httpcore2.Origin, seconds: float | None) -> MeteredStream:
        host = origin.host.decode("ascii")
        stream = await self._reached(host, origin.port, seconds)
        if origin.scheme == b"https":
            return await stream.start_tls(self._tls(), host, seconds)
        return stream

    async def _reached(self, host: str, port: int, seconds: float | None) -> MeteredStream:
        failure: Exception = httpcore2.ConnectError("no address")
        for address in await self._vet(host, port):
            try:
                return await self._connected(address, port, seconds)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure

    async def _connected(self, address: str, port: int, seconds: float | None) -> MeteredStream:
        if self._proxy is None:
            return MeteredStream(await tcp.connect(address, port, seconds), self._end)
        proxy_port = self._proxy.port or 80
        raw = await tcp.connect(self._proxy.host, proxy_port, seconds)
        stream = MeteredStream(raw, self._end)
        place = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        try:
            await _tunnel(stream, _connect_request(place, self._proxy), seconds)
        except BaseException as error:
            await stream.aclose()
            if isinstance(error, httpcore2.NetworkError | httpcore2.TimeoutException):
                # The service has not heard of this: for its caller nothing was sent.
                raise httpcore2.ConnectError("the proxy did not answer") from error
            raise
        return stream


async def _tunnel(stream: MeteredStream, request: bytes, seconds: float | None) -> None:
    await stream.write(request, seconds)
    head = b""
    while b"\r\n\r\n" not in head:
        # One byte at a time, so that nothing of what follows the head is read with it.
        piece = await stream.read(1, seconds)
        if not piece or len(head) > _LONGEST_HEAD:
            raise httpcore2.ConnectError("the proxy did not open a way")
        head += piece
    if head.split(b" ", 2)[1:2] != [b"200"]:
        raise httpcore2.ConnectError("the proxy refused to connect")


def _connect_request(place: str, proxy: httpx2.URL) -> bytes:
    lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}"]
    if proxy.userinfo:
        credentials = b64encode(f"{proxy.username}:{proxy.password}".encode()).decode()
        lines.append(f"Proxy-Authorization: Basic {credentials}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def _too_much() -> OperationError:
    return OperationError(
        kind="too_large",
        message="The service sent more headers, or more around its answer, than is accepted.",
        hint="Tell whoever runs the service.",
    )
