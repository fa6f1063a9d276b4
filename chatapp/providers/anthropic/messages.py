"""Anthropic's Messages: one streamed answer, event by event, and the list of models.

Blocks arrive one after another. Thoughts are signed, and go back unchanged.
"""

import functools
import json
import uuid
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from itertools import chain
from typing import Any

from chatapp.providers.account import Account, ListedModel
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
from chatapp.providers.failures import early_end_error, provider_error
from chatapp.providers.refusals import Fallback
from chatapp.providers.request import ModelRequest
from chatapp.providers.stream_reading import clean_text, drain
from chatapp.providers.tools.toolbox import Toolbox

from .client import DRAIN_SECONDS, Body, fetch_models, stream_events
from .history import OWN, THINKING
from .provider import DIALECT
from .request_body import build_body, read_max_tokens, simplify_body

Block = dict[str, Any]
Event = dict[str, Any]

MAX_PAUSES = 5
PAUSE = "pause_turn"
NO_ROOM = "model_context_window_exceeded"
CUT_SHORT: dict[str, FinishReason] = {
    "max_tokens": "length",
    NO_ROOM: "length",
    PAUSE: "length",
    "refusal": "refused",
}
# The longest answers by address and model, from lists and complaints. A known limit saves a
# refused request.
_largest_answers: dict[tuple[str, str], int] = {}


async def stream(request: ModelRequest, account: Account) -> AsyncGenerator[ModelEvent, None]:
    box = Toolbox(DIALECT, request.tools)
    for tool in box.left_out:
        yield tool
    answer = Answer(box, account)
    body = build_body(request, box, _largest_answers.get((account.base_url, request.model)))
    messages = body["messages"]
    fallback = Fallback(functools.partial(_simplify, request, account))
    while not answer.is_finished:
        body["messages"] = [*messages, *answer.build_prefix()]
        async with aclosing(_stream_leg(answer, account, body, fallback)) as leg:
            async for said in leg:
                yield said


async def _stream_leg(
    answer: "Answer", account: Account, body: Body, fallback: Fallback
) -> AsyncGenerator[ModelEvent, None]:
    """Stream one request. After a pause of the provider, the next leg continues the answer."""
    answer.begin_leg()
    async with aclosing(stream_events(account, body, fallback)) as source:
        async for event in source:
            for said in chain(fallback.pop_events(), answer.take(event)):
                yield said
            if answer.has_stopped:
                await drain(source, DRAIN_SECONDS)
                return
    raise early_end_error(account.names)


def _simplify(request: ModelRequest, account: Account, body: Body, complaint: str) -> Body | None:
    most = read_max_tokens(complaint)
    if most is not None:
        _largest_answers[account.base_url, request.model] = most
    return simplify_body(request.parameters.effort, body, complaint)


async def list_models(account: Account) -> tuple[ListedModel, ...]:
    """Return the models that the account may use, newest first, with sizes and abilities."""
    rows = await fetch_models(account)
    models = [_build_model(row) for row in rows if row.get("lifecycle") != "retired"]
    for model in models:
        if model.output_tokens:
            _largest_answers[account.base_url, model.name] = model.output_tokens
    return tuple({model.name: model for model in models if model.name}.values())


def _build_model(row: dict[str, Any]) -> ListedModel:
    return ListedModel(
        name=clean_text(row.get("id")),
        label=clean_text(row.get("display_name")),
        context_tokens=_read_size(row.get("max_input_tokens")),
        output_tokens=_read_size(row.get("max_tokens")),
        takes_pictures=_read_ability(row, "image_input"),
        takes_documents=_read_ability(row, "pdf_input"),
        reasons=_read_ability(row, "thinking"),
    )


def _read_size(value: object) -> int | None:
    return value if isinstance(value, int) and value > 0 else None


def _read_ability(row: dict[str, Any], ability: str) -> bool | None:
    abilities = row.get("capabilities")
    found = abilities.get(ability) if isinstance(abilities, dict) else None
    return bool(found.get("supported")) if isinstance(found, dict) else None


