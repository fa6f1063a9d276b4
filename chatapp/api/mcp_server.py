"""The MCP server: it lists the core tools, and turns a call of one into a governed tool call.

A call that waits for a person is answered with an input request and a link if the program supports
it, otherwise with an error that names the page. The same arguments again return the same call.

An input request is answered once. To decline or cancel it withdraws the call. To accept it means
that the person has the page: if the call still waits for the same decision after WAIT_SECONDS, the
answer is the error that names the page, and not the same request again.
"""

import contextlib
import uuid
from dataclasses import dataclass
from typing import Any

import mcp_types as types
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from starlette.requests import Request

from chatapp.conversations.intake import stop
from chatapp.models import AccessToken, ToolCall
from chatapp.people.refused import Refused
from chatapp.server.database import in_database
from chatapp.tools.blueprint import CoreTool, Mode
from chatapp.tools.context import ToolError
from mcpconfig.values.version import VERSION

from . import calls
from .outcomes import CallOutcome, describe_outcome

SCOPE_ENTRY = "countersign.shown"
WAIT_SECONDS = 20.0
LIST_FRESH_MS = 60_000
ANSWER = "answer"
AGAIN = gettext_lazy("Then call it again with the same arguments: it is not run a second time.")
INSTRUCTIONS = (
    "Tools of a Countersign server. They act for the person of the access token. "
    "Risky actions wait until that person approves them on a page. The answer "
    "then names its address."
)
READING = "Only read-only tools are here."

Asked = ServerRequestContext[Any, Request]
Answer = types.CallToolResult | types.InputRequiredResult


def create_server(mode: Mode) -> Server[Any]:
    """Return a new server for this mode: `mcp_act` with all tools, `mcp_plan` with those that
    read."""
    return Server(
        "countersign" if mode == "mcp_act" else "countersign-plan",
        version=VERSION,
        title="Countersign",
        instructions=INSTRUCTIONS if mode == "mcp_act" else f"{INSTRUCTIONS} {READING}",
        cache_hints={"tools/list": CacheHint(ttl_ms=LIST_FRESH_MS, scope="private")},
        on_list_tools=Face(mode=mode).list_tools,
        on_call_tool=Face(mode=mode).call_tool,
    )


def create_session_manager(mode: Mode, most_bytes: int) -> StreamableHTTPSessionManager:
    """Return the handler of HTTP requests for this mode. Each request stands alone."""
    return StreamableHTTPSessionManager(
        app=create_server(mode), stateless=True, max_request_body_size=most_bytes
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Face:
    """One of the two endpoints. The access token is in the scope of the request."""

    mode: Mode

    async def list_tools(
        self, asked: Asked, _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        tools = await in_database(calls.list_usable_tools, _read_token(asked), self.mode)
        return types.ListToolsResult(tools=[describe_tool(tool) for tool in tools])

    async def call_tool(self, asked: Asked, params: types.CallToolRequestParams) -> Answer:
        token = _read_token(asked)
        tool = await in_database(calls.find_usable_tool, token, params.name, self.mode)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"There is no tool {params.name!r} here.")
        try:
            call = await in_database(self._call, token, tool, asked, params)
        except (ToolError, Refused) as problem:
            return _build_failure(str(problem))
        if _is_declined(params):
            await in_database(_withdraw, call, params.request_state)
        call = await calls.wait_until_settled(
            call,
            WAIT_SECONDS,
            report=_Progress(asked=asked).report,
            for_people=bool(params.request_state),
        )
        return await in_database(_build_answer, call, _can_be_asked(asked), params.request_state)

    def _call(
        self,
        token: AccessToken,
        tool: CoreTool,
        asked: Asked,
        params: types.CallToolRequestParams,
    ) -> ToolCall:
        """Return the call that is meant: one that waited, or a new one. Programs that can be asked
        come back with its state, and without it after an input request that led to no decision."""
        arguments = params.arguments or {}
        alike = calls.filter_same_calls(token, tool, arguments)
        if params.request_state is not None:
            return _find_resumed(alike, params.request_state)
        if open_call := calls.find_undelivered(alike):
            return open_call
        return calls.receive(token, tool, arguments, mode=self.mode)


@dataclass(slots=True, kw_only=True)
class _Progress:
    """Reports the state of a call to a program that asked for progress, once per state."""

    asked: Asked
    count: int = 0

    async def report(self, call: ToolCall) -> None:
        self.count += 1
        words = call.get_state_display()
        await self.asked.session.report_progress(self.count, message=words)


def describe_tool(tool: CoreTool) -> types.Tool:
    """Return what a program and its model read about a tool."""
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


def _read_token(asked: Asked) -> AccessToken:
    """Return the access token of the request. Only requests with a valid one get here."""
    token = asked.request.scope.get(SCOPE_ENTRY) if asked.request is not None else None
    if not isinstance(token, AccessToken):
        raise MCPError(types.INVALID_REQUEST, "This needs an access token.")
    return token


def _can_be_asked(asked: Asked) -> bool:
    """Return whether the program can show a person a link and come back afterwards."""
    told = asked.session.client_capabilities
    elicitation = told.elicitation if told is not None else None
    return elicitation is not None and elicitation.url is not None


def _find_resumed(alike: QuerySet[ToolCall], state: str) -> ToolCall:
    """Return the call of this request state, if it is among these."""
    with contextlib.suppress(ValueError):
        if found := alike.filter(pk=uuid.UUID(state.partition(" ")[0])).first():
            return found
    raise MCPError(types.INVALID_PARAMS, "Invalid or expired requestState.")


def _describe_wait(call: ToolCall) -> str:
    """Return the request state of what the call waits for: the call's id, which is no secret, as
    only this token finds the call by it, and which of its waits this is."""
    return f"{call.pk} {call.state} {call.attempt} {call.questions.count()}"


def _withdraw(call: ToolCall, state: str | None) -> None:
    """End the turn of a call that still waits for what was declined."""
    if _describe_wait(call) == state:
        stop(call.turn.conversation)


def _is_declined(params: types.CallToolRequestParams) -> bool:
    """Whether somebody declined or cancelled the input request of the last answer."""
    answer = (params.input_responses or {}).get(ANSWER)
    return isinstance(answer, types.ElicitResult) and answer.action != "accept"


def _build_answer(call: ToolCall, can_be_asked: bool, asked_state: str | None) -> Answer:
    """Return the answer. `asked_state` is the state of the input request that was answered."""
    outcome = describe_outcome(call)
    match outcome.status:
        case "done":
            calls.mark_delivered(call)
            return types.CallToolResult(
                content=[types.TextContent(type="text", text=outcome.text)],
                structured_content=outcome.structured,
            )
        case "failed":
            calls.mark_delivered(call)
            return _build_failure(outcome.text)
        case "waits" if can_be_asked and (state := _describe_wait(call)) != asked_state:
            return _build_input_required(outcome, state)
        case _:
            return _build_failure(f"{outcome.text} {AGAIN}")


def _build_input_required(outcome: CallOutcome, state: str) -> types.InputRequiredResult:
    params = types.ElicitRequestURLParams(message=outcome.text, url=outcome.url)
    return types.InputRequiredResult(
        input_requests={ANSWER: types.ElicitRequest(params=params)}, request_state=state
    )


def _build_failure(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)
