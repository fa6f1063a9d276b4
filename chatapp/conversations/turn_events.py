"""A turn told as plain events, one JSON object each: what the `chat` command prints."""

from collections.abc import Iterator
from typing import Any

from django.db.models import Q

from chatapp.models import Approval, Part, Review, Step, ToolCall, Turn

from .history import failure_text
from .journal import Event, Kind

Told = dict[str, Any]
State = ToolCall.State
KINDS = {
    State.AWAITING_APPROVAL: "approval",
    State.UNKNOWN: "approval",
    State.AWAITING_INPUT: "question",
    State.AWAITING_SIGN_IN: "sign_in",
    State.AWAITING_TASK: "task",
}


class Narrator:
    """Turns journal events into told events; remembers which states it has told."""

    def __init__(self) -> None:
        self._told_states: dict[str, str] = {}

    def tell(self, event: Event) -> Iterator[Told]:
        match event.kind:
            case Kind.TEXT:
                yield {"type": "text", "text": event.data["text"]}
            case Kind.REASONING:
                yield {"type": "reasoning", "text": event.data["text"]}
            case Kind.RESTART:
                text = "The answer begins anew: the process that wrote it is gone."
                yield {"type": "notice", "kind": "restart", "text": text}
            case Kind.STEP:
                yield from self._step(event)
            case Kind.TOOL_CALL:
                yield from self._call(event.data["call"], event.data["state"])
            case Kind.NOTICE:
                yield from _notices(event, [event.data["position"]])
            case _:
                return

    def _step(self, event: Event) -> Iterator[Told]:
        step = Step.objects.get(turn__answer=event.data["message"], number=event.data["step"])
        yield from _notices(event, event.data["positions"])
        yield {
            "type": "usage",
            "input_tokens": step.read_tokens,
            "cached_tokens": step.cached_tokens,
            "output_tokens": step.written_tokens,
            "reasoning_tokens": step.reasoning_tokens,
        }

    def _call(self, call_id: str, state: str) -> Iterator[Told]:
        if self._told_states.get(call_id) == state:
            return
        self._told_states[call_id] = state
        call = ToolCall.objects.select_related("service").get(pk=call_id)
        yield {
            "type": "tool_call",
            "id": call_id,
            "tool": call.tool_name or call.tool_id,
            "service": call.service.name if call.service else "",
            "arguments": call.arguments,
            "risk": call.risk,
            "reasons": call.reasons,
            "state": state,
        }
        if state in State and state == call.state and call.state in ToolCall.FINAL:
            yield result_of(call)


def result_of(call: ToolCall) -> Told:
    """What came of a call that is over."""
    content = call.content
    if not content and call.state != State.SUCCEEDED:
        content = [
            {"type": "text", "text": failure_text(call) if call.error else call.get_state_display()}
        ]
    return {
        "type": "tool_result",
        "id": str(call.pk),
        "is_error": call.state != State.SUCCEEDED,
        "content": content,
    }


def _notices(event: Event, positions: list[int]) -> Iterator[Told]:
    parts = Part.objects.filter(
        message_id=event.data["message"],
        step=event.data["step"],
        position__in=positions,
        kind=Part.Kind.NOTICE,
    )
    for part in parts:
        text = " ".join(filter(None, [part.text, part.hint]))
        is_error = part.notice_kind == Part.NoticeKind.ERROR
        kind = "error" if is_error else "notice"
        yield {"type": kind, "kind": part.notice_kind, "text": text}


def end_of(turn: Turn) -> Told:
    """The last event of a turn that rests: it waits for a person, or it is over."""
    if turn.state == Turn.State.WAITING:
        return {"type": "waiting", "for": waiting_for(turn)}
    return {"type": "done", "reason": turn.reason}


def waiting_for(turn: Turn) -> list[Told]:
    """What the turn waits for; a call whose outcome is unknown waits for a word as well."""
    calls = turn.tool_calls.filter(Q(state__in=list(KINDS)) | Q(review__state=Review.State.OPEN))
    return [
        {"kind": kind_of(call), "id": str(call.pk), "tool": call.tool_id, "state": call.state}
        for call in calls
    ]


def kind_of(call: ToolCall) -> str:
    """What an open call waits for, in one word."""
    return KINDS.get(State(call.state), "review")


def open_approval(call: ToolCall) -> Approval | None:
    return Approval.objects.filter(tool_call=call, state=Approval.State.OPEN).first()
