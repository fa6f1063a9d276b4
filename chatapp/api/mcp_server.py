"""Our own tools as an MCP server: what it lists, and how a call of one becomes a tool call of ours.

Each call is decided, asked about and logged as every other. One that waits for a person is an input
request with a link where the program can show one, else a failure that says where to go; asked
again with the same arguments, it is the same call.
"""

import contextlib
import uuid
from dataclasses import dataclass
from typing import Any

import mcp_types as types
from django.db.models import QuerySet
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from starlette.requests import Request

from chatapp.models import AccessToken, ToolCall
from chatapp.storage import in_database
from chatapp.tools.blueprint import CoreTool, Mode
from chatapp.tools.context import ToolError
from chatapp.turns import program_calls
from chatapp.turns.program_outcomes import CallOutcome, outcome_for_program
from chatapp.turns.refusals import Refused

SHOWN = "countersign.shown"
VERSION = "1"
WAIT_SECONDS = 20.0
LIST_FRESH_MS = 60_000
ANSWER = "answer"
AGAIN = "Call it again with the same arguments afterwards: it is not run a second time."
INSTRUCTIONS = (
    "Tools of a Countersign server. They act for the person of the access token. What could do "
    "harm waits until that person approves it on a page; the answer then names its address."
)
READING = "Only tools that read are here."

Asked = ServerRequestContext[Any, Request]
Answer = types.CallToolResult | types.InputRequiredResult


def server(mode: Mode) -> Server[Any]:
    """A new server for this face: `mcp_act` with all tools, `mcp_plan` with those that read."""
    return Server(
        "countersign" if mode == "mcp_act" else "countersign-plan",
        version=VERSION,
        title="Countersign",
        instructions=INSTRUCTIONS if mode == "mcp_act" else f"{INSTRUCTIONS} {READING}",
        cache_hints={"tools/list": CacheHint(ttl_ms=LIST_FRESH_MS, scope="private")},
        on_list_tools=Face(mode=mode).list_tools,
        on_call_tool=Face(mode=mode).call_tool,
    )


def manager(mode: Mode, most_bytes: int) -> StreamableHTTPSessionManager:
    """What answers HTTP requests to this face, each for itself."""
    return StreamableHTTPSessionManager(
        app=server(mode), stateless=True, max_request_body_size=most_bytes
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Face:
    """One of the two addresses. Whose program speaks stands in the request's scope."""

    mode: Mode

    async def list_tools(
        self, asked: Asked, _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        tools = await in_database(program_calls.usable_tools, _token(asked), self.mode)
        return types.ListToolsResult(tools=[described(tool) for tool in tools])

    async def call_tool(self, asked: Asked, params: types.CallToolRequestParams) -> Answer:
        token = _token(asked)
        tool = await in_database(program_calls.usable_tool, token, params.name, self.mode)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"There is no tool {params.name!r} here.")
        try:
            call = await in_database(self._call, token, tool, asked, params)
        except (ToolError, Refused) as problem:
            return _failed(str(problem))
        call = await program_calls.settled(
            call,
            WAIT_SECONDS,
            tell=_Progress(asked=asked).tell,
            for_people=bool(params.request_state),
        )
        return await in_database(_answer, call, _can_be_asked(asked))

    def _call(
        self,
        token: AccessToken,
        tool: CoreTool,
        asked: Asked,
        params: types.CallToolRequestParams,
    ) -> ToolCall:
        """The call that is meant: one that waited, or a new one."""
        arguments = params.arguments or {}
        alike = program_calls.calls_alike(token, tool, arguments)
        if params.request_state is not None:
            return _resumed(alike, params.request_state)
        if not _can_be_asked(asked) and (open_call := program_calls.still_open(alike)):
            return open_call
        return program_calls.receive(token, tool, arguments, mode=self.mode)


@dataclass(slots=True, kw_only=True)
class _Progress:
    """Tells a program that wants to know how its call stands, once for each state."""

    asked: Asked
    told: int = 0

    async def tell(self, call: ToolCall) -> None:
        self.told += 1
        words = call.get_state_display()
        await self.asked.session.report_progress(self.told, message=words)


def described(tool: CoreTool) -> types.Tool:
    """What a program and its model read of a tool."""
    told = tool.documentation
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description="\n".join(
            (
                tool.description,
                f"Limitations: {told.limitations}",
                f"Limits: {told.limits}",
                f"Errors: {told.errors}",
                told.clients,
            )
        ),
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint="mcp_plan" in tool.modes,
            destructive_hint=tool.risk == "high",
            open_world_hint=False,
        ),
    )


def _token(asked: Asked) -> AccessToken:
    """Who asks. The server answers only to requests that were admitted with one."""
    token = asked.request.scope.get(SHOWN) if asked.request is not None else None
    if not isinstance(token, AccessToken):
        raise MCPError(types.INVALID_REQUEST, "This needs an access token.")
    return token


def _can_be_asked(asked: Asked) -> bool:
    """Whether the program shows a person an address to open and comes back afterwards."""
    told = asked.session.client_capabilities
    elicitation = told.elicitation if told is not None else None
    return elicitation is not None and elicitation.url is not None


def _resumed(alike: QuerySet[ToolCall], state: str) -> ToolCall:
    """The call of this state, if it is one of these."""
    with contextlib.suppress(ValueError):
        if found := alike.filter(pk=uuid.UUID(state)).first():
            return found
    raise MCPError(types.INVALID_PARAMS, "Invalid or expired requestState.")


def _answer(call: ToolCall, can_be_asked: bool) -> Answer:
    outcome = outcome_for_program(call)
    match outcome.standing:
        case "done":
            program_calls.deliver(call)
            return types.CallToolResult(
                content=[types.TextContent(type="text", text=outcome.text)],
                structured_content=outcome.structured,
            )
        case "failed":
            program_calls.deliver(call)
            return _failed(outcome.text)
        case "waits" if can_be_asked:
            return _input_required(call, outcome)
        case _:
            return _failed(f"{outcome.text} {AGAIN}")


def _input_required(call: ToolCall, outcome: CallOutcome) -> types.InputRequiredResult:
    """The state is the call's id. It is no secret: only this token finds the call by it."""
    params = types.ElicitRequestURLParams(message=outcome.text, url=outcome.url)
    return types.InputRequiredResult(
        input_requests={ANSWER: types.ElicitRequest(params=params)}, request_state=str(call.pk)
    )


def _failed(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)
