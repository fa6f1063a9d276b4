"""The events of one scripted answer in the form of Anthropic's Messages."""

from collections.abc import Iterator
from typing import Any

from .demands.anthropic import check_anthropic
from .form import Event, Format
from .script import Answer, Tool, pieces

Block = dict[str, Any]

FIRST_USAGE = {
    "input_tokens": 40,
    "cache_creation_input_tokens": 16,
    "cache_read_input_tokens": 64,
    "output_tokens": 1,
}
LAST_USAGE = {"output_tokens": 30, "output_tokens_details": {"thinking_tokens": 12}}
ERRORS = {
    "rate_limit_exceeded": "rate_limit_error",
    "overloaded": "overloaded_error",
    "server_error": "api_error",
    "invalid_prompt": "invalid_request_error",
}
STOP_REASONS = {"length": "max_tokens", "content_filter": "refusal"}


def anthropic_events(answer: Answer, model: str) -> Iterator[Event]:
    """Blocks one after another: this form has no parallel ones."""
    message: Block = {"id": "msg_1", "type": "message", "role": "assistant", "model": model}
    message |= {"content": [], "stop_reason": None, "usage": FIRST_USAGE}
    yield {"type": "message_start", "message": None if answer.is_sloppy else message}
    yield {"type": "ping"}
    blocks = list(_blocks(answer))
    for index, (block, deltas) in enumerate(blocks):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    if answer.is_strange:
        yield ": a comment keeps the line open\n\n"
        yield {"type": "something_new", "delta": {"text": "not for anybody"}}
    if answer.in_stream_error:
        yield {"type": "error", "error": _error(answer.in_stream_error)}
        return
    yield from _end(answer)


def _end(answer: Answer) -> Iterator[Event]:
    reason = "tool_use" if answer.all_tools else "end_turn"
    reason = STOP_REASONS.get(answer.finish, reason)
    delta: dict[str, Any] = {"stop_reason": reason, "stop_sequence": None, "stop_details": None}
    if answer.refusal:
        details = {"type": "refusal", "category": None, "explanation": answer.refusal}
        delta |= {"stop_reason": "refusal", "stop_details": details}
    yield {"type": "message_delta", "delta": delta} | (
        {} if answer.is_sloppy else {"usage": LAST_USAGE}
    )
    yield {"type": "message_stop"}


def _blocks(answer: Answer) -> Iterator[tuple[Block, list[Block]]]:
    """Each block as it starts, and what is added to it."""
    calls = 0
    for said in answer.rounds:
        yield from _thoughts_and_words(said, answer)
        for index, tool in enumerate(said.tools, start=calls):
            yield _call(tool, index, answer)
        calls += len(said.tools)


def _thoughts_and_words(said: Answer, answer: Answer) -> Iterator[tuple[Block, list[Block]]]:
    if said.reasoning:
        thoughts = [
            {"type": "thinking_delta", "thinking": piece}
            for piece in pieces(said.reasoning, answer.chunk)
        ]
        signed = {"type": "signature_delta", "signature": "EqQB-signed"}
        yield {"type": "thinking", "thinking": "", "signature": ""}, [*thoughts, signed]
    if said.is_strange:
        search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
        yield search, [{"type": "input_json_delta", "partial_json": '{"query": "x"}'}]
        found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
        yield found, [{"type": "something_delta", "text": "not for anybody"}]
    if said.text:
        words = [{"type": "text_delta", "text": piece} for piece in pieces(said.text, answer.chunk)]
        yield {"type": "text", "text": ""}, words


def _call(tool: Tool, index: int, answer: Answer) -> tuple[Block, list[Block]]:
    block = {"type": "tool_use", "id": tool.id or f"call_{index}", "name": tool.name, "input": {}}
    if answer.is_sloppy:
        return {**block, "input": tool.arguments}, []
    first = {"type": "input_json_delta", "partial_json": ""}
    rest = [{**first, "partial_json": piece} for piece in pieces(tool.arguments_text, answer.chunk)]
    return block, [first, *rest]


def _error(error: dict[str, Any]) -> dict[str, Any]:
    code = error.get("code") or "invalid_request_error"
    kind = ERRORS.get(code, code)
    more = {key: value for key, value in error.items() if key == "details"}
    return {"type": kind, "message": error.get("message", ""), **more}


def _refused(answer: Answer) -> tuple[dict[str, str], Any]:
    return {}, {"type": "error", "error": _error(answer.error), "request_id": "req_1"}


ANTHROPIC = Format(
    path="/v1/messages", events=anthropic_events, refused=_refused, demands=check_anthropic
)
