"""Tools and tool results of services: parsed within limits."""

import json
from typing import Any

import mcp_types as types
from django.utils.translation import gettext as _

from mcpconfig.values.limits import LIMITS
from mcpconfig.values.results import RejectedTool, Tool, ToolResult, make_storable


def parse_tools(listed: list[types.Tool]) -> tuple[list[Tool], list[RejectedTool]]:
    """Return the usable tools, and the rejected ones with the reason. The first of two equal names
    counts."""
    tools: dict[str, Tool] = {}
    left_out: list[RejectedTool] = []
    budget = LIMITS.listing_bytes
    for offered in listed:
        reason = _find_defect(offered)
        if not reason and offered.name in tools:
            reason = _("The service lists another tool with this name.")
        size = len(offered.model_dump_json()) if not reason else 0
        if not reason and (len(tools) >= LIMITS.tools or size > budget):
            reason = _("The service lists too many tools.")
        if reason:
            left_out.append(RejectedTool(name=make_storable(offered.name[:255]), reason=reason))
            continue
        budget -= size
        tools[offered.name] = _parse_tool(offered)
    return list(tools.values()), left_out[: LIMITS.tools]


def _parse_tool(offered: types.Tool) -> Tool:
    annotations = offered.annotations
    return Tool(
        name=offered.name,
        title=make_storable((offered.title or "")[:255]),
        description=make_storable(offered.description or ""),
        input_schema=make_storable(offered.input_schema),
        output_schema=make_storable(offered.output_schema),
        annotations=make_storable(
            annotations and annotations.model_dump(by_alias=True, mode="json", exclude_none=True)
        ),
        meta=make_storable(offered.meta and dict(offered.meta)),
    )


def _find_defect(offered: types.Tool) -> str:
    """Return why a tool cannot be used; empty if it can."""
    if not offered.name or len(offered.name) > 255 or make_storable(offered.name) != offered.name:
        return _("Its name is empty, too long or unreadable.")
    if len(offered.description or "") > LIMITS.description_characters:
        return _("Its description is too long.")
    if offered.execution and offered.execution.task_support == "required":
        return _("It runs only as a task in the form of protocol version 2025-11-25.")
    for schema in (offered.input_schema, offered.output_schema, offered.meta):
        if schema and not is_within_limits(schema):
            return _("Its schema is too large or too deep.")
    return ""


def is_within_limits(schema: Any) -> bool:
    """Whether a schema is within the limits on depth, parts and size."""
    level, nodes = [schema], 0
    for _depth in range(LIMITS.schema_depth):
        nodes += len(level)
        if nodes > LIMITS.schema_nodes:
            return False
        level = [child for node in level for child in _list_children(node)]
        if not level:
            return len(json.dumps(schema)) <= LIMITS.schema_bytes
    return False


def _list_children(node: Any) -> list[Any]:
    if isinstance(node, dict):
        return list(node.values())
    return list(node) if isinstance(node, list) else []


def parse_result(answer: types.CallToolResult) -> ToolResult:
    return ToolResult(
        content=[
            block.model_dump(by_alias=True, mode="json", exclude_none=True)
            for block in answer.content
        ],
        structured=answer.structured_content,
        is_error=bool(answer.is_error),
    )


def limit_result(result: ToolResult) -> ToolResult:
    """Return the result within the limits. What does not fit is left out, and the last block says
    so."""
    versions, was_cut = limit_blocks(result.content)
    kept = [version for version in versions if version is not None]
    structured = make_storable(result.structured)
    if structured is not None and len(json.dumps(structured)) > LIMITS.result_bytes:
        structured, was_cut = None, True
    if was_cut:
        kept.append(
            {"type": "text", "text": "[The rest of the result was too large and is not kept.]"}
        )
    return ToolResult(
        content=kept, structured=structured, is_error=result.is_error, was_cut=was_cut
    )


def limit_blocks(blocks: list[dict[str, Any]]) -> tuple[list[dict[str, Any] | None], bool]:
    """Return what is kept of each content block, in order, and whether anything was cut."""
    room = LIMITS.result_bytes
    versions: list[dict[str, Any] | None] = []
    was_cut = len(blocks) > LIMITS.result_blocks
    for block in blocks[: LIMITS.result_blocks]:
        version = whole = make_storable(block)
        size = len(json.dumps(whole))
        if size > room:
            version, was_cut = _shorten_block(whole, room), True
            size = len(json.dumps(version)) if version is not None else 0
        room -= size
        versions.append(version)
    return versions, was_cut


def _shorten_block(block: dict[str, Any], room: int) -> dict[str, Any] | None:
    """Cut a text; any other block is useless in part. A JSON character takes up to six bytes."""
    if block.get("type") != "text" or room < 1000:
        return None
    return {"type": "text", "text": block["text"][: (room - 500) // 6]}
