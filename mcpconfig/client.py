"""Connections to services: the only file that opens them. Each is opened for one operation, knows
how the service is reached or finds out, and is closed when the operation ends."""

import logging
import math
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import httpx2
import mcp_types as types
from channels.db import database_sync_to_async
from django.conf import settings
from mcp import Client
from mcp.client import CacheConfig, Transport
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from . import builtin, facts, trace
from .credentials import request_headers
from .errors import UNSUPPORTED_VERSION, OperationError, attach, explain
from .facts import Facts
from .limits import LIMITS
from .models import Credential, Service
from .network import GuardedTransport, check_url
from .server_log import ServerLog
from .stored_listing import StoredListing
from .wire import Wire

logger = logging.getLogger(__name__)

CLIENT_INFO = types.Implementation(name="countersign", title="Countersign", version="0.1.0")
HTTP, SSE = Service.Transport.STREAMABLE_HTTP.value, Service.Transport.SSE.value
_NOT_UNDERSTOOD = (400, 404, 405)
# "No such method" and "no such tool, resource or prompt" travel with 404 and 400 in the modern era.
_UNDERSTOOD = (types.METHOD_NOT_FOUND, types.INVALID_PARAMS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where one operation connects to, and what it shows at the door."""

    url: str
    headers: dict[str, str]
    allows_private: bool

    @property
    def secrets(self) -> list[str]:
        return [part for value in self.headers.values() for part in (value, value.split()[-1])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """An open connection, and how it was made."""

    client: Client
    wire: Wire
    transport: str
    was_remembered: bool
    log: ServerLog


@asynccontextmanager
async def connect(
    service: Service,
    operation: str,
    *,
    tool: types.Tool | None = None,
    total_seconds: float | None = None,
    log_level: types.LoggingLevel | None = None,
) -> AsyncIterator[Connection]:
    """One operation's connection. Every failure leaves as an OperationError; a failure while it
    closes is only logged, because the operation has its result by then.

    `tool` stands in for the service's own list, so that a tool call costs no listing. `log_level`
    asks the service for its log; handshake-era services send it unasked.
    """
    total = total_seconds if total_seconds is not None else settings.MCP_TOTAL_SECONDS
    wire = Wire()
    target: Target | None = None
    try:
        target = await _target(service)
        log = ServerLog(log_level)
        opener = _Opener(service, target, wire, StoredListing(tool) if tool else None, log, total)
        async with AsyncExitStack() as stack:
            yield await opener.open(stack)
        await facts.note_success(service)
    except OperationError as error:
        with anyio.CancelScope(shield=True):
            await facts.note_failure(service, error)
        raise
    finally:
        # Also when a person pressed Stop: the trace then shows how far it had come.
        with anyio.move_on_after(LIMITS.goodbye_seconds, shield=True):
            await trace.keep(service, operation, wire, target.secrets if target else [])


async def _target(service: Service) -> Target:
    if builtin.is_builtin(service.url):
        address = await builtin.resolve(service.url.removeprefix(builtin.PREFIX))
        headers = {"authorization": f"Bearer {address.bearer}"}
        return Target(url=address.url, headers=headers, allows_private=True)
    check_url(service.url, allows_private=service.allows_private_addresses)
    credential = None
    if service.authentication != Service.Authentication.NONE:
        credential = await database_sync_to_async(
            Credential.objects.filter(service=service).first
        )()
    return Target(
        url=service.url,
        headers=request_headers(service, credential),
        allows_private=service.allows_private_addresses,
    )


class _Opener:
    """Opens the connection of one operation: as remembered, or finding out how."""

    def __init__(
        self,
        service: Service,
        target: Target,
        wire: Wire,
        listing: StoredListing | None,
        log: ServerLog,
        total_seconds: float,
    ) -> None:
        self._service = service
        self._target = target
        self._wire = wire
        self._listing = listing
        self._log = log
        self._total_seconds = total_seconds
        self._deadline = anyio.current_time() + total_seconds

    async def open(self, stack: AsyncExitStack) -> Connection:
        """Whatever goes wrong in here does so before anything but a handshake was sent, so that
        finding out anew repeats no tool call."""
        remembered = facts.recall(self._service)
        if remembered is not None:
            try:
                return await self._enter(stack, remembered.transport, remembered)
            except OperationError as error:
                if not _contradicts(error):
                    raise
                await facts.forget(self._service)
        connection = await self._negotiate(stack)
        session = connection.client.session
        found = Facts(
            transport=connection.transport,
            era=connection.client.protocol_version,
            discovery=session.discover_result,
        )
        await facts.learn(self._service, found)
        return connection

    async def _negotiate(self, stack: AsyncExitStack) -> Connection:
        """Streamable HTTP first; HTTP+SSE when the answer is that of a server without it."""
        if self._service.transport == SSE:
            return await self._enter(stack, SSE, None)
        try:
            return await self._enter(stack, HTTP, None)
        except OperationError as error:
            may_be_sse = error.kind == "not_mcp" and error.status in _NOT_UNDERSTOOD
            if not may_be_sse or self._service.transport == HTTP:
                raise
            try:
                return await self._enter(stack, SSE, None)
            except OperationError:
                # The first answer explains more than the second one.
                raise error from None

    async def _enter(
        self, stack: AsyncExitStack, transport: str, remembered: Facts | None
    ) -> Connection:
        self._wire.reopen()
        client = await stack.enter_async_context(self._channel(transport, remembered))
        if self._listing is not None and not (await client.list_tools()).tools:
            raise _unusable_headers()
        return Connection(
            client=client,
            wire=self._wire,
            transport=transport,
            was_remembered=remembered is not None,
            log=self._log,
        )

    @asynccontextmanager
    async def _channel(self, transport: str, remembered: Facts | None) -> AsyncIterator[Client]:
        is_finished = False
        try:
            # anyio's deadline, not asyncio's: it also cuts the SDK's own clean-up short.
            with (
                anyio.fail_after(max(0.0, self._deadline - anyio.current_time())),
                self._wire.scope,
                anyio.fail_after(LIMITS.opening_seconds) as opening,
            ):
                async with self._client(transport, remembered) as client:
                    opening.deadline = math.inf
                    yield client
                    is_finished = True
        except (Exception, BaseExceptionGroup) as error:
            if is_finished:
                logger.info("Closing the connection to %s failed: %r", self._service.name, error)
                return
            await self._raise(error, remembered)
        if self._wire.verdict is not None and not is_finished:
            await self._raise(self._wire.verdict, remembered)

    async def _raise(self, error: BaseException, remembered: Facts | None) -> None:
        failure = self._wire.verdict or explain(error, self._wire.evidence)
        if failure is None:
            raise error
        attach(failure, self._wire.evidence)
        if remembered is not None and _contradicts(failure):
            failure.contradicts_memory = True
            await facts.forget(self._service)
        raise failure from error

    def _client(self, transport: str, remembered: Facts | None) -> Client:
        discovery = remembered.discovery if remembered else None
        mode = "auto" if remembered is None else "legacy"
        if transport == SSE:
            mode = "legacy"
        elif discovery is not None and remembered is not None:
            mode = remembered.era
        cache = None
        if self._listing is not None:
            cache = CacheConfig(store=self._listing, partition="stored", target_id=self._target.url)
        return Client(
            self._transport(transport),
            mode=mode,
            prior_discover=discovery,
            read_timeout_seconds=self._total_seconds,
            client_info=CLIENT_INFO,
            logging_callback=self._log.note,
            log_level=self._log.level,
            cache=cache,
        )

    def _transport(self, transport: str) -> Transport:
        if transport == SSE:
            return sse_client(self._target.url, httpx_client_factory=self._sse_http_client)
        return self._streamable_http()

    def _sse_http_client(
        self,
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,  # noqa: ASYNC109 - the SDK calls it by this name
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        """What the SDK would set is known here already, with our own bounds."""
        return self._http_client(is_sse=True)

    @asynccontextmanager
    async def _streamable_http(self) -> AsyncIterator[Any]:
        async with (
            self._http_client(is_sse=False) as http_client,
            streamable_http_client(
                self._target.url,
                http_client=http_client,
                max_sse_event_size=LIMITS.event_bytes,
            ) as streams,
        ):
            yield streams

    def _http_client(self, *, is_sse: bool) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            transport=GuardedTransport(
                self._wire, allows_private=self._target.allows_private, is_sse=is_sse
            ),
            headers={**self._target.headers, "accept-encoding": "identity"},
            timeout=httpx2.Timeout(LIMITS.connect_seconds, read=settings.MCP_IDLE_SECONDS),
            trust_env=False,
        )


def _unusable_headers() -> OperationError:
    """The SDK dropped the tool from the list, and would ask the service again after the call."""
    return OperationError(
        kind="protocol",
        message="The tool asks for arguments in HTTP headers in a way the protocol does not allow.",
        hint="Tell whoever runs the service: an x-mcp-header annotation is invalid.",
    )


def _contradicts(error: OperationError) -> bool:
    """Whether the failure shows that the service is no longer what it was remembered to be."""
    if error.kind == "rpc_error" and error.code in _UNDERSTOOD:
        return False
    return error.code == UNSUPPORTED_VERSION or error.status in _NOT_UNDERSTOOD
