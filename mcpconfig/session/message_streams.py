"""The message streams between the SDK and a service.

Incoming messages are checked and noted before the SDK reads them. Request ids start at a random
number: the SDK counts from 1 on every connection, but a call that is sent again to answer a
question must have another id, and that is a call of another connection.
"""

import json
import secrets
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any, Self

import mcp_types as types
from mcp.client import Transport
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.message import SessionMessage

from mcpconfig.net.wire import ServiceMessage, Wire, too_many_requests_error
from mcpconfig.values.errors import (
    OperationError,
    malformed_answer_error,
    translate_transport_error,
)
from mcpconfig.values.hooks import current_hooks
from mcpconfig.values.limits import LIMITS
from mcpconfig.values.questions import parse_requests
from mcpconfig.values.results import (
    TOO_MANY_ENTRIES,
    LogMessage,
    build_withheld_content,
    make_storable,
)


class ServerLog:
    """The first messages of one operation. `level` is the level that the service is asked for, if
    any."""

    def __init__(self, level: types.LoggingLevel | None = None) -> None:
        self.level = level
        self.messages: list[LogMessage] = []

    async def note(self, params: types.LoggingMessageNotificationParams) -> None:
        if len(self.messages) < LIMITS.log_messages:
            self.messages.append(
                LogMessage(
                    level=params.level,
                    logger=_format_line(params.logger or "", 100),
                    text=_format_line(params.data, LIMITS.log_characters),
                )
            )


def _format_line(data: object, characters: int) -> str:
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return str(make_storable(" ".join(text.split())[:characters]))


Streams = tuple[Any, Any]

# The SDK treats any other type as complete, although it may mean that the work is not done.
_RESULT_TYPES = ("complete", "input_required", "task")


@asynccontextmanager
async def check_messages(transport: Transport, wire: Wire) -> AsyncIterator[Streams]:
    """Open the transport with its incoming messages checked and its request ids shifted."""
    opened: AbstractAsyncContextManager[Streams] = transport
    id_shift = RequestIdShift()
    async with opened as (incoming, outgoing):
        yield IncomingStream(incoming, wire, id_shift), OutgoingStream(outgoing, id_shift)


class RequestIdShift:
    """Shifts the request ids of one connection by a random number, which no other connection
    has."""

    def __init__(self) -> None:
        # Shifted ids stay below 2**53, which every language represents exactly.
        self._first = secrets.randbits(48)

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
    """The messages of a service. One that cannot be right ends the operation.

    The SDK drops such messages and waits for another one until the deadline. It checks the contents
    of answers itself. Notifications and requests that it does not understand do no harm and are
    only noted.
    """

    def __init__(self, stream: Any, wire: Wire, id_shift: RequestIdShift) -> None:
        super().__init__(stream)
        self._wire = wire
        self._id_shift = id_shift
        self._asked_back = 0

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
        if not self._wire.note_message(_describe_message(item.message)):
            raise self._wire.end(malformed_answer_error())
        match item.message:
            case types.JSONRPCNotification(method="notifications/tools/list_changed"):
                self._wire.tools_changed = True
            case types.JSONRPCRequest():
                self._asked_back += 1
            case types.JSONRPCResponse(result=result) if _has_too_many_entries(result):
                item = self._withhold_content(item, item.message)
            case types.JSONRPCResponse(result={"resultType": kind}) if kind not in _RESULT_TYPES:
                raise self._wire.end(malformed_answer_error())
            case types.JSONRPCResponse(result={"resultType": "input_required", **said}):
                self._check_questions(said.get("inputRequests"))
            case types.JSONRPCResponse(result=result):
                # An answer without a type is complete; the SDK requires the type.
                result.setdefault("resultType", "complete")
        if self._asked_back > LIMITS.asked_back:
            raise self._wire.end(too_many_requests_error())
        return self._id_shift.restore_incoming(item)

    def _withhold_content(
        self, item: SessionMessage, answer: types.JSONRPCResponse
    ) -> SessionMessage:
        """Return the answer of a finished tool call without its content: it says that the tool has
        run, and only its content is too large."""
        if not (self._wire.is_call(str(answer.id)) and _is_complete(answer.result)):
            raise self._wire.end(_too_many_entries_error())
        is_error = bool(answer.result.get("isError"))
        content = build_withheld_content(is_error=is_error)
        kept = {"content": content, "isError": is_error, "resultType": "complete"}
        return _copy_with(item, result=kept)

    def _check_questions(self, asked: Any) -> None:
        """The SDK treats an unknown kind of question as a malformed answer, which would leave the
        outcome unknown. A question says that the call has not run to its end."""
        try:
            parse_requests(asked)
        except OperationError as error:
            raise self._wire.end(error) from error


def _describe_message(message: types.JSONRPCMessage) -> ServiceMessage:
    match message:
        case types.JSONRPCRequest():
            return ServiceMessage(
                kind="request", method=message.method[:100], id=str(message.id)[:100]
            )
        case types.JSONRPCNotification():
            return ServiceMessage(kind="notification", method=message.method[:100])
        case types.JSONRPCError():
            return ServiceMessage(kind="error", id=str(message.id)[:100])
    return ServiceMessage(kind="response", id=str(message.id)[:100])


def _has_too_many_entries(result: dict[str, Any]) -> bool:
    """Each entry of a list becomes an object that is validated; invalid ones cost most."""
    return any(
        isinstance(value, list) and len(value) > LIMITS.entries_at_once for value in result.values()
    )


def _is_complete(result: dict[str, Any]) -> bool:
    is_complete = result.get("resultType", "complete") == "complete"
    return is_complete and isinstance(result.get("content"), list)


def _too_many_entries_error() -> OperationError:
    return OperationError(
        kind="too_large",
        message=f"The service sent {TOO_MANY_ENTRIES} in one answer.",
        hint="Ask for less at once.",
    )


def _copy_with(item: SessionMessage, **fields: Any) -> SessionMessage:
    return SessionMessage(item.message.model_copy(update=fields), item.metadata)
