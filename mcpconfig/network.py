"""Where we may connect to: the outbound door, with checks that survive DNS and redirects.

A service's own URL goes through `GuardedTransport` as `client.py` makes it. A URL that a server
names (metadata, authorization, token, registration, an icon) goes through `named_client`: private
addresses only for hosts that the caller lists, a small body, little time, and every status but a
redirect handed back.
"""

import functools
import ipaddress
import socket
import ssl
from collections.abc import Collection
from typing import cast

import anyio
import httpcore2
import httpx2
from django.conf import settings

from .body import WatchedStream
from .errors import OperationError, Refusal, attach, broken_off, of_transport, timed_out
from .limits import LIMITS
from .pipe import Connections, MeteredStream
from .refusals import refusal
from .sse_endpoint import AnnouncingStream
from .wire import ExchangeRecord, Wire

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_V4_COMPATIBLE = ipaddress.ip_network("::/96")
# IPv4 in the last four bytes: NAT64, and translated by SIIT.
_V4_INSIDE = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("::ffff:0:0:0/96"))
# All IPv6 addresses of the public network are in here, whatever Python says of others.
_PUBLIC_V6 = ipaddress.ip_network("2000::/3")
# Special-purpose ranges that Python 3.11 takes for global: NAT64 for local use, the 6to4 relay,
# site-local, documentation, segment routing.
_NOT_GLOBAL = tuple(
    ipaddress.ip_network(network)
    for network in ("64:ff9b:1::/48", "192.88.99.0/24", "fec0::/10", "3fff::/20", "5f00::/16")
)
# Cloud metadata answers here with credentials; no setting opens these.
_METADATA = frozenset(
    ipaddress.ip_address(address)
    for address in (
        *("169.254.169.254", "100.100.100.200", "168.63.129.16", "192.0.0.192"),
        *("fd00:ec2::254", "fd20:ce::254"),
    )
)


@functools.cache
def tls_context() -> ssl.SSLContext:
    """Reading the certificate bundle takes tens of milliseconds, so it is read once per process."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def unwrapped(address: Address) -> Address:
    """The IPv4 address that an IPv6 one leads to: mapped, compatible, 6to4, NAT64, Teredo."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    inner = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
    if inner is not None:
        return inner
    is_wrapped = any(address in network for network in _V4_INSIDE) or (
        address in _V4_COMPATIBLE and int(address) > 1
    )
    return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF) if is_wrapped else address


def is_allowed(address: Address, *, allows_private: bool) -> bool:
    """Whether a service may live at this address."""
    address = unwrapped(address)
    if address.is_multicast or address.is_unspecified or address.is_link_local:
        return False
    if address in _METADATA:
        return False
    is_global = address.is_global and not any(address in network for network in _NOT_GLOBAL)
    if isinstance(address, ipaddress.IPv6Address) and address not in _PUBLIC_V6:
        is_global = False
    return allows_private or is_global


_parsed = functools.lru_cache(256)(httpx2.URL)


def check_url(url: str | httpx2.URL, *, allows_private: bool) -> httpx2.URL:
    """The URL, parsed by the library that will use it, or an OperationError."""
    try:
        parsed = url if isinstance(url, httpx2.URL) else _parsed(url)
    except httpx2.InvalidURL as error:
        raise _misconfigured("The URL cannot be read.") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise _misconfigured("The URL must begin with https:// and name a host.")
    if parsed.port is not None and not 0 < parsed.port < 65_536:
        raise _misconfigured("The URL's port does not exist.")
    if parsed.userinfo:
        raise _misconfigured("The URL must not contain a user name or password.")
    if parsed.scheme == "http" and not allows_private:
        raise _misconfigured("The URL must begin with https://.")
    return parsed


def _misconfigured(message: str) -> OperationError:
    return OperationError(
        kind="configuration",
        message=message,
        hint="Plain http:// and private addresses need “allow private addresses”.",
        was_sent=False,
        is_definite=True,
    )


async def vetted_addresses(host: str, port: int, *, allows_private: bool) -> list[Address]:
    """Every address of the host, if every one of them is allowed.

    One bad address among good ones blocks the host: a resolver that mixes them is an attack.
    """
    addresses = _literal(host) or await _resolved(host, port)
    if not addresses or not all(
        is_allowed(address, allows_private=allows_private) for address in addresses
    ):
        raise OperationError(
            kind="blocked_address",
            message="The service's host leads to an address that is not allowed.",
            hint="For a server in your own network, allow private addresses in its settings.",
        )
    return list(dict.fromkeys(addresses))


def _literal(host: str) -> list[Address]:
    """The address that the host is, in the one plain form of it; no thread need be woken."""
    try:
        return [ipaddress.ip_address(host)]
    except ValueError:
        return []


async def _resolved(host: str, port: int) -> list[Address]:
    try:
        with anyio.fail_after(LIMITS.connect_seconds):
            found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except TimeoutError as error:
        raise timed_out() from error
    except (OSError, UnicodeError) as error:
        raise OperationError(
            kind="not_found",
            message="The service's host name was not found.",
            hint="Check the URL for a typing mistake.",
        ) from error
    return [ipaddress.ip_address(str(entry[4][0])) for entry in found]


