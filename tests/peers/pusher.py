"""A handshake-era MCP server that asks people on a stream of its own, beside the call."""

import asyncio
from typing import Any

import mcp_types as types
from mcp.server.mcpserver import Context, MCPServer

from .eras import speaking
from .serving import Application, Message

FORM: types.ElicitRequestedSchema = {
    "type": "object",
    "properties": {"name": {"type": "string", "default": "Ada"}},
}


class Pusher:
    """`turns_away`: the status with which the stream is refused, if it is."""

    def __init__(self, turns_away: int | None = None) -> None:
        self.turns_away = turns_away
        self.streams = 0
        self.is_heard = asyncio.Event()

    def application(self) -> Application:
        server: MCPServer[None] = MCPServer("pusher", version="1.0", log_level="CRITICAL")

        @server.tool()
        async def greet(context: Context) -> str:
            """Asks for a name, on the stream that the client has opened."""
            await self.is_heard.wait()
            answer = await context.session.elicit_form("Whom?", FORM)
            return f"{answer.action}: {answer.content}"

        @server.tool()
        async def nod() -> str:
            """Asks nothing."""
            await self.is_heard.wait()
            return "nodded"

        return self._watched(speaking("handshake", server.streamable_http_app()))

    def _watched(self, application: Application) -> Application:
        async def watched(scope: Message, receive: Any, send: Any) -> None:
            if scope["type"] != "http" or scope["method"] != "GET":
                await application(scope, receive, send)
                return
            self.streams += 1
            if self.turns_away is not None:
                headers = [(b"location", b"/elsewhere"), (b"www-authenticate", b"Bearer")]
                start = {"type": "http.response.start", "status": self.turns_away}
                await send(start | {"headers": headers})
                await send({"type": "http.response.body"})
                self.is_heard.set()
                return
            await application(scope, receive, self._noting(send))

        return watched

    def _noting(self, send: Any) -> Any:
        async def noting(message: Message) -> None:
            await send(message)
            if message["type"] == "http.response.start":
                self.is_heard.set()

        return noting
