"""OpenAI's Responses API: a request and its history as input items, its events as ours.

Nothing is stored at OpenAI: the history has the items that it needs back.
"""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from itertools import chain
from typing import Any

from chatapp.providers.account import Account
from chatapp.providers.events import (
    ArgumentsDelta,
    Finished,
    FinishReason,
    ModelEvent,
    OpaqueData,
    PictureMade,
    ReasoningDelta,
    SourceCited,
    TextDelta,
    ToolCallReady,
    ToolCallStarted,
    Usage,
)
from chatapp.providers.failures import early_end_error
from chatapp.providers.refusals import Fallback, RefusedOptions
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
from chatapp.providers.stream_reading import as_count, as_list, as_object, clean_text, drain
from chatapp.providers.tools.toolbox import Toolbox
from chatapp.providers.tools.wire_names import NameRule, fit_call_ids

from .client import (
    DRAIN_SECONDS,
    EFFORTS,
    Body,
    Event,
    is_openai,
    list_models,
    stream_error,
    stream_events,
)
from .media import build_responses_content, find_refused_types, has_parts, remove_parts
from .provider import DIALECT

__all__ = ["list_models", "stream"]

Item = dict[str, Any]

# The fields of an input item that have parts.
CONTENTS = ("content", "output")
CALL_IDS = NameRule(letters="!-~", longest=64)
# Texts of complaints about reasoning in the history, not about the option of that name.
OF_ITEMS = (
    "invalid_encrypted_content",
    "easoning input items",
    "of type 'reasoning'",
    "required following item",
    "required 'reasoning' item",
)
INCOMPLETE: dict[str, FinishReason] = {"content_filter": "filtered"}


async def stream(request: ModelRequest, account: Account) -> AsyncGenerator[ModelEvent, None]:
    box = Toolbox(DIALECT, request.tools)
    for tool in box.left_out:
        yield tool
    answer = _Answer(box, account)
    refused = RefusedOptions(account, f"responses {request.model}")
    body = refused.remove(_build_body(request, account, box))
    fallback = Fallback(_simplify, refused)
    async with aclosing(stream_events(account, "/responses", body, fallback)) as source:
        async for event in source:
            for said in chain(fallback.pop_events(), answer.take(event)):
                yield said
            if answer.is_finished:
                await drain(source, DRAIN_SECONDS)
                return
    raise early_end_error(account.names)


def _build_body(request: ModelRequest, account: Account, box: Toolbox) -> Body:
    history = fit_call_ids(request.history, CALL_IDS, "openai")
    body: Body = {
        "model": request.model,
        "input": [item for said in history for item in _build_items(said, box)],
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "stream_options": {"include_obfuscation": False},
    }
    body |= _build_options(request, account)
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


def _build_options(request: ModelRequest, account: Account) -> Body:
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


def _simplify(body: Body, complaint: str) -> Body | None:
    """Return the body without the cause of the complaint, or None.

    Models without reasoning refuse its options and items, compatible servers refuse options that
    they do not know, many models refuse pictures, and every account refuses the encrypted reasoning
    of another.
    """
    if any(mark in complaint for mark in OF_ITEMS):
        return _remove_reasoning(body)
    kinds = find_refused_types(complaint)
    if any(has_parts(item.get(place), kinds) for item in body["input"] for place in CONTENTS):
        return {**body, "input": [_remove_parts(item, kinds) for item in body["input"]]}
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
    return _remove_reasoning(body) if "reasoning" in complaint.lower() else None


def _remove_reasoning(body: Body) -> Body | None:
    """Remove the reasoning, and the ids of the other items: with an id they need the reasoning."""
    if not any(map(_is_reasoning, body["input"])):
        return None
    kept = [item for item in body["input"] if not _is_reasoning(item)]
    nameless = [{key: value for key, value in item.items() if key != "id"} for item in kept]
    return {**body, "input": nameless}


def _is_reasoning(item: Item) -> bool:
    return item.get("type") == "reasoning"


def _remove_parts(item: Item, kinds: tuple[str, ...]) -> Item:
    return item | {at: remove_parts(item[at], kinds) for at in CONTENTS if at in item}


def _build_items(said: HistoryItem, box: Toolbox) -> Iterator[Item]:
    match said:
        case UserMessage():
            yield {"role": "user", "content": build_responses_content(said.text, said.media)}
        case ToolOutcome():
            text = f"Error: {said.text}" if said.is_error else said.text
            output = build_responses_content(text, said.media)
            yield {"type": "function_call_output", "call_id": said.call_id, "output": output}
        case AssistantMessage():
            items = [item for part in said.parts for item in _build_part_items(part, box)]
            # Reasoning is refused without the item after it.
            while items and _is_reasoning(items[-1]):
                items.pop()
            yield from items


