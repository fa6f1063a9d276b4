"""Answers in the shape of OpenAI's chat completions, with an object `countersign` beside it that
says how the turn stands."""

import json
from typing import Any

from django.http import HttpResponse, JsonResponse

from chatapp.models import Turn
from chatapp.turns import program_answers
from chatapp.turns.program_answers import closing_words
from chatapp.turns.program_words import BEGUN_ANEW, PARAGRAPH, answer_text

from .bearer import Problem

TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
# How a turn ended, as OpenAI says it; all else is a plain stop.
FINISHES = {
    **dict.fromkeys(("length", "budget"), "length"),
    **dict.fromkeys(("refused", "filtered"), "content_filter"),
}


def refusal(problem: Problem) -> HttpResponse:
    return JsonResponse(error(problem), status=problem.status, headers=problem.headers)


def error(problem: Problem) -> dict[str, Any]:
    usual = "server_error" if problem.status >= 500 else "invalid_request_error"
    return {
        "error": {
            "message": " ".join(filter(None, [problem.message, problem.hint])),
            "type": TYPES.get(problem.status, usual),
            "param": problem.field or None,
            "code": problem.kind,
        }
    }


def failure(turn: Turn) -> Problem:
    """The turn failed: its provider did not answer, or something went wrong here."""
    return Problem(status=502, kind="failed", message=program_answers.error_of(turn))


def begun_anew() -> Problem:
    """A stream cannot take back what it sent."""
    return Problem(status=502, kind="begun_anew", message=BEGUN_ANEW)


def whole(turn: Turn, standing: dict[str, Any]) -> dict[str, Any]:
    """The answer in one piece."""
    texts = (answer_text(turn), closing_words(turn, standing))
    said = PARAGRAPH.join(filter(None, texts))
    message = {"role": "assistant", "content": said, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_of(turn)}
    return {
        **_common(turn, "chat.completion"),
        "choices": [choice],
        "usage": usage(turn),
        "countersign": standing,
    }


def piece(turn: Turn, delta: dict[str, Any], finish: str | None = None, **more: Any) -> str:
    """One event of a streamed answer."""
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return event({**_common(turn, "chat.completion.chunk"), "choices": [choice], **more})


def counted(turn: Turn) -> str:
    """The event that holds the tokens, behind all words."""
    chunk = _common(turn, "chat.completion.chunk")
    return event({**chunk, "choices": [], "usage": usage(turn)})


def event(value: dict[str, Any]) -> str:
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n"


def finish_of(turn: Turn) -> str:
    if not turn.rests:
        return "length"
    return FINISHES.get(turn.reason, "stop")


def usage(turn: Turn) -> dict[str, Any]:
    tokens = program_answers.tokens_of(turn)
    asked, said = tokens["input_tokens"], tokens["output_tokens"]
    return {
        "prompt_tokens": asked,
        "completion_tokens": said,
        "total_tokens": asked + said,
        "prompt_tokens_details": {"cached_tokens": tokens["cached_tokens"]},
        "completion_tokens_details": {"reasoning_tokens": tokens["reasoning_tokens"]},
    }


def _common(turn: Turn, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{turn.pk.hex}",
        "object": kind,
        "created": int(turn.created_at.timestamp()),
        "model": turn.model,
    }
