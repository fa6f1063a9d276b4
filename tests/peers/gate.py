"""A real MCP server whose calls are held at a gate until a test opens it."""

import threading
from collections import Counter

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from .eras import speaking
from .serving import Application

HELD_SECONDS = 20.0


class Gate:
    """The calls that arrived, by name, and those that may continue."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self._arrived: dict[str, threading.Event] = {}
        self._opened: dict[str, threading.Event] = {}

    def clear(self) -> None:
        self.calls.clear()
        self._arrived.clear()
        self._opened.clear()

    def arrived(self, name: str) -> threading.Event:
        return self._arrived.setdefault(name, threading.Event())

    def opened(self, name: str) -> threading.Event:
        return self._opened.setdefault(name, threading.Event())

    async def pass_through(self, name: str) -> None:
        self.calls[name] += 1
        self.arrived(name).set()
        opened = self.opened(name)
        await anyio.to_thread.run_sync(opened.wait, HELD_SECONDS, abandon_on_cancel=True)


def server(gate: Gate) -> MCPServer[None]:
    """Three tools: one that returns at once, one that is held, one that reports progress and is
    held."""
    made: MCPServer[None] = MCPServer("gate", version="1.0", log_level="WARNING")

    @made.tool()
    async def read_at_once(name: str) -> str:
        """Reads a thing."""
        gate.calls[name] += 1
        if name == "broken":
            raise ToolError("it is broken")
        return f"{name} was read"

    @made.tool()
    async def read_held(name: str) -> str:
        """Reads a thing when the gate is open."""
        await gate.pass_through(name)
        return f"{name} was read"

    @made.tool()
    async def read_telling(name: str, context: Context) -> str:
        """Says how far it has come, and reads a thing when the gate is open."""
        await context.report_progress(1, 2, f"{name} is half read")
        await gate.pass_through(name)
        return f"{name} was read"

    return made


def application(gate: Gate) -> Application:
    return speaking("modern", server(gate).streamable_http_app())
