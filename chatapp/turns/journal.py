"""The journal: what happened in a conversation's live turn, numbered. Persist first, then
announce."""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import F

from chatapp.models import Conversation, JournalEvent, Message, Turn

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
    JournalEvent.objects.bulk_create(
        JournalEvent(
            conversation_id=event.conversation_id,
            seq=event.seq,
            turn_id=event.turn_id,
            kind=event.kind,
            data=event.data,
        )
        for event in events
    )
    _touch(events)
    transaction.on_commit(lambda: announce(events))


def _reserve(counts: dict[uuid.UUID, int]) -> dict[uuid.UUID, int]:
    """Take so many numbers of each conversation; the first of each. Holds the rows until commit."""
    for count in set(counts.values()):  # nearly always one: deltas of a part are one event
        alike = [pk for pk, wanted in counts.items() if wanted == count]
        Conversation.objects.filter(pk__in=alike).update(last_seq=F("last_seq") + count)
    lasts = Conversation.objects.filter(pk__in=counts).values_list("pk", "last_seq")
    return {pk: last - counts[pk] + 1 for pk, last in lasts}


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


def _touch(events: Sequence[Event]) -> None:
    """Keep, on each message, which frame made it and which changed it last."""
    for event in events:
        match event.kind:
            case Kind.MESSAGE:
                Message.objects.filter(pk=event.data["message"]).update(
                    created_seq=event.seq, touched_seq=event.seq
                )
            case Kind.TEXT | Kind.REASONING:
                continue  # an open message counts as changed in any case
            case _:
                Message.objects.filter(pk=event.data["message"]).update(touched_seq=event.seq)
