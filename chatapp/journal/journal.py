"""The journal: what happened in a conversation's live turn, numbered. Persist first, then
announce."""

import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction
from django.db.models import F
from django.utils import timezone

from chatapp.models import Conversation, JournalEvent, Message, ToolCall, Turn

from . import log_of_calls, person_signals
from .second_signatures import people_asked

Kind = JournalEvent.Kind
LISTENERS: list[Callable[[Sequence["Event"]], None]] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Something to be written: `data` names rows by id and carries text, never HTML."""

    kind: JournalEvent.Kind
    data: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that is written. `turn_id` is None for what belongs to no turn."""

    conversation_id: uuid.UUID
    seq: int
    turn_id: uuid.UUID | None
    kind: JournalEvent.Kind
    data: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Entries of one turn that are written together."""

    conversation_id: uuid.UUID
    turn_id: uuid.UUID | None
    entries: Sequence[Entry]


def append(conversation_id: uuid.UUID, turn_id: uuid.UUID | None, entries: Sequence[Entry]) -> None:
    """Write `entries` inside the caller's transaction; listeners hear of them after its commit."""
    append_all([Batch(conversation_id=conversation_id, turn_id=turn_id, entries=entries)])


def append_all(batches: Sequence[Batch]) -> None:
    """`append` for several conversations, in as many statements as for one."""
    written = [batch for batch in batches if batch.entries]
    if not written:
        return
    firsts = _reserve({batch.conversation_id: len(batch.entries) for batch in written})
    events = [
        Event(
            conversation_id=batch.conversation_id,
            seq=seq,
            turn_id=batch.turn_id,
            kind=entry.kind,
            data=entry.data,
        )
        for batch in written
        for seq, entry in enumerate(batch.entries, start=firsts[batch.conversation_id])
    ]
    _insert(events)
    _touch(events)
    _tell_people(events)
    log_of_calls.moved(_states(events))
    transaction.on_commit(lambda: announce(events))


def _states(events: Sequence[Event]) -> dict[uuid.UUID, str]:
    """The state that each call has now of which something is told."""
    told = (event.data for event in events if event.kind == Kind.TOOL_CALL)
    return {uuid.UUID(data["call"]): data["state"] for data in told}


def _tell_people(events: Sequence[Event]) -> None:
    """Whatever a call waits for, or no longer waits for, is shown on every page of its person and
    of those who may sign it second."""
    if moved := _states(events):
        chats = {event.conversation_id for event in events if event.kind == Kind.TOOL_CALL}
        owners = Conversation.objects.filter(pk__in=chats).values_list("owner_id", flat=True)
        person_signals.tell(*owners, *people_asked(moved))


def hold(conversation_id: uuid.UUID) -> None:
    """Lock what `append` will write to, before anything is logged: whoever holds the end of the log
    must wait for nobody."""
    list(Conversation.objects.select_for_update(no_key=True).filter(pk=conversation_id).only("pk"))


def _reserve(counts: dict[uuid.UUID, int]) -> dict[uuid.UUID, int]:
    """Take so many numbers of each conversation; the first of each. Holds the rows until commit."""
    for count in set(counts.values()):  # nearly always one: deltas of a part are one event
        alike = [pk for pk, wanted in counts.items() if wanted == count]
        Conversation.objects.filter(pk__in=alike).update(last_seq=F("last_seq") + count)
    lasts = Conversation.objects.filter(pk__in=counts).values_list("pk", "last_seq")
    return {pk: last - counts[pk] + 1 for pk, last in lasts}


# The ORM takes longer to phrase this than any database to do it, and every word of an answer passes
# here. The columns are named by `JournalEvent`; a test compares the two.
_INSERT = (
    "INSERT INTO chatapp_journalevent "
    "(conversation_id, seq, turn_id, kind, data, created_at) VALUES (%s, %s, %s, %s, %s, %s)"
)


def _insert(events: Sequence[Event]) -> None:
    now = connection.ops.adapt_datetimefield_value(timezone.now())
    with connection.cursor() as cursor:
        cursor.executemany(
            _INSERT,
            [
                (
                    _key(event.conversation_id),
                    event.seq,
                    _key(event.turn_id),
                    event.kind.value,
                    json.dumps(event.data),
                    now,
                )
                for event in events
            ],
        )


def _key(value: uuid.UUID | None) -> uuid.UUID | str | None:
    """An id as a column has it: databases without a type for it keep the digits."""
    if value is None or connection.features.has_native_uuid_field:
        return value
    return value.hex


def announce(events: Sequence[Event]) -> None:
    for listener in LISTENERS:
        listener(events)


def after(conversation_id: uuid.UUID, seq: int, limit: int = 500) -> list[Event]:
    """The events that follow `seq`, oldest first."""
    rows = JournalEvent.objects.filter(conversation_id=conversation_id, seq__gt=seq)[:limit]
    return [
        Event(
            conversation_id=conversation_id,
            seq=row.seq,
            turn_id=row.turn_id,
            kind=Kind(row.kind),
            data=row.data,
        )
        for row in rows
    ]


def message_entry(message: Message) -> Entry:
    return Entry(kind=Kind.MESSAGE, data={"message": str(message.pk)})


def call_entry(
    call_id: uuid.UUID, message_id: uuid.UUID, state: str, *, is_new: bool = False
) -> Entry:
    return Entry(
        kind=Kind.TOOL_CALL,
        data={
            "call": str(call_id),
            "message": str(message_id),
            "state": state,
            "is_new": is_new,
        },
    )


def plan_entry(call: ToolCall) -> Entry:
    """The plan that this call made looks different now."""
    data = {"message": str(call.turn.answer_id), "call": str(call.pk)}
    return Entry(kind=Kind.PLAN, data=data)


def step_entry(turn: Turn, number: int, positions: list[int]) -> Entry:
    """A step is over; `positions` are its parts but for the tool calls."""
    return Entry(
        kind=Kind.STEP,
        data={"message": str(turn.answer_id), "step": number, "positions": positions},
    )


def turn_entry(turn: Turn, state: str, reason: str = "") -> Entry:
    return Entry(
        kind=Kind.TURN,
        data={"message": str(turn.answer_id), "state": state, "reason": reason},
    )


def tell_call(turn: Turn, call_id: uuid.UUID, state: str) -> None:
    """Say, inside the caller's transaction, that a call of this turn has this state now."""
    append(turn.conversation_id, turn.pk, [call_entry(call_id, turn.answer_id, state)])


def _touch(events: Sequence[Event]) -> None:
    """Keep, on each message, which frame made it and which changed it last."""
    made: dict[str, int] = {}
    touched: dict[str, int] = {}
    for event in events:
        if event.kind in (Kind.TEXT, Kind.REASONING):
            continue  # an open message counts as changed in any case
        message: str = event.data["message"]
        touched[message] = event.seq
        if event.kind == Kind.MESSAGE:
            made[message] = event.seq
    for message, seq in touched.items():
        first = {"created_seq": made[message]} if message in made else {}
        Message.objects.filter(pk=message).update(touched_seq=seq, **first)
