"""The only file that opens connections to services. Each connection serves one operation: it uses
what is remembered about the service or negotiates, and is closed when the operation ends."""

import logging
import math
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import httpx2
import mcp_types as types
from django.conf import settings
from django.utils.translation import gettext as _
from mcp import Client, ClientSession, MCPError
from mcp.client import CacheConfig, Transport
from mcp.client.extension import ClientExtension, advertise
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from mcpconfig.models import Service
from mcpconfig.net.addresses import check_url
from mcpconfig.net.operation_client import OperationClient
from mcpconfig.net.outbound import GuardedTransport
from mcpconfig.net.wire import Wire
from mcpconfig.secrets.credentials import RequestCredentials
from mcpconfig.services import status
from mcpconfig.session import endpoint
from mcpconfig.session.endpoint import (
    NOT_UNDERSTOOD_STATUSES,
    RememberedEndpoint,
    Target,
    handle_refused_credentials,
    resolve_target,
)
from mcpconfig.session.message_streams import check_messages
from mcpconfig.trace import recording
from mcpconfig.values.acting import Acting
from mcpconfig.values.errors import OperationError, add_evidence, header_annotation_error
from mcpconfig.values.hooks import current_hooks
from mcpconfig.values.limits import LIMITS
from mcpconfig.values.results import make_storable
from mcpconfig.values.task_extension import TASKS_ADVERTISED, LongTasks
from mcpconfig.values.tool_apps import UI_EXTENSION
from mcpconfig.values.version import VERSION

from .elicitation import Elicitation, OnQuestion
from .post_dispatcher import PostDispatcher
from .sdk_errors import translate_error
from .server_log import ServerLog
from .tool_request import SingleToolCache

logger = logging.getLogger(__name__)

CLIENT_INFO = types.Implementation(name="countersign", title="Countersign", version=VERSION)
MOST_CAPABILITIES = 50
HTTP, SSE = Service.Transport.STREAMABLE_HTTP.value, Service.Transport.SSE.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """An open connection, and how it was made."""

    session: ClientSession
    wire: Wire
    transport: str
    was_remembered: bool
    log: ServerLog

    @property
    def era(self) -> str:
        return self.session.protocol_version or ""

    @property
    def capabilities(self) -> types.ServerCapabilities:
        return self.session.server_capabilities or types.ServerCapabilities()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """What an operation needs of its connection.

    `tool` replaces the list of the service, so that a tool call costs no listing. `log_level`
    requests the log of the service. `renegotiates` ignores what is remembered, which stays until
    the negotiation succeeds. `detects_again` does so only for a handshake that was detected long
    ago, and uses it if nothing else works. `checks_era` sends a safe request first to a service
    that may have lost its era, because the operation must not be sent twice. `without_credentials`
    sends no credentials; `credentials` are sent in place of the stored ones. `wire` gives the
    caller the exchanges, also if the operation fails.

    `answers_between_calls` tells a modern service that people answer questions between two calls.
    `answers_during_call` tells a handshake-era service that somebody answers while it waits. A list
    of tools may depend on either, so listings set both.
    """

    tool: types.Tool | None = None
    answers_between_calls: bool = False
    answers_during_call: bool = False
    on_question: OnQuestion | None = None
    total_seconds: float | None = None
    log_level: types.LoggingLevel | None = None
    renegotiates: bool = False
    detects_again: bool = False
    checks_era: bool = False
    without_credentials: bool = False
    credentials: RequestCredentials | None = None
    wire: Wire | None = None


@asynccontextmanager
async def connect(
    service: Service,
    acting: Acting | None,
    operation: str,
    options: ConnectionOptions | None = None,
) -> AsyncIterator[Connection]:
    """Open the connection of one operation. Every failure is raised as an OperationError. A failure
    while the connection closes is only logged, because the operation already has its result."""
    options = options or ConnectionOptions()
    wire = options.wire or Wire()
    with current_hooks().observe_operation(service, operation, wire):
        async with _connect(service, acting, operation, options, wire) as connection:
            yield connection


