"""A real MCP server with resources, templates, prompts and completions, made with the SDK."""

from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.prompts.base import AssistantMessage, Message, UserMessage

from .serving import Application

PICTURE = b"\x89PNG\r\n\x1a\n not really"
COLOURS = ("green", "grey", "red")
ELSEWHERE = "http://127.0.0.1:9/elsewhere"


def library() -> MCPServer[None]:
    server: MCPServer[None] = MCPServer(
        "library", version="2.0", instructions="Ask for books  by name.", log_level="WARNING"
    )
    _add_resources(server)
    _add_prompts(server)

    # The SDK leaves this one decorator without types.
    @server.completion()  # type: ignore[no-untyped-call,untyped-decorator]
    async def propose(
        ref: types.PromptReference | types.ResourceTemplateReference,
        argument: types.CompletionArgument,
        context: types.CompletionContext | None,
    ) -> types.Completion:
        if isinstance(ref, types.ResourceTemplateReference):
            shelf = (context.arguments or {}).get("shelf", "any") if context else "any"
            return types.Completion(values=[f"{shelf}-{argument.value}1"], total=9, has_more=True)
        fitting = [colour for colour in COLOURS if colour.startswith(argument.value)]
        return types.Completion(values=fitting)

    return server


def _add_resources(server: MCPServer[None]) -> None:
    @server.resource("book://moby", title="Moby-Dick", mime_type="text/plain")
    def moby() -> str:
        """A whale."""
        return "Call me Ishmael."

    @server.resource("book://cover", mime_type="image/png")
    def cover() -> bytes:
        return PICTURE

    @server.resource(ELSEWHERE)
    def elsewhere() -> str:
        return "told by the library"

    @server.resource("book://{shelf}/{name}")
    def by_name(shelf: str, name: str) -> str:
        return f"{name} on {shelf}"


def _add_prompts(server: MCPServer[None]) -> None:
    @server.prompt(title="Review")
    def review(book: str, tone: str = "kind") -> list[Message]:
        """Write about a book."""
        return [UserMessage(f"Review {book}."), AssistantMessage(f"In a {tone} tone?")]


def talkative() -> Server[Any]:
    """Has no prompts, cannot list its resources, and logs whenever its tools are listed."""

    async def tools(ctx: Any, params: Any) -> types.ListToolsResult:
        for number in range(60):
            data = "x" * 9_000 if number == 1 else {"n": number}
            await ctx.session.send_log_message(
                "info", data, logger="shelf", related_request_id=ctx.request_id
            )
        return types.ListToolsResult(tools=[])

    async def resources(ctx: Any, params: Any) -> types.ListResourcesResult:
        raise ValueError("The catalogue is on fire.")

    return Server("talkative", on_list_tools=tools, on_list_resources=resources)


def of_server(server: Server[Any]) -> Application:
    return server.streamable_http_app()
