"""The frames of one scripted answer in the form of Bedrock's Converse."""

import base64
import json
import struct
import zlib
from collections.abc import Iterator
from typing import Any

from .demands.bedrock import check_bedrock
from .form import Event, Format
from .script import Answer, Tool, pieces

Block = tuple[dict[str, Any] | None, list[dict[str, Any]]]

EVENT_STREAM = "application/vnd.amazon.eventstream"
USAGE = {
    "inputTokens": 40,
    "outputTokens": 30,
    "totalTokens": 150,
    "cacheReadInputTokens": 64,
    "cacheWriteInputTokens": 16,
}
STOP_REASONS = {"length": "max_tokens", "content_filter": "content_filtered"}
EXCEPTIONS = {
    "rate_limit_exceeded": "throttlingException",
    "overloaded": "serviceUnavailableException",
    "server_error": "internalServerException",
    "invalid_prompt": "validationException",
}
REDACTED = base64.b64encode(b"\xff\x00redacted").decode()
STRING = 7


def frame(headers: dict[str, str], payload: bytes) -> bytes:
    """One message of Amazon's event stream, with the checksum of its beginning and of it all."""
    packed = b"".join(_header(name, value) for name, value in headers.items())
    begun = struct.pack("!II", 16 + len(packed) + len(payload), len(packed))
    begun += struct.pack("!I", zlib.crc32(begun))
    message = begun + packed + payload
    return message + struct.pack("!I", zlib.crc32(message))


def _header(name: str, value: str) -> bytes:
    words = value.encode()
    return bytes([len(name)]) + name.encode() + struct.pack("!BH", STRING, len(words)) + words


def encoded(event: Event) -> bytes:
    """A dictionary with one event or exception by its name, or with one that is damaged on its way;
    text is written as it is."""
    if isinstance(event, str):
        return event.encode()
    ((name, value),) = event.items()
    if name == "damaged":
        return encoded(value)[:-1] + b"\0"
    kind = "exception" if name.endswith("Exception") else "event"
    headers = {f":{kind}-type": name, ":content-type": "application/json", ":message-type": kind}
    return frame(headers, json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def bedrock_events(answer: Answer, _: str) -> Iterator[Event]:
    """Blocks one after another; only those of tools are announced."""
    if not answer.is_sloppy:
        yield {"messageStart": {"role": "assistant"}}
    if answer.is_strange:
        yield {"somethingNew": {"text": "not for anybody"}}
    for index, (start, deltas) in enumerate(_blocks(answer)):
        place = {"contentBlockIndex": index}
        if start:
            yield {"contentBlockStart": {**place, "start": start}}
        for delta in deltas:
            yield {"contentBlockDelta": {**place, "delta": delta}}
        if not answer.is_sloppy:
            yield {"contentBlockStop": place}
    if answer.in_stream_error:
        yield exception_of(answer.in_stream_error)
        return
    yield from _end(answer)


def _end(answer: Answer) -> Iterator[Event]:
    """The count of tokens comes after the end, or just before it."""
    reason = "tool_use" if answer.all_tools else "end_turn"
    reason = STOP_REASONS.get(answer.finish, reason)
    stop: Event = {"messageStop": {"stopReason": "refusal" if answer.refusal else reason}}
    counted: Event = {"metadata": {"usage": USAGE, "metrics": {"latencyMs": 12}}}
    if answer.is_sloppy:
        yield stop
    else:
        yield from [counted, stop] if answer.is_strange else [stop, counted]


def exception_of(error: dict[str, Any]) -> dict[str, Any]:
    code = str(error.get("code") or "")
    name = code if code.endswith("Exception") else EXCEPTIONS.get(code, f"{code}Exception")
    return {name: {"message": error.get("message", "")}}


def _blocks(answer: Answer) -> Iterator[Block]:
    """What announces each block, if anything, and what is added to it."""
    calls = 0
    for said in answer.rounds:
        yield from _thoughts_and_words(said, answer)
        for index, tool in enumerate(said.tools, start=calls):
            yield _call(tool, index, answer)
        calls += len(said.tools)


def _thoughts_and_words(said: Answer, answer: Answer) -> Iterator[Block]:
    if said.reasoning:
        thoughts: list[dict[str, Any]] = [
            {"reasoningContent": {"text": piece}} for piece in pieces(said.reasoning, answer.chunk)
        ]
        signed = {"reasoningContent": {"signature": "EqQB-signed"}}
        yield None, thoughts if answer.is_sloppy else [*thoughts, signed]
    if said.is_strange:
        yield None, [{"reasoningContent": {"redactedContent": REDACTED}}]
        yield {"somethingNew": {"id": "x"}}, [{"somethingNew": {"text": "not for anybody"}}]
    if words := said.text + said.refusal:
        yield None, [{"text": piece} for piece in pieces(words, answer.chunk)]


def _call(tool: Tool, index: int, answer: Answer) -> Block:
    start = {"toolUse": {"toolUseId": tool.id or f"call_{index}", "name": tool.name}}
    return start, [{"toolUse": {"input": p}} for p in pieces(tool.arguments_text, answer.chunk)]


def _refused(answer: Answer) -> tuple[dict[str, str], Any]:
    """The kind of an error is in a header."""
    code = str(answer.error.get("code") or "")
    headers = {"x-amzn-errortype": code} if code else {}
    return headers, {"message": answer.error.get("message", "")}


BEDROCK = Format(
    path=r"/model/(?P<model>[^/]+)/converse-stream",
    events=bedrock_events,
    encoded=encoded,
    content_type=EVENT_STREAM,
    demands=check_bedrock,
    refused=_refused,
)


def bedrock_models() -> Any:
    """One that is asked by its own name, one by a profile's, and one that does not stream."""
    return {
        "modelSummaries": [
            _model("amazon.nova-2-lite-v1:0", ["ON_DEMAND"], ["TEXT", "IMAGE"]),
            _model("anthropic.claude-sonnet-5-5", ["INFERENCE_PROFILE"], ["TEXT", "IMAGE"]),
            {
                **_model("amazon.titan-text", ["ON_DEMAND"], ["TEXT"]),
                "responseStreamingSupported": False,
            },
        ]
    }


def _model(model_id: str, types: list[str], inputs: list[str]) -> dict[str, Any]:
    return {
        "modelArn": f"arn:aws:bedrock:eu-west-1::foundation-model/{model_id}",
        "modelId": model_id,
        "modelName": model_id.partition(".")[2].title(),
        "inputModalities": inputs,
        "outputModalities": ["TEXT"],
        "responseStreamingSupported": True,
        "inferenceTypesSupported": types,
    }


def bedrock_profiles(next_token: str | None) -> Any:
    """Two pages; the model of the second is not offered."""
    if next_token is None:
        return {"inferenceProfileSummaries": [_profile("sonnet-5-5")], "nextToken": "page-2"}
    return {"inferenceProfileSummaries": [_profile("gone")]}


def _profile(name: str) -> dict[str, Any]:
    arn = "arn:aws:bedrock:eu-west-1::foundation-model/anthropic.claude-"
    return {
        "inferenceProfileId": f"eu.anthropic.claude-{name}",
        "inferenceProfileName": f"EU Claude {name}",
        "inferenceProfileArn": f"arn:aws:bedrock:eu-west-1:1:inference-profile/{name}",
        "models": [{"modelArn": f"{arn}{name}"}],
        "status": "ACTIVE",
        "type": "SYSTEM_DEFINED",
    }