class _Inner(httpx2.AsyncHTTPTransport):
    """The HTTP library's transport over connections of our own.

    It offers no parameter for them, so its pool is replaced; the library is pinned, and tests fail
    when a connection is made any other way.
    """

    def __init__(self, connections: Connections) -> None:
        self._pool = cast(httpcore2.AsyncConnectionPool, connections)


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Sends requests to vetted addresses only, and ends an operation whose answers break a bound.

    The host is resolved once per operation and connections go to the vetted address itself, with
    the name kept for `Host` and for the certificate, so a second DNS answer changes nothing.
    `private_hosts` narrows `allows_private` to these hosts. `listens`: somebody answers what the
    service asks in the middle of a call, which many services send on a stream of their own.
    """

    def __init__(
        self,
        wire: Wire,
        *,
        allows_private: bool,
        is_sse: bool,
        private_hosts: Collection[str] | None = None,
        is_named: bool = False,
        listens: bool = False,
    ) -> None:
        self._wire = wire
        self._pushes_left = LIMITS.push_streams if listens else 0
        self._allows_private = allows_private
        self._private_hosts = private_hosts
        self._is_sse = is_sse
        self._is_named = is_named
        self._most_bytes = LIMITS.named_bytes if is_named else LIMITS.response_bytes
        self._resolved: dict[tuple[str, int], list[str]] = {}
        self._inner = _Inner(Connections(self._vetted, wire.end, outbound_proxy(), tls_context))

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        is_push = self._is_push_stream(request)
        if is_push:
            self._pushes_left -= 1
            if self._pushes_left < 0:
                return httpx2.Response(405, request=request)
        exchange = self._wire.begin(request, await request.aread())
        try:
            response = await self._send(request, exchange)
        except OperationError as error:
            raise self._wire.end(error) from error
        except httpx2.TransportError as error:
            exchange.touch()
            if self._is_sse and exchange.method == "POST":
                raise self._not_swallowed(error) from error
            raise
        self._wire.answered(exchange, response)
        if is_push and response.status_code != 200:
            # Not having one is allowed, and no reason to end what goes on beside it.
            await response.aclose()
            return httpx2.Response(405, request=request)
        refused = refusal(
            exchange,
            response,
            is_sse=self._is_sse,
            is_named=self._is_named,
            most_bytes=self._most_bytes,
        )
        if refused is not None:
            await response.aclose()
            raise self._wire.end(refused)
        cast(MeteredStream, response.extensions["network_stream"]).expect_body(self._most_bytes)
        stream = cast(httpx2.AsyncByteStream, response.stream)
        watched = WatchedStream(stream, self._wire, exchange, self._most_bytes)
        announces = self._is_sse and exchange.method == "GET"
        response.stream = (
            AnnouncingStream(watched, self._wire, exchange.url) if announces else watched
        )
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()

    def _not_swallowed(self, error: httpx2.TransportError) -> Refusal:
        """The SSE transport logs what happens to a POST and waits on: end the operation instead."""
        failure = of_transport(error) or broken_off()
        return self._wire.end(attach(failure, self._wire.evidence))

    def _is_push_stream(self, request: httpx2.Request) -> bool:
        """The GET by which handshake-era servers push; of use only to who can be asked."""
        return (
            request.method == "GET"
            and not (self._is_sse or self._is_named)
            and "last-event-id" not in request.headers
        )

    async def _send(self, request: httpx2.Request, exchange: ExchangeRecord) -> httpx2.Response:
        check_url(request.url, allows_private=self._may_be_private(request.url.host))
        if request.method == "DELETE":
            # The farewell to a session: a service that lets it hang must not hold up the result.
            seconds = dict.fromkeys(("connect", "read", "write", "pool"), LIMITS.goodbye_seconds)
            request.extensions = {**request.extensions, "timeout": seconds}
        self._wire.body_leaves(exchange)
        try:
            return await self._inner.handle_async_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, OperationError):
            self._wire.body_stayed(exchange)
            raise

    async def _vetted(self, host: str, port: int) -> list[str]:
        if (host, port) not in self._resolved:
            found = await vetted_addresses(host, port, allows_private=self._may_be_private(host))
            addresses = [str(address) for address in found[: LIMITS.addresses_tried]]
            self._resolved[host, port] = addresses
        return self._resolved[host, port]

    def _may_be_private(self, host: str) -> bool:
        is_listed = self._private_hosts is None or host in self._private_hosts
        return self._allows_private and is_listed


def outbound_proxy() -> httpx2.URL | None:
    """The proxy that the settings name. The environment's own variables for proxies are ignored."""
    return httpx2.URL(settings.OUTBOUND_PROXY) if settings.OUTBOUND_PROXY else None


def named_client(
    wire: Wire, *, allows_private: bool, private_hosts: Collection[str]
) -> httpx2.AsyncClient:
    """A client for URLs that a server names. `private_hosts` are those that may have private
    addresses and plain http, if the service's admin allows private addresses at all: usually the
    host of the service itself."""
    return httpx2.AsyncClient(
        transport=GuardedTransport(
            wire,
            allows_private=allows_private,
            is_sse=False,
            private_hosts=private_hosts,
            is_named=True,
        ),
        headers={"accept-encoding": "identity"},
        timeout=LIMITS.named_seconds,
        trust_env=False,
    )
