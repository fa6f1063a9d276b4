"""The journal: every event is numbered without a gap, written whole, and announced once it is."""

import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from chatapp.conversations import intake
from chatapp.journal import journal
from chatapp.journal.journal import Entry, Event, Kind, TextBatch
from chatapp.journal.lease import Lease, acquire
from chatapp.models import Conversation, JournalEvent, Member, Message, Turn
from chatapp.server.runtime import current_runtime
from tests import scripted

pytestmark = pytest.mark.django_db(transaction=True)


def words(text: str = "Hello", message: uuid.UUID | None = None) -> Entry:
    data = {"message": str(message or uuid.uuid4()), "step": 1, "position": 0, "text": text}
    return Entry(kind=Kind.TEXT, data=data)


def write(turn: Turn, *entries: Entry) -> None:
    with transaction.atomic():
        journal.append(turn.conversation_id, turn.pk, entries)


def lease_of(turn: Turn) -> Lease:
    lease = acquire(turn.pk)
    assert lease is not None
    return lease


def last_seq(turn: Turn) -> int:
    return Conversation.objects.get(pk=turn.conversation_id).last_seq


@pytest.fixture
def announced() -> Iterator[list[Event]]:
    """All events that were announced during the test."""
    events: list[Event] = []

    def hear(announced: Sequence[Event]) -> None:
        events.extend(announced)

    current_runtime().journal_listeners.append(hear)
    yield events
    current_runtime().journal_listeners.remove(hear)


@pytest.fixture
def turns(owner: Member) -> list[Turn]:
    """One turn in each of three conversations."""
    return [intake.receive(owner, None, text="Hello", model=scripted.MODEL) for _ in range(3)]


# --- writing -------------------------------------------------------------------------------
def test_the_statement_fills_every_column_of_the_table() -> None:
    """It is written by hand, so a field that somebody adds must be added to it."""
    fields = JournalEvent._meta.local_concrete_fields
    columns = {field.column for field in fields if not field.primary_key}
    named = journal._INSERT.partition("(")[2].partition(")")[0].split(", ")
    assert set(named) == columns
    assert JournalEvent._meta.db_table in journal._INSERT


@pytest.mark.parametrize("kind", list(Kind))
def test_what_was_written_is_read_as_it_was(turn: Turn, kind: Kind) -> None:
    data = {
        "message": str(turn.answer_id),
        "call": str(turn.pk),
        "state": "proposed",
        "text": "«ü» 🦉 \\ \" ' %s \n",
        "n": [1, None, {"a": 2}],
    }
    before = last_seq(turn)
    write(turn, Entry(kind=kind, data=data))
    (event,) = journal.read_events_after(turn.conversation_id, before)
    assert event == Event(
        conversation_id=turn.conversation_id,
        seq=before + 1,
        turn_id=turn.pk,
        kind=kind,
        data=data,
    )


def test_a_row_belongs_to_its_conversation_and_turn_and_knows_when_it_came(turn: Turn) -> None:
    write(turn, words())
    minute = timedelta(minutes=1)
    row = turn.journal.filter(
        conversation=turn.conversation,
        kind=Kind.TEXT,
        data__text="Hello",
        created_at__range=(Now() - minute, Now() + minute),
    )
    assert row.get().seq == last_seq(turn)


def test_an_event_may_belong_to_no_turn(turn: Turn) -> None:
    before = last_seq(turn)
    with transaction.atomic():
        journal.append(turn.conversation_id, None, [words()])
    (event,) = journal.read_events_after(turn.conversation_id, before)
    assert event.turn_id is None


def test_nothing_to_write_takes_no_number_and_announces_nothing(
    turn: Turn, announced: list[Event]
) -> None:
    before = last_seq(turn)
    write(turn)
    assert last_seq(turn) == before
    assert announced == []


def test_words_of_many_conversations_cost_two_statements(turns: list[Turn]) -> None:
    """They come in every tick of every running answer."""
    batches = [TextBatch(lease=lease_of(turn), entries=[words()]) for turn in turns]
    with transaction.atomic(), CaptureQueriesContext(connection) as ran:
        assert journal.append_texts(batches) == {batch.lease.hold for batch in batches}
    phrases = [query["sql"] for query in ran.captured_queries]
    writing = [sql for sql in phrases if "INSERT" in sql]
    assert len(phrases) - len(writing) == 1, phrases
    assert len(writing) == 1 or connection.vendor == "postgresql", phrases


