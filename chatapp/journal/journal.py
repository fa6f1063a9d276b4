"""The journal: the numbered events of a conversation's live turn. They are stored first, then
announced."""

import json
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from chatapp.audit import audit_log, call_entries
from chatapp.audit.audit_log import AuditEvent
from chatapp.models import Conversation, JournalEvent, Message, Part, ToolCall, Turn
from chatapp.people import signals
from chatapp.people.second_signers import find_people_concerned
from chatapp.server.compiled_queries import to_column
from chatapp.server.runtime import current_runtime

from .lease import Hold, Lease, LeaseLost


def wake(turn_id: uuid.UUID) -> None:
    """Wake the engine. Called after the commit that gave the turn something to do, from any
    thread."""
    for listener in current_runtime().wake_listeners:
        listener(turn_id)


def begin(turn_id: uuid.UUID) -> None:
    """Let the engine begin a new turn. Called inside the transaction that stores the turn. In a
    nested one, the turn may still be changed before the commit, so it begins afterwards."""
    begin_now = current_runtime().begin_new_turn
    is_complete = not connection.savepoint_ids
    if begin_now is None or not is_complete or not begin_now(turn_id):
        transaction.on_commit(lambda: wake(turn_id))


def signal_turn(turn_id: uuid.UUID) -> Turn:
    """Lock the turn and count an event from outside. A waiting turn becomes queued.

    Called inside a transaction, before the turn's other rows are locked.
    """
    turn = Turn.objects.select_for_update().get(pk=turn_id)
    state = Turn.State.QUEUED if turn.state == Turn.State.WAITING else turn.state
    Turn.objects.filter(pk=turn_id).update(signals=turn.signals + 1, state=state)
    return turn


Kind = JournalEvent.Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Something to be written: `data` names rows by id and carries text, never HTML.

    `is_sent`: the permit of a call was used. Only the audit log has an entry of that. `logged`:
    what the audit log gets, from a caller that has the rows; otherwise they are read.
    `is_of_live_turn`: pages read its message again anyway, until the turn waits or ends.
    `is_unseen`: no page beside the chat shows the call.
    """

    kind: JournalEvent.Kind
    data: dict[str, Any]
    is_sent: bool = False
    logged: Sequence[AuditEvent] | None = None
    is_of_live_turn: bool = False
    is_unseen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A written event. `turn_id` is None for one that belongs to no turn."""

    conversation_id: uuid.UUID
    seq: int
    turn_id: uuid.UUID | None
    kind: JournalEvent.Kind
    data: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextBatch:
    """Deltas of one running turn, written under its lease."""

    lease: Lease
    entries: Sequence[Entry]


def append(
    conversation_id: uuid.UUID,
    turn_id: uuid.UUID | None,
    entries: Sequence[Entry],
    *,
    is_activity: bool = False,
) -> None:
    """Write `entries` inside the caller's transaction. Listeners get them after its commit.
    `is_activity`: the chat moves to the top of its person's list."""
    if not entries:
        return
    reserved = _reserve(conversation_id, len(entries), is_activity=is_activity)
    _append_from(reserved, conversation_id, turn_id, entries)


def append_reserved(last: "Reserved", lease: Lease, entries: Sequence[Entry]) -> None:
    """Do the same with the numbers that `lock_and_reserve` reserved, which are as many."""
    _append_from(last, lease.conversation_id, lease.turn_id, entries)


def _append_from(
    reserved: "Reserved",
    conversation_id: uuid.UUID,
    turn_id: uuid.UUID | None,
    entries: Sequence[Entry],
) -> None:
    events = _number(conversation_id, turn_id, entries, reserved.last)
    _insert(events, reserved.now)
    both = list(zip(events, entries, strict=True))
    _touch([event for event, entry in both if not entry.is_of_live_turn])
    _notify_people([event for event, entry in both if not entry.is_unseen])
    audit_log.append(_list_logged(entries), reserved.now)
    transaction.on_commit(lambda: announce(events))