@asynccontextmanager
async def _connect(
    service: Service,
    acting: Acting | None,
    operation: str,
    options: ConnectionOptions,
    wire: Wire,
) -> AsyncIterator[Connection]:
    target: Target | None = None
    try:
        target = await resolve_target(
            service,
            acting,
            with_credentials=not options.without_credentials,
            credentials=options.credentials,
        )
        wire.secrets = target.secrets
        async with AsyncExitStack() as stack:
            yield await _ConnectionOpener(service, target, wire, options).open(stack)
        await _record_outcome(service, operation, options, None, target)
    except OperationError as error:
        with anyio.CancelScope(shield=True):
            await handle_refused_credentials(service, acting, error, target)
            await _record_outcome(service, operation, options, error, target)
        raise
    finally:
        if wire.tools_changed:
            with anyio.CancelScope(shield=True):
                await status.mark_tools_stale(service)
        # The exchanges are stored also if a person pressed Stop.
        with anyio.move_on_after(LIMITS.goodbye_seconds, shield=True):
            await recording.record_exchanges(
                service,
                operation,
                wire,
                target.secrets if target else [],
                acting.user_id if acting else None,
            )


async def _record_outcome(
    service: Service,
    operation: str,
    options: ConnectionOptions,
    error: OperationError | None,
    target: Target | None,
) -> None:
    """Record the health of the service. A connection without credentials says nothing about it."""
    if options.without_credentials:
        return
    if error is None:
        await status.record_success(service)
        return
    if target is None and service.authentication in Service.PERSONAL:
        return  # the person has no sign-in, and the service was not asked
    is_one_persons = target is not None and target.names_a_person
    await status.record_failure(service, operation, error, is_one_persons=is_one_persons)


