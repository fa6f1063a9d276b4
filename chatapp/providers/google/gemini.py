"""Gemini: a request in its form, and its chunks as our events.

Signatures of its reasoning may sit on any part, and only that part may bring them back. So a run of
words that has one is kept as the parts it came in, and each call as its own part.
"""

import json
import re
import uuid
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from itertools import chain
from typing import Any, Literal

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
from chatapp.providers.google_client import (
    DRAIN_SECONDS,
    Body,
    Chunk,
    chunks,
    failed,
    listed_models,
)
from chatapp.providers.google_history import OWN, SILENCE, UNSIGNED, Contents, Part
from chatapp.providers.reading import rest
from chatapp.providers.request import (
    Effort,
    ModelRequest,
)
from chatapp.providers.retreat import Retreat
from chatapp.providers.toolbox import GEMINI, Toolbox
from chatapp.providers.words import storable

__all__ = ["listed_models", "stream"]

Run = Literal["text", "reasoning"]

LEVELS: dict[Effort, str] = {"off": "MINIMAL", "low": "LOW", "medium": "MEDIUM", "high": "HIGH"}
BUDGETS: dict[Effort, int] = {"off": 0, "low": 1_024, "medium": 8_192, "high": 24_576}
CUT_SHORT = {"MAX_TOKENS", "CONTINUATION"}
FAILED = {
    *("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"),
    *("MALFORMED_RESPONSE", "OTHER", "IMAGE_OTHER", "NO_IMAGE"),
}
FILTERED = {
    *("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"),
    *("MODEL_ARMOR", "ESCALATION", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT"),
    "IMAGE_RECITATION",
}


async def stream(request: ModelRequest, account: Account) -> AsyncGenerator[ModelEvent, None]:
    box = Toolbox(GEMINI, request.tools)
    for tool in box.left_out:
        yield tool
    answer = _Answer(box, account)
    retreat = Retreat(_simpler)
    async with aclosing(chunks(account, _body(request, box), retreat)) as source:
        async for chunk in source:
            for said in chain(retreat.told(), answer.take(chunk)):
                yield said
            if answer.reason:
                break
        else:
            raise unfinished(account.names)
        for chunk in await rest(source, DRAIN_SECONDS):
            answer.count(chunk)
    for said in answer.finish():
        yield said


def _body(request: ModelRequest, box: Toolbox) -> Body:
    parameters = request.parameters
    config: dict[str, Any] = {"thinking_config": _thinking(request.model, parameters.effort)}
    if request.system:
        config["system_instruction"] = storable(request.system)
    if parameters.output_tokens is not None:
        config["max_output_tokens"] = parameters.output_tokens
    if parameters.temperature is not None:
        config["temperature"] = parameters.temperature
    if box.tools:
        declared = [
            {
                "name": tool.name,
                "description": storable(tool.description),
                "parameters_json_schema": tool.schema,
            }
            for tool in box.tools
        ]
        config["tools"] = [{"function_declarations": declared}]
    contents = Contents(box).of(request.history)
    return {"model": request.model, "contents": contents, "config": config}


def _thinking(model: str, effort: Effort) -> dict[str, Any]:
    """The second generation counts tokens of thought, later ones know levels."""
    thinking: dict[str, Any] = {"include_thoughts": effort != "off"}
    if effort and re.search(r"gemini-[12]\b", model):
        thinking["thinking_budget"] = BUDGETS[effort]
    elif effort:
        thinking["thinking_level"] = LEVELS[effort]
    return thinking


def _simpler(body: Body, complaint: str) -> Body | None:
    """Models differ in how they think, many take no media, and a key that was changed may not
    bring back what was signed for another."""
    complaint, config = complaint.lower(), body["config"]
    thinking = config.get("thinking_config")
    if re.search(r"thought.?signature", complaint):
        return _changed(body, _unsigned)
    if "thinking" in complaint and thinking:
        config = {key: value for key, value in config.items() if key != "thinking_config"}
        if thinking.keys() - {"include_thoughts"}:
            config["thinking_config"] = {"include_thoughts": thinking["include_thoughts"]}
        return {**body, "config": config}
    if "modality" in complaint or "mime type" in complaint:
        return _changed(body, lambda part: None if "inline_data" in part else part)
    return None


def _changed(body: Body, change: Callable[[Part], Part | None]) -> Body | None:
    """The body with each part changed or left out; None when that changes nothing."""
    contents = [
        {**each, "parts": [new for part in each["parts"] if (new := change(part))] or [SILENCE]}
        for each in body["contents"]
    ]
    return {**body, "contents": contents} if contents != body["contents"] else None


def _unsigned(part: Part) -> Part | None:
    if part.get("thought"):
        return None
    signature = {"thought_signature": UNSIGNED} if "function_call" in part else {}
    kept = {key: value for key, value in part.items() if key != "thought_signature"} | signature
    return kept if kept.get("text") != "" else None


class _Answer:
    """One answer as it comes in. Calls come whole; what is unknown is ignored."""

    def __init__(self, box: Toolbox, account: Account) -> None:
        self._box = box
        self._account = account
        self._calls = 0
        self._kind: Run = "text"
        self._kept: list[Part] = []
        self._words: list[str] = []
        self._tokens: dict[str, int] = {}
        self.reason = ""

    def take(self, chunk: Chunk) -> Iterator[ModelEvent]:
        self.count(chunk)
        feedback = chunk.prompt_feedback
        if feedback is not None and feedback.block_reason is not None:
            self.reason = "SAFETY"
        for candidate in (chunk.candidates or [])[:1]:
            parts = candidate.content.parts if candidate.content else None
            for part in parts or []:
                yield from self._part(part)
            if candidate.finish_reason is not None:
                self._end(candidate.finish_reason.value)

    def count(self, chunk: Chunk) -> None:
        """A field that is missing in a later count keeps its value."""
        usage = chunk.usage_metadata
        if usage is not None:
            self._tokens |= {name: value for name, value in usage if isinstance(value, int)}

    def finish(self) -> Iterator[ModelEvent]:
        yield from self._close_run()
        yield self._usage()
        yield Finished(reason=self._finish_reason())

    def _part(self, part: Any) -> Iterator[ModelEvent]:
        if part.function_call is not None:
            yield from self._close_run()
            yield from self._call(part)
        elif part.text is not None or part.thought_signature is not None:
            yield from self._say("reasoning" if part.thought else "text", part)

    def _say(self, kind: Run, part: Any) -> Iterator[ModelEvent]:
        text = storable(part.text)
        if kind != self._kind:
            yield from self._close_run()
            self._kind = kind
        if part.thought_signature is None:
            self._words.append(text)
        else:
            self._keep_words()
            self._kept.append({**_raw(part), "text": text})
        if text:
            yield TextDelta(text=text) if kind == "text" else ReasoningDelta(text=text)

    def _keep_words(self) -> None:
        """The words since the last signature are one part, however many chunks they came in."""
        if text := "".join(self._words):
            self._kept.append({"text": text} | ({"thought": True} if self._is_thought else {}))
        self._words = []

    @property
    def _is_thought(self) -> bool:
        return self._kind == "reasoning"

    def _close_run(self) -> Iterator[ModelEvent]:
        if self._kept:
            self._keep_words()
            opaque = {"provider": OWN, "data": {"parts": self._kept}}
            yield OpaqueData(kind=self._kind, data=opaque)
        self._kept, self._words = [], []

    def _call(self, part: Any) -> Iterator[ModelEvent]:
        call, index = part.function_call, self._calls
        self._calls += 1
        name = self._box.from_wire(storable(call.name))
        arguments = json.dumps(call.args or {})
        yield ToolCallStarted(index=index, name=name)
        yield ArgumentsDelta(index=index, text=arguments)
        yield ToolCallReady(
            index=index,
            call_id=storable(call.id) or f"call_{uuid.uuid4().hex}",
            name=name,
            arguments=self._box.arguments_from_wire(name, arguments),
            opaque={"provider": OWN, "data": _raw(part)},
        )

    def _end(self, reason: str) -> None:
        if reason in FAILED:
            raise failed(self._account, "server", reason)
        if reason == "MISSING_THOUGHT_SIGNATURE":
            raise failed(self._account, "bad_request", reason)
        if reason != "FINISH_REASON_UNSPECIFIED":
            self.reason = reason

    def _finish_reason(self) -> FinishReason:
        if self.reason in FILTERED:
            return "filtered"
        if self.reason in CUT_SHORT:
            return "length"
        return "tool_calls" if self._calls else "stop"

    def _usage(self) -> Usage:
        tokens = self._tokens.get
        thoughts = tokens("thoughts_token_count", 0)
        asked = tokens("prompt_token_count", 0) + tokens("tool_use_prompt_token_count", 0)
        return Usage(
            input_tokens=asked,
            cached_tokens=tokens("cached_content_token_count", 0),
            output_tokens=tokens("candidates_token_count", 0) + thoughts,
            reasoning_tokens=thoughts,
        )


def _raw(part: Any) -> Part:
    """A part as JSON, bytes in base64."""
    raw: Part = part.model_dump(mode="json", exclude_none=True)
    return raw
