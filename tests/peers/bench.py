"""A real MCP server with tools to try by hand: every kind of value, every kind of answer, and an
effect that is counted."""

import base64
from typing import Annotated, Literal

import mcp_types as types
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field

from .reading_room import DOT
from .serving import Application


class Place(BaseModel):
    town: str
    street: str = ""


class Rows(BaseModel):
    rows: list[dict[str, str]]


class Bench:
    """What ran there, in order."""

    def __init__(self) -> None:
        self.ran: list[str] = []


def bench_server(bench: Bench) -> MCPServer[None]:
    server: MCPServer[None] = MCPServer("bench", version="1.0", log_level="CRITICAL")
    reads = ToolAnnotations(read_only_hint=True)

    @server.tool(title="List orders", annotations=reads)
    def list_orders(
        limit: Annotated[int, Field(ge=1, le=50, description="How many at most.")],
        state: Annotated[
            Literal["open", "sent", "paid"] | None, Field(description="Only these.")
        ] = None,
        with_lines: bool = False,
        tags: list[str] | None = None,
        near: Place | None = None,
        least_total: float = 0.5,
    ) -> Rows:
        """The orders of this week, newest first."""
        bench.ran.append(f"list_orders {limit} {state} {with_lines} {tags} {near}")
        return Rows(rows=[{"order": f"A-{n}", "state": state or "open"} for n in range(limit)])

    @server.tool(annotations=ToolAnnotations(destructive_hint=True))
    def delete_order(name: str, reason: str = "") -> str:
        """Delete an order for good."""
        bench.ran.append(f"delete_order {name}")
        return f"{name} is deleted"

    @server.tool(annotations=reads)
    def get_receipt() -> types.CallToolResult:
        """Everything that an answer can hold."""
        bench.ran.append("get_receipt")
        link = types.ResourceLink(uri="bench://receipt", name="Receipt")
        picture = types.ImageContent(data=base64.b64encode(DOT).decode(), mime_type="image/png")
        text = types.TextContent(text="<b>Paid</b> on Monday.")
        return types.CallToolResult(content=[text, picture, link])

    @server.tool(annotations=reads)
    def read_drawer() -> str:
        """Always fails."""
        bench.ran.append("read_drawer")
        raise ToolError("The drawer is stuck.")

    return server


def at_bench(bench: Bench) -> Application:
    return bench_server(bench).streamable_http_app()
