"""The operations on a service. Each is flat: connect, act, disconnect."""

import inspect
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, cast

import mcp_types as types
from mcp.shared.dispatcher import ProgressFnT

from . import facts
from .asking import ask
from .client import Connection, connect
from .errors import asks_a_question
from .intake import cut_result, sort_out
from .limits import LIMITS
from .models import Service, ToolDefinition
from .paging import tool_pages
from .report import findings, instructions, steps, tool_tokens
from .results import CallOutcome, ConnectionReport, Listing, Tool, ToolResult

logger = logging.getLogger(__name__)

OnProgress = Callable[[str], Awaitable[None] | None]


async def test_connection(service: Service) -> ConnectionReport:
    """Connect as if for the first time, list what is offered, and report what was found."""
    started = time.monotonic()
    await facts.forget(service)
    async with connect(service, "test_connection", log_level="info") as connection:
        found = await findings(connection, await _listing(connection))
        client = connection.client
        report = ConnectionReport(
            steps=steps(connection, found),
            server_name=client.server_info.name if client.server_info else "",
            era=client.protocol_version,
            transport=connection.transport,
            capabilities=client.server_capabilities.model_dump(
                by_alias=True, mode="json", exclude_none=True
            ),
            tool_count=len(found.listing.tools),
            tool_tokens=tool_tokens(found.listing.tools),
            resource_count=found.resources.count,
            template_count=found.templates.count,
            prompt_count=found.prompts.count,
            instructions=instructions(connection),
            left_out=tuple(found.listing.left_out),
            log=tuple(connection.log.messages),
            requests=len(connection.wire.exchanges),
            duration_ms=round((time.monotonic() - started) * 1000),
        )
    return report


async def list_tools(service: Service, *, refresh: bool = False) -> list[Tool]:
    """The tools that the service offers now, without those that break a limit.

    `refresh` also finds out anew how the service is reached.
    """
    return (await fetch_listing(service, refresh=refresh)).tools


async def fetch_listing(service: Service, *, refresh: bool = False) -> Listing:
    """As `list_tools`, with what was left out and how long the list stays fresh."""
    if refresh:
        await facts.forget(service)
    return await ask(service, "list_tools", _listing)


async def _listing(connection: Connection) -> Listing:
    pages = await tool_pages(connection)
    fresh_seconds = LIMITS.fresh_seconds
    if pages and "ttl_ms" in pages[0].model_fields_set:
        fresh_seconds = pages[0].ttl_ms / 1000
    tools, left_out = sort_out([tool for page in pages for tool in page.tools])
    return Listing(tools=tools, left_out=left_out, fresh_seconds=fresh_seconds)


async def call_tool(
    service: Service,
    tool: ToolDefinition,
    arguments: dict[str, Any],
    *,
    on_progress: OnProgress | None = None,
    meta: dict[str, Any] | None = None,
    total_seconds: float | None = None,
) -> CallOutcome:
    """Run a tool once. It is sent at most once, whatever happens.

    Nothing here or below sends a call again: not after a sign-in demand, a redirect, a header
    mismatch or a wrong memory of how the service is reached. The last one ends the call; the
    memory is dropped, and the next call negotiates before anything is sent. Where the service
    answered 400, 404, 405 or “unsupported version”, HTTP and the protocol say that the call was not
    processed, so that failure is definite and a person can run it again without a doubt.
    """
    started = time.monotonic()
    seed = _as_listed(tool)
    async with connect(service, "call_tool", tool=seed, total_seconds=total_seconds) as connection:
        answer = await connection.client.session.call_tool(
            tool.name,
            arguments,
            progress_callback=_told(on_progress) if on_progress else None,
            meta=cast(types.RequestParamsMeta, meta) if meta else None,
            allow_input_required=True,
        )
        if isinstance(answer, types.InputRequiredResult):
            raise asks_a_question()
        requests = len(connection.wire.exchanges)
    return CallOutcome(
        result=cut_result(_result(answer)),
        requests=requests,
        duration_ms=round((time.monotonic() - started) * 1000),
    )


def _as_listed(tool: ToolDefinition) -> types.Tool:
    """The tool as the SDK must know it to send a call: its input schema says which arguments travel
    in headers. The output schema is left out, so that nothing is validated in this process."""
    return types.Tool(name=tool.name, input_schema=tool.input_schema)


def _result(answer: types.CallToolResult) -> ToolResult:
    return ToolResult(
        content=[
            block.model_dump(by_alias=True, mode="json", exclude_none=True)
            for block in answer.content
        ],
        structured=answer.structured_content,
        is_error=bool(answer.is_error),
    )


def _told(on_progress: OnProgress) -> ProgressFnT:
    """Progress as a line of text."""

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        count = f"{progress:g} of {total:g}" if total else f"{progress:g}"
        told = on_progress(f"{count}: {message}"[:200] if message else count)
        if inspect.isawaitable(told):
            await told

    return tell
