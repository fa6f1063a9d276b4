"""A real MCP server whose tools ask a question first: in the modern era between two calls, in the
handshake era during a call."""

from typing import Annotated, Any

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.server.mcpserver import Context, Elicit, MCPServer, RequestStateSecurity, Resolve
from mcp.shared.message import ServerMessageMetadata
from pydantic import BaseModel, Field

from .eras import Era, speaking
from .serving import Application


class Name(BaseModel):
    name: str = Field(min_length=2)


class Sure(BaseModel):
    sure: bool


class QuestionLog:
    """The effects of the tools, and the answers that they got."""

    def __init__(self) -> None:
        self.entries: list[str] = []
        self.capabilities: types.ClientCapabilities | None = None


def questioner(diary: QuestionLog, *, ttl_seconds: float = 600) -> MCPServer[None]:
    """Servers with the same keys accept the answers to each other's questions."""
    security = RequestStateSecurity(keys=[b"k" * 32], ttl=ttl_seconds)
    server: MCPServer[None] = MCPServer(
        "questioner", version="1.0", log_level="CRITICAL", request_state_security=security
    )
    _add_asking_tools(server, diary)
    _add_raw_tools(server, diary)
    _add_handshake_tools(server, diary)
    _add_prompts(server, diary)
    return server


async def _who(context: Context) -> Elicit[Name]:
    return Elicit("Whom shall I greet?", Name)


async def _sure(context: Context) -> Elicit[Sure]:
    return Elicit("Are you sure?", Sure)


def _add_asking_tools(server: MCPServer[None], diary: QuestionLog) -> None:
    @server.tool()
    async def greet(who: Annotated[Name, Resolve(_who)], greeting: str, context: Context) -> str:
        """Greets whom it is told to."""
        diary.capabilities = context.client_capabilities
        diary.entries.append(f"greeted {who.name}")
        return f"{greeting}, {who.name}"

    @server.tool()
    async def erase(
        who: Annotated[Name, Resolve(_who)], sure: Annotated[Sure, Resolve(_sure)]
    ) -> str:
        """Asks twice."""
        diary.entries.append(f"erased {who.name}: {sure.sure}")
        return f"erased {who.name}"

    @server.tool()
    async def look(context: Context) -> str:
        """Looks at what the client says that it can do."""
        diary.capabilities = context.client_capabilities
        return "looked"


def _add_raw_tools(server: MCPServer[None], diary: QuestionLog) -> None:
    @server.tool()
    async def visit(context: Context) -> str | types.InputRequiredResult:
        """Sends the person somewhere first."""
        if context.input_responses:
            answer = context.input_responses["page"]
            assert isinstance(answer, types.ElicitResult)
            diary.entries.append(f"visited: {answer.action} {answer.content}")
            return f"{answer.action}, {context.request_state}"
        params = types.ElicitRequestURLParams(message="Pay first.", url="https://pay.example/7")
        asked: dict[str, Any] = {"page": types.ElicitRequest(params=params)}
        return types.InputRequiredResult(input_requests=asked, request_state="ticket 7")

    @server.tool()
    async def later(context: Context) -> str | types.InputRequiredResult:
        """Is ready the second time."""
        if context.request_state == "soon":
            return "ready"
        return types.InputRequiredResult(request_state="soon")


def _add_handshake_tools(server: MCPServer[None], diary: QuestionLog) -> None:
    @server.tool()
    async def nag(times: int, context: Context) -> str:
        """Asks over and over again, as often as it is answered."""
        for number in range(times):
            try:
                answer = await context.elicit(f"Question {number}?", Sure)
            except MCPError as error:
                diary.entries.append(f"refused after {number}: {error.code}")
                break
            diary.entries.append(f"{number}: {answer.action}")
        return "asked enough"

    @server.tool()
    async def dawdle(context: Context) -> str:
        """Asks, and then takes its time."""
        await context.elicit("Shall I?", Sure)
        await anyio.sleep(60)
        return "done at last"

    @server.tool()
    async def pester(what: str, context: Context) -> str:
        """Asks for what no client here lends."""
        # Together with the call: of a stream for anything else a short operation has no use.
        related = ServerMessageMetadata(related_request_id=context.request_id)
        sampling = types.CreateMessageRequestParams(messages=[], max_tokens=5)
        try:
            if what == "model":
                asked = types.CreateMessageRequest(params=sampling)
                await context.session.send_request(asked, types.CreateMessageResult, None, related)
            else:
                roots = types.ListRootsRequest()
                await context.session.send_request(roots, types.ListRootsResult, None, related)
        except MCPError as error:
            diary.entries.append(f"{what}: {error.code}")
        return "went on without"


def _add_prompts(server: MCPServer[None], diary: QuestionLog) -> None:
    @server.prompt()
    async def letter(context: Context) -> str:
        """Could ask to whom."""
        diary.capabilities = context.client_capabilities
        return "Dear somebody"


def application(diary: QuestionLog, era: Era = "both", **how: Any) -> Application:
    return speaking(era, questioner(diary, **how).streamable_http_app())
