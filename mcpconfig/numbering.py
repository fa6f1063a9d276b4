"""The ids of requests. The SDK counts from one on every connection; a service that asks something
first must get the same call again under another id, and that is another connection's call."""

import secrets
from typing import Any

import mcp_types as types
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.message import SessionMessage

from .stream_around import StreamAround


class Numbering:
    """Moves the ids of one connection by a number that no other connection will have."""

    def __init__(self) -> None:
        # With what is counted on top it stays a number that every language holds exactly.
        self._first = secrets.randbits(48)

    def leaving(self, item: SessionMessage) -> SessionMessage:
        """What our side says, with the id that it has on the wire."""
        match item.message:
            case types.JSONRPCRequest(id=int(number)):
                return _with(item, id=number + self._first)
            case types.JSONRPCNotification(method="notifications/cancelled", params={**params}):
                withdrawn = params.get("requestId")
                if isinstance(withdrawn, int):
                    return _with(item, params=params | {"requestId": withdrawn + self._first})
        return item

    def arriving(self, item: SessionMessage) -> SessionMessage:
        """An answer, with the id that the SDK gave the question."""
        match item.message:
            case types.JSONRPCResponse(id=told) | types.JSONRPCError(id=told) if told is not None:
                number = coerce_request_id(told)
                if isinstance(number, int):
                    return _with(item, id=number - self._first)
        return item


def _with(item: SessionMessage, **fields: Any) -> SessionMessage:
    return SessionMessage(item.message.model_copy(update=fields), item.metadata)


class NumberedStream(StreamAround):
    """What our side says."""

    def __init__(self, stream: Any, numbering: Numbering) -> None:
        super().__init__(stream)
        self._numbering = numbering

    async def send(self, item: SessionMessage) -> None:
        await self._stream.send(self._numbering.leaving(item))
