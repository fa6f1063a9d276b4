"""A tool call through the SDK's `send_request`. The SDK's own `call_tool` also builds a parser for
each connection, and lists the tools to check the result."""

import json
import time
from typing import Annotated, Any

import mcp_types as types
from mcp import ClientSession
from mcp.client import CacheEntry, CacheKey
from mcp.shared.dispatcher import ProgressFnT
from pydantic import Discriminator, Tag, TypeAdapter

from mcpconfig.models import ToolDefinition
from mcpconfig.values.task_extension import StartedTask

_HEADER_KEY = '"x-mcp-header"'

CallAnswer = types.CallToolResult | types.InputRequiredResult | StartedTask


def _get_answer_tag(answer: Any) -> str:
    """An answer of a handshake-era service has no type here."""
    return "task" if answer.get("resultType") == "task" else "core"


_ANSWER: TypeAdapter[CallAnswer] = TypeAdapter(
    Annotated[
        Annotated[types.CallToolResult | types.InputRequiredResult, Tag("core")]
        | Annotated[StartedTask, Tag("task")],
        Discriminator(_get_answer_tag),
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
    """Send the call once, and return the answer of the service."""
    params = types.CallToolRequestParams(
        name=name,
        arguments=arguments,
        input_responses=input_responses,
        request_state=request_state,
        _meta=meta,
    )
    request = types.CallToolRequest(params=params)
    return await session.send_request(request, _ANSWER, progress_callback=progress_callback)


def build_listed_tool(tool: ToolDefinition) -> types.Tool | None:
    """Return the tool in the form that the SDK needs before the call, if its input schema sends
    arguments in headers. Other tools are left out, because the SDK would copy and check them."""
    if _HEADER_KEY not in json.dumps(tool.input_schema):
        return None
    return types.Tool(name=tool.name, input_schema=tool.input_schema)


class SingleToolCache:
    """A tool list cache for the SDK with one tool: the one that is about to be called.

    Without it the SDK lists the tools after each call, to check the result against the output
    schema. If that fails, the result of a tool that has run is lost.
    """

    def __init__(self, tool: types.Tool) -> None:
        self._listing = types.ListToolsResult(tools=[tool])

    async def get(self, key: CacheKey) -> CacheEntry | None:
        if key.method != "tools/list":
            return None
        return CacheEntry(value=self._listing, scope="private", expires_at=time.time() + 3600)

    async def set(self, key: CacheKey, entry: CacheEntry) -> None:
        """Does nothing: lists are stored by `services/tool_definitions.py`."""

    async def delete(self, key: CacheKey) -> None:
        """Does nothing."""

    async def clear(self) -> None:
        """Does nothing."""
