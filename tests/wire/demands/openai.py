"""What OpenAI's two forms demand of a request."""

from collections.abc import Iterator
from typing import Any

from .demand import (
    Broken,
    Value,
    demand,
    demand_data_url,
    demand_match,
    demand_object_text,
    demand_schema,
    demand_text,
    demand_unique,
)

NAME = r"[a-zA-Z0-9_-]{1,64}"
PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
PDF = ("application/pdf",)
MOST_TOOLS = 128
FOLLOWING = ("message", "function_call")


def check_responses(body: Value) -> None:
    demand_text(body.get("model"), "model")
    demand("instructions" not in body or body["instructions"], "instructions are empty")
    demand(body.get("store") is False, "what is said would be stored at the provider")
    items = body.get("input")
    demand(isinstance(items, list) and items, "input is empty")
    for tool in _tools(body):
        demand(tool.get("strict") is False, "strict is required")
        _check_tool(tool)
    open_calls: list[str] = []
    for item in items or []:
        kind = item.get("type", "message")
        if open_calls and kind == "message" and item.get("role") == "user":
            raise Broken(f"no output of {open_calls} before {kind}")
        _check_item(kind, item, open_calls)
    demand(not open_calls, f"no output of {open_calls}")
    for item, following in zip(items or [], [*(items or []), {}][1:], strict=True):
        is_followed = following.get("type") in FOLLOWING or following.get("role") == "assistant"
        demand(item.get("type") != "reasoning" or is_followed, "reasoning without its next item")


def _check_item(kind: str, item: Value, open_calls: list[str]) -> None:
    match kind:
        case "message":
            _check_message(item)
        case "reasoning":
            demand_text(item.get("encrypted_content"), "reasoning without its sealed words")
            demand_match(r"rs_.+", item.get("id"), "id of a reasoning")
        case "function_call":
            demand_match(NAME, item.get("name"), "name of a call")
            demand_object_text(item.get("arguments"), "arguments")
            call_id = demand_text(item.get("call_id"), "call_id")
            demand(call_id not in open_calls, f"{call_id} is asked twice at once")
            demand(len(call_id) <= 64, f"{call_id} is too long")
            open_calls.append(call_id)
        case "function_call_output":
            demand(item.get("call_id") in open_calls, f"output without a call: {item}")
            open_calls.remove(str(item["call_id"]))
            _check_content(item.get("output"))
        case _:
            raise Broken(f"an item of type {kind}")


def _check_message(item: Value) -> None:
    role = item.get("role")
    demand(role in ("user", "assistant"), f"role {role}")
    if role == "assistant" and isinstance(item.get("content"), list):
        for part in item["content"]:
            demand(part.get("type") in ("output_text", "refusal"), f"{part} of an assistant")
        return
    _check_content(item.get("content"))


def _check_content(content: Any) -> None:
    if isinstance(content, str):
        return
    demand(isinstance(content, list) and content, "content is empty")
    for part in content:
        match part.get("type"):
            case "input_text":
                demand_text(part.get("text"), "input_text")
            case "input_image":
                demand_data_url(part.get("image_url"), PICTURES, "input_image")
            case "input_file":
                demand_text(part.get("filename"), "filename")
                demand_data_url(part.get("file_data"), PDF, "input_file")
            case kind:
                raise Broken(f"a part of type {kind}")


def check_chat(body: Value) -> None:
    demand_text(body.get("model"), "model")
    messages = body.get("messages")
    demand(isinstance(messages, list) and messages, "messages are empty")
    for tool in _tools(body):
        demand(tool.get("type") == "function", f"tool of type {tool.get('type')}")
        _check_tool(tool["function"])
    open_calls: list[str] = []
    for place, message in enumerate(messages or []):
        role = message.get("role")
        demand(role != "system" or not place, "a system message in the middle")
        demand(role == "tool" or not open_calls, f"no result of {open_calls} before {role}")
        _check_chat_message(role, message, open_calls)
    demand(not open_calls, f"no result of {open_calls}")


def _check_chat_message(role: Any, message: Value, open_calls: list[str]) -> None:
    match role:
        case "system":
            demand_text(message.get("content"), "system")
        case "user":
            _check_chat_content(message.get("content"))
        case "tool":
            demand(message.get("tool_call_id") in open_calls, f"result without a call: {message}")
            open_calls.remove(message["tool_call_id"])
            demand(isinstance(message.get("content"), str), "a result that is no text")
        case "assistant":
            calls = message.get("tool_calls")
            demand(calls is None or calls, "an empty list of calls")
            demand(isinstance(message.get("content"), str), "content of an assistant is no text")
            demand(calls or message.get("content"), "an assistant that says nothing")
            open_calls += _chat_calls(calls or [])
        case _:
            raise Broken(f"role {role}")


def _chat_calls(calls: list[Value]) -> Iterator[str]:
    demand_unique([call.get("id", "") for call in calls], "ids of calls")
    for call in calls:
        demand(call.get("type") == "function", f"a call of type {call.get('type')}")
        demand_match(NAME, call["function"].get("name"), "name of a call")
        demand_object_text(call["function"].get("arguments"), "arguments")
        call_id = demand_text(call.get("id"), "id of a call")
        demand(len(call_id) <= 40, f"{call_id} is too long")
        yield call_id


def _check_chat_content(content: Any) -> None:
    if isinstance(content, str):
        return
    demand(isinstance(content, list) and content, "content is empty")
    for part in content:
        match part.get("type"):
            case "text":
                demand_text(part.get("text"), "text")
            case "image_url":
                demand_data_url(part["image_url"].get("url"), PICTURES, "image_url")
            case "file":
                demand_text(part["file"].get("filename"), "filename")
                demand_data_url(part["file"].get("file_data"), PDF, "file")
            case kind:
                raise Broken(f"a part of type {kind}")


def _tools(body: Value) -> list[Value]:
    tools: list[Value] = body.get("tools", [{}])
    demand(tools, "an empty list of tools")
    demand(len(tools) <= MOST_TOOLS, "too many tools")
    names = [tool.get("name") or tool.get("function", {}).get("name") for tool in tools if tool]
    demand_unique([str(name) for name in names], "names of tools")
    return [tool for tool in tools if tool]


def _check_tool(function: Value) -> None:
    demand_match(NAME, function.get("name"), "name of a tool")
    demand_schema(function.get("parameters"), f"parameters of {function.get('name')}")
