"""What is taken in of what a service sends: tools and results, within the limits."""

import json
from typing import Any

import mcp_types as types

from .limits import LIMITS
from .results import LeftOut, Tool, ToolResult, storable


def sort_out(listed: list[types.Tool]) -> tuple[list[Tool], list[LeftOut]]:
    """The tools to use, and those left out with the reason. The first of two equal names counts."""
    tools: dict[str, Tool] = {}
    left_out: list[LeftOut] = []
    budget = LIMITS.listing_bytes
    for offered in listed:
        reason = _defect(offered)
        if not reason and offered.name in tools:
            reason = "The service lists another tool of this name."
        size = len(offered.model_dump_json()) if not reason else 0
        if not reason and (len(tools) >= LIMITS.tools or size > budget):
            reason = "The service lists more tools than are accepted."
        if reason:
            left_out.append(LeftOut(name=storable(offered.name[:255]), reason=reason))
            continue
        budget -= size
        tools[offered.name] = _tool(offered)
    return list(tools.values()), left_out[: LIMITS.tools]


def _tool(offered: types.Tool) -> Tool:
    annotations = offered.annotations
    return Tool(
        name=offered.name,
        title=storable((offered.title or "")[:255]),
        description=storable(offered.description or ""),
        input_schema=storable(offered.input_schema),
        output_schema=storable(offered.output_schema),
        annotations=storable(
            annotations and annotations.model_dump(by_alias=True, mode="json", exclude_none=True)
        ),
        meta=storable(offered.meta and dict(offered.meta)),
    )


def _defect(offered: types.Tool) -> str:
    """Why a tool cannot be used, or an empty text."""
    if not offered.name or len(offered.name) > 255 or storable(offered.name) != offered.name:
        return "Its name is empty, too long or unreadable."
    if len(offered.description or "") > LIMITS.description_characters:
        return "Its description is too long."
    for schema in (offered.input_schema, offered.output_schema, offered.meta):
        if schema and not is_modest(schema):
            return "Its schema is too large or too deep."
    return ""


def is_modest(schema: Any) -> bool:
    """Whether a schema is within the limits on depth, parts and size."""
    level, nodes = [schema], 0
    for _ in range(LIMITS.schema_depth):
        nodes += len(level)
        if nodes > LIMITS.schema_nodes:
            return False
        level = [child for node in level for child in _children(node)]
        if not level:
            return len(json.dumps(schema)) <= LIMITS.schema_bytes
    return False


def _children(node: Any) -> list[Any]:
    if isinstance(node, dict):
        return list(node.values())
    return list(node) if isinstance(node, list) else []


def tool_result(answer: types.CallToolResult) -> ToolResult:
    return ToolResult(
        content=[
            block.model_dump(by_alias=True, mode="json", exclude_none=True)
            for block in answer.content
        ],
        structured=answer.structured_content,
        is_error=bool(answer.is_error),
    )


def cut_result(result: ToolResult) -> ToolResult:
    """The result as it is kept. What does not fit is left out, and the last block says so."""
    versions, was_cut = fitted(result.content)
    kept = [version for version in versions if version is not None]
    structured = storable(result.structured)
    if structured is not None and len(json.dumps(structured)) > LIMITS.result_bytes:
        structured, was_cut = None, True
    if was_cut:
        kept.append(
            {"type": "text", "text": "[The rest of the result was too large and is not kept.]"}
        )
    return ToolResult(
        content=kept, structured=structured, is_error=result.is_error, was_cut=was_cut
    )


def fitted(blocks: list[dict[str, Any]]) -> tuple[list[dict[str, Any] | None], bool]:
    """For each content block what is kept of it, in order, and whether that is not everything."""
    room = LIMITS.result_bytes
    versions: list[dict[str, Any] | None] = []
    was_cut = len(blocks) > LIMITS.result_blocks
    for block in blocks[: LIMITS.result_blocks]:
        version = whole = storable(block)
        size = len(json.dumps(whole))
        if size > room:
            version, was_cut = _shortened(whole, room), True
            size = len(json.dumps(version)) if version is not None else 0
        room -= size
        versions.append(version)
    return versions, was_cut


def _shortened(block: dict[str, Any], room: int) -> dict[str, Any] | None:
    """A text is cut; anything else is worthless in part. A JSON character takes up to six bytes."""
    if block.get("type") != "text" or room < 1000:
        return None
    return {"type": "text", "text": block["text"][: (room - 500) // 6]}
