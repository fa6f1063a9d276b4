"""Bedrock's Converse: requests to any of its models, and its events as ours."""

import json
import re
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from chatapp.providers.account import Account
from chatapp.providers.events import (
    ArgumentsDelta,
    Finished,
    FinishReason,
    ModelEvent,
    OpaqueData,
    ReasoningDelta,
    SourceCited,
    TextDelta,
    ToolCallReady,
    ToolCallStarted,
    Usage,
)
from chatapp.providers.failures import early_end_error
from chatapp.providers.refusals import Fallback, refuses_documents, refuses_pictures
from chatapp.providers.request import Effort, ModelRequest, Parameters
from chatapp.providers.stream_reading import clean_text, drain
from chatapp.providers.tools.toolbox import Toolbox

from .client import DRAIN_SECONDS, Body, answer_error, list_models, stream_events
from .history import OWN, THOUGHT, Block, Messages, encode_block
from .provider import CLAUDE, DIALECT, read_family
from .threaded_reader import Event

__all__ = ["list_models", "stream"]

NOVA = "amazon"
CACHE_POINT = {"cachePoint": {"type": "default"}}
BUDGETS: dict[Effort, int] = {"low": 2_048, "medium": 8_192, "high": 24_576}
SHORTEST_BUDGET = 1_024
ENDS: dict[str, FinishReason] = {
    "max_tokens": "length",
    "guardrail_intervened": "filtered",
    "content_filtered": "filtered",
    "refusal": "refused",
}
MALFORMED = {"malformed_model_output", "malformed_tool_use"}


async def stream(request: ModelRequest, account: Account) -> AsyncGenerator[ModelEvent, None]:
    box = Toolbox(DIALECT, request.tools)
    for tool in box.left_out:
        yield tool
    answer = _Answer(box, account, read_family(request.model))
    fallback = Fallback(_simplify)
    async with aclosing(stream_events(account, _build_body(request, box), fallback)) as source:
        async for event in source:
            for said in chain(fallback.pop_events(), answer.take(event)):
                yield said
            if answer.reason:
                break
        else:
            raise early_end_error(account.names)
        # The count of tokens comes after the end, or just before it.
        for event in await drain(source, DRAIN_SECONDS):
            answer.count(event)
    for said in answer.finish():
        yield said


def _build_body(request: ModelRequest, box: Toolbox) -> Body:
    family, parameters = read_family(request.model), request.parameters
    messages = Messages(box, family).build(request.history)
    caches = family in {CLAUDE, NOVA}
    if caches and messages[-1]["role"] == "user" and not _is_document(messages[-1]["content"][-1]):
        messages[-1]["content"].append(CACHE_POINT)
    body: Body = {"modelId": request.model, "messages": messages}
    if request.system.strip():
        body["system"] = [{"text": clean_text(request.system)}, *([CACHE_POINT] if caches else [])]
    if tools := _build_tools(box) or _build_past_tools(messages):
        # Nova does not cache tools.
        body["toolConfig"] = {"tools": [*tools, *([CACHE_POINT] if family == CLAUDE else [])]}
    if limits := _build_limits(parameters):
        body["inferenceConfig"] = limits
    if family == CLAUDE and parameters.effort:
        body["additionalModelRequestFields"] = _build_thinking(parameters.effort)
    return body


def _build_limits(parameters: Parameters) -> dict[str, Any]:
    limits = {"maxTokens": parameters.output_tokens, "temperature": parameters.temperature}
    return {name: value for name, value in limits.items() if value is not None}


def _build_thinking(effort: Effort) -> dict[str, Any]:
    if effort == "off":
        return {"thinking": {"type": "disabled"}}
    thinking = {"type": "adaptive", "display": "summarized"}
    return {"thinking": thinking, "output_config": {"effort": effort}}


def _is_document(block: Block) -> bool:
    """Whether no cache point may follow this block."""
    return "document" in block or any(map(_is_document, _read_result(block)))


def _read_result(block: Block) -> list[Block]:
    content: list[Block] = block.get("toolResult", {}).get("content", [])
    return content


def _build_tools(box: Toolbox) -> list[Block]:
    return [
        _build_tool(tool.name, clean_text(tool.description) or tool.name, tool.schema)
        for tool in box.tools
    ]


