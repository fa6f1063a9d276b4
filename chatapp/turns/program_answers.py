"""Answers as a program reads them once nothing moves: the words, and how the turn stands."""

from typing import Any

from django.db.models import F, Q, Sum
from django.urls import reverse

from chatapp.links import base_url
from chatapp.models import Part, Review, ToolCall, Turn

from .history import outcome_of
from .narration import KINDS, kind_of
from .program_outcomes import outcome_for_program

STILL_WRITING = "The answer is not finished."
ASK_AGAIN = "The chat is at {url}. Send the same again to learn what became of it."


def page_of(turn: Turn) -> str:
    return base_url() + reverse("conversation", args=[turn.conversation_id])


def standing_of(turn: Turn) -> dict[str, Any]:
    """How the turn stands, for a program: its state, what it waits for, what its tools did."""
    calls = turn.tool_calls.select_related(
        "service", "turn__conversation__owner", "approval", "review"
    )
    return {
        "conversation": str(turn.conversation_id),
        "url": page_of(turn),
        "state": turn.state,
        "reason": turn.reason,
        "waits_for": [
            {"kind": kind_of(call), "id": str(call.pk), "tool": call.tool_id, **_where(call)}
            for call in calls.filter(_is_open())
        ]
        if turn.state == Turn.State.WAITING
        else [],
        "tools": [_done(call) for call in calls],
    }


def _is_open() -> Q:
    return Q(state__in=list(KINDS)) | Q(review__state=Review.State.OPEN)


def _where(call: ToolCall) -> dict[str, str]:
    outcome = outcome_for_program(call)
    return {"url": outcome.url, "message": outcome.text}


def _done(call: ToolCall) -> dict[str, Any]:
    told = {
        "id": str(call.pk),
        "tool": call.tool_id,
        "service": call.service.name if call.service else "",
        "arguments": call.arguments,
        "state": call.state,
    }
    is_over = call.state in ToolCall.FINAL and call.state != ToolCall.State.SUCCEEDED
    return {**told, "error": outcome_of(call).text} if is_over else told


def closing_words(turn: Turn, standing: dict[str, Any]) -> str:
    """What follows an answer that is not over: in sentences, what a person has to do and where, or
    that it is still being written."""
    if not turn.is_live:
        return ""
    sentences = [each["message"] for each in standing["waits_for"]]
    if not turn.rests:
        sentences = [STILL_WRITING]
    return " ".join([*sentences, ASK_AGAIN.format(url=standing["url"])])


def error_of(turn: Turn) -> str:
    """Why the turn failed, as its page says it."""
    notices = Part.objects.filter(
        message_id=turn.answer_id, notice_kind=Part.NoticeKind.ERROR
    ).order_by("step", "position")
    notice = notices.last()
    if notice is None:
        return "The answer could not be finished."
    return " ".join(filter(None, [notice.text, notice.hint]))


def tokens_of(turn: Turn) -> dict[str, int]:
    """The tokens of all steps, as OpenAI counts them, with those of summaries."""
    sums = turn.steps.aggregate(
        input_tokens=Sum(F("input_tokens") + F("summary_input_tokens"), default=0),
        output_tokens=Sum(F("output_tokens") + F("summary_output_tokens"), default=0),
        cached_tokens=Sum("cached_tokens", default=0),
        reasoning_tokens=Sum("reasoning_tokens", default=0),
    )
    return {name: int(sum_ or 0) for name, sum_ in sums.items()}
