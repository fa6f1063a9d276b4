"""The Chat Completions API, as OpenAI and the many servers compatible with it speak it.

Those servers keep to the form loosely: whatever a chunk leaves out or misnames is made good here.
"""

import json
import uuid
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from chatapp.providers.events import (
    ArgumentsDelta,
    Finished,
    FinishReason,
    ModelEvent,
    OpaqueData,
    ProviderError,
    ReasoningDelta,
    TextDelta,
    ToolCallReady,
    ToolCallStarted,
    Usage,
)
from chatapp.providers.openai_client import Body, Event, events, storable, unfinished
from chatapp.providers.request import (
    AskedTool,
    AssistantMessage,
    HistoryItem,
    ModelRequest,
    SaidReasoning,
    SaidText,
    ToolOutcome,
    UserMessage,
)
from chatapp.providers.tool_schema import WireNames, compile_schema

Message = dict[str, Any]

OWN = "openai-chat"
REASONING_FIELDS = ("reasoning", "reasoning_content")
CUT_SHORT: dict[str, FinishReason] = {
    "length": "length",
    "max_tokens": "length",
    "content_filter": "filtered",
}


async def stream(request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
    names = WireNames(tool.name for tool in request.tools)
    answer = _Answer(names)
    async with aclosing(_chunks(_body(request, names), answer)) as chunks:
        async for chunk in chunks:
            for said in answer.take(chunk):
                yield said
    if not answer.has_reason:
        raise unfinished()
    for said in answer.finish():
        yield said


async def _chunks(body: Body, answer: "_Answer") -> AsyncGenerator[Event, None]:
    """The stream, where nothing fails after the reason to finish: the answer itself is whole then
    and only the token count missing."""
    try:
        async with aclosing(events("/chat/completions", body, _simpler)) as source:
            async for chunk in source:
                yield chunk
    except ProviderError:
        if not answer.has_reason:
            raise


def _body(request: ModelRequest, names: WireNames) -> Body:
    messages = [{"role": "system", "content": request.system}] if request.system else []
    body: Body = {
        "model": request.model,
        "messages": [*messages, *(m for said in request.history for m in _messages(said, names))],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": names.to_wire(tool.name),
                    "description": tool.description,
                    "parameters": compile_schema(tool.input_schema),
                },
            }
            for tool in request.tools
        ]
    return body


def _simpler(body: Body, complaint: str) -> Body | None:
    """Older compatible servers do not know how to count tokens in a stream."""
    if "stream_options" in body and "stream_options" in complaint:
        return {key: value for key, value in body.items() if key != "stream_options"}
    return None


def _messages(said: HistoryItem, names: WireNames) -> Iterator[Message]:
    match said:
        case UserMessage():
            yield {"role": "user", "content": said.text}
        case ToolOutcome():
            content = f"Error: {said.text}" if said.is_error else said.text
            yield {"role": "tool", "tool_call_id": said.call_id, "content": content}
        case AssistantMessage():
            yield from _assistant_message(said, names)


def _assistant_message(said: AssistantMessage, names: WireNames) -> Iterator[Message]:
    text = "".join(part.text for part in said.parts if isinstance(part, SaidText))
    calls = [_tool_call(part, names) for part in said.parts if isinstance(part, AskedTool)]
    message: Message = {"role": "assistant", "content": text}
    if calls:
        # Servers that show their reasoning want it back beside the calls that it led to, and some
        # refuse it anywhere else.
        message |= _reasoning_fields(said) | {"tool_calls": calls}
    if text or calls:
        yield message


def _reasoning_fields(said: AssistantMessage) -> dict[str, str]:
    shown: dict[str, str] = {}
    for part in said.parts:
        own = _own_data(part.opaque)
        if isinstance(part, SaidReasoning) and own.get("field") in REASONING_FIELDS:
            shown[own["field"]] = shown.get(own["field"], "") + part.text
    return shown


def _tool_call(asked: AskedTool, names: WireNames) -> dict[str, Any]:
    function = {"name": names.to_wire(asked.name), "arguments": asked.arguments}
    own = {"id": asked.call_id, "type": "function", "function": function}
    return _own_data(asked.opaque) | own


