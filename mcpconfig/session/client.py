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
from django.conf import settings
from mcp import Client
from mcp.client import CacheConfig, Transport
from mcp.client.extension import ClientExtension, advertise
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from . import facts, status, trace
from .acting import Acting
from .elicitation import Elicitation, OnQuestion
from .errors import OperationError, attach, unusable_headers
from .explain import explain
from .facts import NOT_UNDERSTOOD, Facts
from .incoming import checked
from .limits import LIMITS
from .models import Service
from .network import GuardedTransport
from .server_log import ServerLog
from .stored_listing import StoredListing
from .target import Target, target_of, turned_away
from .task_extension import DECLARED, LongTasks
from .tool_apps import UI_EXTENSION
from .wire import Wire

logger = logging.getLogger(__name__)

CLIENT_INFO = types.Implementation(name="countersign", title="Countersign", version="0.1.0")
HTTP, SSE = Service.Transport.STREAMABLE_HTTP.value, Service.Transport.SSE.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """An open connection, and how it was made."""

    client: Client
    wire: Wire
    transport: str
    was_remembered: bool
    log: ServerLog


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How an operation wants its connection.

    `tool` stands in for the service's own list, so that a tool call costs no listing. `log_level`
    asks the service for its log. `is_first` finds out anew how the service is reached, and what was
    remembered stays until that succeeds. `as_stranger` shows nothing at the door. `wire` lets the
    caller see what passed, also when the operation fails.

    `asks_later`: a modern service is told that people answer questions between two calls.
    `asks_now`: a handshake-era one, that somebody answers while it waits. What a service lists can
    depend on either, so a list is asked for with both.
    """

    tool: types.Tool | None = None
    asks_later: bool = False
    asks_now: bool = False
    on_question: OnQuestion | None = None
    total_seconds: float | None = None
    log_level: types.LoggingLevel | None = None
    is_first: bool = False
    as_stranger: bool = False
    wire: Wire | None = None


@asynccontextmanager
async def connect(
    service: Service, acting: Acting | None, operation: str, manner: Manner | None = None
) -> AsyncIterator[Connection]:
    """One operation's connection. Every failure leaves as an OperationError; a failure while it
    closes is only logged, because the operation has its result by then."""
    manner = manner or Manner()
    wire = manner.wire or Wire()
    target: Target | None = None
    try:
        target = await target_of(service, acting, shows=not manner.as_stranger)
        async with AsyncExitStack() as stack:
            yield await _Opener(service, target, wire, manner).open(stack)
        await _note(service, operation, manner, None, target)
    except OperationError as error:
        with anyio.CancelScope(shield=True):
            await turned_away(service, acting, error, target)
            await _note(service, operation, manner, error, target)
        raise
    finally:
        # Also when a person pressed Stop: the trace then shows how far it had come.
        with anyio.move_on_after(LIMITS.goodbye_seconds, shield=True):
            await trace.keep(service, operation, wire, target.secrets if target else [])


async def _note(
    service: Service,
    operation: str,
    manner: Manner,
    error: OperationError | None,
    target: Target | None,
) -> None:
    """How the service does. What a stranger meets there says nothing of that."""
    if manner.as_stranger:
        return
    if error is None:
        await status.note_success(service)
        return
    if target is None and service.authentication in Service.PERSONAL:
        return  # the person has no sign-in, and the service was not asked
    is_one_persons = target is not None and target.names_a_person
    await status.note_failure(service, operation, error, is_one_persons=is_one_persons)


class _Opener:
    """Opens the connection of one operation: as remembered, or finding out how."""

    def __init__(self, service: Service, target: Target, wire: Wire, manner: Manner) -> None:
        total = manner.total_seconds
        self._total_seconds = settings.MCP_TOTAL_SECONDS if total is None else total
        self._deadline = anyio.current_time() + self._total_seconds
        self._service = service
        self._target = target
        self._wire = wire
        self._listing = StoredListing(manner.tool) if manner.tool else None
        self._log = ServerLog(manner.log_level)
        self._manner = manner
        self._elicitation = Elicitation(manner.on_question)
        self._is_patient = False

    async def open(self, stack: AsyncExitStack) -> Connection:
        """Whatever goes wrong in here does so before anything but a handshake was sent, so that
        finding out anew repeats no tool call."""
        is_new = self._manner.is_first or self._manner.as_stranger
        remembered = None if is_new else facts.recall(self._service)
        if remembered is not None:
            try:
                return await self._enter(stack, remembered.transport, remembered)
            except OperationError as error:
                if not error.contradicts_memory:
                    raise
        connection = await self._negotiate(stack)
        session = connection.client.session
        found = Facts(
            transport=connection.transport,
            era=connection.client.protocol_version,
            discovery=session.discover_result,
        )
        if not self._manner.as_stranger:
            await facts.learn(self._service, found)
        return connection

    async def _negotiate(self, stack: AsyncExitStack) -> Connection:
        """Streamable HTTP first; HTTP+SSE when the answer is that of a server without it."""
        if self._service.transport == SSE:
            return await self._enter(stack, SSE, None)
        try:
            return await self._enter(stack, HTTP, None)
        except OperationError as error:
            may_be_sse = error.kind == "not_mcp" and error.status in NOT_UNDERSTOOD
            if not may_be_sse or self._service.transport == HTTP:
                raise
            try:
                return await self._enter(stack, SSE, None)
            except OperationError as second:
                raise _neither(error, second) from None

    async def _enter(
        self, stack: AsyncExitStack, transport: str, remembered: Facts | None
    ) -> Connection:
        self._wire.reopen()
        client = await stack.enter_async_context(self._channel(transport, remembered))
        stack.enter_context(self._wire.use())
        if self._listing is not None and not (await client.list_tools()).tools:
            raise unusable_headers()
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
                anyio.fail_after(max(0.0, self._deadline - anyio.current_time())) as total,
                self._elicitation.pausing(total),
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
        wire = self._wire
        failure = wire.verdict or explain(error, wire.evidence) or wire.blame()
        if failure is None:
            raise error
        attach(failure, self._wire.evidence)
        if remembered is not None and remembered.is_contradicted_by(failure):
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
        # A modern service asks between two calls and has no reason to be silent in one.
        self._is_patient = self._elicitation.may_wait and mode in ("auto", "legacy")
        cache = None
        if self._listing is not None:
            cache = CacheConfig(store=self._listing, partition="stored", target_id=self._target.url)
        return Client(
            checked(self._transport(transport), self._wire),
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
        return [LongTasks() if mode in ("auto", "legacy") else DECLARED, *apps]

    def _declares(self, mode: str) -> bool:
        """Whether the service is told that questions are answered. Of one that nothing is known
        about it is not known either which kind it would ask; if it asks, it hears a no."""
        is_now, is_later = self._manner.asks_now, self._manner.asks_later
        return is_now if mode == "legacy" else is_later if mode != "auto" else is_now or is_later

    def _transport(self, transport: str) -> Transport:
        if transport == SSE:
            # As the HTTP library writes it, which is what the endpoint's origin is compared with.
            url = str(httpx2.URL(self._target.url))
            return sse_client(url, httpx_client_factory=self._sse_http_client)
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

    @property
    def _idle_seconds(self) -> float | None:
        """A service that waits for a person is silent; the deadline, which then stops, remains."""
        return None if self._is_patient else settings.MCP_IDLE_SECONDS

    def _http_client(self, *, is_sse: bool) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            transport=GuardedTransport(
                self._wire,
                allows_private=self._target.allows_private,
                is_sse=is_sse,
                listens=self._elicitation.may_wait,
            ),
            headers={**self._target.headers, "accept-encoding": "identity"},
            timeout=httpx2.Timeout(LIMITS.connect_seconds, read=self._idle_seconds),
            trust_env=False,
        )


def _neither(streamable: OperationError, sse: OperationError) -> OperationError:
    """The first answer explains more than the second one; both are told."""
    streamable.hint = f"HTTP+SSE was tried too: {sse.message} {streamable.hint}".strip()
    streamable.tried = (
        (Service.Transport.STREAMABLE_HTTP.label, streamable.message),
        (Service.Transport.SSE.label, sse.message),
    )
    return streamable
