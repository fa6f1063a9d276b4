"""The events of one scripted answer in the form of Chat Completions."""

import itertools
from collections.abc import Iterator
from typing import Any

from .demands.openai import check_chat
from .form import Format
from .script import Answer, Tool, pieces

Event = dict[str, Any]


def chat_events(answer: Answer, model: str) -> Iterator[Event | str]:
    """Chunks as dictionaries; text is written as it is (comments and the end mark)."""
    if answer.is_sloppy:
        yield from _sloppy(answer, model)
        return
    yield _chunk(model, {"role": "assistant", "content": ""})
    if answer.is_strange:
        yield ": a comment keeps the line open\n\n"
        yield {"id": "x", "object": "something.new", "model": model, "novelty": {"a": 1}}
    calls = 0
    for said in answer.rounds:
        for name, text in (
            ("reasoning_content", said.reasoning),
            ("content", said.text),
            ("refusal", said.refusal),
        ):
            for piece in pieces(text, answer.chunk):
                yield _chunk(model, {name: piece})
        for delta in _tool_deltas(said, calls):
            yield _chunk(model, {"tool_calls": [delta]})
        calls += len(said.tools)
    if answer.in_stream_error:
        yield {"error": answer.in_stream_error, "choices": []}
        return
    yield _chunk(model, {}, answer.finish or ("tool_calls" if answer.all_tools else "stop"))
    yield {**_chunk(model, {}), "choices": [], "usage": USAGE}
    yield "data: [DONE]\n\n"


USAGE = {
    "prompt_tokens": 120,
    "completion_tokens": 30,
    "total_tokens": 150,
    "prompt_tokens_details": {"cached_tokens": 64},
    "completion_tokens_details": {"reasoning_tokens": 12},
}


def _chunk(model: str, delta: Event, finish: str | None = None) -> Event:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_790_000_000,
        "model": model,
        "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}],
        "usage": None,
    }


def _tool_deltas(answer: Answer, first_index: int) -> Iterator[Event]:
    """What a call is called comes first, then its arguments; interleaved ones take turns."""
    rows = []
    for index, tool in enumerate(answer.tools, start=first_index):
        head = {"id": tool.id or f"call_{index}", "type": "function"}
        first = {"index": index, **head, "function": {"name": tool.name, "arguments": ""}}
        rest = [
            {"index": index, "function": {"arguments": piece}}
            for piece in pieces(tool.arguments_text, answer.chunk)
        ]
        rows.append([first, *rest])
    if answer.is_interleaved:
        turns = itertools.zip_longest(*rows)
        yield from (delta for turn in turns for delta in turn if delta is not None)
    else:
        yield from itertools.chain(*rows)


def _sloppy(answer: Answer, model: str) -> Iterator[Event | str]:
    """What compatible servers get wrong, all of it at once: see each line."""
    yield {"id": "", "model": "", "choices": None}
    yield {"model": model}
    yield {"choices": [{"index": 0, "delta": None}]}
    yield _chunk(model, {"content": None, "reasoning": answer.reasoning or None})
    yield _chunk(model, {"content": [{"type": "text", "text": answer.text}]})
    for tool in answer.tools:
        yield _chunk(model, {"tool_calls": [_sloppy_tool(tool)]})
    yield {"choices": [{"delta": {}, "finish_reason": "eos"}], "usage": {"prompt_tokens": None}}


def _sloppy_tool(tool: Tool) -> Event:
    """No index, no id, arguments as an object."""
    return {"function": {"name": tool.name, "arguments": tool.arguments}}


CHAT = Format(path="/v1/chat/completions", root="/v1", events=chat_events, demands=check_chat)