class _ConnectionOpener:
    """Opens the connection of one operation, with the remembered transport and era or by
    negotiation."""

    def __init__(
        self, service: Service, target: Target, wire: Wire, options: ConnectionOptions
    ) -> None:
        total = options.total_seconds
        self._total_seconds = settings.MCP_TOTAL_SECONDS if total is None else total
        self._deadline = anyio.current_time() + self._total_seconds
        self._service = service
        self._target = target
        self._wire = wire
        self._listing = SingleToolCache(options.tool) if options.tool else None
        self._log = ServerLog(options.log_level)
        self._options = options
        self._elicitation = Elicitation(options.on_question)
        self._waits_for_person = False

    async def open(self, stack: AsyncExitStack) -> Connection:
        """Connect. Only handshakes and discovery are sent in here, so a second attempt repeats no
        tool call."""
        is_new = self._options.renegotiates or self._options.without_credentials
        remembered = None if is_new else endpoint.recall(self._service)
        if remembered is None:
            return await self._detect(stack)
        if self._options.detects_again and remembered.may_have_moved_on:
            try:
                return await self._detect(stack)
            except OperationError as error:
                logger.info("%s is tried as before: %s", self._service.name, error)
                connection = await self._connect(stack, remembered.transport, remembered)
                await endpoint.postpone_detection(self._service)
                return connection
        try:
            return await self._connect_as_remembered(stack, remembered)
        except OperationError as error:
            if not error.contradicts_memory:
                raise
        return await self._detect(stack)

    async def _connect_as_remembered(
        self, stack: AsyncExitStack, remembered: RememberedEndpoint
    ) -> Connection:
        """Connect, and check first with a safe request that a service which was silent for a while
        still speaks its version."""
        is_doubtful = remembered.may_be_rolled_back(self._service.last_success_at)
        if not (self._options.checks_era and is_doubtful):
            return await self._connect(stack, remembered.transport, remembered)
        async with AsyncExitStack() as own:
            connection = await self._connect(own, remembered.transport, remembered)
            await self._check_era(connection, remembered)
            stack.push_async_exit(own.pop_all())
        return connection

    async def _check_era(self, connection: Connection, remembered: RememberedEndpoint) -> None:
        """Raise OperationError if the service does not speak the remembered version. Any JSON-RPC
        error says so: discovery is part of that version."""
        try:
            await connection.session.send_discover(remembered.era)
        except MCPError as error:
            failure = translate_error(error, self._wire.evidence)
            if failure is None:
                raise
            if failure.kind in ("rpc_error", "protocol"):
                failure.contradicts_memory = True
                await endpoint.forget(self._service)
            raise failure from error

    async def _detect(self, stack: AsyncExitStack) -> Connection:
        """Negotiate, and remember how the service was reached."""
        connection = await self._negotiate(stack)
        found = RememberedEndpoint(
            transport=connection.transport,
            era=connection.era,
            discovery=connection.session.discover_result,
            capabilities=_list_capabilities(connection),
        )
        if not self._options.without_credentials:
            await endpoint.remember(self._service, found)
        return connection

    async def _negotiate(self, stack: AsyncExitStack) -> Connection:
        """Try Streamable HTTP; try HTTP+SSE if the answer is that of a server without Streamable
        HTTP."""
        if self._service.transport == SSE:
            return await self._connect(stack, SSE, None)
        try:
            return await self._connect(stack, HTTP, None)
        except OperationError as error:
            may_be_sse = error.kind == "not_mcp" and error.status in NOT_UNDERSTOOD_STATUSES
            if not may_be_sse or self._service.transport == HTTP:
                raise
            try:
                return await self._connect(stack, SSE, None)
            except OperationError as second:
                raise _merge_transport_errors(error, second) from None

    async def _connect(
        self, stack: AsyncExitStack, transport: str, remembered: RememberedEndpoint | None
    ) -> Connection:
        self._wire.reopen()
        session = await stack.enter_async_context(self._open_channel(transport, remembered))
        stack.enter_context(self._wire.track_failures())
        return Connection(
            session=session,
            wire=self._wire,
            transport=transport,
            was_remembered=remembered is not None,
            log=self._log,
        )

    @asynccontextmanager
    async def _open_channel(
        self, transport: str, remembered: RememberedEndpoint | None
    ) -> AsyncIterator[ClientSession]:
        is_finished = False
        try:
            # anyio's deadline also cuts the SDK's own clean-up short; asyncio's does not.
            with (
                anyio.fail_after(max(0.0, self._deadline - anyio.current_time())) as total,
                self._elicitation.use_deadline(total),
                self._wire.scope,
                anyio.fail_after(LIMITS.opening_seconds) as opening,
            ):
                async with self._open_session(transport, remembered) as session:
                    opening.deadline = math.inf
                    yield session
                    is_finished = True
        except (Exception, BaseExceptionGroup) as error:
            if is_finished:
                logger.info("Closing the connection to %s failed: %r", self._service.name, error)
                return
            await self._raise(error, remembered)
        if self._wire.failure is not None and not is_finished:
            await self._raise(self._wire.failure, remembered)

    async def _raise(self, error: BaseException, remembered: RememberedEndpoint | None) -> None:
        wire = self._wire
        failure = (
            wire.failure
            or wire.exceeded
            or translate_error(error, wire.evidence)
            or wire.classify_unknown_error()
        )
        if failure is None:
            raise error
        add_evidence(failure, self._wire.evidence)
        if remembered is not None and remembered.is_contradicted_by(failure):
            failure.contradicts_memory = True
            await endpoint.forget(self._service)
        raise failure from error

    @asynccontextmanager
    async def _open_session(
        self, transport: str, remembered: RememberedEndpoint | None
    ) -> AsyncIterator[ClientSession]:
        # Only the SDK's own client can send arguments in headers.
        is_direct = transport == HTTP and self._listing is None
        if is_direct and remembered is not None and remembered.discovery is not None:
            async with aclosing(self._operation_client()) as http:
                session = self._modern_session(http, remembered.era)
                session.adopt(remembered.discovery)
                yield session
            return
        async with self._client(transport, remembered) as client:
            if self._listing is not None and not (await client.list_tools()).tools:
                raise header_annotation_error()
            yield client.session

    def _modern_session(self, http: OperationClient, era: str) -> ClientSession:
        """The session is not entered, because that starts a task for messages that come without a
        request. There are none in this version."""
        return ClientSession(
            dispatcher=PostDispatcher(http, self._wire, self._log),
            client_info=CLIENT_INFO,
            elicitation_callback=self._elicitation.answer if self._declares(era) else None,
            log_level=self._log.level,
            extensions={each.identifier: each.settings() for each in self._extensions(era)},
        )

    def _client(self, transport: str, remembered: RememberedEndpoint | None) -> Client:
        discovery = remembered.discovery if remembered else None
        mode = "auto" if remembered is None else "legacy"
        if transport == SSE:
            mode = "legacy"
        elif discovery is not None and remembered is not None:
            mode = remembered.era
        # A modern service asks between two calls and has no reason to be silent during one.
        self._waits_for_person = self._elicitation.can_ask and mode in ("auto", "legacy")
        cache = None
        if self._listing is not None:
            cache = CacheConfig(store=self._listing, partition="stored", target_id=self._target.url)
        return Client(
            check_messages(self._transport(transport), self._wire),
            mode=mode,
            prior_discover=discovery,
            client_info=CLIENT_INFO,
            elicitation_callback=self._elicitation.answer if self._declares(mode) else None,
            logging_callback=self._log.note,
            log_level=self._log.level,
            cache=cache,
            extensions=self._extensions(mode),
        )

    def _extensions(self, mode: str) -> list[ClientExtension]:
        apps = [advertise(*UI_EXTENSION)] if self._service.allows_apps else []
        return [LongTasks() if mode in ("auto", "legacy") else TASKS_ADVERTISED, *apps]

    def _declares(self, mode: str) -> bool:
        """Whether the service is told that questions are answered. If its era is unknown, so is the
        kind of its questions; one that cannot be answered is refused."""
        is_now, is_later = self._options.answers_during_call, self._options.answers_between_calls
        return is_now if mode == "legacy" else is_later if mode != "auto" else is_now or is_later

    def _transport(self, transport: str) -> Transport:
        if transport == SSE:
            # As the HTTP library writes it, because the endpoint's origin is compared with it.
            url = str(httpx2.URL(self._target.url))
            return sse_client(url, httpx_client_factory=self._sse_http_client)
        return self._streamable_http()

    def _sse_http_client(
        self,
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,  # noqa: ASYNC109 - the SDK calls it by this name
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        """Ignore the arguments of the SDK: headers and timeouts are set here."""
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

    @property
    def _idle_seconds(self) -> float | None:
        """None if a person may be asked: the service is then silent, and only the total deadline,
        which is paused, remains."""
        return None if self._waits_for_person else settings.MCP_IDLE_SECONDS

    def _http_client(self, *, is_sse: bool) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            transport=self._guarded_transport(is_sse=is_sse),
            headers=self._headers,
            timeout=self._timeout,
            trust_env=False,
        )

    def _operation_client(self) -> OperationClient:
        return OperationClient(
            self._guarded_transport(is_sse=False),
            url=check_url(self._target.url, allows_private=self._target.allows_private),
            headers=self._headers,
            timeout=self._timeout,
        )

    def _guarded_transport(self, *, is_sse: bool) -> GuardedTransport:
        return GuardedTransport(
            self._wire,
            allows_private=self._target.allows_private,
            is_sse=is_sse,
            listens=self._elicitation.can_ask,
        )

    @property
    def _headers(self) -> dict[str, str]:
        return {**self._target.headers, "accept-encoding": "identity"}

    @property
    def _timeout(self) -> httpx2.Timeout:
        return httpx2.Timeout(LIMITS.connect_seconds, read=self._idle_seconds)


def _merge_transport_errors(streamable: OperationError, sse: OperationError) -> OperationError:
    """Report both failures; the first one explains more."""
    values = {"result": sse.message, "hint": streamable.hint}
    streamable.hint = (_("HTTP+SSE was tried too: %(result)s %(hint)s") % values).strip()
    streamable.tried = (
        (str(Service.Transport.STREAMABLE_HTTP.label), streamable.message),
        (str(Service.Transport.SSE.label), sse.message),
    )
    return streamable


def _list_capabilities(connection: Connection) -> tuple[str, ...]:
    """Return the names of what the service declared, as text that a page can show."""
    declared = connection.capabilities.model_dump(by_alias=True, exclude_none=True)
    return tuple(sorted(str(make_storable(name))[:64] for name in declared))[:MOST_CAPABILITIES]