@dataclass(slots=True, kw_only=True)
class _Open:
    """A block that is not complete; `call` counts the calls, `place` all blocks of the answer.

    Blocks are sent back in the order of `place`.
    """

    block: Block
    place: int
    call: int = -1
    arguments: str = ""


class Answer:
    """One answer. Events are known by their type; unknown types are ignored.

    After a pause of the provider the answer continues in another stream, another leg. `has_stopped`
    is about the leg, `is_finished` about the answer.
    """

    def __init__(self, box: Toolbox, account: Account) -> None:
        self._box = box
        self._account = account
        self._open: dict[int, _Open] = {}
        self._said: list[Block] = []
        self._blocks = 0
        self._calls = 0
        self._unreadable: list[ToolCallReady] = []
        self._has_ready_calls = False
        self._has_text = False
        self._tokens = _Tokens()
        self._legs = 0
        self.has_stopped = False
        self.is_finished = False

    def begin_leg(self) -> None:
        self._legs += 1
        self._open.clear()
        self._tokens.begin_leg()
        self.has_stopped = False

    def build_prefix(self) -> list[Block]:
        """Return the message of the earlier legs, from which the next leg continues."""
        return [{"role": "assistant", "content": list(self._said)}] if self._said else []

    def take(self, event: Event) -> Iterator[ModelEvent]:
        index = event.get("index")
        place = index if isinstance(index, int) else 0
        match event:
            case {"type": "message_start", "message": {"usage": usage}}:
                self._tokens.count(usage)
            case {"type": "content_block_start", "content_block": dict(block)}:
                yield from self._start(place, block)
            case {"type": "content_block_delta", "delta": dict(delta)} if place in self._open:
                yield from self._add_delta(self._open[place], delta)
            case {"type": "content_block_stop"} if place in self._open:
                yield from self._close_block(self._open.pop(place))
            case {"type": "message_delta"}:
                self._tokens.count(event.get("usage"))
                yield from self._stop(event.get("delta"))

    def _start(self, place: int, block: Block) -> Iterator[ModelEvent]:
        opened = self._open[place] = _Open(block=block, place=self._blocks)
        self._blocks += 1
        match block.get("type"):
            case "text" if block.get("text"):
                yield from self._add_text(block["text"])
            case "thinking" if block.get("thinking"):
                yield ReasoningDelta(text=clean_text(block["thinking"]))
            case "tool_use":
                opened.call, self._calls = self._calls, self._calls + 1
                name = self._box.from_wire(clean_text(block.get("name")))
                yield ToolCallStarted(index=opened.call, name=name)

    def _add_delta(self, opened: _Open, delta: dict[str, Any]) -> Iterator[ModelEvent]:
        block = opened.block
        match delta:
            case {"type": "text_delta", "text": str(text)}:
                block["text"] = block.get("text", "") + text
                yield from self._add_text(text)
            case {"type": "thinking_delta", "thinking": str(text)}:
                block["thinking"] = block.get("thinking", "") + text
                yield ReasoningDelta(text=clean_text(text))
            case {"type": "citations_delta", "citation": dict(cited)}:
                url = cited.get("url") or cited.get("source")
                yield SourceCited(url=clean_text(url), title=clean_text(cited.get("title")))
            case {"type": "signature_delta", "signature": str(signature)}:
                block["signature"] = signature
            case {"type": "input_json_delta", "partial_json": str(text)} if text:
                opened.arguments += clean_text(text)
                if opened.call >= 0:
                    yield ArgumentsDelta(index=opened.call, text=clean_text(text))

    def _add_text(self, text: object) -> Iterator[ModelEvent]:
        self._has_text = True
        yield TextDelta(text=clean_text(text))

    def _close_block(self, opened: _Open) -> Iterator[ModelEvent]:
        block = opened.block
        if opened.arguments:
            block["input"] = _parse_object(opened.arguments) or {}
        if block.get("type") != "text" or block.get("text"):
            self._said.append(block)
        if block.get("type") in THINKING:
            yield OpaqueData(kind="reasoning", data=_build_opaque(opened, block=block))
        elif block.get("type") == "text" and block.get("text"):
            yield OpaqueData(kind="text", data=_build_opaque(opened))
        elif opened.call >= 0:
            yield from self._close_call(opened)

    def _close_call(self, opened: _Open) -> Iterator[ModelEvent]:
        name = self._box.from_wire(clean_text(opened.block.get("name")))
        arguments = opened.arguments or json.dumps(opened.block.get("input") or {})
        ready = ToolCallReady(
            index=opened.call,
            call_id=clean_text(opened.block.get("id")) or f"toolu_{uuid.uuid4().hex[:24]}",
            name=name,
            arguments=self._box.arguments_from_wire(name, arguments),
            opaque=_build_opaque(opened),
        )
        if _parse_object(arguments) is None:
            self._unreadable.append(ready)
        else:
            self._has_ready_calls = True
            yield ready

    def _stop(self, delta: object) -> Iterator[ModelEvent]:
        reason = delta.get("stop_reason") if isinstance(delta, dict) else None
        if not isinstance(reason, str) or not isinstance(delta, dict):
            return
        for place in list(self._open):
            yield from self._close_block(self._open.pop(place))
        self.has_stopped = True
        if reason != PAUSE or self._legs > MAX_PAUSES:
            yield from self._finish(reason, delta)

    def _finish(self, reason: str, delta: dict[str, Any]) -> Iterator[ModelEvent]:
        if reason == NO_ROOM and not (self._has_text or self._has_ready_calls):
            raise provider_error("too_long", self._account.names, detail=reason)
        if reason not in CUT_SHORT and self._unreadable:
            # The answer was not cut off, so that calls with unreadable arguments were made, too.
            self._has_ready_calls = True
            yield from self._unreadable
        yield from self._explain_refusal(delta.get("stop_details"))
        yield self._tokens.usage()
        stopped: FinishReason = "tool_calls" if self._has_ready_calls else "stop"
        yield Finished(reason=CUT_SHORT.get(reason, stopped))
        self.is_finished = True

    def _explain_refusal(self, details: object) -> Iterator[ModelEvent]:
        """Yield the provider's reason for a refusal."""
        match details:
            case {"type": "refusal", "explanation": str(words)} if words:
                yield TextDelta(text=clean_text(f"\n\n{words}" if self._has_text else words))


