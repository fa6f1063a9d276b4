"""The network backend of the HTTP library's pool: connections to vetted addresses, whose input is
counted before it is parsed."""

import asyncio
import ssl
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Self, cast

import httpcore2
import httpx2
from django.utils.translation import gettext as _

from mcpconfig.values.errors import OperationError
from mcpconfig.values.limits import LIMITS

# How many unread bytes are buffered before reading from the socket pauses.
_MAX_BUFFERED_BYTES = 64 * 1024
_EXTRA = {"client_addr": "sockname", "server_addr": "peername"}


class TcpStream(asyncio.Protocol, httpcore2.AsyncNetworkStream):
    """A connection with a time limit on each read and write."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport = asyncio.Transport()
        self._received = bytearray()
        self._outgoing: list[bytes] = []
        self._is_closed = False
        self._is_paused = False
        self._failure: Exception | None = None
        self._readable: asyncio.Future[None] | None = None
        self._drained: asyncio.Future[None] | None = None

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        self._send()
        if self._received or self._is_closed:
            # Other tasks run between two pieces, however much has arrived.
            await asyncio.sleep(0)
        else:
            self._readable = self._loop.create_future()
            await self._until(self._readable, timeout, httpcore2.ReadTimeout())
        if self._failure is not None and not self._received:
            raise httpcore2.ReadError(str(self._failure)) from self._failure
        data = bytes(self._received[:max_bytes])
        del self._received[:max_bytes]
        if self._is_paused and len(self._received) < _MAX_BUFFERED_BYTES:
            self._is_paused = False
            self._transport.resume_reading()
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Buffer the data. Head and body of a small request are sent together when the answer is
        read."""
        if self._is_closed or self._transport.is_closing():
            raise httpcore2.WriteError(str(self._failure or "closed")) from self._failure
        self._outgoing.append(buffer)
        if sum(map(len, self._outgoing)) < _MAX_BUFFERED_BYTES:
            return
        self._send()
        if self._drained is not None:
            await self._until(self._drained, timeout, httpcore2.WriteTimeout())
            if self._failure is not None:
                raise httpcore2.WriteError(str(self._failure)) from self._failure

    def _send(self) -> None:
        if self._outgoing and not self._transport.is_closing():
            self._transport.write(b"".join(self._outgoing))
        self._outgoing.clear()

    async def aclose(self) -> None:
        self._transport.abort()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the HTTP library calls it by this name
    ) -> Self:
        if self._received or self._is_closed:
            # Data that arrived before TLS must not be read as if TLS had protected it.
            self._transport.abort()
            raise httpcore2.ConnectError("it was closed, or used, before it was protected")
        try:
            async with asyncio.timeout(timeout):
                secured = await self._loop.start_tls(
                    self._transport, self, ssl_context, server_hostname=server_hostname
                )
        except BaseException as error:
            self._transport.abort()
            if isinstance(error, TimeoutError):
                raise httpcore2.ConnectTimeout() from error
            if isinstance(error, OSError):
                raise httpcore2.ConnectError(str(error)) from error
            raise
        if secured is None:
            raise httpcore2.ConnectError("closed")
        self._transport = secured
        return self

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable":
            return bool(self._received) or self._is_closed
        return self._transport.get_extra_info(_EXTRA.get(info, info))

    async def _until(
        self, event: asyncio.Future[None], seconds: float | None, failure: Exception
    ) -> None:
        timer = None
        if seconds is not None:
            timer = self._loop.call_later(seconds, _reject, event, failure)
        try:
            await event
        finally:
            if timer is not None:
                timer.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) >= _MAX_BUFFERED_BYTES and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()
        _resolve(self._readable)

    def eof_received(self) -> None:
        self._is_closed = True
        _resolve(self._readable)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closed = True
        self._failure = exc
        _resolve(self._readable)
        _resolve(self._drained)

    def pause_writing(self) -> None:
        self._drained = self._loop.create_future()

    def resume_writing(self) -> None:
        _resolve(self._drained)
        self._drained = None


