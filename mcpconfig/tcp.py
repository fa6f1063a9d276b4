"""One TCP connection as the event loop gives it, in the form that the HTTP library wants, whose own
ones go a longer way."""

import asyncio
import ssl
from typing import Any, Self, cast

import httpcore2

# As much may wait here unread; the other side then has to wait.
_MOST_WAITING = 64 * 1024
_EXTRA = {"client_addr": "sockname", "server_addr": "peername"}


class TcpStream(asyncio.Protocol, httpcore2.AsyncNetworkStream):
    """A connection to read from and write to, with a bound in time on each."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport = asyncio.Transport()
        self._arrived = bytearray()
        self._leaving: list[bytes] = []
        self._is_over = False
        self._is_held = False
        self._failure: Exception | None = None
        self._heard: asyncio.Future[None] | None = None
        self._drained: asyncio.Future[None] | None = None

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        self._send()
        if self._arrived or self._is_over:
            # However much has come: other tasks get their turn between two pieces.
            await asyncio.sleep(0)
        else:
            self._heard = self._loop.create_future()
            await self._until(self._heard, timeout, httpcore2.ReadTimeout())
        if self._failure is not None and not self._arrived:
            raise httpcore2.ReadError(str(self._failure)) from self._failure
        data = bytes(self._arrived[:max_bytes])
        del self._arrived[:max_bytes]
        if self._is_held and len(self._arrived) < _MOST_WAITING:
            self._is_held = False
            self._transport.resume_reading()
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Head and body of a small request leave together, when its answer is waited for."""
        if self._is_over or self._transport.is_closing():
            raise httpcore2.WriteError(str(self._failure or "closed")) from self._failure
        self._leaving.append(buffer)
        if sum(map(len, self._leaving)) < _MOST_WAITING:
            return
        self._send()
        if self._drained is not None:
            await self._until(self._drained, timeout, httpcore2.WriteTimeout())
            if self._failure is not None:
                raise httpcore2.WriteError(str(self._failure)) from self._failure

    def _send(self) -> None:
        if self._leaving and not self._transport.is_closing():
            self._transport.write(b"".join(self._leaving))
        self._leaving.clear()

    async def aclose(self) -> None:
        self._transport.abort()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the HTTP library calls it by this name
    ) -> Self:
        if self._arrived or self._is_over:
            # What came would be read as if it had come under the protection that only begins here.
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
            return bool(self._arrived) or self._is_over
        return self._transport.get_extra_info(_EXTRA.get(info, info))

    async def _until(
        self, event: asyncio.Future[None], seconds: float | None, failure: Exception
    ) -> None:
        timer = None
        if seconds is not None:
            timer = self._loop.call_later(seconds, _give_up, event, failure)
        try:
            await event
        finally:
            if timer is not None:
                timer.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._arrived += data
        if len(self._arrived) >= _MOST_WAITING and not self._is_held:
            self._is_held = True
            self._transport.pause_reading()
        _settle(self._heard)

    def eof_received(self) -> None:
        self._is_over = True
        _settle(self._heard)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_over = True
        self._failure = exc
        _settle(self._heard)
        _settle(self._drained)

    def pause_writing(self) -> None:
        self._drained = self._loop.create_future()

    def resume_writing(self) -> None:
        _settle(self._drained)
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


def _settle(event: asyncio.Future[None] | None) -> None:
    if event is not None and not event.done():
        event.set_result(None)


def _give_up(event: asyncio.Future[None], failure: Exception) -> None:
    if not event.done():
        event.set_exception(failure)
