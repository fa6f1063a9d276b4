"""The Chat Completions API of OpenAI and of the many compatible servers.

Those servers follow the format loosely. Missing and misnamed fields of a chunk are corrected here.
"""

import json
import uuid
from collections.abc import AsyncGenerator, Iterator
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
from chatapp.providers.request import ModelRequest
from chatapp.providers.stream_reading import as_count, as_list, as_object, clean_text, drain
from chatapp.providers.tools.toolbox import Toolbox

from .chat_history import OWN, REASONING_FIELDS, Message, build_messages, remove_reasoning
from .client import EFFORTS, Body, Event, is_openai, list_models, stream_error, stream_events
from .media import find_refused_types, has_parts, remove_parts
from .provider import DIALECT
from .reasoning import FIELD as DETAILS
from .reasoning import Detail, ThoughtTags, join_details, join_texts, read_details

__all__ = ["list_models", "stream"]

# Some servers keep the connection open after the end.
USAGE_SECONDS = 2.0
# The options that servers refuse, and what their complaints call them. Ollama complains about
# "thinking", vLLM about "stream options".
OPTIONS = {
    "stream_options": ("stream_options", "stream options", "include_usage"),
    "reasoning_effort": (
        *("reasoning_effort", "reasoning effort", "reasoning value"),
        *("support thinking", "think value"),
    ),
    "temperature": ("temperature",),
    "prompt_cache_key": ("prompt_cache_key",),
}
# Fields that few chunks have, so that the others are read faster.
SOURCES = {"search_results", "citations"}
REASONING = {DETAILS, *REASONING_FIELDS}
RARE = {"refusal", "annotations", "images", "tool_calls"}
CUT_SHORT: dict[str, FinishReason] = {
    "length": "length",
    "max_tokens": "length",
    "content_filter": "filtered",
}


async def stream(request: ModelRequest, account: Account) -> AsyncGenerator[ModelEvent, None]:
    box = Toolbox(DIALECT, request.tools)
    for tool in box.left_out:
        yield tool
    refused = RefusedOptions(account, f"chat {request.model}")
    answer, fallback = _Answer(box), Fallback(_simplify, refused)
    body = refused.remove(_build_body(request, account, box))
    async with aclosing(stream_events(account, "/chat/completions", body, fallback)) as chunks:
        async for chunk in chunks:
            for said in chain(fallback.pop_events(), answer.take(chunk)):
                yield said
            if answer.reason == "error":
                raise stream_error(account, answer.error)
            if answer.reason:
                break
        else:
            raise early_end_error(account.names)
        # The answer is complete now, and only the count of tokens is missing.
        for chunk in await drain(chunks, USAGE_SECONDS):
            for said in answer.take(chunk):
                yield said
    for said in answer.finish():
        yield said


def _build_body(request: ModelRequest, account: Account, box: Toolbox) -> Body:
    messages = [{"role": "system", "content": request.system}] if request.system else []
    body: Body = {
        "model": request.model,
        "messages": [*messages, *build_messages(request.history, box)],
        "stream": True,
        "stream_options": {"include_usage": True},
        **_build_options(request, account),
    }
    if box.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.schema,
                },
            }
            for tool in box.tools
        ]
    return body


def _simplify(body: Body, complaint: str) -> Body | None:
    """Return the body without the cause of the complaint, or None.

    Older servers cannot count tokens in a stream, newer models have another name for the limit of
    an answer, and many take no files or no reasoning.
    """
    for option, marks in OPTIONS.items():
        if option in body and any(mark in complaint.lower() for mark in marks):
            return {key: value for key, value in body.items() if key != option}
    if "max_tokens" in body and "max_completion_tokens" in complaint:
        kept = {key: value for key, value in body.items() if key != "max_tokens"}
        return {**kept, "max_completion_tokens": body["max_tokens"]}
    kinds = find_refused_types(complaint)
    if any(has_parts(message.get("content"), kinds) for message in body["messages"]):
        return {**body, "messages": [_remove_parts(message, kinds) for message in body["messages"]]}
    if "reasoning" in complaint.lower():
        messages = [remove_reasoning(message) for message in body["messages"]]
        return {**body, "messages": messages} if messages != body["messages"] else None
    return None


