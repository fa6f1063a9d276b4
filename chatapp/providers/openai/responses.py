"""OpenAI's Responses API: a request and its history as input items, its events as ours.

Nothing is stored at OpenAI: what it must remember travels with the history as it came.
"""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from itertools import chain
from typing import Any

from chatapp.providers.account import Account
from chatapp.providers.call_ids import with_fitting_ids
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
from chatapp.providers.openai_client import (
    DRAIN_SECONDS,
    EFFORTS,
    Body,
    Event,
    events,
    is_openai,
    listed_models,
    reported,
)
from chatapp.providers.openai_media import (
    complained_about,
    has_parts,
    responses_content,
    without_parts,
)
from chatapp.providers.reading import rest
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
from chatapp.providers.retreat import Retreat
from chatapp.providers.toolbox import OPENAI, Toolbox
from chatapp.providers.wire_names import NameRule
from chatapp.providers.words import as_count, as_list, as_object, storable

__all__ = ["listed_models", "stream"]

Item = dict[str, Any]

# Where an input item has parts.
CONTENTS = ("content", "output")
CALL_IDS = NameRule(letters="!-~", longest=64)
# What complaints about the reasoning in a history say, and none about the option of that name.
OF_ITEMS = (
    "invalid_encrypted_content",
    "easoning input items",
    "of type 'reasoning'",
    "required following item",
    "required 'reasoning' item",
)
INCOMPLETE: dict[str, FinishReason] = {"content_filter": "filtered"}


async def stream(request: ModelRequest, account: Account) -> AsyncGenerator[ModelEvent, None]:
    box = Toolbox(OPENAI, request.tools)
    for tool in box.left_out:
        yield tool
    answer = _Answer(box, account)
    body = _body(request, account, box)
    retreat = Retreat(_simpler)
    async with aclosing(events(account, "/responses", body, retreat)) as source:
        async for event in source:
            for said in chain(retreat.told(), answer.take(event)):
                yield said
            if answer.is_finished:
                await rest(source, DRAIN_SECONDS)
                return
    raise unfinished(account.names)


def _body(request: ModelRequest, account: Account, box: Toolbox) -> Body:
    history = with_fitting_ids(request.history, CALL_IDS, "openai")
    body: Body = {
        "model": request.model,
        "input": [item for said in history for item in _items(said, box)],
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "stream_options": {"include_obfuscation": False},
    }
    body |= _options(request, account)
    if request.system:
        body["instructions"] = request.system
    if box.tools:
        body["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.schema,
                "strict": False,
            }
            for tool in box.tools
        ]
    return body


def _options(request: ModelRequest, account: Account) -> Body:
    asked = request.parameters
    effort = EFFORTS.get(asked.effort)
    options: Body = {"reasoning": {"effort": effort} if effort else {}}
    if asked.effort != "off":
        options["reasoning"]["summary"] = "auto"
    if asked.temperature is not None:
        options["temperature"] = asked.temperature
    if asked.output_tokens is not None:
        options["max_output_tokens"] = asked.output_tokens
    if request.cache_key and is_openai(account):
        options["prompt_cache_key"] = request.cache_key
    return options


def _simpler(body: Body, complaint: str) -> Body | None:
    """Models that do not reason refuse to be asked for reasoning and to be told any, compatible
    servers what they do not know, many models pictures, and every account the encrypted reasoning
    of another."""
    if any(mark in complaint for mark in OF_ITEMS):
        return _without_reasoning(body)
    kinds = complained_about(complaint)
    if any(has_parts(item.get(place), kinds) for item in body["input"] for place in CONTENTS):
        return {**body, "input": [_without(item, kinds) for item in body["input"]]}
    reasoning = body.get("reasoning", {})
    if "summar" in complaint and reasoning.keys() == {"effort", "summary"}:
        return {**body, "reasoning": {"effort": reasoning["effort"]}}
    for option, marks in {
        "include": ("include", "ncrypted content"),
        "reasoning": ("reasoning",),
        "stream_options": ("stream_options", "include_obfuscation"),
        "temperature": ("temperature",),
        "max_output_tokens": ("max_output_tokens",),
        "prompt_cache_key": ("prompt_cache_key",),
    }.items():
        if option in body and any(mark in complaint for mark in marks):
            return {key: value for key, value in body.items() if key != option}
    return _without_reasoning(body) if "reasoning" in complaint.lower() else None


