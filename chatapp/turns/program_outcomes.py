"""What a program is told of its call: that it runs, for what it waits, or what came of it."""

from dataclasses import dataclass
from typing import Any, Literal

from django.urls import reverse

from chatapp.links import base_url
from chatapp.models import Review, ToolCall

from .held_results import may_be_told
from .history import outcome_of
from .narration import KINDS, kind_of

State = ToolCall.State
Standing = Literal["runs", "waits", "done", "failed"]
WAITS = {
    "approval": "{tool} waits until {person} approves it at {url}. Nothing runs before that.",
    "question": "{tool} waits until {person} answers its question at {url}.",
    "sign_in": "{tool} waits until {person} has signed in at {url}.",
    "review": "The result of {tool} waits until {person} has looked at it at {url}.",
    "task": "{tool} runs as a long task; {url} shows how it stands.",
}
UNSETTLED = "Nobody knows whether {tool} ran. {person} can say so at {url}. Do not repeat it."


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOutcome:
    """`text` is a sentence, or the result in words. `waits_for` is a word of `narration.KINDS`."""

    standing: Standing
    text: str
    structured: Any = None
    waits_for: str = ""
    url: str = ""


def outcome_for_program(call: ToolCall) -> CallOutcome:
    """How the call stands now."""
    if _waits(call):
        return _waiting(call)
    if call.state not in ToolCall.FINAL:
        return CallOutcome(standing="runs", text=f"{call.tool_id} is still running.")
    told = outcome_of(call)
    if told.is_error:
        return CallOutcome(standing="failed", text=told.text)
    structured = (call.result or {}).get("structured") if may_be_told(call) else None
    return CallOutcome(standing="done", text=told.text, structured=structured)


def _waits(call: ToolCall) -> bool:
    review: Review | None = getattr(call, "review", None)
    is_held = review is not None and review.state == Review.State.OPEN
    return is_held or call.state in KINDS


def _waiting(call: ToolCall) -> CallOutcome:
    kind, url = kind_of(call), base_url() + _page_of(call)
    said = UNSETTLED if call.state == State.UNKNOWN else WAITS[kind]
    person = call.turn.conversation.owner.display_name
    text = said.format(tool=call.tool_id, person=person, url=url)
    return CallOutcome(standing="waits", text=text, waits_for=kind, url=url)


def _page_of(call: ToolCall) -> str:
    if kind_of(call) == "approval":
        return reverse("approval", args=[call.pk])
    return reverse("conversation", args=[call.turn.conversation_id])
