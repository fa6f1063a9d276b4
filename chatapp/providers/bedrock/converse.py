"""Bedrock's Converse: a request for any of its models, and its events as ours."""

import json
import re
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from chatapp.providers.account import Account
from chatapp.providers.bedrock_client import (
    DRAIN_SECONDS,
    Body,
    events,
    failed,
    listed_models,
)
from chatapp.providers.bedrock_history import (
    CLAUDE,
    OWN,
    THOUGHT,
    Block,
    Messages,
    family_of,
    to_json,
)
from chatapp.providers.bedrock_reader import Event
from chatapp.providers.complaints import refuses_documents, refuses_pictures
from chatapp.providers.events import (
    ArgumentsDelta,
    Finished,
    FinishReason,
    ModelEvent,
    OpaqueData,
    ReasoningDelta,
    TextDelta,
    ToolCallReady,
    ToolCallStarted,
    Usage,
)
from chatapp.providers.failures import unfinished
from chatapp.providers.reading import rest
from chatapp.providers.request import Effort, ModelRequest, Parameters
from chatapp.providers.retreat import Retreat
from chatapp.providers.toolbox import BEDROCK, Toolbox
from chatapp.providers.words import storable

__all__ = ["listed_models", "stream"]

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
    box = Toolbox(BEDROCK, request.tools)
    for tool in box.left_out:
        yield tool
    answer = _Answer(box, account, family_of(request.model))
    retreat = Retreat(_simpler)
    async with aclosing(events(account, _body(request, box), retreat)) as source:
        async for event in source:
            for said in chain(retreat.told(), answer.take(event)):
                yield said
            if answer.reason:
                break
        else:
            raise unfinished(account.names)
        # The count of tokens comes behind the end, or just before it.
        for event in await rest(source, DRAIN_SECONDS):
            answer.count(event)
    for said in answer.finish():
        yield said


def _body(request: ModelRequest, box: Toolbox) -> Body:
    family, parameters = family_of(request.model), request.parameters
    messages = Messages(box, family).of(request.history)
    caches = family in {CLAUDE, NOVA}
    if caches and messages[-1]["role"] == "user" and not _is_document(messages[-1]["content"][-1]):
        messages[-1]["content"].append(CACHE_POINT)
    body: Body = {"modelId": request.model, "messages": messages}
    if request.system.strip():
        body["system"] = [{"text": storable(request.system)}, *([CACHE_POINT] if caches else [])]
    if tools := _tools(box) or _tools_of(messages):
        # Nova keeps no tools in its cache.
        body["toolConfig"] = {"tools": [*tools, *([CACHE_POINT] if family == CLAUDE else [])]}
    if limits := _limits(parameters):
        body["inferenceConfig"] = limits
    if family == CLAUDE and parameters.effort:
        body["additionalModelRequestFields"] = _thinking(parameters.effort)
    return body


def _limits(parameters: Parameters) -> dict[str, Any]:
    limits = {"maxTokens": parameters.output_tokens, "temperature": parameters.temperature}
    return {name: value for name, value in limits.items() if value is not None}


def _thinking(effort: Effort) -> dict[str, Any]:
    if effort == "off":
        return {"thinking": {"type": "disabled"}}
    thinking = {"type": "adaptive", "display": "summarized"}
    return {"thinking": thinking, "output_config": {"effort": effort}}


def _is_document(block: Block) -> bool:
    """Whether a cache point may not stand behind this block."""
    return "document" in block or any(map(_is_document, _result(block)))


def _result(block: Block) -> list[Block]:
    content: list[Block] = block.get("toolResult", {}).get("content", [])
    return content


def _tools(box: Toolbox) -> list[Block]:
    return [
        _tool(tool.name, storable(tool.description) or tool.name, tool.schema) for tool in box.tools
    ]


def _tools_of(messages: list[dict[str, Any]]) -> list[Block]:
    """A history with calls is refused without their tools, also when none is offered now."""
    blocks = (block for message in messages for block in message["content"])
    names = {block["toolUse"]["name"] for block in blocks if "toolUse" in block}
    return [_tool(name, "No longer offered.", {"type": "object"}) for name in sorted(names)]


def _tool(name: str, description: str, schema: dict[str, Any]) -> Block:
    return {"toolSpec": {"name": name, "description": description, "inputSchema": {"json": schema}}}


def _simpler(body: Body, complaint: str) -> Body | None:
    """Models differ in what they take: caches, ways to think, limits, media, and in the end
    thoughts of their own."""
    complaint = complaint.lower()
    smaller: Body | None = None
    if "cach" in complaint:
        smaller = _without_cache_points(body)
    elif "signature" in complaint or "reasoningcontent" in complaint:
        smaller = _thoughtless(body)
    elif "temperature" in complaint and "temperature" in body.get("inferenceConfig", {}):
        smaller = _unlimited(body, "temperature")
    elif any(mark in complaint for mark in ("thinking", "output_config", "effort")):
        smaller = _thinking_less(body)
    elif "maximum tokens" in complaint or "maxtokens" in complaint:
        smaller = _unlimited(body, "maxTokens")
    elif refuses_pictures(complaint) or refuses_documents(complaint):
        smaller = _without(body, lambda block: "image" in block or "document" in block)
    if smaller in (None, body) and re.search(r"thinking|thought|reasoning", complaint):
        smaller = _thoughtless(body)
    return smaller if smaller != body else None


