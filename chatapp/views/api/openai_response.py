"""Responses in the format of OpenAI chat completions, with an extra object `countersign` for the
state of the turn."""

import json
from typing import Any

from django.http import HttpResponse, JsonResponse

from chatapp.api import outcomes
from chatapp.api.outcomes import build_closing_text
from chatapp.api.text_stream import ANSWER_RESTARTED, PARAGRAPH, read_answer_text
from chatapp.models import Turn

from .bearer import Problem

TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
# The finish reasons of OpenAI by the reason of a turn; any other reason is "stop".
FINISHES = {
    **dict.fromkeys(("length", "budget"), "length"),
    **dict.fromkeys(("refused", "filtered"), "content_filter"),
}


def render_problem(problem: Problem) -> HttpResponse:
    return JsonResponse(build_error(problem), status=problem.status, headers=problem.headers)


def build_error(problem: Problem) -> dict[str, Any]:
    usual = "server_error" if problem.status >= 500 else "invalid_request_error"
    return {
        "error": {
            "message": " ".join(filter(None, [problem.message, problem.hint])),
            "type": TYPES.get(problem.status, usual),
            "param": problem.field or None,
            "code": problem.kind,
        }
    }


def build_failure(turn: Turn) -> Problem:
    """Return the problem of a failed turn."""
    return Problem(status=502, kind="failed", message=outcomes.read_error(turn))


def build_restart_problem() -> Problem:
    """Return the problem of a restarted answer: a stream cannot take back text."""
    return Problem(status=502, kind="begun_anew", message=str(ANSWER_RESTARTED))


def build_completion(turn: Turn, standing: dict[str, Any]) -> dict[str, Any]:
    """Return the whole answer."""
    texts = (read_answer_text(turn), build_closing_text(turn, standing))
    said = PARAGRAPH.join(filter(None, texts))
    message = {"role": "assistant", "content": said, "refusal": None}
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": get_finish_reason(turn),
    }
    return {
        **_build_common(turn, "chat.completion"),
        "choices": [choice],
        "usage": count_usage(turn),
        "countersign": standing,
    }


def format_chunk(turn: Turn, delta: dict[str, Any], finish: str | None = None, **more: Any) -> str:
    """Return one event of a streamed answer."""
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return format_event(
        {**_build_common(turn, "chat.completion.chunk"), "choices": [choice], **more}
    )


def format_usage_chunk(turn: Turn) -> str:
    """Return the event with the token counts, which follows all text."""
    chunk = _build_common(turn, "chat.completion.chunk")
    return format_event({**chunk, "choices": [], "usage": count_usage(turn)})


def format_event(value: dict[str, Any]) -> str:
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n"


def get_finish_reason(turn: Turn) -> str:
    if not turn.rests:
        return "length"
    return FINISHES.get(turn.reason, "stop")


def count_usage(turn: Turn) -> dict[str, Any]:
    tokens = outcomes.sum_tokens(turn)
    asked, said = tokens["input_tokens"], tokens["output_tokens"]
    return {
        "prompt_tokens": asked,
        "completion_tokens": said,
        "total_tokens": asked + said,
        "prompt_tokens_details": {"cached_tokens": tokens["cached_tokens"]},
        "completion_tokens_details": {"reasoning_tokens": tokens["reasoning_tokens"]},
    }


def _build_common(turn: Turn, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{turn.pk.hex}",
        "object": kind,
        "created": int(turn.created_at.timestamp()),
        "model": turn.model,
    }
