"""One answer of Anthropic's Messages as it comes in, event by event.

Blocks arrive one after another. Thoughts are signed, and go back as they came.
"""

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from chatapp.providers.account import Account
from chatapp.providers.anthropic_history import OWN, THINKING
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
from chatapp.providers.failures import provider_error
from chatapp.providers.toolbox import Toolbox
from chatapp.providers.words import storable

Block = dict[str, Any]
Event = dict[str, Any]

MOST_PAUSES = 5
PAUSE = "pause_turn"
NO_ROOM = "model_context_window_exceeded"
CUT_SHORT: dict[str, FinishReason] = {
    "max_tokens": "length",
    NO_ROOM: "length",
    PAUSE: "length",
    "refusal": "refused",
}


@dataclass(slots=True, kw_only=True)
class _Open:
    """A block that is not whole yet; of a call also its number and its arguments so far. `place`
    counts all blocks of the answer, for they go back in this order."""

    block: Block
    place: int
    call: int = -1
    arguments: str = ""


class Answer:
    """Events are known by their type's name: new ones are ignored.

    Where the provider pauses, the answer goes on in another stream, another leg. `has_stopped`
    says that a leg is over, `is_finished` that the answer is.
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
        self._has_words = False
        self._tokens = _Tokens()
        self._legs = 0
        self.has_stopped = False
        self.is_finished = False

    def begin_leg(self) -> None:
        self._legs += 1
        self._open.clear()
        self._tokens.begin_leg()
        self.has_stopped = False

    def so_far(self) -> list[Block]:
        """What was said in earlier legs, as a turn to go on from."""
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
                yield from self._more(self._open[place], delta)
            case {"type": "content_block_stop"} if place in self._open:
                yield from self._whole(self._open.pop(place))
            case {"type": "message_delta"}:
                self._tokens.count(event.get("usage"))
                yield from self._stop(event.get("delta"))

    def _start(self, place: int, block: Block) -> Iterator[ModelEvent]:
        opened = self._open[place] = _Open(block=block, place=self._blocks)
        self._blocks += 1
        match block.get("type"):
            case "text" if block.get("text"):
                yield from self._words(block["text"])
            case "thinking" if block.get("thinking"):
                yield ReasoningDelta(text=storable(block["thinking"]))
            case "tool_use":
                opened.call, self._calls = self._calls, self._calls + 1
                name = self._box.from_wire(storable(block.get("name")))
                yield ToolCallStarted(index=opened.call, name=name)

    def _more(self, opened: _Open, delta: dict[str, Any]) -> Iterator[ModelEvent]:
        block = opened.block
        match delta:
            case {"type": "text_delta", "text": str(text)}:
                block["text"] = block.get("text", "") + text
                yield from self._words(text)
            case {"type": "thinking_delta", "thinking": str(text)}:
                block["thinking"] = block.get("thinking", "") + text
                yield ReasoningDelta(text=storable(text))
            case {"type": "signature_delta", "signature": str(signature)}:
                block["signature"] = signature
            case {"type": "input_json_delta", "partial_json": str(text)} if text:
                opened.arguments += storable(text)
                if opened.call >= 0:
                    yield ArgumentsDelta(index=opened.call, text=storable(text))

    def _words(self, text: object) -> Iterator[ModelEvent]:
        self._has_words = True
        yield TextDelta(text=storable(text))

    def _whole(self, opened: _Open) -> Iterator[ModelEvent]:
        block = opened.block
        if opened.arguments:
            block["input"] = _read(opened.arguments) or {}
        if block.get("type") != "text" or block.get("text"):
            self._said.append(block)
        if block.get("type") in THINKING:
            yield OpaqueData(kind="reasoning", data=_own(opened, block=block))
        elif block.get("type") == "text" and block.get("text"):
            yield OpaqueData(kind="text", data=_own(opened))
        elif opened.call >= 0:
            yield from self._call(opened)

    def _call(self, opened: _Open) -> Iterator[ModelEvent]:
        name = self._box.from_wire(storable(opened.block.get("name")))
        arguments = opened.arguments or json.dumps(opened.block.get("input") or {})
        ready = ToolCallReady(
            index=opened.call,
            call_id=storable(opened.block.get("id")) or f"toolu_{uuid.uuid4().hex[:24]}",
            name=name,
            arguments=self._box.arguments_from_wire(name, arguments),
            opaque=_own(opened),
        )
        if _read(arguments) is None:
            self._unreadable.append(ready)
        else:
            self._has_ready_calls = True
            yield ready

    def _stop(self, delta: object) -> Iterator[ModelEvent]:
        reason = delta.get("stop_reason") if isinstance(delta, dict) else None
        if not isinstance(reason, str) or not isinstance(delta, dict):
            return
        for place in list(self._open):
            yield from self._whole(self._open.pop(place))
        self.has_stopped = True
        if reason != PAUSE or self._legs > MOST_PAUSES:
            yield from self._finish(reason, delta)

    def _finish(self, reason: str, delta: dict[str, Any]) -> Iterator[ModelEvent]:
        if reason == NO_ROOM and not (self._has_words or self._has_ready_calls):
            raise provider_error("too_long", self._account.names, detail=reason)
        if reason not in CUT_SHORT and self._unreadable:
            # Arguments that were cut off never parse: such a call was not made. Others were.
            self._has_ready_calls = True
            yield from self._unreadable
        yield from self._explanation(delta.get("stop_details"))
        yield self._tokens.usage()
        stopped: FinishReason = "tool_calls" if self._has_ready_calls else "stop"
        yield Finished(reason=CUT_SHORT.get(reason, stopped))
        self.is_finished = True

    def _explanation(self, details: object) -> Iterator[ModelEvent]:
        """Why the provider refused, in its own words."""
        match details:
            case {"type": "refusal", "explanation": str(words)} if words:
                yield TextDelta(text=storable(f"\n\n{words}" if self._has_words else words))


def _own(opened: _Open, **more: Block) -> dict[str, Any]:
    return {"provider": OWN, "data": {"place": opened.place, **more}}


def _read(arguments: str) -> dict[str, Any] | None:
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


class _Tokens:
    """What is counted anew in each leg: every number of it may be said again, none is added."""

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
