"""What Bedrock's Converse demands of a request, with what its model families add."""

from typing import Any

from .demand import (
    Broken,
    Value,
    demand,
    demand_bytes,
    demand_match,
    demand_schema,
    demand_unique,
    demand_words,
)

NAME = r"[a-zA-Z0-9_-]{1,64}"
CALL_ID = r"[a-zA-Z0-9_.:-]{1,64}"
DOCUMENT_NAME = r"(?!.*  )[a-zA-Z0-9 ()\[\]-]{1,200}"
PICTURES = ("png", "jpeg", "gif", "webp")
DOCUMENTS = ("pdf", "csv", "doc", "docx", "xls", "xlsx", "html", "txt", "md")
MOST_POINTS = 4
MOST_DOCUMENTS = 5


def check_bedrock(body: Value) -> None:
    for block in body.get("system") or []:
        demand("cachePoint" in block or demand_words(block.get("text"), "system"), "system")
    has_tools = _check_tools(body.get("toolConfig"))
    messages = body.get("messages")
    demand(isinstance(messages, list) and messages, "messages are empty")
    demand((messages or [{}])[-1].get("role") == "user", "the last turn is not the user's")
    asked: list[str] = []
    used: list[str] = []
    names: list[str] = []
    for place, message in enumerate(messages or []):
        role = message.get("role")
        demand(role == ("assistant" if place % 2 else "user"), "turns do not alternate")
        blocks = message.get("content")
        demand(isinstance(blocks, list) and blocks, "a turn without blocks")
        demand(has_tools or not _has_tool_blocks(blocks), "toolConfig is missing")
        names += [block["document"]["name"] for block in blocks if "document" in block]
        asked = _check_user(blocks, asked) if role == "user" else _check_assistant(blocks)
        used += asked
    demand(not asked, f"no result of {asked}")
    demand_unique(used, "ids of calls")
    demand_unique(names, "names of documents")
    demand(_points(body) <= MOST_POINTS, "too many cache points")


def _has_tool_blocks(blocks: list[Value]) -> bool:
    return any({"toolUse", "toolResult"} & block.keys() for block in blocks)


def _check_tools(config: Any) -> bool:
    if config is None:
        return False
    specs = [tool["toolSpec"] for tool in config.get("tools") or [] if "toolSpec" in tool]
    demand(specs, "an empty list of tools")
    demand_unique([spec.get("name", "") for spec in specs], "names of tools")
    for spec in specs:
        demand_match(NAME, spec.get("name"), "name of a tool")
        demand(spec.get("description", "x"), "an empty description")
        demand_schema(spec["inputSchema"].get("json"), f"schema of {spec.get('name')}")
    return True


def _check_user(blocks: list[Value], asked: list[str]) -> list[str]:
    kinds = [_kind(block) for block in blocks]
    if "document" in kinds:
        demand("text" in kinds, "a document without a text beside it")
        demand(kinds.count("document") <= MOST_DOCUMENTS, "too many documents")
    answered = [
        str(block["toolResult"].get("toolUseId")) for block in blocks if "toolResult" in block
    ]
    demand(sorted(answered) == sorted(asked), f"asked {asked}, answered {answered}")
    for before, block in zip([{}, *blocks], blocks, strict=False):
        _check_block(before, block)
    return []


def _check_block(before: Value, block: Value) -> None:
    kind = _kind(block)
    value = block[kind]
    match kind:
        case "text":
            demand_words(value, "a text block")
        case "image":
            demand(value.get("format") in PICTURES, f"picture {value.get('format')}")
            demand_bytes(value["source"].get("bytes"), "image")
        case "document":
            demand(value.get("format") in DOCUMENTS, f"document {value.get('format')}")
            demand_match(DOCUMENT_NAME, value.get("name"), "name of a document")
            demand_bytes(value["source"].get("bytes"), "document")
        case "toolResult":
            demand(value.get("status", "success") in ("success", "error"), "status")
            demand(value.get("content"), "a result without content")
            for inner in value["content"]:
                if "json" not in inner:
                    _check_block({}, inner)
        case "cachePoint":
            demand(before and "document" not in before, "a cache point after a document")
        case _:
            raise Broken(f"{kind} of a user")


def _check_assistant(blocks: list[Value]) -> list[str]:
    said = [kind for kind in map(_kind, blocks) if kind != "cachePoint"]
    demand(said[-1:] != ["reasoningContent"], "a turn that ends in reasoning")
    calls = []
    for block in blocks:
        kind = _kind(block)
        value = block[kind]
        match kind:
            case "text":
                demand_words(value, "a text block")
            case "reasoningContent":
                demand(value.keys() & {"reasoningText", "redactedContent"}, "reasoning")
                signed = value.get("reasoningText", {"signature": "x"}).get("signature")
                demand(signed, "reasoning without its signature")
            case "toolUse":
                demand_match(NAME, value.get("name"), "name of a call")
                demand_match(CALL_ID, value.get("toolUseId"), "id of a call")
                demand(isinstance(value.get("input"), dict), "input of a call")
                calls.append(str(value["toolUseId"]))
            case "cachePoint":
                continue
            case _:
                raise Broken(f"{kind} of an assistant")
    demand_unique(calls, "ids of calls")
    return calls


def _kind(block: Value) -> str:
    demand(len(block) == 1, f"a block that is {sorted(block)}")
    return next(iter(block))


def _points(body: Value) -> int:
    blocks = [*(body.get("system") or []), *((body.get("toolConfig") or {}).get("tools") or [])]
    blocks += [block for message in body.get("messages") or [] for block in message["content"]]
    return sum("cachePoint" in block for block in blocks)