def _build_part_items(part: AssistantPart, box: Toolbox) -> Iterator[Item]:
    own = part.opaque["data"] if part.opaque and part.opaque.get("provider") == "openai" else None
    if own is not None:
        if isinstance(part, AskedTool):
            # The id may have been used twice, and a name that the model invented may be refused.
            yield {**own, "call_id": part.call_id, "name": box.to_wire(part.name)}
        # Without its encrypted content, reasoning is unknown to the provider.
        elif own.get("type") != "reasoning" or own.get("encrypted_content"):
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
    """One answer. Events are known by their type; unknown types are ignored."""

    def __init__(self, box: Toolbox, account: Account) -> None:
        self._box = box
        self._account = account
        self._calls: dict[int, int] = {}
        self._arguments: dict[int, str] = {}
        self._done: set[int] = set()
        self._with_text: set[int] = set()
        self._has_ready_calls = False
        self._is_refusal = False
        self.is_finished = False

    def take(self, event: Event) -> Iterator[ModelEvent]:
        place = event.get("output_index")
        place = place if isinstance(place, int) else 0
        match event.get("type"):
            case "response.output_text.delta":
                yield from self._add_text(place, event.get("delta"))
            case "response.refusal.delta":
                self._is_refusal = True
                yield from self._add_text(place, event.get("delta"))
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                yield from self._add_reasoning(place, event.get("delta"))
            case "response.reasoning_summary_part.added" if event.get("summary_index"):
                yield from self._add_reasoning(place, "\n\n")
            case "response.output_item.added":
                yield from self._start_item(place, event.get("item"))
            case "response.function_call_arguments.delta":
                yield from self._add_arguments(place, event.get("delta"))
            case "response.output_item.done":
                yield from self._close_item(place, event.get("item"))
            case "response.completed" | "response.incomplete":
                yield from self._finish(as_object(event.get("response")))
            case "response.failed":
                error = as_object(event.get("response")).get("error")
                raise stream_error(self._account, as_object(error))
            case "error":
                raise stream_error(self._account, event)

    def _add_text(self, place: int, delta: object) -> Iterator[ModelEvent]:
        if text := clean_text(delta):
            self._with_text.add(place)
            yield TextDelta(text=text)

    def _add_reasoning(self, place: int, delta: object) -> Iterator[ModelEvent]:
        if text := clean_text(delta):
            self._with_text.add(place)
            yield ReasoningDelta(text=text)

    def _start_item(self, place: int, item: object) -> Iterator[ModelEvent]:
        if not isinstance(item, dict) or place in self._calls:
            return
        if item.get("type") == "function_call":
            self._calls[place] = len(self._calls)
            self._arguments[place] = ""
            name = self._box.from_wire(clean_text(item.get("name")))
            yield ToolCallStarted(index=self._calls[place], name=name)

    def _add_arguments(self, place: int, delta: object) -> Iterator[ModelEvent]:
        text = clean_text(delta)
        if text and place in self._calls:
            self._arguments[place] += text
            yield ArgumentsDelta(index=self._calls[place], text=text)

    def _close_item(self, place: int, item: object) -> Iterator[ModelEvent]:
        if not isinstance(item, dict) or place in self._done:
            return
        self._done.add(place)
        opaque = {"provider": "openai", "data": item}
        match item.get("type"):
            case "function_call" if item.get("status") != "incomplete":
                yield from self._start_item(place, item)
                yield from self._close_call(place, item, opaque)
            case "image_generation_call":
                yield from self._read_picture(item)
            case "reasoning":
                yield OpaqueData(kind="reasoning", data=opaque)
            case "message":
                yield from self._add_missing_text(place, item)
                yield OpaqueData(kind="text", data=opaque)

    def _close_call(self, place: int, item: Item, opaque: dict[str, Any]) -> Iterator[ModelEvent]:
        self._has_ready_calls = True
        name = self._box.from_wire(clean_text(item.get("name")))
        arguments = clean_text(item.get("arguments")) or self._arguments[place]
        yield ToolCallReady(
            index=self._calls[place],
            call_id=clean_text(item.get("call_id")) or clean_text(item.get("id")),
            name=name,
            arguments=self._box.arguments_from_wire(name, arguments),
            opaque=opaque,
        )

    def _read_picture(self, item: Item) -> Iterator[ModelEvent]:
        """Yield a picture. Nothing is stored at OpenAI, so it goes back as text that names it."""
        if data := clean_text(item.get("result")):
            description = clean_text(item.get("revised_prompt"))
            yield PictureMade(base64=data, description=description)

    def _add_missing_text(self, place: int, item: Item) -> Iterator[ModelEvent]:
        """Yield the text of a message that came without deltas, and the sources of any message."""
        said_before = place in self._with_text
        for part in map(as_object, as_list(item.get("content"))):
            self._is_refusal = self._is_refusal or part.get("type") == "refusal"
            if not said_before:
                yield from self._add_text(place, part.get("text") or part.get("refusal"))
            for note in map(as_object, as_list(part.get("annotations"))):
                if note.get("type") == "url_citation":
                    url, title = clean_text(note.get("url")), clean_text(note.get("title"))
                    yield SourceCited(url=url, title=title)

    def _finish(self, response: dict[str, Any]) -> Iterator[ModelEvent]:
        if not self._done:
            # Some servers stream deltas only, and send whole items here or not at all.
            for place, item in enumerate(as_list(response.get("output"))):
                yield from self._close_item(place, item)
        yield _read_usage(as_object(response.get("usage")))
        yield Finished(reason=self._finish_reason(response))
        self.is_finished = True

    def _finish_reason(self, response: dict[str, Any]) -> FinishReason:
        if response.get("status") == "incomplete":
            details = as_object(response.get("incomplete_details"))
            return INCOMPLETE.get(str(details.get("reason")), "length")
        if self._has_ready_calls:
            return "tool_calls"
        return "refused" if self._is_refusal else "stop"


def _read_usage(usage: dict[str, Any]) -> Usage:
    details = as_object(usage.get("input_tokens_details"))
    written = as_object(usage.get("output_tokens_details"))
    return Usage(
        input_tokens=as_count(usage.get("input_tokens")),
        cached_tokens=as_count(details.get("cached_tokens")),
        cache_write_tokens=as_count(details.get("cache_write_tokens")),
        output_tokens=as_count(usage.get("output_tokens")),
        reasoning_tokens=as_count(written.get("reasoning_tokens")),
    )
