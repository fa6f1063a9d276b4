"""Steps in the database: opening one, and turning what the model said into parts and tool calls."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from django.db.models import F
from django.db.models.functions import Now

from chatapp.models import JournalEvent, Part, Step, ToolCall, Turn
from chatapp.permissions.binding import UnreadableArguments, canonical_arguments
from chatapp.providers.events import ToolCallReady, Usage
from chatapp.tools.catalogue import Catalogue

from . import journal
from .journal import Entry, Kind
from .lease import Lease, fenced
from .storage import storable

CUT_OFF = "The answer was cut off before this call was complete, so it was not run."


@dataclass(slots=True, kw_only=True)
class SaidPart:
    """One part of an answer while it is being said."""

    kind: Literal["text", "reasoning", "notice"]
    position: int
    text: str = ""
    hint: str = ""
    seconds: float | None = None
    opaque: dict[str, Any] | None = None


@dataclass(slots=True, kw_only=True)
class Answer:
    """All that one model call said. `finish_reason` is empty when it was interrupted."""

    parts: list[SaidPart] = field(default_factory=list)
    calls: list[ToolCallReady] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    finish_reason: str = ""

    @property
    def has_begun(self) -> bool:
        return bool(self.parts or self.calls)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenStep:
    """A step whose model call is about to begin."""

    id: int
    number: int
    attempt: int


def open_step(lease: Lease, number: int) -> OpenStep:
    """Make step `number`, or begin it anew: what its dead attempt said then leaves the page."""
    with fenced(lease) as turn:
        step, is_new = Step.objects.get_or_create(turn=turn, number=number)
        if not is_new:
            Step.objects.filter(pk=step.pk).update(
                attempt=F("attempt") + 1, started_at=Now(), first_token_at=None
            )
            step.refresh_from_db()
            _forget_said(turn, step)
        return OpenStep(id=step.pk, number=number, attempt=step.attempt)


def _forget_said(turn: Turn, step: Step) -> None:
    JournalEvent.objects.filter(
        turn=turn, kind__in=[Kind.TEXT, Kind.REASONING], data__step=step.number
    ).delete()
    entry = Entry(
        kind=Kind.RESTART,
        data={"message": str(turn.answer_id), "step": step.number, "attempt": step.attempt},
    )
    journal.append(turn.conversation_id, turn.pk, [entry])


def close_step(lease: Lease, step: OpenStep, answer: Answer, catalogue: Catalogue) -> None:
    """Store the answer as parts and tool calls, in one transaction, and say so in the journal."""
    with fenced(lease) as turn:
        Step.objects.filter(pk=step.id).update(
            state=Step.State.DONE if answer.finish_reason else Step.State.INTERRUPTED,
            finish_reason=answer.finish_reason,
            input_tokens=answer.usage.input_tokens,
            cached_tokens=answer.usage.cached_tokens,
            output_tokens=answer.usage.output_tokens,
            reasoning_tokens=answer.usage.reasoning_tokens,
            finished_at=Now(),
        )
        Part.objects.bulk_create(_part_rows(turn, step.number, answer.parts))
        calls = _store_calls(turn, step.number, answer, catalogue)
        closed = journal.step_entry(turn, step.number, [part.position for part in answer.parts])
        proposed = [
            journal.call_entry(call.pk, turn.answer_id, call.state, is_new=True) for call in calls
        ]
        journal.append(turn.conversation_id, turn.pk, [closed, *proposed])


def _part_rows(turn: Turn, step: int, parts: Sequence[SaidPart]) -> list[Part]:
    return [
        Part(
            message_id=turn.answer_id,
            step=step,
            position=part.position,
            kind=part.kind,
            text=part.text,
            seconds=part.seconds,
            hint=part.hint,
            opaque=storable(part.opaque),
        )
        for part in parts
    ]


def _store_calls(turn: Turn, step: int, answer: Answer, catalogue: Catalogue) -> list[ToolCall]:
    """One row and one part a call; a call that cannot be read is failed here and never decided."""
    first = max((part.position for part in answer.parts), default=-1) + 1
    calls = [
        _call_row(turn, step, position, ready, answer, catalogue)
        for position, ready in enumerate(answer.calls, start=first)
    ]
    ToolCall.objects.bulk_create(calls)
    Part.objects.bulk_create(
        Part(
            message_id=turn.answer_id,
            step=step,
            position=call.position,
            kind=Part.Kind.TOOL_CALL,
            tool_call=call,
            opaque=storable(ready.opaque),
        )
        for call, ready in zip(calls, answer.calls, strict=True)
    )
    return calls


def _call_row(
    turn: Turn,
    step: int,
    position: int,
    ready: ToolCallReady,
    answer: Answer,
    catalogue: Catalogue,
) -> ToolCall:
    tool = catalogue.get(ready.name)
    call = ToolCall(
        id=uuid.uuid4(),
        turn=turn,
        step=step,
        position=position,
        provider_call_id=ready.call_id,
        tool_id=ready.name[:128],
        service_id=tool.service_id if tool else None,
        tool_name=tool.tool_name if tool else "",
        definition_id=tool.definition_id if tool else None,
        arguments=ready.arguments,
    )
    problem = CUT_OFF if answer.finish_reason in {"length", "filtered"} else ""
    try:
        call.arguments = canonical_arguments(ready.arguments)
    except UnreadableArguments as error:
        problem = problem or str(error)
    if tool is None:
        problem = problem or f"There is no tool named {ready.name[:128]!r} in this chat."
    if problem:
        call.state = ToolCall.State.FAILED
        call.error = {"kind": "not_run", "message": problem, "hint": ""}
    return call
