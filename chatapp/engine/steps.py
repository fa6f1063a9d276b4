"""Steps in the database: opening one, and turning what the model said into parts and tool calls."""

import uuid
from dataclasses import dataclass, field
from typing import Any, Literal

from django.db.models import F
from django.db.models.functions import Now

from chatapp.models import JournalEvent, Part, Step, ToolCall, Turn
from chatapp.permissions.binding import UnreadableArguments, canonical_arguments
from chatapp.providers.events import ToolCallReady, ToolLeftOut, Usage
from chatapp.tools.catalogue import Catalogue
from chatapp.tools.core import FIND_TOOLS
from mcpconfig.results import storable

from . import journal, usage
from .changed_tools import note_changed
from .journal import Entry, Kind
from .lease import Lease, fenced
from .left_out import note_left_out
from .sight import note_unseen
from .top_notices import SHORTENED, note_once
from .usage import Price

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
    """All that one model call said. `places` holds of each call that was begun how many parts were
    begun before it. `finish_reason` is empty when it was interrupted."""

    parts: list[SaidPart] = field(default_factory=list)
    calls: list[ToolCallReady] = field(default_factory=list)
    places: dict[int, int] = field(default_factory=dict)
    left_out: dict[str, ToolLeftOut] = field(default_factory=dict)
    unseen: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    price: Price | None = None
    shortened: int = 0
    saved_tokens: int = 0
    finish_reason: str = ""

    @property
    def has_begun(self) -> bool:
        return bool(self.parts or self.calls)

    @property
    def in_vain(self) -> set[int]:
        """The positions of thoughts that led to nothing but calls that nobody will run: without
        those no provider takes them back."""
        kept = {self.places.get(call.index) for call in self.calls}
        ends = {*self.places.values()}
        found: set[int] = set()
        for part in reversed(self.parts):
            following = part.position + 1
            if part.kind == "reasoning" and following in ends | found and following not in kept:
                found.add(part.position)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenStep:
    """A step whose model call is about to begin."""

    id: int
    number: int
    attempt: int


def open_step(lease: Lease, number: int) -> OpenStep:
    """Make step `number`, or begin it anew: what its dead attempt said then leaves the page."""
    with fenced(lease) as turn:
        step = Step.objects.filter(turn=turn, number=number).first()
        if step is None:  # and stays so: whoever could make it would hold the turn
            step = Step.objects.create(turn=turn, number=number)
        else:
            Step.objects.filter(pk=step.pk).update(
                attempt=F("attempt") + 1,
                started_at=Now(),
                first_token_at=None,
                waits_because="",
            )
            step.refresh_from_db()
            _forget_said(turn, step, lease)
        return OpenStep(id=step.pk, number=number, attempt=step.attempt)


def _forget_said(turn: Turn, step: Step, lease: Lease) -> None:
    JournalEvent.objects.filter(
        turn=turn, kind__in=[Kind.TEXT, Kind.REASONING], data__step=step.number
    ).delete()
    entry = Entry(
        kind=Kind.RESTART,
        data={
            "message": str(turn.answer_id),
            "step": step.number,
            "attempt": step.attempt,
            "handed_on": lease.was_handed_on,
        },
    )
    journal.append(turn.conversation_id, turn.pk, [entry])


def close_step(lease: Lease, step: OpenStep, answer: Answer, catalogue: Catalogue) -> None:
    """Store the answer as parts and tool calls, in one transaction, and say so in the journal.

    Doing it twice is harmless: the answer to the first time's commit may have been lost.
    """
    with fenced(lease) as turn:
        closed_now = Step.objects.filter(pk=step.id, state=Step.State.CALLING).update(
            state=Step.State.DONE if answer.finish_reason else Step.State.INTERRUPTED,
            finish_reason=answer.finish_reason,
            input_tokens=answer.usage.input_tokens,
            cached_tokens=answer.usage.cached_tokens,
            output_tokens=answer.usage.output_tokens,
            reasoning_tokens=answer.usage.reasoning_tokens,
            saved_tokens=answer.saved_tokens,
            **usage.cost_added(answer.price, answer.usage),
            finished_at=Now(),
        )
        if not closed_now:
            return
        if answer.usage.input_tokens or answer.usage.output_tokens:
            usage.count(turn.conversation.owner_id, turn.model, answer.usage, answer.price)
        Part.objects.bulk_create(_part_rows(turn, step.number, answer))
        calls = _store_calls(turn, step.number, answer, catalogue)
        closed = journal.step_entry(turn, step.number, [part.position for part in answer.parts])
        proposed = [
            journal.call_entry(call.pk, turn.answer_id, call.state, is_new=True) for call in calls
        ]
        noted = [
            *note_left_out(turn, [*answer.left_out.values()]),
            *note_unseen(turn, answer.unseen),
            *note_shortened(turn, answer.shortened),
            *note_changed(turn, calls, catalogue),
        ]
        journal.append(turn.conversation_id, turn.pk, [*noted, closed, *proposed])


def note_shortened(turn: Turn, count: int) -> list[Entry]:
    results = "One result of a tool was" if count == 1 else f"{count} results of tools were"
    text = f"{results} shortened for the model, so that this chat fits. Here they are complete."
    return note_once(turn, SHORTENED, text if count else "")


def _part_rows(turn: Turn, step: int, answer: Answer) -> list[Part]:
    in_vain = answer.in_vain
    return [
        Part(
            message_id=turn.answer_id,
            step=step,
            position=part.position,
            kind=part.kind,
            # What a step notes itself is always that its model call failed.
            notice_kind=Part.NoticeKind.ERROR if part.kind == "notice" else "",
            text=part.text,
            seconds=part.seconds,
            hint=part.hint,
            opaque=None if part.position in in_vain else storable(part.opaque),
        )
        for part in answer.parts
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
            place=answer.places.get(ready.index),
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
    tool = catalogue.get(ready.name) or catalogue.forbidden.get(ready.name)
    is_finding = tool is None and ready.name == FIND_TOOLS
    call = ToolCall(
        id=uuid.uuid4(),
        turn=turn,
        step=step,
        position=position,
        provider_call_id=_fitting(ready.call_id),
        tool_id=ready.name[:128],
        service_id=tool.service_id or None if tool else None,
        tool_name=tool.tool_name if tool else FIND_TOOLS if is_finding else "",
        definition_id=tool.definition_id or None if tool else None,
        arguments=ready.arguments,
    )
    problem = CUT_OFF if answer.finish_reason in {"length", "filtered"} else ""
    try:
        call.arguments = canonical_arguments(ready.arguments)
    except UnreadableArguments as error:
        problem = problem or str(error)
    if tool is None and not is_finding:
        problem = problem or f"There is no tool named {ready.name[:128]!r} in this chat."
    if problem:
        call.state = ToolCall.State.FAILED
        call.error = {"kind": "not_run", "message": problem, "hint": ""}
    return call


def _fitting(call_id: str) -> str:
    """The provider's id, or one of ours where it is longer than a row holds."""
    longest = ToolCall._meta.get_field("provider_call_id").max_length
    return call_id if len(call_id) <= (longest or 0) else f"call_{uuid.uuid4().hex}"
