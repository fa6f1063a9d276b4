"""The HTTP transport and client for services and for URLs that a server names.

A service's own URL goes through `GuardedTransport`, as `session/client.py` makes it. A URL that a
server names (metadata, authorization, token, registration) goes through `create_restricted_client`.
"""

import functools
import ssl
from collections.abc import Collection
from typing import cast

import httpcore2
import httpx2
from django.conf import settings

from mcpconfig.net.connections import MeteredStream, VettedBackend
from mcpconfig.values.errors import (
    OperationError,
    Refusal,
    add_evidence,
    disconnect_error,
    translate_transport_error,
)
from mcpconfig.values.hooks import current_hooks
from mcpconfig.values.limits import LIMITS

from .addresses import check_url, resolve_vetted_addresses
from .call_answers import CallAnswerBody
from .response_limits import LimitedBody, find_refusal, read_refusal
from .sse_endpoint import EndpointCheckStream
from .wire import ExchangeRecord, Wire


@functools.cache
def tls_context() -> ssl.SSLContext:
    """The TLS context of this process. It is built once, because reading the certificate bundle
    takes tens of milliseconds."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


class _PoolTransport(httpx2.AsyncHTTPTransport):
    """The HTTP library's transport with a pool whose connections go through `VettedBackend`.

    The transport has no parameter for a network backend, so its pool is set directly. The library
    is pinned, and tests fail when a connection is opened in another way.
    """

    def __init__(self, backend: VettedBackend) -> None:
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=tls_context(),
            max_connections=LIMITS.connections,
            network_backend=backend,
        )


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Sends requests to vetted addresses only, and ends an operation whose answers exceed a limit.

    The host is resolved once per operation, and connections go to the vetted address; the name
    stays for `Host` and for the certificate. `private_hosts` narrows `allows_private` to these
    hosts. `listens`: questions of the service during a call are answered; many services send them
    on a stream of their own.
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
        self._inner = _PoolTransport(VettedBackend(self._vetted, wire.end, get_outbound_proxy()))

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        is_push = self._is_push_stream(request)
        if is_push:
            self._pushes_left -= 1
            if self._pushes_left < 0:
                return httpx2.Response(405, request=request)
        exchange = self._wire.record_request(request, await request.aread())
        try:
            response = await self._send(request, exchange)
        except OperationError as error:
            # A request that is not sent says nothing about a call that was.
            error.is_definite = error.is_definite and not self._wire.was_call_sent
            raise self._wire.end(error) from error
        except httpx2.TransportError as error:
            exchange.update_duration()
            if self._is_sse and exchange.method == "POST":
                raise self._end_failed_post(error) from error
            raise
        self._wire.record_answer(exchange, response)
        if is_push and response.status_code != 200:
            # A service may have no such stream; that does not end the operation.
            await response.aclose()
            return httpx2.Response(405, request=request)
        if not (is_push or self._is_named) and _is_unread_refusal(exchange, is_sse=self._is_sse):
            await read_refusal(response, exchange)
        refused = find_refusal(
            exchange,
            response,
            is_sse=self._is_sse,
            is_named=self._is_named,
            most_bytes=LIMITS.discarded_bytes if self._may_discard(exchange) else self._most_bytes,
            evidence=self._wire.evidence,
        )
        if refused is not None:
            await response.aclose()
            raise self._wire.end(refused)
        network = cast(MeteredStream, response.extensions["network_stream"])
        network.allow_body(self._most_bytes)
        stream = cast(httpx2.AsyncByteStream, response.stream)
        watched = (
            CallAnswerBody(stream, self._wire, exchange, self._most_bytes, network)
            if self._may_discard(exchange)
            else LimitedBody(stream, self._wire, exchange, self._most_bytes)
        )
        announces = self._is_sse and exchange.method == "GET"
        response.stream = (
            EndpointCheckStream(watched, self._wire, exchange.url) if announces else watched
        )
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()

    def _may_discard(self, exchange: ExchangeRecord) -> bool:
        """Whether this is the answer to a tool call. The HTTP+SSE transport sends it on the stream
        of the connection, where it is not discarded."""
        return exchange.is_tool_call and exchange.status == 200 and not self._is_sse

    def _end_failed_post(self, error: httpx2.TransportError) -> Refusal:
        """The SSE transport of the SDK only logs the failure of a POST and keeps waiting, so the
        operation is ended here."""
        failure = translate_transport_error(error) or disconnect_error()
        return self._wire.end(add_evidence(failure, self._wire.evidence))

    def _is_push_stream(self, request: httpx2.Request) -> bool:
        """Whether this is the GET for server messages of a handshake-era service, which is of use
        only if questions are answered."""
        return (
            request.method == "GET"
            and not (self._is_sse or self._is_named)
            and "last-event-id" not in request.headers
        )

    async def _send(self, request: httpx2.Request, exchange: ExchangeRecord) -> httpx2.Response:
        try:
            check_url(request.url, allows_private=self._may_be_private(request.url.host))
        except OperationError:
            current_hooks().count_refused_connection("url")
            raise
        if request.method == "DELETE":
            # The DELETE that ends a session: a service that does not answer it must not delay the
            # result.
            seconds = dict.fromkeys(("connect", "read", "write", "pool"), LIMITS.goodbye_seconds)
            request.extensions = {**request.extensions, "timeout": seconds}
        self._wire.mark_sending(exchange)
        try:
            return await self._inner.handle_async_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, OperationError):
            self._wire.mark_unsent(exchange)
            raise

    async def _vetted(self, host: str, port: int) -> list[str]:
        if (host, port) not in self._resolved:
            found = await resolve_vetted_addresses(
                host, port, allows_private=self._may_be_private(host)
            )
            addresses = [str(address) for address in found[: LIMITS.addresses_tried]]
            self._resolved[host, port] = addresses
        return self._resolved[host, port]

    def _may_be_private(self, host: str) -> bool:
        is_listed = self._private_hosts is None or host in self._private_hosts
        return self._allows_private and is_listed


def _is_unread_refusal(exchange: ExchangeRecord, *, is_sse: bool) -> bool:
    """Whether this is an error status whose body nobody else reads. The SDK reads JSON, which may
    be a JSON-RPC error, unless the operation ends with the status."""
    kind = exchange.response_headers.get("content-type", "").lower()
    is_read = kind.startswith("application/json") and not is_sse
    is_final = exchange.status in (401, 429)
    return exchange.is_refusal and exchange.method != "DELETE" and (is_final or not is_read)


def get_outbound_proxy() -> httpx2.URL | None:
    """Return the proxy of the settings. The environment's proxy variables are ignored."""
    return httpx2.URL(settings.OUTBOUND_PROXY) if settings.OUTBOUND_PROXY else None


def create_restricted_client(
    wire: Wire, *, allows_private: bool, private_hosts: Collection[str]
) -> httpx2.AsyncClient:
    """Return a client for URLs that a server names.

    Private addresses and plain http are allowed only for `private_hosts`, and only if
    `allows_private` is set; usually that is the host of the service itself.
    """
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