def _without_reasoning(body: Body) -> Body | None:
    """Under its id, what reasoning led to is refused without it."""
    if not any(map(_is_reasoning, body["input"])):
        return None
    kept = [item for item in body["input"] if not _is_reasoning(item)]
    nameless = [{key: value for key, value in item.items() if key != "id"} for item in kept]
    return {**body, "input": nameless}


def _is_reasoning(item: Item) -> bool:
    return item.get("type") == "reasoning"


def _without(item: Item, kinds: tuple[str, ...]) -> Item:
    return item | {at: without_parts(item[at], kinds) for at in CONTENTS if at in item}


def _items(said: HistoryItem, box: Toolbox) -> Iterator[Item]:
    match said:
        case UserMessage():
            yield {"role": "user", "content": responses_content(said.text, said.media)}
        case ToolOutcome():
            text = f"Error: {said.text}" if said.is_error else said.text
            output = responses_content(text, said.media)
            yield {"type": "function_call_output", "call_id": said.call_id, "output": output}
        case AssistantMessage():
            items = [item for part in said.parts for item in _part_items(part, box)]
            # Reasoning is refused without what it led to.
            while items and _is_reasoning(items[-1]):
                items.pop()
            yield from items


def _part_items(part: AssistantPart, box: Toolbox) -> Iterator[Item]:
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
                "name": box.to_wire(part.name),
                "arguments": box.arguments_to_wire(part.name, part.arguments),
            }
        case SaidText() | SaidReasoning():
            return


class _Answer:
    """One answer as it comes in. Events are known by their type's name: new ones are ignored."""

    def __init__(self, box: Toolbox, account: Account) -> None:
        self._box = box
        self._account = account
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
                yield from self._finish(as_object(event.get("response")))
            case "response.failed":
                error = as_object(event.get("response")).get("error")
                raise reported(self._account, as_object(error))
            case "error":
                raise reported(self._account, event)

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
            name = self._box.from_wire(storable(item.get("name")))
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
        name = self._box.from_wire(storable(item.get("name")))
        arguments = storable(item.get("arguments")) or self._arguments[place]
        yield ToolCallReady(
            index=self._calls[place],
            call_id=storable(item.get("call_id")) or storable(item.get("id")),
            name=name,
            arguments=self._box.arguments_from_wire(name, arguments),
            opaque=opaque,
        )

    def _unspoken(self, place: int, item: Item) -> Iterator[ModelEvent]:
        """The words of a message that came whole, without deltas."""
        said_before = place in self._spoken
        for part in map(as_object, as_list(item.get("content"))):
            self._is_refusal = self._is_refusal or part.get("type") == "refusal"
            if not said_before:
                yield from self._text(place, part.get("text") or part.get("refusal"))

    def _finish(self, response: dict[str, Any]) -> Iterator[ModelEvent]:
        if not self._done:
            # Some servers stream deltas only, and name whole items here or nowhere.
            for place, item in enumerate(as_list(response.get("output"))):
                yield from self._item_done(place, item)
        yield _usage(as_object(response.get("usage")))
        yield Finished(reason=self._reason(response))
        self.is_finished = True

    def _reason(self, response: dict[str, Any]) -> FinishReason:
        if response.get("status") == "incomplete":
            details = as_object(response.get("incomplete_details"))
            return INCOMPLETE.get(str(details.get("reason")), "length")
        if self._has_ready_calls:
            return "tool_calls"
        return "refused" if self._is_refusal else "stop"


def _usage(usage: dict[str, Any]) -> Usage:
    details = as_object(usage.get("input_tokens_details"))
    written = as_object(usage.get("output_tokens_details"))
    return Usage(
        input_tokens=as_count(usage.get("input_tokens")),
        cached_tokens=as_count(details.get("cached_tokens")),
        cache_write_tokens=as_count(details.get("cache_write_tokens")),
        output_tokens=as_count(usage.get("output_tokens")),
        reasoning_tokens=as_count(written.get("reasoning_tokens")),
    )