def _remove_parts(message: Message, kinds: tuple[str, ...]) -> Message:
    return message | {"content": remove_parts(message.get("content"), kinds)}


def _build_options(request: ModelRequest, account: Account) -> Body:
    """Return the options. Compatible servers use the older name for the limit of an answer."""
    asked, options = request.parameters, Body()
    if asked.effort:
        options["reasoning_effort"] = EFFORTS[asked.effort]
    if asked.temperature is not None:
        options["temperature"] = asked.temperature
    if asked.output_tokens is not None:
        limit = "max_completion_tokens" if is_openai(account) else "max_tokens"
        options[limit] = asked.output_tokens
    if request.cache_key and is_openai(account):
        options["prompt_cache_key"] = request.cache_key
    return options


@dataclass(slots=True, eq=False)
class _Call:
    call_id: str
    name: str = ""
    arguments: str = ""
    pending: str = ""
    extra: dict[str, Any] = field(default_factory=dict)


class _Answer:
    """One answer, chunk by chunk."""

    def __init__(self, box: Toolbox) -> None:
        self._box = box
        self._calls: list[_Call] = []
        self._call_at: dict[int, _Call] = {}
        self._usage = Usage()
        self.reason = ""
        self.error: dict[str, Any] = {}
        self._reasoning_field = ""
        self._details: list[Detail] = []
        self._tags = ThoughtTags()
        self._is_refusal = False

    def take(self, chunk: Event) -> Iterator[ModelEvent]:
        if isinstance(usage := chunk.get("usage"), dict):
            self._usage = _read_usage(usage)
        if not SOURCES.isdisjoint(chunk):
            yield from _read_sources(chunk)
        for choice in as_list(chunk.get("choices")):
            if isinstance(choice, dict):
                yield from self._read_delta(as_object(choice.get("delta")))
                if reason := choice.get("finish_reason"):
                    self.reason = clean_text(reason) or self.reason
                if error := choice.get("error"):
                    self.error |= as_object(error)

    def _read_delta(self, delta: dict[str, Any]) -> Iterator[ModelEvent]:
        if not REASONING.isdisjoint(delta):
            yield from self._read_reasoning(delta)
        if text := _join_text(delta.get("content")):
            if self._reasoning_field or self._details:
                yield from self._close_reasoning()
            if self._tags.are_over:
                yield TextDelta(text=text)
            else:
                yield from self._tags.take(text)
        if not RARE.isdisjoint(delta):
            yield from self._read_rare(delta)

    def _read_rare(self, delta: dict[str, Any]) -> Iterator[ModelEvent]:
        if refusal := clean_text(delta.get("refusal")):
            self._is_refusal = True
            yield from self._tags.flush()
            yield TextDelta(text=refusal)
        for note in map(as_object, as_list(delta.get("annotations"))):
            cited = as_object(note.get("url_citation"))
            yield SourceCited(
                url=clean_text(cited.get("url")), title=clean_text(cited.get("title"))
            )
        for image in as_list(delta.get("images")):
            yield from self._read_picture(image)
        for piece in as_list(delta.get("tool_calls")):
            if isinstance(piece, dict):
                yield from self._tags.flush()
                yield from self._close_reasoning()
                yield from self._add_piece(piece)

    def _read_picture(self, image: object) -> Iterator[ModelEvent]:
        """Yield a picture, which OpenRouter sends as a data URL. No other address is opened."""
        url = clean_text(as_object(as_object(image).get("image_url")).get("url"))
        head, _, data = url.partition(";base64,")
        if head.startswith("data:") and data:
            yield from self._tags.flush()
            yield from self._close_reasoning()
            yield PictureMade(base64=data)

    def _read_reasoning(self, delta: dict[str, Any]) -> Iterator[ModelEvent]:
        """Yield the reasoning once, although some servers send it in two or three fields."""
        details = read_details(delta)
        self._details += details
        for name in REASONING_FIELDS:
            if text := clean_text(delta.get(name)):
                self._reasoning_field = name
                yield ReasoningDelta(text=text)
                return
        if text := join_texts(details):
            yield ReasoningDelta(text=text)

    def _close_reasoning(self) -> Iterator[ModelEvent]:
        """Yield the data that must come back with the reasoning so far, if any."""
        own: dict[str, Any] = {"field": self._reasoning_field} if self._reasoning_field else {}
        own |= {DETAILS: join_details(self._details)} if self._details else {}
        self._reasoning_field, self._details = "", []
        if own:
            yield OpaqueData(kind="reasoning", data={"provider": OWN, "data": own})

    def _add_piece(self, piece: dict[str, Any]) -> Iterator[ModelEvent]:
        """Add a piece of a call. Arguments that come before the name wait for it."""
        function = as_object(piece.get("function"))
        name = clean_text(function.get("name"))
        call = self._find_call(piece, name)
        call.extra |= _read_extra(piece)
        index = self._calls.index(call)
        if name and not call.name:
            call.name = self._box.from_wire(name)
            yield ToolCallStarted(index=index, name=call.name)
        call.pending += _read_arguments(function.get("arguments"))
        if call.name and call.pending:
            yield ArgumentsDelta(index=index, text=call.pending)
            call.arguments, call.pending = call.arguments + call.pending, ""

    def _find_call(self, piece: dict[str, Any], name: str) -> _Call:
        """Return the call of a piece: by its index, or the last one of a server without indexes.

        Some servers use one index for all calls. A new id with a name then starts another call.
        """
        call_id, index = clean_text(piece.get("id")), piece.get("index")
        known = self._call_at.get(index) if isinstance(index, int) else None
        if not isinstance(index, int) and self._calls and not name:
            known = self._calls[-1]
        if known and not (call_id and name and known.name and known.call_id != call_id):
            return known
        if not call_id or any(call.call_id == call_id for call in self._calls):
            call_id = f"call_{uuid.uuid4().hex[:24]}"
        call = _Call(call_id)
        self._calls.append(call)
        if isinstance(index, int):
            self._call_at[index] = call
        return call

    def finish(self) -> Iterator[ModelEvent]:
        yield from self._tags.flush()
        yield from self._close_reasoning()
        whole = [call for call in self._calls if call.name]
        if self.reason in CUT_SHORT:
            # Arguments that were cut off do not parse, and such a call was not made.
            whole = [call for call in whole if _is_json(call.arguments)]
        for call in whole:
            yield ToolCallReady(
                index=self._calls.index(call),
                call_id=call.call_id,
                name=call.name,
                arguments=self._box.arguments_from_wire(call.name, call.arguments),
                opaque={"provider": OWN, "data": call.extra} if call.extra else None,
            )
        yield self._usage
        yield Finished(reason=self._finish_reason(bool(whole)))

    def _finish_reason(self, has_calls: bool) -> FinishReason:
        """Return the reason by the content: with calls, servers send "stop" or any other reason."""
        if self.reason in CUT_SHORT:
            return CUT_SHORT[self.reason]
        if has_calls:
            return "tool_calls"
        return "refused" if self._is_refusal else "stop"