def _build_past_tools(messages: list[dict[str, Any]]) -> list[Block]:
    """Return the tools that the history calls: without them the request is refused."""
    blocks = (block for message in messages for block in message["content"])
    names = {block["toolUse"]["name"] for block in blocks if "toolUse" in block}
    return [_build_tool(name, "No longer offered.", {"type": "object"}) for name in sorted(names)]


def _build_tool(name: str, description: str, schema: dict[str, Any]) -> Block:
    return {"toolSpec": {"name": name, "description": description, "inputSchema": {"json": schema}}}


def _simplify(body: Body, complaint: str) -> Body | None:
    """Return the body without the cause of the complaint, or None.

    Models differ in caches, thinking, limits and media; thoughts are removed last.
    """
    complaint = complaint.lower()
    smaller: Body | None = None
    if "cach" in complaint:
        smaller = _remove_cache_points(body)
    elif "signature" in complaint or "reasoningcontent" in complaint:
        smaller = _remove_thoughts(body)
    elif "temperature" in complaint and "temperature" in body.get("inferenceConfig", {}):
        smaller = _remove_limit(body, "temperature")
    elif any(mark in complaint for mark in ("thinking", "output_config", "effort")):
        smaller = _reduce_thinking(body)
    elif "maximum tokens" in complaint or "maxtokens" in complaint:
        smaller = _remove_limit(body, "maxTokens")
    elif refuses_pictures(complaint) or refuses_documents(complaint):
        smaller = _remove_blocks(body, lambda block: "image" in block or "document" in block)
    if smaller in (None, body) and re.search(r"thinking|thought|reasoning", complaint):
        smaller = _remove_thoughts(body)
    return smaller if smaller != body else None


def _remove_thoughts(body: Body) -> Body:
    return _remove_blocks(body, lambda block: THOUGHT in block)


def _remove_limit(body: Body, name: str) -> Body:
    limits = {k: v for k, v in body.get("inferenceConfig", {}).items() if k != name}
    return {**body, "inferenceConfig": limits}


def _reduce_thinking(body: Body) -> Body:
    """Replace adaptive thinking by a budget, or by no thinking where the budget is too small."""
    fields = body.get("additionalModelRequestFields", {})
    plain = {key: value for key, value in body.items() if key != "additionalModelRequestFields"}
    budget = BUDGETS.get(fields.get("output_config", {}).get("effort"), 0)
    most = body.get("inferenceConfig", {}).get("maxTokens")
    budget = budget if most is None else min(budget, most - 1)
    if budget < SHORTEST_BUDGET:
        return plain
    thinking = {"type": "enabled", "budget_tokens": budget}
    return {**plain, "additionalModelRequestFields": {"thinking": thinking}}


def _remove_cache_points(body: Body) -> Body:
    smaller = _remove_blocks(body, lambda block: "cachePoint" in block)
    if "system" in body:
        smaller["system"] = [block for block in body["system"] if block != CACHE_POINT]
    if "toolConfig" in body:
        tools = [block for block in body["toolConfig"]["tools"] if block != CACHE_POINT]
        smaller["toolConfig"] = {"tools": tools}
    return smaller


def _remove_blocks(body: Body, goes: Callable[[Block], bool]) -> Body:
    """Return the body without some blocks. The text that stays names them."""
    messages = []
    for message in body["messages"]:
        kept = [_keep_result(block, goes) for block in message["content"] if not goes(block)]
        if kept:
            messages.append({**message, "content": kept})
    return {**body, "messages": messages}


def _keep_result(block: Block, goes: Callable[[Block], bool]) -> Block:
    if "toolResult" not in block:
        return block
    content = [each for each in _read_result(block) if not goes(each)]
    return {"toolResult": {**block["toolResult"], "content": content}}


@dataclass(slots=True, kw_only=True)
class _Call:
    index: int
    call_id: str
    name: str
    arguments: list[str] = field(default_factory=list)


