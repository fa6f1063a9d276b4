"""A real MCP server with tools of every kind, made with the SDK."""

import threading
from typing import Annotated, Literal

import anyio
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import AnyHttpUrl, BaseModel, Field

from .eras import Era, speaking
from .serving import Application

BEARER = "canary-bearer-token-0123456789"


class Sum(BaseModel):
    total: int


class Watch:
    """What happened inside the tools, seen from the test's thread."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.cancelled = threading.Event()

    def clear(self) -> None:
        self.started.clear()
        self.cancelled.clear()


class OneToken:
    """Accepts exactly one bearer token."""

    async def verify_token(self, token: str) -> AccessToken | None:
        if token != BEARER:
            return None
        return AccessToken(token=token, client_id="tests", scopes=[])


def toolbox(watch: Watch, *, is_guarded: bool = False) -> MCPServer[None]:
    """The server. `is_guarded` asks for the bearer token above."""
    here = AnyHttpUrl("http://127.0.0.1/mcp")
    server: MCPServer[None] = MCPServer(
        "toolbox",
        version="1.0",
        log_level="WARNING",
        token_verifier=OneToken() if is_guarded else None,
        auth=AuthSettings(issuer_url=here, resource_server_url=here, validate_token_resource=False)
        if is_guarded
        else None,
    )
    _add_quick_tools(server)
    _add_slow_tools(server, watch)
    return server


def _add_quick_tools(server: MCPServer[None]) -> None:
    @server.tool(title="Echo", annotations=ToolAnnotations(read_only_hint=True))
    def echo(text: str) -> str:
        """Say it again."""
        return text

    @server.tool()
    def add(a: int, b: int) -> Sum:
        """Add two numbers."""
        return Sum(total=a + b)

    @server.tool()
    def fail() -> str:
        """Always fails."""
        raise ToolError("The drawer is stuck.")

    @server.tool()
    def long_text(size: int) -> str:
        """As many letters as asked for."""
        return "x" * size

    @server.tool()
    def by_region(
        region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})],
    ) -> str:
        """Needs an argument in a header."""
        return f"region {region}"


def _add_slow_tools(server: MCPServer[None], watch: Watch) -> None:
    @server.tool()
    async def wait_forever() -> str:
        """Waits until somebody cancels."""
        watch.started.set()
        try:
            await anyio.sleep(60)
        except anyio.get_cancelled_exc_class():
            watch.cancelled.set()
            raise
        return "nobody cancelled"

    @server.tool()
    async def count(to: int, context: Context) -> str:
        """Counts and reports its progress."""
        for number in range(1, to + 1):
            await context.report_progress(number, to, f"counted {number}")
        return f"counted to {to}"


def application(
    server: MCPServer[None],
    *,
    era: Era = "both",
    transport: Literal["http", "sse"] = "http",
    is_stateless: bool = False,
) -> Application:
    """The server as an ASGI application that speaks one era or both."""
    if transport == "sse":
        return speaking("both", server.sse_app())
    return speaking(era, server.streamable_http_app(stateless_http=is_stateless))