def _own_data(opaque: dict[str, Any] | None) -> dict[str, Any]:
    return opaque["data"] if opaque and opaque.get("provider") == OWN else {}


@dataclass(slots=True, eq=False)
class _Call:
    call_id: str
    name: str = ""
    arguments: str = ""
    untold: str = ""
    extra: dict[str, Any] = field(default_factory=dict)


class _Answer:
    """One answer as it comes in, chunk by chunk."""

    def __init__(self, names: WireNames) -> None:
        self._names = names
        self._calls: list[_Call] = []
        self._call_at: dict[int, _Call] = {}
        self._usage = Usage()
        self._reason = ""
        self._reasoning_field = ""
        self._is_refusal = False

    @property
    def has_reason(self) -> bool:
        return bool(self._reason)

    def take(self, chunk: Event) -> Iterator[ModelEvent]:
        if isinstance(usage := chunk.get("usage"), dict):
            self._usage = _usage(usage)
        for choice in chunk.get("choices") or []:
            if isinstance(choice, dict):
                yield from self._delta(choice.get("delta") or {})
                self._reason = storable(choice.get("finish_reason")) or self._reason

    def _delta(self, delta: dict[str, Any]) -> Iterator[ModelEvent]:
        yield from self._reasoning(delta)
        if text := _text(delta.get("content")):
            yield from self._close_reasoning()
            yield TextDelta(text=text)
        if refusal := storable(delta.get("refusal")):
            self._is_refusal = True
            yield TextDelta(text=refusal)
        for piece in delta.get("tool_calls") or []:
            if isinstance(piece, dict):
                yield from self._close_reasoning()
                yield from self._piece(piece)

    def _reasoning(self, delta: dict[str, Any]) -> Iterator[ModelEvent]:
        """Servers that name the same words twice (old and new field) are heard once."""
        for name in REASONING_FIELDS:
            if text := storable(delta.get(name)):
                self._reasoning_field = name
                yield ReasoningDelta(text=text)
                return

    def _close_reasoning(self) -> Iterator[ModelEvent]:
        if self._reasoning_field:
            data = {"provider": OWN, "data": {"field": self._reasoning_field}}
            self._reasoning_field = ""
            yield OpaqueData(kind="reasoning", data=data)

    def _piece(self, piece: dict[str, Any]) -> Iterator[ModelEvent]:
        """More of a call. A name is told once it is there, and what came before it after it."""
        function = piece.get("function")
        function = function if isinstance(function, dict) else {}
        name = storable(function.get("name"))
        call = self._call_of(piece, name)
        call.extra |= _extra(piece)
        index = self._calls.index(call)
        if name and not call.name:
            call.name = self._names.from_wire(name)
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
        yield from self._close_reasoning()
        whole = [call for call in self._calls if call.name]
        if self._reason in CUT_SHORT:
            # Arguments that were cut off never parse: such a call was not made.
            whole = [call for call in whole if _is_json(call.arguments)]
        for call in whole:
            yield ToolCallReady(
                index=self._calls.index(call),
                call_id=call.call_id,
                name=call.name,
                arguments=call.arguments,
                opaque={"provider": OWN, "data": call.extra} if call.extra else None,
            )
        yield self._usage
        yield Finished(reason=self._finish_reason(bool(whole)))

    def _finish_reason(self, has_calls: bool) -> FinishReason:
        """What was said decides: servers call it "stop", or anything, when tools are called."""
        if self._reason in CUT_SHORT:
            return CUT_SHORT[self._reason]
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
    except ValueError:
        return False
    return True


def _usage(usage: dict[str, Any]) -> Usage:
    return Usage(
        input_tokens=usage.get("prompt_tokens") or 0,
        cached_tokens=(usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0,
        output_tokens=usage.get("completion_tokens") or 0,
        reasoning_tokens=(usage.get("completion_tokens_details") or {}).get("reasoning_tokens")
        or 0,
    )
