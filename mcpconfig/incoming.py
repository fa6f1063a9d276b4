"""The messages of a service, checked and noted before the SDK acts on them."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Self

import mcp_types as types
from mcp.client import Transport
from mcp.shared.message import SessionMessage

from .errors import OperationError, malformed, of_transport
from .limits import LIMITS
from .numbering import NumberedStream, Numbering
from .questions import requests_of
from .stream_around import StreamAround
from .wire import Heard, Wire, restless

Streams = tuple[Any, Any]

# Of another type nobody knows whether it means that the work is done; the SDK takes it for done.
_RESULT_TYPES = ("complete", "input_required", "task")


@asynccontextmanager
async def checked(transport: Transport, wire: Wire) -> AsyncIterator[Streams]:
    """The transport, with its incoming side checked, and ids of its own for what is asked."""
    opened: AbstractAsyncContextManager[Streams] = transport
    numbering = Numbering()
    async with opened as (incoming, outgoing):
        yield CheckedStream(incoming, wire, numbering), NumberedStream(outgoing, numbering)


class CheckedStream(StreamAround):
    """The messages of a service; ends the operation at one that cannot be right.

    The SDK drops such messages and goes on waiting for a right one, until the deadline. It checks
    the content of answers itself; notifications and requests that it does not understand do no harm
    and are only noted.
    """

    def __init__(self, stream: Any, wire: Wire, numbering: Numbering) -> None:
        super().__init__(stream)
        self._wire = wire
        self._numbering = numbering
        self._asked_back = 0

    @property
    def last_context(self) -> Any:
        """The SDK looks for it on the streams that it makes itself."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        return self._checked(await self._stream.receive())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return self._checked(await self._stream.__anext__())

    def _checked(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        if isinstance(item, Exception):
            raise self._wire.end(of_transport(item) or malformed()) from item
        if not self._wire.hear(_heard(item.message)):
            raise self._wire.end(malformed())
        match item.message:
            case types.JSONRPCRequest():
                self._asked_back += 1
            case types.JSONRPCResponse(result=result) if _is_crowded(result):
                raise self._wire.end(_crowded())
            case types.JSONRPCResponse(result={"resultType": kind}) if kind not in _RESULT_TYPES:
                raise self._wire.end(malformed())
            case types.JSONRPCResponse(result={"resultType": "input_required", **said}):
                self._check_questions(said.get("inputRequests"))
            case types.JSONRPCResponse(result=result):
                # What says nothing of its type is complete; the SDK wants to hear it.
                result.setdefault("resultType", "complete")
        if self._asked_back > LIMITS.asked_back:
            raise self._wire.end(restless())
        return self._numbering.arriving(item)

    def _check_questions(self, asked: Any) -> None:
        """The SDK takes a question that it does not know for a broken answer, which would leave the
        call's outcome open. What was asked says that it has not run to its end."""
        try:
            requests_of(asked)
        except OperationError as error:
            raise self._wire.end(error) from error


def _heard(message: types.JSONRPCMessage) -> Heard:
    match message:
        case types.JSONRPCRequest():
            return Heard(kind="request", method=message.method[:100], id=str(message.id)[:100])
        case types.JSONRPCNotification():
            return Heard(kind="notification", method=message.method[:100])
        case types.JSONRPCError():
            return Heard(kind="error", id=str(message.id)[:100])
    return Heard(kind="response", id=str(message.id)[:100])


def _is_crowded(result: dict[str, Any]) -> bool:
    """Each entry of a list becomes an object with checks of its own; wrong ones cost most."""
    return any(
        isinstance(value, list) and len(value) > LIMITS.entries_at_once for value in result.values()
    )


def _crowded() -> OperationError:
    return OperationError(
        kind="too_large",
        message=f"The service sent more than {LIMITS.entries_at_once} entries in one answer.",
        hint="Ask for less at once.",
    )