class _Answer:
    """One answer. Only calls announce their blocks; unknown events are ignored."""

    def __init__(self, box: Toolbox, account: Account, family: str) -> None:
        self._box = box
        self._account = account
        self._family = family
        self._calls: dict[int, _Call] = {}
        self._thoughts: dict[int, Block] = {}
        self._tokens: dict[str, int] = {}
        self.reason = ""

    def take(self, event: Event) -> Iterator[ModelEvent]:
        match event:
            case {"contentBlockDelta": {"contentBlockIndex": place, "delta": delta}}:
                yield from self._add_delta(place, delta)
            case {"contentBlockStart": {"contentBlockIndex": place, "start": {"toolUse": call}}}:
                yield from self._start_call(place, call)
            case {"contentBlockStop": {"contentBlockIndex": place}}:
                yield from self._close_thought(place)
            case {"messageStop": {"stopReason": str(reason)}}:
                self._end(reason)
            case _:
                self.count(event)

    def count(self, event: Event) -> None:
        match event:
            case {"metadata": {"usage": dict(usage)}}:
                self._tokens = {k: v for k, v in usage.items() if isinstance(v, int)}

    def finish(self) -> Iterator[ModelEvent]:
        for place in list(self._thoughts):
            yield from self._close_thought(place)
        calls = list(self._calls.values())
        for call in calls:
            # In an answer that was too long, the last call may be incomplete.
            if self.reason != "max_tokens" or call is not calls[-1] or _is_whole(call):
                yield self._close_call(call)
        yield self._count_usage()
        yield Finished(reason=ENDS.get(self.reason, "tool_calls" if calls else "stop"))

    def _add_delta(self, place: int, delta: dict[str, Any]) -> Iterator[ModelEvent]:
        match delta:
            case {"text": str(text)} if text:
                yield TextDelta(text=clean_text(text))
            case {"toolUse": {"input": str(text)}} if text and place in self._calls:
                text = clean_text(text)
                self._calls[place].arguments.append(text)
                yield ArgumentsDelta(index=self._calls[place].index, text=text)
            case {"citation": dict(cited)}:
                place_of_page = cited.get("location", {}).get("web", {})
                url = place_of_page.get("url") or cited.get("source")
                yield SourceCited(url=clean_text(url), title=clean_text(cited.get("title")))
            case {"reasoningContent": dict(thought)}:
                yield from self._add_thought(place, thought)

    def _add_thought(self, place: int, thought: Block) -> Iterator[ModelEvent]:
        block = self._thoughts.setdefault(place, {})
        if redacted := thought.get("redactedContent"):
            self._thoughts[place] = {"redactedContent": redacted}
            return
        for name in ("text", "signature"):
            if said := clean_text(thought.get(name)):
                block[name] = block.get(name, "") + said
        if text := clean_text(thought.get("text")):
            yield ReasoningDelta(text=text)

    def _close_thought(self, place: int) -> Iterator[ModelEvent]:
        """Yield a complete thought. One without a signature is not sent back."""
        block = self._thoughts.pop(place, {})
        if "signature" in block:
            block = {"reasoningText": {"text": block.get("text", ""), **block}}
        elif "redactedContent" not in block:
            return
        data = {"family": self._family, "block": encode_block(block)}
        yield OpaqueData(kind="reasoning", data={"provider": OWN, "data": data})

    def _start_call(self, place: int, call: dict[str, Any]) -> Iterator[ModelEvent]:
        name = self._box.from_wire(clean_text(call.get("name")))
        call_id = clean_text(call.get("toolUseId"))
        self._calls[place] = _Call(index=len(self._calls), call_id=call_id, name=name)
        yield ToolCallStarted(index=self._calls[place].index, name=name)

    def _close_call(self, call: _Call) -> ToolCallReady:
        arguments = self._box.arguments_from_wire(call.name, "".join(call.arguments))
        return ToolCallReady(
            index=call.index, call_id=call.call_id, name=call.name, arguments=arguments
        )

    def _end(self, reason: str) -> None:
        if reason in MALFORMED:
            raise answer_error(self._account, "server", reason)
        if reason == "model_context_window_exceeded":
            raise answer_error(self._account, "too_long", reason)
        self.reason = reason

    def _count_usage(self) -> Usage:
        """Add the cached tokens to the input: Amazon counts them separately."""
        tokens = self._tokens.get
        cached, written = tokens("cacheReadInputTokens", 0), tokens("cacheWriteInputTokens", 0)
        return Usage(
            input_tokens=tokens("inputTokens", 0) + cached + written,
            cached_tokens=cached,
            cache_write_tokens=written,
            output_tokens=tokens("outputTokens", 0),
        )


def _is_whole(call: _Call) -> bool:
    try:
        json.loads("".join(call.arguments) or "{}")
    except (ValueError, RecursionError):
        return False
    return True
