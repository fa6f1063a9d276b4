"""Steps in the database: opening one, and storing an answer as parts and tool calls."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from django.db.models import F, QuerySet
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy

from chatapp.calls.transitions import new_call
from chatapp.context.unsupported_media import note_unsupported
from chatapp.journal import journal
from chatapp.journal.journal import Entry, Kind
from chatapp.journal.lease import Lease, lock_turn
from chatapp.models import JournalEvent, Part, Step, ToolCall, Turn
from chatapp.permissions.binding import UnreadableArguments, canonical_arguments
from chatapp.providers.access import usage
from chatapp.providers.access.usage import Price
from chatapp.providers.events import ToolCallReady, ToolLeftOut, Usage
from chatapp.server.compiled_queries import compiled_update, insert_rows
from chatapp.server.languages import write_in_english
from chatapp.tools.catalogue import Catalogue
from chatapp.tools.core import FIND_TOOLS
from mcpconfig.values.results import make_storable

from .cited_sources import CitedSources
from .ending import end_answered_turn
from .made_pictures import Picture, store_pictures
from .next_action import Reason, choose_reason
from .notices import note_changed, note_left_out, note_shortened

NO_SUCH_TOOL = gettext_lazy("There is no tool named “%(name)s” in this chat.")
CUT_OFF = gettext_lazy("The answer was cut off before this call was complete. It was not run.")


@dataclass(slots=True, kw_only=True)
class AnswerPart:
    """One part of an answer while it is received."""

    kind: Literal["text", "reasoning", "notice", "file", "sources"]
    position: int
    text: str = ""
    hint: str = ""
    picture: Picture | None = None
    is_failure: bool = False
    seconds: float | None = None
    opaque: dict[str, Any] | None = None


@dataclass(slots=True, kw_only=True)
class Answer:
    """The answer of one model call.

    `places`: for each call, by its index, how many parts began before it. `finish_reason` is empty
    if the answer was interrupted.
    """

    parts: list[AnswerPart] = field(default_factory=list)
    calls: list[ToolCallReady] = field(default_factory=list)
    places: dict[int, int] = field(default_factory=dict)
    left_out: dict[str, ToolLeftOut] = field(default_factory=dict)
    unseen: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    estimated_tokens: int = 0
    price: Price | None = None
    shortened: int = 0
    saved_tokens: int = 0
    finish_reason: str = ""
    cited: CitedSources = field(default_factory=CitedSources)

    def close_sources(self) -> None:
        """Add the sources as the last part, behind the text that cites them."""
        if self.cited.by_url and not any(part.kind == "sources" for part in self.parts):
            self.parts.append(AnswerPart(kind="sources", position=len(self.parts)))

    @property
    def has_begun(self) -> bool:
        return bool(self.parts or self.calls)

    @property
    def ends_turn(self) -> bool:
        """Whether it is complete and leaves nothing to do."""
        return bool(self.finish_reason) and not self.calls

    @property
    def has_content(self) -> bool:
        return any(
            part.kind == "file" or (part.kind == "text" and part.text.strip())
            for part in self.parts
        )

    @property
    def orphaned_reasoning(self) -> set[int]:
        """The positions of reasoning that led only to calls that were dropped: without those calls
        no provider accepts it."""
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


def open_step(lease: Lease, number: int, *, is_new: bool = False) -> OpenStep:
    """Create step `number`, or begin it again: the text of the earlier attempt leaves the page.

    `is_new`: it is known that the step does not exist."""
    with lock_turn(lease) as turn:
        step = None if is_new else Step.objects.filter(turn=turn, number=number).first()
        if step is None:
            return create_step(turn, number)
        Step.objects.filter(pk=step.pk).update(
            attempt=F("attempt") + 1,
            started_at=Now(),
            first_token_at=None,
            waits_because="",
        )
        step.refresh_from_db()
        _remove_earlier_attempt(turn, step, lease)
        return OpenStep(id=step.pk, number=number, attempt=step.attempt)


def create_step(turn: Turn, number: int) -> OpenStep:
    """Create a step inside the caller's transaction, which holds the turn: nobody else does."""
    step = Step(turn=turn, number=number)
    insert_rows([step])
    return OpenStep(id=step.pk, number=number, attempt=step.attempt)


def _remove_earlier_attempt(turn: Turn, step: Step, lease: Lease) -> None:
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


def close_step(
    lease: Lease,
    step: OpenStep,
    answer: Answer,
    catalogue: Catalogue,
    owner_id: int,
    *,
    rest: Sequence[Entry] = (),
    signals: int | None = None,
) -> Reason | None:
    """Store the answer as parts and tool calls, and its journal entries, in one transaction.

    `rest` are the last deltas, which nothing has stored. A complete answer without calls ends the
    turn in the same transaction, unless the turn was signalled since `signals` were read. Return
    the reason if it ended.

    Doing it twice is harmless: the answer to the first time's commit may have been lost.
    """
    with lock_turn(lease) as turn:
        closed_now = _close_calling(
            step.id,
            Step.State.DONE if answer.finish_reason else Step.State.INTERRUPTED,
            answer.finish_reason,
            answer.usage.input_tokens,
            answer.usage.cached_tokens,
            answer.usage.output_tokens,
            answer.usage.reasoning_tokens,
            answer.estimated_tokens,
            answer.saved_tokens,
        )
        if not closed_now:
            return None
        if answer.price is not None:
            usage.add_cost(step.id, answer.price, answer.usage)
        if answer.usage.input_tokens or answer.usage.output_tokens:
            usage.add_usage(owner_id, turn.model, answer.usage, answer.price)
        parts = _build_parts(turn, step.number, answer)
        if parts:
            insert_rows(parts)
        store_pictures(owner_id, parts, [part.picture for part in answer.parts])
        calls = _store_calls(turn, step.number, answer, catalogue)
        closed = journal.step_entry(turn, step.number, [part.position for part in answer.parts])
        proposed = [
            journal.call_entry(call.pk, turn.answer_id, call.state, is_new=True) for call in calls
        ]
        noted = [
            *note_left_out(turn, [*answer.left_out.values()]),
            *note_unsupported(turn, answer.unseen),
            *note_shortened(turn, answer.shortened),
            *note_changed(turn, calls, catalogue),
        ]
        reason, ending = None, list[Entry]()
        if answer.ends_turn and turn.signals == signals:
            reason = choose_reason(answer.finish_reason)
            ending = end_answered_turn(turn, reason, has_content=answer.has_content)
        entries = [*rest, *noted, closed, *proposed, *ending]
        journal.append(turn.conversation_id, turn.pk, entries, is_activity=bool(ending))
        return reason


