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


def append(
    conversation_id: uuid.UUID, turn_id: uuid.UUID | None, entries: Sequence[Entry]
) -> list[Event]:
    """Write `entries` inside the caller's transaction; listeners hear of them once it has
    committed."""
    if not entries:
        return []
    Conversation.objects.filter(pk=conversation_id).update(last_seq=F("last_seq") + len(entries))
    last = Conversation.objects.values_list("last_seq", flat=True).get(pk=conversation_id)
    events = [
        Event(
            conversation_id=conversation_id,
            seq=seq,
            turn_id=turn_id,
            kind=entry.kind,
            data=entry.data,
        )
        for seq, entry in enumerate(entries, start=last - len(entries) + 1)
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
    return events


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
