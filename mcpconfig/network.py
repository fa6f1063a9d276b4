"""Where we may connect to: the outbound door for services. Checks that survive DNS and redirects,
one TLS context, and the refusals that hold below the SDK."""

import functools
import ipaddress
import socket
import ssl
from typing import cast

import anyio
import httpx2

from .errors import OperationError, Refusal, broken_off, explain, for_status
from .limits import LIMITS
from .wire import EVENT_STREAM, ExchangeRecord, WatchedStream, Wire, too_large

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_V4_COMPATIBLE = ipaddress.ip_network("::/96")
# Special-purpose ranges that Python 3.11 takes for global: NAT64 for local use, the 6to4 relay,
# site-local, documentation, segment routing.
_NOT_GLOBAL = tuple(
    ipaddress.ip_network(network)
    for network in ("64:ff9b:1::/48", "192.88.99.0/24", "fec0::/10", "3fff::/20", "5f00::/16")
)
# Cloud metadata answers here with credentials; no setting opens these.
_METADATA = frozenset(
    ipaddress.ip_address(address)
    for address in ("169.254.169.254", "100.100.100.200", "168.63.129.16", "fd00:ec2::254")
)


@functools.cache
def tls_context() -> ssl.SSLContext:
    """Reading the certificate bundle takes tens of milliseconds, so it is read once per process."""
    return ssl.create_default_context()


def unwrapped(address: Address) -> Address:
    """The IPv4 address that an IPv6 one leads to: mapped, compatible, 6to4, NAT64, Teredo."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    inner = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
    if inner is not None:
        return inner
    is_wrapped = address in _NAT64 or (address in _V4_COMPATIBLE and int(address) > 1)
    return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF) if is_wrapped else address


def is_allowed(address: Address, *, allows_private: bool) -> bool:
    """Whether a service may live at this address."""
    address = unwrapped(address)
    if address.is_multicast or address.is_unspecified or address.is_link_local:
        return False
    if address in _METADATA:
        return False
    is_global = address.is_global and not any(address in network for network in _NOT_GLOBAL)
    return allows_private or is_global


def check_url(url: str, *, allows_private: bool) -> httpx2.URL:
    """The URL, parsed by the library that will use it, or an OperationError."""
    try:
        parsed = httpx2.URL(url)
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
    try:
        found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise OperationError(
            kind="not_found",
            message="The service's host name was not found.",
            hint="Check the URL for a typing mistake.",
        ) from error
    addresses = [ipaddress.ip_address(str(entry[4][0])) for entry in found]
    if not addresses or not all(
        is_allowed(address, allows_private=allows_private) for address in addresses
    ):
        raise OperationError(
            kind="blocked_address",
            message="The service's host leads to an address that is not allowed.",
            hint="For a server in your own network, allow private addresses in its settings.",
        )
    return list(dict.fromkeys(addresses))


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Sends requests to vetted addresses only, and ends an operation whose answers break a bound.

    The host is resolved once per operation and the connection goes to the vetted address itself,
    with the name kept for `Host` and for the certificate, so a second DNS answer changes nothing.
    """

    def __init__(self, wire: Wire, *, allows_private: bool, is_sse: bool) -> None:
        self._wire = wire
        self._allows_private = allows_private
        self._is_sse = is_sse
        self._resolved: dict[tuple[str, int], list[Address]] = {}
        self._inner = httpx2.AsyncHTTPTransport(verify=tls_context(), retries=0)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if self._is_idle_stream(request):
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
        refusal = self._refusal(exchange, response)
        if refusal is not None:
            await response.aclose()
            raise self._wire.end(refusal)
        stream = cast(httpx2.AsyncByteStream, response.stream)
        response.stream = WatchedStream(stream, self._wire, exchange)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()

    def _not_swallowed(self, error: httpx2.TransportError) -> Refusal:
        """The SSE transport logs what happens to a POST and waits on: end the operation instead."""
        return self._wire.end(explain(error, self._wire.evidence) or broken_off())

    def _is_idle_stream(self, request: httpx2.Request) -> bool:
        """The GET by which handshake-era servers push; a short operation has no use for it."""
        return (
            request.method == "GET" and not self._is_sse and "last-event-id" not in request.headers
        )

    async def _send(self, request: httpx2.Request, exchange: ExchangeRecord) -> httpx2.Response:
        url = request.url
        check_url(str(url), allows_private=self._allows_private)
        failure: httpx2.TransportError = httpx2.ConnectError("no address")
        for address in await self._addresses(url):
            self._wire.body_leaves(exchange)
            try:
                return await self._inner.handle_async_request(self._pinned(request, address))
            except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
                self._wire.body_stayed(exchange)
                failure = error
        raise failure

    async def _addresses(self, url: httpx2.URL) -> list[Address]:
        key = (url.host, url.port or (443 if url.scheme == "https" else 80))
        if key not in self._resolved:
            found = await vetted_addresses(*key, allows_private=self._allows_private)
            self._resolved[key] = found[: LIMITS.addresses_tried]
        return self._resolved[key]

    def _pinned(self, request: httpx2.Request, address: Address) -> httpx2.Request:
        extensions = {**request.extensions, "sni_hostname": request.url.host}
        if request.method == "DELETE":
            # The farewell to a session: a service that lets it hang must not hold up the result.
            seconds = LIMITS.goodbye_seconds
            extensions["timeout"] = dict.fromkeys(("connect", "read", "write", "pool"), seconds)
        return httpx2.Request(
            request.method,
            request.url.copy_with(host=str(address)),
            headers=request.headers,
            stream=request.stream,
            extensions=extensions,
        )

    def _refusal(
        self, exchange: ExchangeRecord, response: httpx2.Response
    ) -> OperationError | None:
        """Why this answer ends the operation at once, if it does.

        Redirects are never followed: 307 and 308 would send a tool call a second time. 401 and 429
        end it because the SDK would go on with a second request; and the SSE transport would wait
        for an answer to a POST that the service has just turned down.
        """
        status = response.status_code
        if exchange.method == "DELETE":
            return None
        if 300 <= status < 400:
            return _redirected(response)
        if response.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
            return OperationError(
                kind="protocol",
                message="The service sent a compressed answer, although none is accepted.",
                hint="Turn off compression for this URL at the service or its proxy.",
            )
        length = response.headers.get("content-length", "")
        if length.isdecimal() and int(length) > LIMITS.response_bytes:
            return too_large(f"{LIMITS.response_bytes // 1024**2} MB")
        if status in (401, 429) or (self._is_sse and status >= 400):
            return for_status(status)
        if self._is_sse and exchange.method == "GET":
            return _not_an_event_stream(response)
        return None


def _not_an_event_stream(response: httpx2.Response) -> OperationError | None:
    if EVENT_STREAM in response.headers.get("content-type", ""):
        return None
    return OperationError(
        kind="not_mcp",
        message="What answers at this URL does not speak the service protocol.",
        hint="The URL usually ends in /mcp or /sse; the trace shows the answer.",
    )


def _redirected(response: httpx2.Response) -> OperationError:
    try:
        target = httpx2.URL(response.headers.get("location", ""))
        place = str(target.copy_with(userinfo=b"", query=None, fragment=None))[:200]
    except (httpx2.InvalidURL, TypeError):
        place = ""
    return OperationError(
        kind="configuration",
        message=f"The service redirects to {place or 'another place'}, which is not followed.",
        hint="If that is the intended server, use it as the service's URL.",
    )