# --- numbers -------------------------------------------------------------------------------
def test_each_conversation_counts_for_itself(turns: list[Turn]) -> None:
    before = [last_seq(turn) for turn in turns]
    with transaction.atomic():
        journal.append_texts(
            [
                TextBatch(
                    lease=lease_of(turn), entries=[words(str(number)) for number in range(index)]
                )
                for index, turn in enumerate(turns)
            ]
        )
    for index, turn in enumerate(turns):
        events = journal.read_events_after(turn.conversation_id, before[index])
        assert [event.seq - before[index] for event in events] == list(range(1, index + 1))
        assert [event.data["text"] for event in events] == [str(n) for n in range(index)]
        assert last_seq(turn) == before[index] + index


def test_writers_at_the_same_time_leave_no_gap_and_no_double(turn: Turn) -> None:
    before = last_seq(turn)

    def once(number: int) -> None:
        try:
            write(turn, words(f"{number}a"), words(f"{number}b"))
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(once, range(12)))
    events = journal.read_events_after(turn.conversation_id, before)
    assert [event.seq for event in events] == list(range(before + 1, before + 25))
    texts = [event.data["text"] for event in events]
    pairs = zip(texts[::2], texts[1::2], strict=True)
    assert all(first[:-1] == second[:-1] for first, second in pairs), "a pair was torn apart"


def test_what_is_undone_took_no_number_and_nobody_heard_of_it(
    turn: Turn, announced: list[Event]
) -> None:
    before = last_seq(turn)
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        journal.append(turn.conversation_id, turn.pk, [words()])
        raise ZeroDivisionError
    assert last_seq(turn) == before
    assert announced == []
    assert journal.read_events_after(turn.conversation_id, before) == []


def test_a_long_journal_is_read_in_pieces_from_its_beginning(turn: Turn) -> None:
    before = last_seq(turn)
    write(turn, *(words(str(number)) for number in range(7)))
    piece = journal.read_events_after(turn.conversation_id, before + 2, limit=3)
    assert [event.data["text"] for event in piece] == ["2", "3", "4"]


# --- announcing ----------------------------------------------------------------------------
def test_events_are_announced_after_their_commit_and_not_before(
    turn: Turn, announced: list[Event]
) -> None:
    """What is shown is stored."""
    with transaction.atomic():
        journal.append(turn.conversation_id, turn.pk, [words("one"), words("two")])
        assert announced == []
    assert [event.data["text"] for event in announced] == ["one", "two"]
    assert [event.seq for event in announced] == [last_seq(turn) - 1, last_seq(turn)]


# --- messages ------------------------------------------------------------------------------
def seen(message_id: uuid.UUID) -> tuple[int, int]:
    row = Message.objects.get(pk=message_id)
    return row.created_seq, row.touched_seq


def test_a_message_knows_the_frame_that_made_it_and_the_one_that_changed_it(turn: Turn) -> None:
    assert seen(turn.question_id) == (1, 1)
    assert seen(turn.answer_id) == (2, 3)  # its turn was queued in the third


@pytest.mark.parametrize(
    "entry",
    [
        lambda turn: journal.turn_entry(turn, Turn.State.RUNNING),
        lambda turn: journal.step_entry(turn, 1, [0]),
        lambda turn: journal.call_entry(uuid.uuid4(), turn.answer_id, "proposed"),
    ],
    ids=["turn", "step", "call"],
)
def test_what_changes_an_answer_is_its_latest_frame(turn: Turn, entry: Any) -> None:
    write(turn, entry(turn), entry(turn))
    assert seen(turn.answer_id) == (2, 5)
    assert seen(turn.question_id) == (1, 1)


def test_words_leave_the_message_row_alone(turn: Turn) -> None:
    """An open answer counts as changed in any case, and a row written per word is a slow one."""
    write(turn, words(message=turn.answer_id))
    assert seen(turn.answer_id) == (2, 3)
