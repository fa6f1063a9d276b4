"""A handshake-era MCP server that accepts a call only after a page of its own has been opened."""

from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.server.mcpserver import MCPServer

from .eras import Era, speaking
from .serving import Application

PAGE = {
    "mode": "url",
    "elicitationId": "toll 1",
    "message": "Pay the toll.",
    "url": "https://toll.example/pay?for=1",
}


class Tollgate:
    """`wanted` is what must be opened, as the server sends it; `passages` are the calls that it
    accepted, `refusals` the number of those that it refused."""

    def __init__(self) -> None:
        self.wanted: Any = {"elicitations": [PAGE]}
        self.is_paid = False
        self.passages: list[str] = []
        self.refusals = 0

    def application(self, era: Era = "handshake") -> Application:
        server: MCPServer[None] = MCPServer("tollgate", version="1.0", log_level="CRITICAL")

        @server.tool()
        async def cross(who: str) -> str:
            """Lets somebody across who has paid."""
            if not self.is_paid:
                self.refusals += 1
                code = types.URL_ELICITATION_REQUIRED
                raise MCPError(code=code, message="Pay first.", data=self.wanted)
            self.passages.append(who)
            return f"{who} is across"

        return speaking(era, server.streamable_http_app())
