"""What the SDKs share: clients by event loop and account, connections, the TLS context, allowed
headers."""

import asyncio
import functools
import ssl
import threading
from collections.abc import Callable, Iterable, Mapping
from socket import SOCK_STREAM
from typing import Generic, TypeVar, cast

import httpcore2
import httpx2

from mcpconfig.net.connections import TcpStream, connect

from .account import Account

CONNECT_SECONDS = 10.0
# An address that does not answer for so long is not waited for alone.
NEXT_ADDRESS_SECONDS = 0.25
# None of these comes from the operator's environment.
PLAIN_HEADERS = frozenset(
    {
        *("accept", "accept-encoding", "connection", "content-length", "content-type"),
        *("host", "transfer-encoding"),
    }
)

Client = TypeVar("Client")


class Clients(Generic[Client]):
    """Clients by event loop and account. A connection of one loop fails in another."""

    def __init__(self, make: Callable[[Account], Client]) -> None:
        self._make = make
        self._known: dict[tuple[asyncio.AbstractEventLoop, Account], Client] = {}
        self._lock = threading.Lock()

    def get(self, account: Account) -> Client:
        """Return the client of the running loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            for known in [known for known in self._known if known[0].is_closed()]:
                del self._known[known]
            if (loop, account) not in self._known:
                self._known[loop, account] = self._make(account)
            return self._known[loop, account]


@functools.cache
def get_tls_context() -> ssl.SSLContext:
    """Return the TLS context of the process. Building one takes 50 ms."""
    return httpx2.create_ssl_context()


def use_own_streams(client: httpx2.AsyncClient) -> httpx2.AsyncClient:
    """Let the client open connections that cost less for each read than those of its library.

    Its pool, proxies, TLS and errors stay. The client has no parameter for a network backend, so
    that of its pools is set directly. The library is pinned, and a test fails when a connection is
    opened in another way.
    """
    for transport in (client._transport, *client._mounts.values()):
        if transport is not None:
            cast(httpx2.AsyncHTTPTransport, transport)._pool._network_backend = _Backend()
    return client


class _Backend(httpcore2.AsyncNetworkBackend):
    """Opens the connections of the HTTP library's pools."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the HTTP library calls it by this name
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> TcpStream:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                found = await loop.getaddrinfo(host, port, type=SOCK_STREAM)
                addresses = list(dict.fromkeys(str(address[0]) for *_, address in found))
                stream = await connect_to_first(addresses, port)
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout() from error
        except OSError as error:
            raise httpcore2.ConnectError(str(error)) from error
        for option in socket_options or ():
            stream.get_extra_info("socket").setsockopt(*option)
        return stream


async def connect_to_first(addresses: list[str], port: int) -> TcpStream:
    """Connect to the address that answers first. One after another is tried, the next after a
    failure or a pause, so that a network without a route for IPv6 delays nothing."""
    running: set[asyncio.Task[TcpStream]] = set()
    failure: BaseException = httpcore2.ConnectError("no address")
    first: TcpStream | None = None
    try:
        while addresses or running:
            if addresses:
                running.add(asyncio.create_task(connect(addresses.pop(0), port, None)))
            pause = NEXT_ADDRESS_SECONDS if addresses else None
            done, _ = await asyncio.wait(
                running, timeout=pause, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                if (error := task.exception()) is None:
                    first = task.result()
                    return first
                failure = error
                running.discard(task)
        raise failure
    finally:
        for task in running:
            if not task.cancel() and not task.exception() and task.result() is not first:
                await task.result().aclose()


class OwnHeaders:
    """A hook that sends the headers of one account and no others.

    The SDKs add values of the operator's environment (an organisation, another key, headers) to
    every request, for any address. So only listed headers are sent, and the check is made where the
    request is sent. `kept` has the headers that the API needs.
    """

    def __init__(
        self, account: Account, own: Mapping[str, str], kept: frozenset[str] = frozenset()
    ) -> None:
        self._headers = {"user-agent": "Countersign", **own, **dict(account.headers)}
        self._kept = PLAIN_HEADERS | kept

    async def __call__(self, request: httpx2.Request) -> None:
        for name in set(request.headers) - self._kept:
            del request.headers[name]
        request.headers.update(self._headers)
