"""What Anthropic's Messages demand of a request."""

from typing import Any

from .demand import (
    Broken,
    Value,
    demand,
    demand_bytes,
    demand_match,
    demand_only,
    demand_schema,
    demand_text,
    demand_unique,
    demand_words,
)

NAME = r"[a-zA-Z0-9_-]{1,128}"
CALL_ID = r"[a-zA-Z0-9_-]+"
PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
MOST_MARKS = 4
OWN_TOOLS = ("server_tool_use", "web_search_tool_result")
GONE = ("temperature", "top_p", "top_k")


def check_anthropic(body: Value) -> None:
    demand_text(body.get("model"), "model")
    demand(isinstance(body.get("max_tokens"), int) and body["max_tokens"] > 0, "max_tokens")
    for block in body.get("system") or []:
        demand_words(block.get("text"), "system")
    _check_tools(body.get("tools"))
    messages = body.get("messages")
    demand(isinstance(messages, list) and messages, "messages are empty")
    demand((messages or [{}])[0].get("role") == "user", "the first turn is not the user's")
    asked: list[str] = []
    used: list[str] = []
    for place, message in enumerate(messages or []):
        role = message.get("role")
        demand(role == ("assistant" if place % 2 else "user"), "turns do not alternate")
        blocks = message.get("content")
        demand(isinstance(blocks, list) and blocks, "a turn without blocks")
        asked = _check_user(blocks, asked) if role == "user" else _check_assistant(blocks)
        used += asked
    demand(not asked, f"no result of {asked}")
    demand_unique(used, "ids of calls")
    _check_end((messages or [{}])[-1])
    used = [block["id"] for turn in messages or [] for block in turn["content"] if _is_call(block)]
    demand_unique(used, "`tool_use` ids")
    demand(body.get("tools") or not used, "calls in the history and no tools")
    demand(_marks(body) <= MOST_MARKS, "too many cache marks")


def _is_call(block: Value) -> bool:
    return bool(block.get("type") == "tool_use")


def _check_end(message: Value) -> None:
    """A person or results; or the provider's own tools at work, where it paused."""
    own = any(block.get("type") in OWN_TOOLS for block in message.get("content") or [])
    demand(message.get("role") == "user" or own, "the last turn is not the user's")


def _check_tools(tools: Any) -> None:
    demand(tools is None or tools, "an empty list of tools")
    demand_unique([tool.get("name", "") for tool in tools or []], "names of tools")
    for tool in tools or []:
        demand_match(NAME, tool.get("name"), "name of a tool")
        demand_schema(tool.get("input_schema"), f"schema of {tool.get('name')}")


def _check_user(blocks: list[Value], asked: list[str]) -> list[str]:
    """Each call of the turn before has one result here, before anything else."""
    results = [block for block in blocks if block.get("type") == "tool_result"]
    demand(blocks[: len(results)] == results, "something stands before a result")
    answered = [str(block.get("tool_use_id")) for block in results]
    demand_unique(answered, "results")
    demand(sorted(answered) == sorted(asked), f"asked {asked}, answered {answered}")
    for block in blocks:
        _check_block(block)
    return []


def _check_block(block: Value) -> None:
    match block.get("type"):
        case "text":
            demand_words(block.get("text"), "a text block")
        case "image":
            source = block.get("source") or {}
            demand(source.get("media_type") in PICTURES, f"picture {source.get('media_type')}")
            demand_bytes(source.get("data"), "image")
        case "document":
            _check_document(block)
        case "tool_result":
            _check_result(block)
        case kind:
            raise Broken(f"a block of type {kind} of a user")


def _check_document(block: Value) -> None:
    source = block.get("source") or {}
    if source.get("type") == "text":
        demand(source.get("media_type") == "text/plain", "a text that is not plain")
        demand_words(source.get("data"), "document")
    else:
        demand(source.get("media_type") == "application/pdf", f"{source.get('media_type')}")
        demand_bytes(source.get("data"), "document")
    if "title" in block:
        demand(0 < len(block["title"]) <= 500, "title of a document")


def _check_result(block: Value) -> None:
    demand_only(
        block, {"type", "tool_use_id", "content", "is_error", "cache_control"}, "tool_result"
    )
    content = block.get("content")
    if isinstance(content, str):
        demand_words(content, "tool_result")
        return
    demand(isinstance(content, list) and content, "a result without content")
    for inner in content or []:
        demand(inner.get("type") in ("text", "image", "document"), f"{inner} in a result")
        _check_block(inner)


def _check_assistant(blocks: list[Value]) -> list[str]:
    """The ids of its calls."""
    kinds = [block.get("type") for block in blocks]
    demand(kinds[-1] not in ("thinking", "redacted_thinking"), "a turn that ends in thinking")
    calls = [_checked_call(block) for block in blocks if block.get("type") == "tool_use"]
    demand_unique(calls, "ids of calls")
    for block in blocks:
        match block.get("type"):
            case "text":
                demand_words(block.get("text"), "a text block")
            case "thinking":
                demand_text(block.get("signature"), "thinking without its signature")
            case "redacted_thinking":
                demand_text(block.get("data"), "redacted thinking")
            case "tool_use" | "server_tool_use" | "web_search_tool_result":
                continue
            case kind:
                raise Broken(f"a block of type {kind} of an assistant")
    return calls


def _checked_call(block: Value) -> str:
    demand_match(NAME, block.get("name"), "name of a call")
    demand_match(CALL_ID, block.get("id"), "id of a call")
    demand(isinstance(block.get("input"), dict), "input of a call")
    return str(block["id"])


def _marks(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(_marks, value))
    if not isinstance(value, dict):
        return 0
    return ("cache_control" in value) + sum(
        _marks(each) for name, each in value.items() if name not in ("input", "input_schema")
    )