def _build_opaque(opened: _Open, **more: Block) -> dict[str, Any]:
    return {"provider": OWN, "data": {"place": opened.place, **more}}


def _parse_object(arguments: str) -> dict[str, Any] | None:
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


class _Tokens:
    """Counts tokens per leg. A later number of a leg replaces an earlier one."""

    def __init__(self) -> None:
        self._legs: list[dict[str, Any]] = []

    def begin_leg(self) -> None:
        self._legs.append({})

    def count(self, usage: object) -> None:
        if isinstance(usage, dict):
            self._legs[-1] |= {key: value for key, value in usage.items() if value is not None}

    def usage(self) -> Usage:
        cached, written = (
            self._sum("cache_read_input_tokens"),
            self._sum("cache_creation_input_tokens"),
        )
        details = [leg.get("output_tokens_details") for leg in self._legs]
        thoughts = [each.get("thinking_tokens") for each in details if isinstance(each, dict)]
        return Usage(
            input_tokens=self._sum("input_tokens") + cached + written,
            cached_tokens=cached,
            cache_write_tokens=written,
            output_tokens=self._sum("output_tokens"),
            reasoning_tokens=sum(each for each in thoughts if isinstance(each, int)),
        )

    def _sum(self, name: str) -> int:
        found = (leg.get(name) for leg in self._legs)
        return sum(each for each in found if isinstance(each, int))
