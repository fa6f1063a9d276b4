"""A turn as plain events, one JSON object each, as the `chat` command prints them."""

from collections.abc import Iterator
from typing import Any

from django.db.models import Q
from django.utils.translation import gettext as _

from chatapp.context.history import render_failure
from chatapp.journal.journal import Event, Kind
from chatapp.models import Approval, Part, Review, Step, ToolCall, Turn

TurnEvent = dict[str, Any]
State = ToolCall.State
WAITING_KINDS = {
    State.AWAITING_APPROVAL: "approval",
    State.UNKNOWN: "approval",
    State.AWAITING_INPUT: "question",
    State.AWAITING_SIGN_IN: "sign_in",
    State.AWAITING_TASK: "task",
}


class EventTranslator:
    """Translates the journal events of a turn. Keeps the last state of each call, so that a state
    is reported once."""

    def __init__(self) -> None:
        self._states: dict[str, str] = {}

    def translate(self, event: Event) -> Iterator[TurnEvent]:
        match event.kind:
            case Kind.TEXT:
                yield {"type": "text", "text": event.data["text"]}
            case Kind.REASONING:
                yield {"type": "reasoning", "text": event.data["text"]}
            case Kind.RESTART:
                text = _("The answer starts again, because the process that wrote it stopped.")
                yield {"type": "notice", "kind": "restart", "text": text}
            case Kind.STEP:
                yield from self._translate_step(event)
            case Kind.TOOL_CALL:
                yield from self._translate_call(event.data["call"], event.data["state"])
            case Kind.NOTICE:
                yield from _translate_notices(event, [event.data["position"]])
            case _:
                return

    def _translate_step(self, event: Event) -> Iterator[TurnEvent]:
        step = Step.objects.get(turn__answer=event.data["message"], number=event.data["step"])
        yield from _translate_notices(event, event.data["positions"])
        yield from _translate_pictures(event)
        yield from _translate_sources(event)
        yield {
            "type": "usage",
            "input_tokens": step.read_tokens,
            "cached_tokens": step.cached_tokens,
            "output_tokens": step.written_tokens,
            "reasoning_tokens": step.reasoning_tokens,
        }

    def _translate_call(self, call_id: str, state: str) -> Iterator[TurnEvent]:
        if self._states.get(call_id) == state:
            return
        self._states[call_id] = state
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
            yield build_result_event(call)


def build_result_event(call: ToolCall) -> TurnEvent:
    """Return the event for the result of a finished call."""
    content = call.content
    if not content and call.state != State.SUCCEEDED:
        content = [
            {
                "type": "text",
                "text": render_failure(call) if call.error else call.get_state_display(),
            }
        ]
    return {
        "type": "tool_result",
        "id": str(call.pk),
        "is_error": call.state != State.SUCCEEDED,
        "content": content,
    }


def _translate_notices(event: Event, positions: list[int]) -> Iterator[TurnEvent]:
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


def _translate_pictures(event: Event) -> Iterator[TurnEvent]:
    """Yield where each picture that the model made can be read, by the person who is signed in."""
    parts = Part.objects.filter(
        message_id=event.data["message"], step=event.data["step"], kind=Part.Kind.FILE
    )
    for part in parts.select_related("attachment").defer("attachment__contents"):
        made = part.attachment
        yield {
            "type": "picture",
            "name": made.name,
            "media_type": made.mime_type,
            "path": f"/attachments/{made.pk}/content/0",
        }


def _translate_sources(event: Event) -> Iterator[TurnEvent]:
    parts = Part.objects.filter(
        message_id=event.data["message"], step=event.data["step"], kind=Part.Kind.SOURCES
    )
    for part in parts:
        yield {"type": "sources", "sources": part.sources or []}


def build_end_event(turn: Turn) -> TurnEvent:
    """Return the last event of a turn that rests: it waits for a person or is finished."""
    if turn.state == Turn.State.WAITING:
        return {"type": "waiting", "for": list_waiting(turn)}
    return {"type": "done", "reason": turn.reason}


def list_waiting(turn: Turn) -> list[TurnEvent]:
    """Return what the turn waits for. A call with an unknown outcome waits for a person too."""
    calls = turn.tool_calls.filter(
        Q(state__in=list(WAITING_KINDS)) | Q(review__state=Review.State.OPEN)
    )
    return [
        {
            "kind": get_waiting_kind(call),
            "id": str(call.pk),
            "tool": call.tool_id,
            "state": call.state,
        }
        for call in calls
    ]


def get_waiting_kind(call: ToolCall) -> str:
    """Return in one word what an open call waits for."""
    return WAITING_KINDS.get(State(call.state), "review")


def find_open_approval(call: ToolCall) -> Approval | None:
    return Approval.objects.filter(tool_call=call, state=Approval.State.OPEN).first()
