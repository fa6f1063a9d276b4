"""The message streams between the SDK and a service.

Incoming messages are checked and noted before the SDK reads them. Request ids start at a random
number: the SDK counts from 1 on every connection, but a call that is sent again to answer a
question must have another id, and that is a call of another connection.
"""

import secrets
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any, Self

import mcp_types as types
from mcp.client import Transport
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.message import SessionMessage

from mcpconfig.net.wire import Wire
from mcpconfig.values.errors import malformed_answer_error, translate_transport_error
from mcpconfig.values.hooks import current_hooks

from .message_checks import MessageCheck

Streams = tuple[Any, Any]


@asynccontextmanager
async def check_messages(transport: Transport, wire: Wire) -> AsyncIterator[Streams]:
    """Open the transport with its incoming messages checked and its request ids shifted."""
    opened: AbstractAsyncContextManager[Streams] = transport
    id_shift = RequestIdShift()
    async with opened as (incoming, outgoing):
        yield IncomingStream(incoming, wire, id_shift), OutgoingStream(outgoing, id_shift)


def choose_first_id() -> int:
    """Return the number at which the ids of a connection start. Ids stay below 2**53, which every
    language represents exactly."""
    return secrets.randbits(48)


class RequestIdShift:
    """Shifts the request ids of one connection by a random number, which no other connection
    has."""

    def __init__(self) -> None:
        self._first = choose_first_id()

    def shift_outgoing(self, item: SessionMessage) -> SessionMessage:
        """Return the outgoing message with the id that it has on the wire."""
        match item.message:
            case types.JSONRPCRequest(id=int(number)):
                return _copy_with(item, id=number + self._first)
            case types.JSONRPCNotification(method="notifications/cancelled", params={**params}):
                withdrawn = params.get("requestId")
                if isinstance(withdrawn, int):
                    return _copy_with(item, params=params | {"requestId": withdrawn + self._first})
        return item

    def restore_incoming(self, item: SessionMessage) -> SessionMessage:
        """Return the answer with the id that the SDK gave the request."""
        match item.message:
            case types.JSONRPCResponse(id=request_id) | types.JSONRPCError(id=request_id) if (
                request_id is not None
            ):
                number = coerce_request_id(request_id)
                if isinstance(number, int):
                    return _copy_with(item, id=number - self._first)
        return item


class WrappedStream:
    """Wraps a stream of the transport, and is opened and closed with it. Subclasses change the
    messages."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        ended: bool | None = await self._stream.__aexit__(kind, error, traceback)
        return ended


class OutgoingStream(WrappedStream):
    """The messages to the service, with shifted ids and the trace context."""

    def __init__(self, stream: Any, id_shift: RequestIdShift) -> None:
        super().__init__(stream)
        self._id_shift = id_shift

    async def send(self, item: SessionMessage) -> None:
        await self._stream.send(self._id_shift.shift_outgoing(_add_trace_context(item)))


def _add_trace_context(item: SessionMessage) -> SessionMessage:
    """Return the message with the entries of the trace in its `_meta`, if it states a protocol
    version there: only those versions know them. What the message has already stays."""
    match item.message:
        case types.JSONRPCRequest(params={"_meta": {**meta}, **params}) if (
            types.PROTOCOL_VERSION_META_KEY in meta
        ):
            trace = current_hooks().trace_context()
            return (
                _copy_with(item, params={**params, "_meta": {**trace, **meta}}) if trace else item
            )
    return item


class IncomingStream(WrappedStream):
    """The messages of a service, checked and with their ids restored."""

    def __init__(self, stream: Any, wire: Wire, id_shift: RequestIdShift) -> None:
        super().__init__(stream)
        self._wire = wire
        self._message_check = MessageCheck(wire)
        self._id_shift = id_shift

    @property
    def last_context(self) -> Any:
        """The SDK reads this attribute of the streams that it makes itself."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        return self._check(await self._stream.receive())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return self._check(await self._stream.__anext__())

    def _check(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        if isinstance(item, Exception):
            raise self._wire.end(
                translate_transport_error(item) or malformed_answer_error()
            ) from item
        checked = self._message_check.check(item.message)
        return self._id_shift.restore_incoming(SessionMessage(checked, item.metadata))


def _copy_with(item: SessionMessage, **fields: Any) -> SessionMessage:
    return SessionMessage(item.message.model_copy(update=fields), item.metadata)
