"""OpenAI's Responses API: a request and its history as input items, its events as ours.

Nothing is stored at OpenAI: what it must remember travels with the history as it came.
"""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

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
from chatapp.providers.openai_client import (
    Body,
    Event,
    drain,
    events,
    reported,
    storable,
    unfinished,
)
from chatapp.providers.request import (
    AskedTool,
    AssistantMessage,
    AssistantPart,
    HistoryItem,
    ModelRequest,
    SaidReasoning,
    SaidText,
    ToolOutcome,
    UserMessage,
)
from chatapp.providers.tool_schema import WireNames, compile_schema

Item = dict[str, Any]

INCOMPLETE: dict[str, FinishReason] = {"content_filter": "filtered"}


async def stream(request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
    names = WireNames(tool.name for tool in request.tools)
    answer = _Answer(names)
    async with aclosing(events("/responses", _body(request, names), _simpler)) as source:
        async for event in source:
            for said in answer.take(event):
                yield said
            if answer.is_finished:
                await drain(source)
                return
    raise unfinished()


def _body(request: ModelRequest, names: WireNames) -> Body:
    body: Body = {
        "model": request.model,
        "input": [item for said in request.history for item in _items(said, names)],
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"summary": "auto"},
        "stream_options": {"include_obfuscation": False},
    }
    if request.system:
        body["instructions"] = request.system
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "name": names.to_wire(tool.name),
                "description": tool.description,
                "parameters": compile_schema(tool.input_schema),
                "strict": False,
            }
            for tool in request.tools
        ]
    return body


def _simpler(body: Body, complaint: str) -> Body | None:
    """Models that do not reason refuse to be asked for reasoning, compatible servers what they do
    not know, and every account the encrypted reasoning of another."""
    if "invalid_encrypted_content" in complaint:
        kept = [item for item in body["input"] if item.get("type") != "reasoning"]
        return {**body, "input": kept} if len(kept) < len(body["input"]) else None
    for option, marks in {
        "include": ("include", "ncrypted content"),
        "reasoning": ("reasoning",),
        "stream_options": ("stream_options", "include_obfuscation"),
    }.items():
        if option in body and any(mark in complaint for mark in marks):
            return {key: value for key, value in body.items() if key != option}
    return None


def _items(said: HistoryItem, names: WireNames) -> Iterator[Item]:
    match said:
        case UserMessage():
            yield {"role": "user", "content": said.text}
        case ToolOutcome():
            output = f"Error: {said.text}" if said.is_error else said.text
            yield {"type": "function_call_output", "call_id": said.call_id, "output": output}
        case AssistantMessage():
            for part in said.parts:
                yield from _part_items(part, names)


def _part_items(part: AssistantPart, names: WireNames) -> Iterator[Item]:
    own = part.opaque["data"] if part.opaque and part.opaque.get("provider") == "openai" else None
    if own is not None:
        # Reasoning that was not stored and is not carried along is unknown to the provider.
        if own.get("type") != "reasoning" or own.get("encrypted_content"):
            yield own
        return
    match part:
        case SaidText() if part.text:
            yield {"role": "assistant", "content": part.text}
        case AskedTool():
            yield {
                "type": "function_call",
                "call_id": part.call_id,
                "name": names.to_wire(part.name),
                "arguments": part.arguments,
            }
        case SaidText() | SaidReasoning():
            return


