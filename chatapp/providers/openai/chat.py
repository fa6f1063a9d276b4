"""The Chat Completions API, as OpenAI and the many servers compatible with it speak it.

Those servers keep to the form loosely: whatever a chunk leaves out or misnames is made good here.
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
    ReasoningDelta,
    TextDelta,
    ToolCallReady,
    ToolCallStarted,
    Usage,
)
from chatapp.providers.failures import unfinished
from chatapp.providers.openai_chat_history import (
    OWN,
    REASONING_FIELDS,
    Message,
    conversation,
    without_reasoning,
)
from chatapp.providers.openai_client import (
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
    without_parts,
)
from chatapp.providers.reading import rest
from chatapp.providers.reasoning_details import FIELD as DETAILS
from chatapp.providers.reasoning_details import Detail, details_in, joined, words_of
from chatapp.providers.request import ModelRequest
from chatapp.providers.retreat import Retreat
from chatapp.providers.thought_tags import ThoughtTags
from chatapp.providers.toolbox import OPENAI, Toolbox
from chatapp.providers.words import as_count, as_list, as_object, storable

__all__ = ["listed_models", "stream"]

# Some servers keep the line open after the end.
USAGE_SECONDS = 2.0
CUT_SHORT: dict[str, FinishReason] = {
    "length": "length",
    "max_tokens": "length",
    "content_filter": "filtered",
}


async def stream(request: ModelRequest, account: Account) -> AsyncGenerator[ModelEvent, None]:
    box = Toolbox(OPENAI, request.tools)
    for tool in box.left_out:
        yield tool
    answer, retreat = _Answer(box), Retreat(_simpler)
    body = _body(request, account, box)
    async with aclosing(events(account, "/chat/completions", body, retreat)) as chunks:
        async for chunk in chunks:
            for said in chain(retreat.told(), answer.take(chunk)):
                yield said
            if answer.reason == "error":
                raise reported(account, answer.error)
            if answer.reason:
                break
        else:
            raise unfinished(account.names)
        # The answer is whole now and only the count of tokens missing.
        for chunk in await rest(chunks, USAGE_SECONDS):
            for said in answer.take(chunk):
                yield said
    for said in answer.finish():
        yield said


def _body(request: ModelRequest, account: Account, box: Toolbox) -> Body:
    messages = [{"role": "system", "content": request.system}] if request.system else []
    body: Body = {
        "model": request.model,
        "messages": [*messages, *conversation(request.history, box)],
        "stream": True,
        "stream_options": {"include_usage": True},
        **_options(request, account),
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


def _simpler(body: Body, complaint: str) -> Body | None:
    """Older compatible servers do not know how to count tokens in a stream, newer models have their
    own name for the limit of an answer, many take no pictures or files, and some no reasoning."""
    for option in ("stream_options", "reasoning_effort", "temperature", "prompt_cache_key"):
        if option in body and option in complaint:
            return {key: value for key, value in body.items() if key != option}
    if "max_tokens" in body and "max_completion_tokens" in complaint:
        kept = {key: value for key, value in body.items() if key != "max_tokens"}
        return {**kept, "max_completion_tokens": body["max_tokens"]}
    kinds = complained_about(complaint)
    if any(has_parts(message.get("content"), kinds) for message in body["messages"]):
        return {**body, "messages": [_without(message, kinds) for message in body["messages"]]}
    if "reasoning" in complaint.lower():
        messages = [without_reasoning(message) for message in body["messages"]]
        return {**body, "messages": messages} if messages != body["messages"] else None
    return None


def _without(message: Message, kinds: tuple[str, ...]) -> Message:
    return message | {"content": without_parts(message.get("content"), kinds)}


def _options(request: ModelRequest, account: Account) -> Body:
    """Compatible servers know the limit of an answer by its older name."""
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
    untold: str = ""
    extra: dict[str, Any] = field(default_factory=dict)


class _Answer:
    """One answer as it comes in, chunk by chunk."""

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
            self._usage = _usage(usage)
        for choice in as_list(chunk.get("choices")):
            if isinstance(choice, dict):
                yield from self._delta(as_object(choice.get("delta")))
                self.reason = storable(choice.get("finish_reason")) or self.reason
                self.error |= as_object(choice.get("error"))

    def _delta(self, delta: dict[str, Any]) -> Iterator[ModelEvent]:
        yield from self._reasoning(delta)
        if text := _text(delta.get("content")):
            yield from self._close_reasoning()
            yield from self._tags.hear(text)
        if refusal := storable(delta.get("refusal")):
            self._is_refusal = True
            yield from self._tags.let_go()
            yield TextDelta(text=refusal)
        for piece in as_list(delta.get("tool_calls")):
            if isinstance(piece, dict):
                yield from self._tags.let_go()
                yield from self._close_reasoning()
                yield from self._piece(piece)

    def _reasoning(self, delta: dict[str, Any]) -> Iterator[ModelEvent]:
        """Servers that name the same words twice (old and new field, details) are heard once."""
        details = details_in(delta)
        self._details += details
        for name in REASONING_FIELDS:
            if text := storable(delta.get(name)):
                self._reasoning_field = name
                yield ReasoningDelta(text=text)
                return
        if text := words_of(details):
            yield ReasoningDelta(text=text)

    def _close_reasoning(self) -> Iterator[ModelEvent]:
        """What must come back of the reasoning so far, if anything."""
        own: dict[str, Any] = {"field": self._reasoning_field} if self._reasoning_field else {}
        own |= {DETAILS: joined(self._details)} if self._details else {}
        self._reasoning_field, self._details = "", []
        if own:
            yield OpaqueData(kind="reasoning", data={"provider": OWN, "data": own})

    def _piece(self, piece: dict[str, Any]) -> Iterator[ModelEvent]:
        """More of a call. A name is told once it is there, and what came before it after it."""
        function = as_object(piece.get("function"))
        name = storable(function.get("name"))
        call = self._call_of(piece, name)
        call.extra |= _extra(piece)
        index = self._calls.index(call)
        if name and not call.name:
            call.name = self._box.from_wire(name)
            yield ToolCallStarted(index=index, name=call.name)
        call.untold += _arguments(function.get("arguments"))
        if call.name and call.untold:
            yield ArgumentsDelta(index=index, text=call.untold)
            call.arguments, call.untold = call.arguments + call.untold, ""

    def _call_of(self, piece: dict[str, Any], name: str) -> _Call:
        """The call that a piece continues: by its index, or the last one where servers give none.
        Some give every call the same index; a new id beside a name tells them apart."""
        call_id, index = storable(piece.get("id")), piece.get("index")
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
        yield from self._tags.let_go()
        yield from self._close_reasoning()
        whole = [call for call in self._calls if call.name]
        if self.reason in CUT_SHORT:
            # Arguments that were cut off never parse: such a call was not made.
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
        """What was said decides: servers call it "stop", or anything, when tools are called."""
        if self.reason in CUT_SHORT:
            return CUT_SHORT[self.reason]
        if has_calls:
            return "tool_calls"
        return "refused" if self._is_refusal else "stop"


def _text(content: object) -> str:
    """Content is text, or with some servers a list of parts."""
    if isinstance(content, list):
        return "".join(storable(part.get("text")) for part in content if isinstance(part, dict))
    return storable(content)


def _arguments(value: object) -> str:
    return json.dumps(value) if isinstance(value, dict) else storable(value)


def _extra(piece: dict[str, Any]) -> dict[str, Any]:
    """What a server adds to a call (a signature of its thought, for one) and wants to see again."""
    known = {"index", "id", "type", "function"}
    return {key: value for key, value in piece.items() if key not in known and value is not None}


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _usage(usage: dict[str, Any]) -> Usage:
    details = as_object(usage.get("prompt_tokens_details"))
    written = as_object(usage.get("completion_tokens_details"))
    return Usage(
        input_tokens=as_count(usage.get("prompt_tokens")),
        cached_tokens=as_count(details.get("cached_tokens")),
        cache_write_tokens=as_count(details.get("cache_write_tokens")),
        output_tokens=as_count(usage.get("completion_tokens")),
        reasoning_tokens=as_count(written.get("reasoning_tokens")),
    )
