"""What a program is told about its calls and turns: their state, what they wait for, their
outcome and tokens."""

from dataclasses import dataclass
from typing import Any, Literal

from django.db.models import F, Q, Sum
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.context.history import build_outcome
from chatapp.context.withheld_results import is_visible_to_model
from chatapp.conversations.turn_events import WAITING_KINDS, get_waiting_kind
from chatapp.models import Part, Review, ToolCall, Turn
from chatapp.server.address import base_url

State = ToolCall.State
Status = Literal["runs", "waits", "done", "failed"]
WAITS = {
    "approval": gettext_lazy(
        "%(tool)s waits until %(person)s approves it at %(url)s. Nothing runs before that."
    ),
    "question": gettext_lazy("%(tool)s waits until %(person)s answers its question at %(url)s."),
    "sign_in": gettext_lazy("%(tool)s waits until %(person)s signs in at %(url)s."),
    "review": gettext_lazy("The result of %(tool)s waits until %(person)s reviews it at %(url)s."),
    "task": gettext_lazy("%(tool)s runs as a long task. See its state at %(url)s."),
}
UNSETTLED = gettext_lazy(
    "It is unknown whether %(tool)s ran. %(person)s can settle it at %(url)s. Do "
    "not repeat the call."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOutcome:
    """`text` is a sentence, or the result as text. `waits_for` is one of the values of
    `turn_events.KINDS`."""

    status: Status
    text: str
    structured: Any = None
    waits_for: str = ""
    url: str = ""


def describe_outcome(call: ToolCall) -> CallOutcome:
    """Return the current state of the call for a program."""
    if _is_waiting(call):
        return _describe_waiting(call)
    if call.state not in ToolCall.FINAL:
        return CallOutcome(
            status="runs", text=_("%(tool)s is still running.") % {"tool": call.tool_id}
        )
    told = build_outcome(call)
    if told.is_error:
        return CallOutcome(status="failed", text=told.text)
    structured = (call.result or {}).get("structured") if is_visible_to_model(call) else None
    return CallOutcome(status="done", text=told.text, structured=structured)


def _is_waiting(call: ToolCall) -> bool:
    review: Review | None = getattr(call, "review", None)
    is_held = review is not None and review.state == Review.State.OPEN
    return is_held or call.state in WAITING_KINDS


def _describe_waiting(call: ToolCall) -> CallOutcome:
    kind, url = get_waiting_kind(call), base_url() + _build_path(call)
    said = UNSETTLED if call.state == State.UNKNOWN else WAITS[kind]
    person = call.turn.conversation.owner.display_name
    text = said % {"tool": call.tool_id, "person": person, "url": url}
    return CallOutcome(status="waits", text=text, waits_for=kind, url=url)


def _build_path(call: ToolCall) -> str:
    if get_waiting_kind(call) == "approval":
        return reverse("approval", args=[call.pk])
    return reverse("conversation", args=[call.turn.conversation_id])


STILL_WRITING = gettext_lazy("The answer is not finished.")
ASK_AGAIN = gettext_lazy("The chat is at %(url)s. Send the same request again to get the outcome.")


def build_turn_url(turn: Turn) -> str:
    return base_url() + reverse("conversation", args=[turn.conversation_id])


def describe_turn(turn: Turn) -> dict[str, Any]:
    """Return the state of the turn for a program, what it waits for, and the outcomes of its
    tools."""
    calls = turn.tool_calls.select_related(
        "service", "turn__conversation__owner", "approval", "review"
    )
    return {
        "conversation": str(turn.conversation_id),
        "url": build_turn_url(turn),
        "state": turn.state,
        "reason": turn.reason,
        "waits_for": [
            {
                "kind": get_waiting_kind(call),
                "id": str(call.pk),
                "tool": call.tool_id,
                **_describe_wait(call),
            }
            for call in calls.filter(_is_open())
        ]
        if turn.state == Turn.State.WAITING
        else [],
        "tools": [_describe_call(call) for call in calls],
    }


def _is_open() -> Q:
    return Q(state__in=list(WAITING_KINDS)) | Q(review__state=Review.State.OPEN)


def _describe_wait(call: ToolCall) -> dict[str, str]:
    outcome = describe_outcome(call)
    return {"url": outcome.url, "message": outcome.text}


def _describe_call(call: ToolCall) -> dict[str, Any]:
    told = {
        "id": str(call.pk),
        "tool": call.tool_id,
        "service": call.service.name if call.service else "",
        "arguments": call.arguments,
        "state": call.state,
    }
    is_over = call.state in ToolCall.FINAL and call.state != ToolCall.State.SUCCEEDED
    return {**told, "error": build_outcome(call).text} if is_over else told


def build_closing_text(turn: Turn, standing: dict[str, Any]) -> str:
    """Return the text after an unfinished answer: what a person has to do and where, or that it
    is still being written."""
    if not turn.is_live:
        return ""
    sentences = [each["message"] for each in standing["waits_for"]]
    if not turn.rests:
        sentences = [str(STILL_WRITING)]
    return " ".join([*sentences, ASK_AGAIN % {"url": standing["url"]}])


def read_error(turn: Turn) -> str:
    """Return why the turn failed, as its page shows it."""
    notices = Part.objects.filter(
        message_id=turn.answer_id, notice_kind=Part.NoticeKind.ERROR
    ).order_by("step", "position")
    notice = notices.last()
    if notice is None:
        return _("The answer could not be finished.")
    return " ".join(filter(None, [notice.text, notice.hint]))


def sum_tokens(turn: Turn) -> dict[str, int]:
    """Return the tokens of all steps and summaries, under OpenAI's names."""
    sums = turn.steps.aggregate(
        input_tokens=Sum(F("input_tokens") + F("summary_input_tokens"), default=0),
        output_tokens=Sum(F("output_tokens") + F("summary_output_tokens"), default=0),
        cached_tokens=Sum("cached_tokens", default=0),
        reasoning_tokens=Sum("reasoning_tokens", default=0),
    )
    return {name: int(sum_ or 0) for name, sum_ in sums.items()}
