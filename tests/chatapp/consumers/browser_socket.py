"""A browser's side of a socket, spoken to without a network."""

import uuid
from typing import Any

from asgiref.testing import ApplicationCommunicator
from django.test import Client

from chatapp.asgi import sockets
from chatapp.models import Member

OWN_ORIGIN = "http://127.0.0.1:6740"


def session_of(person: Member) -> str:
    client = Client()
    client.force_login(person)
    return client.cookies["sessionid"].value


class Socket:
    """A browser's side of a socket."""

    def __init__(self, scope: dict[str, Any]) -> None:
        self.scope = scope
        line: Any = ApplicationCommunicator  # asgiref has no types here
        self._line = line(sockets, scope)

    async def connect(self) -> None:
        await self._line.send_input({"type": "websocket.connect"})

    async def opens(self) -> bool:
        """Whether the handshake is accepted."""
        await self.connect()
        return bool((await self.receive())["type"] == "websocket.accept")

    async def receive(self) -> dict[str, Any]:
        message: dict[str, Any] = await self._line.receive_output(timeout=30)
        return message

    async def send(self, words: str | bytes) -> None:
        kind = "text" if isinstance(words, str) else "bytes"
        await self._line.send_input({"type": "websocket.receive", kind: words})

    async def receives_nothing(self) -> bool:
        return bool(await self._line.receive_nothing(timeout=0.2))

    async def leave(self) -> None:
        await self._line.send_input({"type": "websocket.disconnect", "code": 1001})
        await self._line.wait(timeout=30)


def socket(
    conversation_id: uuid.UUID,
    session: str = "",
    *,
    origins: tuple[str, ...] = (OWN_ORIGIN,),
    after: str = "0",
    shows: str = "",
) -> Socket:
    """The socket of a conversation's page."""
    query = f"shows={shows}&after={after}" if shows else f"after={after}"
    return _at(f"/ws/c/{conversation_id}/", query, session, origins)


def person_socket(
    session: str = "", *, shows: str = "waiting", origins: tuple[str, ...] = (OWN_ORIGIN,)
) -> Socket:
    """The socket of any other page."""
    return _at("/ws/me/", f"shows={shows}&after=0", session, origins)


def socket_at(path: str, session: str = "") -> Socket:
    """The socket of any address."""
    return _at(path, "", session, (OWN_ORIGIN,))


def _at(path: str, query: str, session: str, origins: tuple[str, ...]) -> Socket:
    headers = [(b"host", b"127.0.0.1:6740"), (b"cookie", f"sessionid={session}".encode())]
    headers += [(b"origin", origin.encode()) for origin in origins]
    return Socket(
        {
            "type": "websocket",
            "scheme": "ws",
            "path": path,
            "query_string": query.encode(),
            "headers": headers,
            "subprotocols": [],
        },
    )


async def can_open(tab: Socket) -> bool:
    is_open = await tab.opens()
    if is_open:
        await tab.leave()
    return is_open