class _Answer:
    """One answer as it comes in. Events are known by their type's name: new ones are ignored."""

    def __init__(self, names: WireNames) -> None:
        self._names = names
        self._calls: dict[int, int] = {}
        self._arguments: dict[int, str] = {}
        self._done: set[int] = set()
        self._spoken: set[int] = set()
        self._has_ready_calls = False
        self._is_refusal = False
        self.is_finished = False

    def take(self, event: Event) -> Iterator[ModelEvent]:
        place = event.get("output_index")
        place = place if isinstance(place, int) else 0
        match event.get("type"):
            case "response.output_text.delta":
                yield from self._text(place, event.get("delta"))
            case "response.refusal.delta":
                self._is_refusal = True
                yield from self._text(place, event.get("delta"))
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                yield from self._reasoning(place, event.get("delta"))
            case "response.reasoning_summary_part.added" if event.get("summary_index"):
                yield from self._reasoning(place, "\n\n")
            case "response.output_item.added":
                yield from self._item_added(place, event.get("item"))
            case "response.function_call_arguments.delta":
                yield from self._more_arguments(place, event.get("delta"))
            case "response.output_item.done":
                yield from self._item_done(place, event.get("item"))
            case "response.completed" | "response.incomplete":
                yield from self._finish(event.get("response") or {})
            case "response.failed":
                error = (event.get("response") or {}).get("error") or {}
                raise reported(str(error.get("code") or ""), str(error.get("message") or ""))
            case "error":
                raise reported(str(event.get("code") or ""), str(event.get("message") or ""))

    def _text(self, place: int, delta: object) -> Iterator[ModelEvent]:
        if text := storable(delta):
            self._spoken.add(place)
            yield TextDelta(text=text)

    def _reasoning(self, place: int, delta: object) -> Iterator[ModelEvent]:
        if text := storable(delta):
            self._spoken.add(place)
            yield ReasoningDelta(text=text)

    def _item_added(self, place: int, item: object) -> Iterator[ModelEvent]:
        if not isinstance(item, dict) or place in self._calls:
            return
        if item.get("type") == "function_call":
            self._calls[place] = len(self._calls)
            self._arguments[place] = ""
            name = self._names.from_wire(storable(item.get("name")))
            yield ToolCallStarted(index=self._calls[place], name=name)

    def _more_arguments(self, place: int, delta: object) -> Iterator[ModelEvent]:
        text = storable(delta)
        if text and place in self._calls:
            self._arguments[place] += text
            yield ArgumentsDelta(index=self._calls[place], text=text)

    def _item_done(self, place: int, item: object) -> Iterator[ModelEvent]:
        if not isinstance(item, dict) or place in self._done:
            return
        self._done.add(place)
        opaque = {"provider": "openai", "data": item}
        match item.get("type"):
            case "function_call" if item.get("status") != "incomplete":
                yield from self._item_added(place, item)
                yield from self._call_done(place, item, opaque)
            case "reasoning":
                yield OpaqueData(kind="reasoning", data=opaque)
            case "message":
                yield from self._unspoken(place, item)
                yield OpaqueData(kind="text", data=opaque)

    def _call_done(self, place: int, item: Item, opaque: dict[str, Any]) -> Iterator[ModelEvent]:
        self._has_ready_calls = True
        yield ToolCallReady(
            index=self._calls[place],
            call_id=storable(item.get("call_id")) or storable(item.get("id")),
            name=self._names.from_wire(storable(item.get("name"))),
            arguments=storable(item.get("arguments")) or self._arguments[place],
            opaque=opaque,
        )

    def _unspoken(self, place: int, item: Item) -> Iterator[ModelEvent]:
        """The words of a message that came whole, without deltas."""
        said_before = place in self._spoken
        for part in item.get("content") or []:
            self._is_refusal = self._is_refusal or part.get("type") == "refusal"
            if not said_before:
                yield from self._text(place, part.get("text") or part.get("refusal"))

    def _finish(self, response: dict[str, Any]) -> Iterator[ModelEvent]:
        if not self._done:
            # Some servers stream deltas only, and name whole items here or nowhere.
            for place, item in enumerate(response.get("output") or []):
                yield from self._item_done(place, item)
        yield _usage(response.get("usage") or {})
        yield Finished(reason=self._reason(response))
        self.is_finished = True

    def _reason(self, response: dict[str, Any]) -> FinishReason:
        if response.get("status") == "incomplete":
            details = response.get("incomplete_details") or {}
            return INCOMPLETE.get(str(details.get("reason")), "length")
        if self._has_ready_calls:
            return "tool_calls"
        return "refused" if self._is_refusal else "stop"


def _usage(usage: dict[str, Any]) -> Usage:
    return Usage(
        input_tokens=usage.get("input_tokens") or 0,
        cached_tokens=(usage.get("input_tokens_details") or {}).get("cached_tokens") or 0,
        output_tokens=usage.get("output_tokens") or 0,
        reasoning_tokens=(usage.get("output_tokens_details") or {}).get("reasoning_tokens") or 0,
    )