def _read_sources(chunk: Event) -> Iterator[ModelEvent]:
    """Yield the sources that Perplexity repeats in each chunk, first those with titles."""
    for found in map(as_object, as_list(chunk.get("search_results"))):
        yield SourceCited(url=clean_text(found.get("url")), title=clean_text(found.get("title")))
    for url in as_list(chunk.get("citations")):
        yield SourceCited(url=clean_text(url))


def _join_text(content: object) -> str:
    """Return the text. Some servers send a list of parts."""
    if isinstance(content, list):
        return "".join(clean_text(part.get("text")) for part in content if isinstance(part, dict))
    return clean_text(content)


def _read_arguments(value: object) -> str:
    return json.dumps(value) if isinstance(value, dict) else clean_text(value)


def _read_extra(piece: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that a server adds to a call, such as a signature, and needs back."""
    known = {"index", "id", "type", "function"}
    return {key: value for key, value in piece.items() if key not in known and value is not None}


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _read_usage(usage: dict[str, Any]) -> Usage:
    details = as_object(usage.get("prompt_tokens_details"))
    written = as_object(usage.get("completion_tokens_details"))
    return Usage(
        input_tokens=as_count(usage.get("prompt_tokens")),
        cached_tokens=as_count(details.get("cached_tokens")),
        cache_write_tokens=as_count(details.get("cache_write_tokens")),
        output_tokens=as_count(usage.get("completion_tokens")),
        reasoning_tokens=as_count(written.get("reasoning_tokens")),
    )
