"""A real MCP server for attachments: many resources, a template, prompts with embedded resources,
and a switch that refuses all reads."""

import base64
import struct
import threading
from typing import Any

import mcp_types as types
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.prompts.base import AssistantMessage, Message, UserMessage

from .serving import Application

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 24
# A whole picture of one point, which a browser can draw.
DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
WAV = b"RIFF" + struct.pack("<I", 44) + b"WAVEfmt " + b"\x00" * 32
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
LETTERS = 25
ROOMY = 3 * 1024 * 1024
TOWNS = ("Bergen", "Berlin", "Bern")


class ReadSwitch:
    """Whether reads are allowed."""

    def __init__(self) -> None:
        self.shut = threading.Event()

    def check(self) -> None:
        if self.shut.is_set():
            raise ValueError("The room is closed.")


def reading_room(doors: ReadSwitch) -> MCPServer[None]:
    server: MCPServer[None] = MCPServer("room", version="1.0", log_level="CRITICAL")
    for number in range(LETTERS):
        _add_letter(server, number)
    _add_resources(server, doors)
    _add_prompts(server)
    _add_tool(server)

    # The SDK leaves this one decorator without types.
    @server.completion()  # type: ignore[no-untyped-call,untyped-decorator]
    async def propose(ref: Any, argument: types.CompletionArgument, _: Any) -> types.Completion:
        return types.Completion(values=[town for town in TOWNS if town.startswith(argument.value)])

    return server


def _add_letter(server: MCPServer[None], number: int) -> None:
    @server.resource(f"letter://{number}", name=f"letter-{number}", mime_type="text/plain")
    def letter() -> str:
        return f"Dear reader {number}."


def _add_resources(server: MCPServer[None], doors: ReadSwitch) -> None:
    @server.resource("room://notice", title="Notice <b>board</b>", mime_type="text/html")
    def notice() -> str:
        """What hangs at the door."""
        doors.check()
        return "<h1 id=thread>Closed on Mondays</h1><script>alert(1)</script>"

    @server.resource("room://picture", title="Picture", mime_type="image/png")
    def picture() -> bytes:
        return PNG

    @server.resource("room://drawing", title="Drawing", mime_type="image/svg+xml")
    def drawing() -> bytes:
        return SVG

    @server.resource("room://archive", title="Archive", mime_type="text/plain")
    def archive() -> str:
        return "x" * ROOMY

    @server.resource("room://{town}/{street}", title="Address")
    def address(town: str, street: str) -> str:
        doors.check()
        return f"{street} in {town}"


def _add_prompts(server: MCPServer[None]) -> None:
    @server.prompt(title="Plan a trip")
    def trip(town: str, days: str = "2") -> list[Message]:
        """A plan for a few days."""
        told = types.EmbeddedResource(
            type="resource",
            resource=types.TextResourceContents(
                uri="room://guide", mime_type="text/plain", text=f"All about {town}."
            ),
        )
        return [
            UserMessage(f"Plan {days} days in {town}."),
            AssistantMessage("By train?\nOr by boat?"),
            UserMessage(told),
        ]

    @server.prompt()
    def greet() -> str:
        """Says hello."""
        return "Say hello to everybody."


def _add_tool(server: MCPServer[None]) -> None:
    @server.tool()
    def show_gallery() -> types.CallToolResult:
        """Shows what hangs on the walls."""
        return types.CallToolResult(
            content=[
                types.ImageContent(data=base64.b64encode(DOT).decode(), mime_type="image/png"),
                types.AudioContent(data=base64.b64encode(WAV).decode(), mime_type="audio/wav"),
                types.ResourceLink(uri="room://notice", name="Notice"),
            ]
        )


def picture_block(data: bytes = PNG, claimed: str = "image/png") -> dict[str, Any]:
    kind = claimed.partition("/")[0]
    return {"type": kind, "mimeType": claimed, "data": base64.b64encode(data).decode()}


def at_room(doors: ReadSwitch) -> Application:
    return reading_room(doors).streamable_http_app()
