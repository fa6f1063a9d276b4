"""Gemini: a request in its format, and its chunks as our events.

Any part may have a signature of the reasoning, which must come back with that part. So text with a
signature is stored as the parts it came in, and each call as its own part.
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
    PictureMade,
    ReasoningDelta,
    SourceCited,
    TextDelta,
    ToolCallReady,
    ToolCallStarted,
    Usage,
)
from chatapp.providers.failures import early_end_error
from chatapp.providers.refusals import Fallback
from chatapp.providers.request import Effort, ModelRequest
from chatapp.providers.stream_reading import as_list, as_object, clean_text, drain
from chatapp.providers.tools.toolbox import Toolbox

from .client import DRAIN_SECONDS, Body, Chunk, answer_error, list_models, stream_chunks
from .history import OWN, SILENCE, UNSIGNED, Contents, Part
from .provider import DIALECT

__all__ = ["list_models", "stream"]

Run = Literal["text", "reasoning"]

LEVELS: dict[Effort, str] = {"off": "MINIMAL", "low": "LOW", "medium": "MEDIUM", "high": "HIGH"}
BUDGETS: dict[Effort, int] = {"off": 0, "low": 1_024, "medium": 8_192, "high": 24_576}
SOURCES = {"groundingMetadata", "citationMetadata"}
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
    box = Toolbox(DIALECT, request.tools)
    for tool in box.left_out:
        yield tool
    answer = _Answer(box, account)
    fallback = Fallback(_simplify)
    async with aclosing(stream_chunks(account, _build_body(request, box), fallback)) as source:
        async for chunk in source:
            for said in chain(fallback.pop_events(), answer.take(chunk)):
                yield said
            if answer.reason:
                break
        else:
            raise early_end_error(account.names)
        for chunk in await drain(source, DRAIN_SECONDS):
            answer.count(chunk)
    for said in answer.finish():
        yield said


def _build_body(request: ModelRequest, box: Toolbox) -> Body:
    parameters = request.parameters
    config: dict[str, Any] = {"thinking_config": _build_thinking(request.model, parameters.effort)}
    if request.system:
        config["system_instruction"] = clean_text(request.system)
    if parameters.output_tokens is not None:
        config["max_output_tokens"] = parameters.output_tokens
    if parameters.temperature is not None:
        config["temperature"] = parameters.temperature
    if box.tools:
        declared = [
            {
                "name": tool.name,
                "description": clean_text(tool.description),
                "parameters_json_schema": tool.schema,
            }
            for tool in box.tools
        ]
        config["tools"] = [{"function_declarations": declared}]
    contents = Contents(box).build(request.history)
    return {"model": request.model, "contents": contents, "config": config}


def _build_thinking(model: str, effort: Effort) -> dict[str, Any]:
    """Return the options. The second generation has budgets, later ones have levels."""
    thinking: dict[str, Any] = {"include_thoughts": effort != "off"}
    if effort and re.search(r"gemini-[12]\b", model):
        thinking["thinking_budget"] = BUDGETS[effort]
    elif effort:
        thinking["thinking_level"] = LEVELS[effort]
    return thinking


def _simplify(body: Body, complaint: str) -> Body | None:
    """Return the body without the cause of the complaint, or None.

    Models differ in thinking and media, and a signature of another key is refused.
    """
    complaint, config = complaint.lower(), body["config"]
    thinking = config.get("thinking_config")
    if re.search(r"thought.?signature", complaint):
        return _change_parts(body, _remove_signature)
    if "thinking" in complaint and thinking:
        config = {key: value for key, value in config.items() if key != "thinking_config"}
        if thinking.keys() - {"include_thoughts"}:
            config["thinking_config"] = {"include_thoughts": thinking["include_thoughts"]}
        return {**body, "config": config}
    if "modality" in complaint or "mime type" in complaint:
        return _change_parts(body, lambda part: None if "inline_data" in part else part)
    return None


def _change_parts(body: Body, change: Callable[[Part], Part | None]) -> Body | None:
    """Return the body with each part changed or removed, or None if nothing changes."""
    contents = [
        {**each, "parts": [new for part in each["parts"] if (new := change(part))] or [SILENCE]}
        for each in body["contents"]
    ]
    return {**body, "contents": contents} if contents != body["contents"] else None


def _remove_signature(part: Part) -> Part | None:
    if part.get("thought"):
        return None
    signature = {"thought_signature": UNSIGNED} if "function_call" in part else {}
    kept = {key: value for key, value in part.items() if key != "thought_signature"} | signature
    return kept if kept.get("text") != "" else None


class _Answer:
    """One answer. Calls arrive complete; unknown parts are ignored."""

    def __init__(self, box: Toolbox, account: Account) -> None:
        self._box = box
        self._account = account
        self._calls = 0
        self._kind: Run = "text"
        self._signed_parts: list[Part] = []
        self._texts: list[str] = []
        self._tokens: dict[str, int] = {}
        self.reason = ""

    def take(self, chunk: Chunk) -> Iterator[ModelEvent]:
        self.count(chunk)
        if as_object(chunk.get("promptFeedback")).get("blockReason"):
            self.reason = "SAFETY"
        for candidate in as_list(chunk.get("candidates"))[:1]:
            for part in as_object(candidate.get("content")).get("parts", ()):
                yield from self._read_part(part)
            if not SOURCES.isdisjoint(candidate):
                yield from _read_sources(candidate)
            if reason := clean_text(candidate.get("finishReason")):
                self._end(reason.upper())

    def count(self, chunk: Chunk) -> None:
        """Update the counts. A field that is missing later keeps its value."""
        usage = as_object(chunk.get("usageMetadata"))
        self._tokens |= {name: value for name, value in usage.items() if isinstance(value, int)}

    def finish(self) -> Iterator[ModelEvent]:
        yield from self._close_run()
        yield self._count_usage()
        yield Finished(reason=self._finish_reason())

    def _read_part(self, part: Any) -> Iterator[ModelEvent]:
        """Read a part that is only text, as JSON, or any other of the SDK's type."""
        if isinstance(part, dict):
            if "text" in part:
                kind: Run = "reasoning" if part.get("thought") else "text"
                yield from self._add_text(kind, clean_text(part["text"]))
        elif part.function_call is not None:
            yield from self._close_run()
            yield from self._read_call(part)
        elif part.inline_data is not None and not part.thought:
            yield from self._read_picture(part)
        elif part.text is not None or part.thought_signature is not None:
            kind = "reasoning" if part.thought else "text"
            yield from self._add_text(kind, clean_text(part.text), part)

    def _add_text(self, kind: Run, text: str, part: Any = None) -> Iterator[ModelEvent]:
        """Add text. `part` is the part that it came in if that may have a signature."""
        if kind != self._kind:
            yield from self._close_run()
            self._kind = kind
        if part is None or part.thought_signature is None:
            self._texts.append(text)
        else:
            self._close_text()
            self._signed_parts.append({**_part_to_json(part), "text": text})
        if text:
            yield TextDelta(text=text) if kind == "text" else ReasoningDelta(text=text)

    def _close_text(self) -> None:
        """Store the text since the last signature as one part."""
        if text := "".join(self._texts):
            self._signed_parts.append(
                {"text": text} | ({"thought": True} if self._is_thought else {})
            )
        self._texts = []

    @property
    def _is_thought(self) -> bool:
        return self._kind == "reasoning"

    def _close_run(self) -> Iterator[ModelEvent]:
        if self._signed_parts:
            self._close_text()
            opaque = {"provider": OWN, "data": {"parts": self._signed_parts}}
            yield OpaqueData(kind=self._kind, data=opaque)
        self._signed_parts, self._texts = [], []

    def _read_call(self, part: Any) -> Iterator[ModelEvent]:
        call, index = part.function_call, self._calls
        self._calls += 1
        name = self._box.from_wire(clean_text(call.name))
        arguments = json.dumps(call.args or {})
        yield ToolCallStarted(index=index, name=name)
        yield ArgumentsDelta(index=index, text=arguments)
        yield ToolCallReady(
            index=index,
            call_id=clean_text(call.id) or f"call_{uuid.uuid4().hex}",
            name=name,
            arguments=self._box.arguments_from_wire(name, arguments),
            opaque={"provider": OWN, "data": _part_to_json(part)},
        )

    def _read_picture(self, part: Any) -> Iterator[ModelEvent]:
        """Yield a picture. Its signature goes back with it; the bytes are stored once."""
        yield from self._close_run()
        raw = _part_to_json(part)
        data = raw.pop("inline_data")
        opaque = {"provider": OWN, "data": raw}
        yield PictureMade(base64=_to_plain_base64(data.get("data")), opaque=opaque)

    def _end(self, reason: str) -> None:
        if reason in FAILED:
            raise answer_error(self._account, "server", reason)
        if reason == "MISSING_THOUGHT_SIGNATURE":
            raise answer_error(self._account, "bad_request", reason)
        if reason != "FINISH_REASON_UNSPECIFIED":
            self.reason = reason

    def _finish_reason(self) -> FinishReason:
        if self.reason in FILTERED:
            return "filtered"
        if self.reason in CUT_SHORT:
            return "length"
        return "tool_calls" if self._calls else "stop"

    def _count_usage(self) -> Usage:
        tokens = self._tokens.get
        thoughts = tokens("thoughtsTokenCount", 0)
        asked = tokens("promptTokenCount", 0) + tokens("toolUsePromptTokenCount", 0)
        return Usage(
            input_tokens=asked,
            cached_tokens=tokens("cachedContentTokenCount", 0),
            output_tokens=tokens("candidatesTokenCount", 0) + thoughts,
            reasoning_tokens=thoughts,
        )


def _read_sources(candidate: dict[str, Any]) -> Iterator[ModelEvent]:
    """Yield the pages of Google's search, of a store of documents, and those that are quoted."""
    grounding = as_object(candidate.get("groundingMetadata"))
    for chunk in map(as_object, as_list(grounding.get("groundingChunks"))):
        if page := as_object(chunk.get("web") or chunk.get("retrievedContext")):
            yield SourceCited(url=clean_text(page.get("uri")), title=clean_text(page.get("title")))
    quoted = as_object(candidate.get("citationMetadata"))
    for citation in map(as_object, as_list(quoted.get("citationSources"))):
        url, title = clean_text(citation.get("uri")), clean_text(citation.get("title"))
        yield SourceCited(url=url, title=title)


def _to_plain_base64(data: object) -> str:
    """Return base64 with the usual letters. The SDK writes that for web addresses."""
    return clean_text(data).replace("-", "+").replace("_", "/")


def _part_to_json(part: Any) -> Part:
    """Return a part as JSON, with bytes in base64."""
    raw: Part = part.model_dump(mode="json", exclude_none=True)
    return raw