def _thoughtless(body: Body) -> Body:
    return _without(body, lambda block: THOUGHT in block)


def _unlimited(body: Body, name: str) -> Body:
    limits = {k: v for k, v in body.get("inferenceConfig", {}).items() if k != name}
    return {**body, "inferenceConfig": limits}


def _thinking_less(body: Body) -> Body:
    """Older models do not choose for themselves how much to think, and the oldest cannot."""
    fields = body.get("additionalModelRequestFields", {})
    plain = {key: value for key, value in body.items() if key != "additionalModelRequestFields"}
    budget = BUDGETS.get(fields.get("output_config", {}).get("effort"), 0)
    most = body.get("inferenceConfig", {}).get("maxTokens")
    budget = budget if most is None else min(budget, most - 1)
    if budget < SHORTEST_BUDGET:
        return plain
    thinking = {"type": "enabled", "budget_tokens": budget}
    return {**plain, "additionalModelRequestFields": {"thinking": thinking}}


def _without_cache_points(body: Body) -> Body:
    smaller = _without(body, lambda block: "cachePoint" in block)
    if "system" in body:
        smaller["system"] = [block for block in body["system"] if block != CACHE_POINT]
    if "toolConfig" in body:
        tools = [block for block in body["toolConfig"]["tools"] if block != CACHE_POINT]
        smaller["toolConfig"] = {"tools": tools}
    return smaller


def _without(body: Body, goes: Callable[[Block], bool]) -> Body:
    """The body without some blocks of its messages and results; the text names what goes."""
    messages = []
    for message in body["messages"]:
        kept = [_kept(block, goes) for block in message["content"] if not goes(block)]
        if kept:
            messages.append({**message, "content": kept})
    return {**body, "messages": messages}


def _kept(block: Block, goes: Callable[[Block], bool]) -> Block:
    if "toolResult" not in block:
        return block
    content = [each for each in _result(block) if not goes(each)]
    return {"toolResult": {**block["toolResult"], "content": content}}


@dataclass(slots=True, kw_only=True)
class _Call:
    index: int
    call_id: str
    name: str
    arguments: list[str] = field(default_factory=list)


class _Answer:
    """One answer as it comes in. Only the blocks of calls are announced; what is unknown is
    ignored."""

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
                yield from self._more(place, delta)
            case {"contentBlockStart": {"contentBlockIndex": place, "start": {"toolUse": call}}}:
                yield from self._call_started(place, call)
            case {"contentBlockStop": {"contentBlockIndex": place}}:
                yield from self._thought(place)
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
            yield from self._thought(place)
        calls = list(self._calls.values())
        for call in calls:
            # The last call of an answer that was too long may have lost its end.
            if self.reason != "max_tokens" or call is not calls[-1] or _is_whole(call):
                yield self._ready(call)
        yield self._usage()
        yield Finished(reason=ENDS.get(self.reason, "tool_calls" if calls else "stop"))

    def _more(self, place: int, delta: dict[str, Any]) -> Iterator[ModelEvent]:
        match delta:
            case {"text": str(text)} if text:
                yield TextDelta(text=storable(text))
            case {"toolUse": {"input": str(text)}} if text and place in self._calls:
                text = storable(text)
                self._calls[place].arguments.append(text)
                yield ArgumentsDelta(index=self._calls[place].index, text=text)
            case {"reasoningContent": dict(thought)}:
                yield from self._think(place, thought)

    def _think(self, place: int, thought: Block) -> Iterator[ModelEvent]:
        block = self._thoughts.setdefault(place, {})
        if redacted := thought.get("redactedContent"):
            self._thoughts[place] = {"redactedContent": redacted}
            return
        for name in ("text", "signature"):
            if said := storable(thought.get(name)):
                block[name] = block.get(name, "") + said
        if text := storable(thought.get("text")):
            yield ReasoningDelta(text=text)

    def _thought(self, place: int) -> Iterator[ModelEvent]:
        """A thought is whole. Unsigned, it is not wanted back."""
        block = self._thoughts.pop(place, {})
        if "signature" in block:
            block = {"reasoningText": {"text": block.get("text", ""), **block}}
        elif "redactedContent" not in block:
            return
        data = {"family": self._family, "block": to_json(block)}
        yield OpaqueData(kind="reasoning", data={"provider": OWN, "data": data})

    def _call_started(self, place: int, call: dict[str, Any]) -> Iterator[ModelEvent]:
        name = self._box.from_wire(storable(call.get("name")))
        call_id = storable(call.get("toolUseId"))
        self._calls[place] = _Call(index=len(self._calls), call_id=call_id, name=name)
        yield ToolCallStarted(index=self._calls[place].index, name=name)

    def _ready(self, call: _Call) -> ToolCallReady:
        arguments = self._box.arguments_from_wire(call.name, "".join(call.arguments))
        return ToolCallReady(
            index=call.index, call_id=call.call_id, name=call.name, arguments=arguments
        )

    def _end(self, reason: str) -> None:
        if reason in MALFORMED:
            raise failed(self._account, "server", reason)
        if reason == "model_context_window_exceeded":
            raise failed(self._account, "too_long", reason)
        self.reason = reason

    def _usage(self) -> Usage:
        """Amazon counts what was read from the cache or written to it apart."""
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