def _list_logged(entries: Sequence[Entry]) -> list[AuditEvent]:
    """Return what the audit log gets of these entries."""
    unread = [entry for entry in entries if entry.kind == Kind.TOOL_CALL and entry.logged is None]
    states = {uuid.UUID(entry.data["call"]): entry.data["state"] for entry in unread}
    sent = {uuid.UUID(entry.data["call"]) for entry in unread if entry.is_sent}
    logged = [event for entry in entries for event in entry.logged or ()]
    return logged + call_entries.describe_state_changes(states, sent=sent)


def append_texts(batches: Sequence[TextBatch]) -> set[Hold]:
    """Write the deltas of several turns in two statements, inside the caller's transaction. Return
    the holds that are valid; nothing is written for the others."""
    left, held = list(batches), set[Hold]()
    while left:
        # One of each conversation at a time: an earlier turn of it may have lost its lease here.
        now = {each.lease.conversation_id: each for each in reversed(left)}
        left = [each for each in left if now[each.lease.conversation_id] is not each]
        held |= _append_texts(now)
    return held


def _append_texts(batches: Mapping[uuid.UUID, TextBatch]) -> set[Hold]:
    """Do this for one turn of each of these conversations."""
    lasts = _reserve_held(batches.values())
    events: list[Event] = []
    for conversation_id, last in lasts.items():
        batch = batches[conversation_id]
        events += _number(conversation_id, batch.lease.turn_id, batch.entries, last)
    if events:
        _insert(events, timezone.now())
        transaction.on_commit(lambda: announce(events))
    return {batches[conversation_id].lease.hold for conversation_id in lasts}


def _number(
    conversation_id: uuid.UUID, turn_id: uuid.UUID | None, entries: Sequence[Entry], last: int
) -> list[Event]:
    """Return the entries as events, of which the last has the number `last`."""
    return [
        Event(
            conversation_id=conversation_id,
            seq=seq,
            turn_id=turn_id,
            kind=entry.kind,
            data=entry.data,
        )
        for seq, entry in enumerate(entries, start=last - len(entries) + 1)
    ]


def _notify_people(events: Sequence[Event]) -> None:
    """Signal the owners of the calls whose state changed and those who may sign them second."""
    calls = {uuid.UUID(each.data["call"]) for each in events if each.kind == Kind.TOOL_CALL}
    if calls:
        signals.notify(*find_people_concerned(calls))


def lock_turn(turn_id: uuid.UUID) -> None:
    """Lock a turn, as everywhere before its conversation and before the usage of its owner."""
    list(Turn.objects.select_for_update().filter(pk=turn_id).only("pk"))


