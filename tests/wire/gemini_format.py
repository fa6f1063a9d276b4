"""The chunks of one scripted answer in the form of Gemini."""

from collections.abc import Iterator
from typing import Any

from .demands.gemini import check_gemini
from .form import Event, Format
from .script import Answer, Tool, pieces

Part = dict[str, Any]

FIRST_USAGE = {"promptTokenCount": 120, "cachedContentTokenCount": 64, "totalTokenCount": 120}
LAST_USAGE = {
    "promptTokenCount": 120,
    "candidatesTokenCount": 18,
    "thoughtsTokenCount": 12,
    "totalTokenCount": 150,
}
FINISH_REASONS = {"length": "MAX_TOKENS", "content_filter": "SAFETY"}
STATUSES: dict[Any, tuple[int, str]] = {
    "rate_limit_exceeded": (429, "RESOURCE_EXHAUSTED"),
    "overloaded": (503, "UNAVAILABLE"),
    "invalid_prompt": (400, "INVALID_ARGUMENT"),
}
SIGNATURE = "c2lnbmVk/+4="


def gemini_events(answer: Answer, model: str) -> Iterator[Event]:
    """Chunks as dictionaries. There are no pieces of a call, and no refusals: the filter says
    no."""
    if answer.is_sloppy:
        yield {}
        yield {"candidates": None, "usageMetadata": {}}
        yield _chunk(model, None)
    if answer.is_strange:
        strange = {"text": "", "somethingNew": {"a": 1}}
        code = {"executableCode": {"language": "PYTHON", "code": "1"}}
        yield {**_chunk(model, [strange, code]), "novelty": {"a": 1}}
    for part in _parts(answer):
        yield _chunk(model, [part])
    if answer.in_stream_error:
        yield {"error": _error(answer.in_stream_error, 500)}
        return
    yield _last_chunk(answer, model)


def _last_chunk(answer: Answer, model: str) -> dict[str, Any]:
    reason = "SAFETY" if answer.refusal else FINISH_REASONS.get(answer.finish, "STOP")
    signed = [{"text": "", "thoughtSignature": SIGNATURE}] if _is_signed_last(answer) else None
    chunk = _chunk(model, signed)
    chunk["candidates"][0]["finishReason"] = reason
    return chunk if answer.is_sloppy else {**chunk, "usageMetadata": LAST_USAGE}


def _is_signed_last(answer: Answer) -> bool:
    return bool(answer.reasoning and answer.text and not answer.all_tools)


def _parts(answer: Answer) -> Iterator[Part]:
    calls = 0
    for said in answer.rounds:
        for piece in pieces(said.reasoning, answer.chunk):
            yield {"text": piece, "thought": True}
        for piece in pieces(said.text + said.refusal, answer.chunk):
            yield {"text": piece}
        for index, tool in enumerate(said.tools, start=calls):
            yield _call(tool, index, answer)
        calls += len(said.tools)


def _call(tool: Tool, index: int, answer: Answer) -> Part:
    """Of parallel calls, the first carries the signature of them all."""
    arguments = tool.arguments if isinstance(tool.arguments, dict) else {}
    call = {"name": tool.name, "args": arguments}
    if not answer.is_sloppy:
        call["id"] = tool.id or f"call_{index}"
    return {"functionCall": call} | ({} if index else {"thoughtSignature": SIGNATURE})


def _chunk(model: str, parts: list[Part] | None) -> dict[str, Any]:
    content = {"role": "model"} | ({} if parts is None else {"parts": parts})
    return {
        "candidates": [{"content": content, "index": 0}],
        "usageMetadata": FIRST_USAGE,
        "modelVersion": model,
        "responseId": "resp_1",
    }


def _error(error: dict[str, Any], status: int) -> dict[str, Any]:
    """A number as the code is Google's own way to say it."""
    code = error.get("code")
    number, name = STATUSES.get(code, (code if isinstance(code, int) else status, str(code or "")))
    return {"code": number, "status": name, "message": "", **{**error, "code": number}}


def _refused(answer: Answer) -> tuple[dict[str, str], Any]:
    return {}, {"error": {**_error(answer.error, answer.status), "code": answer.status}}


GEMINI = Format(
    path=r"/v1(beta)?/models/(?P<model>[^/]+):streamGenerateContent",
    events=gemini_events,
    demands=check_gemini,
    refused=_refused,
)


def gemini_models(page_token: str | None) -> Any:
    """Two pages of models, with one that does not chat."""
    if page_token is None:
        chats = _model("scripted", ["generateContent", "countTokens"])
        return {"models": [chats], "nextPageToken": "page-2"}
    return {"models": [_model("embedding", ["embedContent"]), _model("small", None)]}


def _model(name: str, methods: list[str] | None) -> dict[str, Any]:
    described = {"name": f"models/{name}", "displayName": name.title(), "thinking": True}
    described |= {"inputTokenLimit": 1_048_576, "outputTokenLimit": 65_536}
    return described | ({"supportedGenerationMethods": methods} if methods else {})
