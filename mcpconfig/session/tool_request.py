"""A tool call as the SDK sends it, without what its own verb does besides: working out for each
connection what an answer looks like, and listing the tools to check a result that is here."""

import json
from typing import Annotated, Any

import mcp_types as types
from mcp import ClientSession
from mcp.shared.dispatcher import ProgressFnT
from pydantic import Discriminator, Tag, TypeAdapter

from .models import ToolDefinition
from .task_extension import StartedTask

_HEADER_KEY = '"x-mcp-header"'

CallAnswer = types.CallToolResult | types.InputRequiredResult | StartedTask


def _arm(answer: Any) -> str:
    """A handshake-era answer has no type any more when it comes here."""
    return "task" if answer.get("resultType") == "task" else "core"


_ANSWER: TypeAdapter[CallAnswer] = TypeAdapter(
    Annotated[
        Annotated[types.CallToolResult | types.InputRequiredResult, Tag("core")]
        | Annotated[StartedTask, Tag("task")],
        Discriminator(_arm),
    ]
)


async def send_call(
    session: ClientSession,
    *,
    name: str,
    arguments: dict[str, Any],
    progress_callback: ProgressFnT | None,
    input_responses: types.InputResponses | None,
    request_state: str | None,
    meta: types.RequestParamsMeta | None,
) -> CallAnswer:
    """Send it once, and return whatever the service answers."""
    params = types.CallToolRequestParams(
        name=name,
        arguments=arguments,
        input_responses=input_responses,
        request_state=request_state,
        _meta=meta,
    )
    request = types.CallToolRequest(params=params)
    return await session.send_request(request, _ANSWER, progress_callback=progress_callback)


def listed(tool: ToolDefinition) -> types.Tool | None:
    """The tool as the SDK must know it before the call, if its input schema says that arguments
    travel in headers. Nothing else of it is needed: the SDK would copy and check it all."""
    if _HEADER_KEY not in json.dumps(tool.input_schema):
        return None
    return types.Tool(name=tool.name, input_schema=tool.input_schema)