async def connect(host: str, port: int, seconds: float | None) -> TcpStream:
    try:
        async with asyncio.timeout(seconds):
            _transport, stream = await asyncio.get_running_loop().create_connection(
                TcpStream, host, port
            )
    except TimeoutError as error:
        raise httpcore2.ConnectTimeout() from error
    except OSError as error:
        raise httpcore2.ConnectError(str(error)) from error
    return stream


def _resolve(event: asyncio.Future[None] | None) -> None:
    if event is not None and not event.done():
        event.set_result(None)


def _reject(event: asyncio.Future[None], failure: Exception) -> None:
    if not event.done():
        event.set_exception(failure)


_MAX_HEAD_BYTES = 8 * 1024
Vet = Callable[[str, int], Awaitable[list[str]]]
End = Callable[[OperationError], Exception]


class MeteredStream(httpcore2.AsyncNetworkStream):
    """A connection that reads in small pieces and fails when an answer grows too large.

    The HTTP library itself bounds neither headers nor interim responses, chunk extensions or
    trailers. Small reads let other tasks run in between.
    """

    def __init__(self, stream: httpcore2.AsyncNetworkStream, end: End) -> None:
        self._stream = stream
        self._end = end
        self._bytes_left = LIMITS.head_bytes

    def allow_body(self, most_bytes: int) -> None:
        """Allow a body of this size, now that the headers have arrived. Half as much again is for
        its framing: a body in one-byte chunks is an attack."""
        self._bytes_left += most_bytes * 3 // 2

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        data = await self._stream.read(min(max_bytes, LIMITS.read_bytes), timeout)
        self._bytes_left -= len(data)
        if self._bytes_left < 0:
            raise self._end(_head_too_large_error())
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        self._bytes_left = LIMITS.head_bytes
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


class VettedBackend(httpcore2.AsyncNetworkBackend):
    """Opens the connections of the HTTP library's pool.

    A connection goes to one of the addresses that `vet` returns for the host, not to the name, so
    that a second DNS answer changes nothing. TLS still checks the certificate against the name.
    `proxy` also receives a vetted address and never a name.
    """

    def __init__(self, vet: Vet, end: End, proxy: httpx2.URL | None) -> None:
        self._vet = vet
        self._end = end
        self._proxy = proxy

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the HTTP library calls it by this name
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> MeteredStream:
        """Connect to the first vetted address that answers; the pool uses no other option."""
        failure: Exception = httpcore2.ConnectError("no address")
        for address in await self._vet(host, port):
            try:
                return await self._connect(address, port, timeout)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure

    async def _connect(self, address: str, port: int, seconds: float | None) -> MeteredStream:
        if self._proxy is None:
            return MeteredStream(await connect(address, port, seconds), self._end)
        proxy_port = self._proxy.port or 80
        raw = await connect(self._proxy.host, proxy_port, seconds)
        stream = MeteredStream(raw, self._end)
        place = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        try:
            await _open_tunnel(stream, _build_connect_request(place, self._proxy), seconds)
        except BaseException as error:
            await stream.aclose()
            if isinstance(error, httpcore2.NetworkError | httpcore2.TimeoutException):
                # The request has not reached the service: the caller may treat it as not sent.
                raise httpcore2.ConnectError("the proxy did not answer") from error
            raise
        return stream


async def _open_tunnel(stream: MeteredStream, request: bytes, seconds: float | None) -> None:
    await stream.write(request, seconds)
    head = b""
    while b"\r\n\r\n" not in head:
        # Read one byte at a time, so that nothing beyond the head is consumed.
        piece = await stream.read(1, seconds)
        if not piece or len(head) > _MAX_HEAD_BYTES:
            raise httpcore2.ConnectError("the proxy did not open a way")
        head += piece
    if head.split(b" ", 2)[1:2] != [b"200"]:
        raise httpcore2.ConnectError("the proxy refused to connect")


def _build_connect_request(place: str, proxy: httpx2.URL) -> bytes:
    lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}"]
    if proxy.userinfo:
        credentials = b64encode(f"{proxy.username}:{proxy.password}".encode()).decode()
        lines.append(f"Proxy-Authorization: Basic {credentials}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def _head_too_large_error() -> OperationError:
    return OperationError(
        kind="too_large",
        message=_("The service sent too many headers, or too much around its response."),
        hint=_("Report it to the service’s operator."),
    )