@compiled_update
def _close_calling(
    step_id: int,
    state: str,
    finish_reason: str,
    input_tokens: int,
    cached_tokens: int,
    output_tokens: int,
    reasoning_tokens: int,
    estimated_tokens: int,
    saved_tokens: int,
) -> tuple[QuerySet[Step], dict[str, Any]]:
    return Step.objects.filter(pk=step_id, state=Step.State.CALLING), {
        "state": state,
        "finish_reason": finish_reason,
        "input_tokens": input_tokens,
        "cached_tokens": cached_tokens,
        "output_tokens": output_tokens,
        "reasoning_tokens": reasoning_tokens,
        "estimated_tokens": estimated_tokens,
        "saved_tokens": saved_tokens,
        "finished_at": Now(),
    }


def _build_parts(turn: Turn, step: int, answer: Answer) -> list[Part]:
    orphaned_reasoning = answer.orphaned_reasoning
    return [
        Part(
            message_id=turn.answer_id,
            step=step,
            position=part.position,
            kind=part.kind,
            notice_kind=_choose_notice_kind(part),
            text=part.text,
            seconds=part.seconds,
            hint=part.hint,
            sources=answer.cited.to_json() if part.kind == "sources" else None,
            opaque=None if part.position in orphaned_reasoning else make_storable(part.opaque),
        )
        for part in answer.parts
    ]


def _choose_notice_kind(part: AnswerPart) -> str:
    """Return the kind of a notice within a step: a failed model call, or a picture left out."""
    if part.kind != "notice":
        return ""
    return Part.NoticeKind.ERROR if part.is_failure else Part.NoticeKind.INFO


def _store_calls(turn: Turn, step: int, answer: Answer, catalogue: Catalogue) -> list[ToolCall]:
    """Store a row and a part for each call. A call that cannot be read fails and is not decided."""
    if not answer.calls:
        return []
    first = max((part.position for part in answer.parts), default=-1) + 1
    call_ids = _choose_call_ids(turn, [ready.call_id for ready in answer.calls])
    calls = [
        _build_call(turn, step, position, ready, call_id, answer, catalogue)
        for position, (ready, call_id) in enumerate(
            zip(answer.calls, call_ids, strict=True), start=first
        )
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
            opaque=make_storable(ready.opaque),
        )
        for call, ready in zip(calls, answer.calls, strict=True)
    )
    return calls


def _build_call(
    turn: Turn,
    step: int,
    position: int,
    ready: ToolCallReady,
    call_id: str,
    answer: Answer,
    catalogue: Catalogue,
) -> ToolCall:
    tool = catalogue.get(ready.name) or catalogue.forbidden.get(ready.name)
    is_finding = tool is None and ready.name == FIND_TOOLS
    arguments = ready.arguments
    problem = write_in_english(CUT_OFF) if answer.finish_reason in {"length", "filtered"} else ""
    try:
        arguments = canonical_arguments(ready.arguments)
    except UnreadableArguments as error:
        problem = problem or str(error)
    if tool is None and not is_finding:
        unknown = write_in_english(NO_SUCH_TOOL)
        problem = problem or unknown % {"name": ready.name[:128]}
    return new_call(
        problem,
        id=uuid.uuid4(),
        turn=turn,
        step=step,
        position=position,
        provider_call_id=call_id,
        tool_id=ready.name[:128],
        service_id=tool.service_id or None if tool else None,
        tool_name=tool.tool_name if tool else FIND_TOOLS if is_finding else "",
        definition_id=tool.definition_id or None if tool else None,
        arguments=arguments,
    )


def _choose_call_ids(turn: Turn, wanted: list[str]) -> list[str]:
    """Return the provider's ids, with a new one for each that is empty, too long for its column or
    used before in this conversation. Providers refuse a history in which an id stands twice, and
    some models count from zero in each answer."""
    longest = ToolCall._meta.get_field("provider_call_id").max_length or 0
    earlier = ToolCall.objects.filter(
        turn__conversation=turn.conversation_id, provider_call_id__in=wanted
    )
    used = {"", *earlier.values_list("provider_call_id", flat=True)}
    if turn.conversation.has_copies:
        copied = Part.objects.filter(
            message__conversation=turn.conversation_id, kind=Part.Kind.COPIED_CALL
        )
        used |= set(copied.values_list("copied_call__call_id", flat=True))
    chosen = []
    for call_id in wanted:
        is_usable = call_id not in used and len(call_id) <= longest
        chosen.append(call_id if is_usable else f"call_{uuid.uuid4().hex}")
        used.add(chosen[-1])
    return chosen