def lock_conversation(conversation_id: uuid.UUID) -> None:
    """Lock the row that `append` writes to. Called before anything is logged: a transaction that
    has locked the end of the log must not wait for another lock."""
    list(Conversation.objects.select_for_update(no_key=True).filter(pk=conversation_id).only("pk"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved:
    """The last of the numbers that were reserved, and the database's time."""

    last: int
    now: datetime


def _reserve(conversation_id: uuid.UUID, count: int, *, is_activity: bool = False) -> Reserved:
    """Reserve this many numbers. The row stays locked until the commit."""
    with connection.cursor() as cursor:
        sql = _RESERVE.format(now=_NOW[connection.vendor])
        cursor.execute(sql, [count, is_activity, to_column(conversation_id)])
        row = cursor.fetchone()
    if row is None:
        raise Conversation.DoesNotExist
    return Reserved(last=int(row[0]), now=_read_time(row[1]))


def lock_and_reserve(lease: Lease, count: int) -> Reserved:
    """Lock the turn of this lease and reserve this many numbers for its events, in one statement.
    Raises LeaseLost.

    Each of them has to be used: a caller that writes nothing has to roll back."""
    sql = _RESERVE_HELD.format(
        rows="(%s, %s, %s, %s)",
        lock=_LOCK_HELD if connection.features.has_select_for_update_of else "",
        now=f", {_NOW[connection.vendor]}",
    )
    values = [to_column(lease.turn_id), lease.owner, lease.fence, count]
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        row = cursor.fetchone()
    if row is None:
        raise LeaseLost
    return Reserved(last=int(row[1]), now=_read_time(row[2]))


def _read_time(value: datetime | str) -> datetime:
    """Return a time of the database, which SQLite gives as text."""
    if isinstance(value, datetime):
        return value
    return datetime.fromisoformat(value).replace(tzinfo=UTC)


def _reserve_held(batches: Collection[TextBatch]) -> dict[uuid.UUID, int]:
    """Lock the turns whose lease is valid and reserve numbers in their conversations. Return the
    last number of each of these conversations."""
    values = [
        (to_column(each.lease.turn_id), each.lease.owner, each.lease.fence, len(each.entries))
        for each in batches
    ]
    sql = _RESERVE_HELD.format(
        rows=", ".join(["(%s, %s, %s, %s)"] * len(values)),
        lock=_LOCK_HELD if connection.features.has_select_for_update_of else "",
        now="",
    )
    with connection.cursor() as cursor:
        cursor.execute(sql, [value for row in values for value in row])
        return {_from_column(pk): last for pk, last in cursor.fetchall()}


# The statements that each commit of an answer's text needs. The ORM takes longer to build them than
# a database to run them. A test compares the columns of the insert with those of `JournalEvent`.
_RESERVE = (
    "UPDATE chatapp_conversation SET last_seq = last_seq + %s, "
    "active_at = CASE WHEN %s THEN {now} ELSE active_at END WHERE id = %s "
    "RETURNING last_seq, {now}"
)
# The statements with it have parameters, so that a percent sign is written twice.
_NOW = {
    "sqlite": "STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'NOW')",
    "postgresql": "STATEMENT_TIMESTAMP()",
}
_RESERVE_HELD = """
WITH taken (turn_id, owner, fence, many) AS (VALUES {rows}),
held AS (
    SELECT turn.conversation_id, taken.many
    FROM taken JOIN chatapp_turn turn ON turn.id = taken.turn_id
    AND turn.lease_owner = taken.owner AND turn.fence = taken.fence
    {lock}
)
UPDATE chatapp_conversation SET last_seq = last_seq + held.many
FROM held WHERE chatapp_conversation.id = held.conversation_id
RETURNING chatapp_conversation.id, chatapp_conversation.last_seq{now}
"""
# `created_seq` keeps its value where the first parameter is NULL.
_TOUCH = (
    "UPDATE chatapp_message SET created_seq = COALESCE(%s, created_seq), touched_seq = %s "
    "WHERE id = %s"
)
_LOCK_HELD = "ORDER BY turn.id FOR UPDATE OF turn"
_INSERT = (
    "INSERT INTO chatapp_journalevent "
    "(conversation_id, seq, turn_id, kind, data, created_at) VALUES (%s, %s, %s, %s, %s, %s)"
)


def _insert(events: Sequence[Event], at: datetime) -> None:
    now = connection.ops.adapt_datetimefield_value(at)
    with connection.cursor() as cursor:
        cursor.executemany(
            _INSERT,
            [
                (
                    to_column(event.conversation_id),
                    event.seq,
                    to_column(event.turn_id),
                    event.kind.value,
                    json.dumps(event.data),
                    now,
                )
                for event in events
            ],
        )


def _from_column(value: uuid.UUID | str) -> uuid.UUID:
    return value if isinstance(value, uuid.UUID) else uuid.UUID(value)


def announce(events: Sequence[Event]) -> None:
    for listener in current_runtime().journal_listeners:
        listener(events)


def read_events_after(conversation_id: uuid.UUID, seq: int, limit: int = 500) -> list[Event]:
    """Return the events that follow `seq`, oldest first."""
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
    call_id: uuid.UUID,
    message_id: uuid.UUID,
    state: str,
    *,
    is_new: bool = False,
    is_sent: bool = False,
    is_of_live_turn: bool = False,
) -> Entry:
    return Entry(
        kind=Kind.TOOL_CALL,
        is_sent=is_sent,
        is_of_live_turn=is_of_live_turn,
        is_unseen=is_new,
        data={
            "call": str(call_id),
            "message": str(message_id),
            "state": state,
            "is_new": is_new,
        },
    )


def plan_entry(call: ToolCall) -> Entry:
    """An entry for a change of the plan that this call made."""
    data = {"message": str(call.turn.answer_id), "call": str(call.pk)}
    return Entry(kind=Kind.PLAN, data=data)


def step_entry(turn: Turn, number: int, positions: list[int]) -> Entry:
    """An entry for the end of a step. `positions` are its parts without the tool calls."""
    return Entry(
        kind=Kind.STEP,
        data={"message": str(turn.answer_id), "step": number, "positions": positions},
    )


def turn_entry(turn: Turn, state: str, reason: str = "") -> Entry:
    return Entry(
        kind=Kind.TURN,
        data={"message": str(turn.answer_id), "state": state, "reason": reason},
    )


def branch_entry(message_id: uuid.UUID) -> Entry:
    """An entry for another branch of a chat, from this message on."""
    return Entry(kind=Kind.BRANCH, data={"message": str(message_id)})


def queue_entry() -> Entry:
    """An entry for another queue of messages. It belongs to no message and no turn."""
    return Entry(kind=Kind.QUEUE, data={})


def title_entry(turn: Turn) -> Entry:
    """An entry for the title that was made after this turn, or for the tokens that it took."""
    return Entry(kind=Kind.TITLE, data={"message": str(turn.answer_id)})


def feedback_entry(turn: Turn) -> Entry:
    """An entry for a rating of the answer, or for one that was taken back."""
    return Entry(kind=Kind.FEEDBACK, data={"message": str(turn.answer_id)})


def append_call(turn: Turn, call_id: uuid.UUID, state: str) -> None:
    """Append the state of a call of this turn, inside the caller's transaction."""
    append(turn.conversation_id, turn.pk, [call_entry(call_id, turn.answer_id, state)])


def _touch(events: Sequence[Event]) -> None:
    """Store on each message the numbers of the events that created it and that changed it last."""
    made: dict[str, int] = {}
    touched: dict[str, int] = {}
    for event in events:
        if event.kind in (Kind.TEXT, Kind.REASONING, Kind.QUEUE):
            continue  # an open message always counts as changed, and a queue has none
        message: str = event.data["message"]
        touched[message] = event.seq
        if event.kind == Kind.MESSAGE:
            made[message] = event.seq
    if touched:
        with connection.cursor() as cursor:
            cursor.executemany(
                _TOUCH,
                [
                    (made.get(message), seq, to_column(uuid.UUID(message)))
                    for message, seq in touched.items()
                ],
            )


NOTICE_STEP = 0
# Each kind of notice has a position of its own, so that a restarted turn has it once.
MISSING, LEFT_OUT, UNSEEN, SHORTENED, MENTIONED, CHANGED, SUMMARISED = 0, 1, 2, 3, 4, 5, 100
INFO = Part.NoticeKind.INFO


def add_notice(
    turn: Turn, position: int, text: str, hint: str = "", kind: Part.NoticeKind = INFO
) -> list[Entry]:
    """Store the notice inside the caller's transaction and return its journal entries. Do nothing
    if it exists or `text` is empty."""
    place = {"message_id": turn.answer_id, "step": NOTICE_STEP, "position": position}
    if not text or Part.objects.filter(**place).exists():
        return []
    Part.objects.create(
        **place,
        kind=Part.Kind.NOTICE,
        notice_kind=kind,
        text=text,
        hint=hint,
    )
    data = {"message": str(turn.answer_id), "step": NOTICE_STEP, "position": position}
    return [Entry(kind=Kind.NOTICE, data=data)]
