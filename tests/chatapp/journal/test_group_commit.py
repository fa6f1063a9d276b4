"""The group commit: one turn's trouble is no other's, and a database that is away for a moment
costs no word, doubles none, and shows none that is not stored."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from django.db import DataError, OperationalError

from chatapp.conversations import intake
from chatapp.journal import group_commit, journal
from chatapp.journal.group_commit import Draft, GroupCommit
from chatapp.journal.journal import Event, Kind
from chatapp.journal.lease import Hold, Lease, LeaseLost, acquire
from chatapp.models import JournalEvent, Member, Turn
from chatapp.server.database import THREADS, in_database
from chatapp.server.runtime import current_runtime
from tests import scripted
from tests.turns.acts import wait_for_event, wait_until
from tests.turns.faults import Away, Held

pytestmark = pytest.mark.django_db(transaction=True)


def lease_of(turn: Turn) -> Lease:
    lease = acquire(turn.pk)
    assert lease is not None
    return lease


def draft_of(turn: Turn, lease: Lease) -> Draft:
    return Draft(lease=lease, message_id=turn.answer_id, step=1, attempt=1)


def stored(turn: Turn) -> list[str]:
    events = JournalEvent.objects.filter(turn=turn, kind__in=[Kind.TEXT, Kind.REASONING])
    return [event.data["text"] for event in events]


def another_turn(owner: Member) -> Turn:
    return intake.receive(owner, None, text="Something else", model=scripted.MODEL)


@pytest.fixture
def published() -> list[Event]:
    """What tabs in this process have been told."""
    told: list[Event] = []
    current_runtime().journal_listeners.append(told.extend)
    return told


@pytest_asyncio.fixture
async def commit(turn: Turn) -> AsyncIterator[GroupCommit]:
    made = GroupCommit()
    running = asyncio.create_task(made.run())
    yield made
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.fixture
def two(turn: Turn, owner: Member) -> tuple[Draft, Draft]:
    """What two turns are about to say."""
    other = another_turn(owner)
    return draft_of(turn, lease_of(turn)), draft_of(other, lease_of(other))


async def load_texts(draft: Draft) -> list[str]:
    return await in_database(stored, await in_database(Turn.objects.get, pk=draft.lease.turn_id))


async def test_words_of_many_turns_are_stored_in_order(
    commit: GroupCommit, two: tuple[Draft, Draft]
) -> None:
    for number in range(50):
        for draft in two:
            commit.add(draft, Kind.TEXT, 0, f"{number} ")
            await asyncio.sleep(0)
    for draft in two:
        await commit.flush(draft)
        assert "".join(await load_texts(draft)) == "".join(f"{number} " for number in range(50))


# --- ticks ---------------------------------------------------------------------------------------
@pytest.fixture
def three(two: tuple[Draft, Draft], owner: Member) -> tuple[Draft, Draft, Draft]:
    third = another_turn(owner)
    return (*two, draft_of(third, lease_of(third)))


def read_published(published: list[Event]) -> list[str]:
    return [event.data["text"] for event in published]


async def test_a_first_text_is_stored_before_the_tick_and_alone(
    commit: GroupCommit,
    three: tuple[Draft, Draft, Draft],
    published: list[Event],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_commit, "TICK_SECONDS", 3_600)
    early, late, later = three
    commit.add(early, Kind.TEXT, 0, "One")
    await wait_until(lambda: early.stored == 1)
    commit.add(early, Kind.TEXT, 0, " more")
    commit.add(late, Kind.TEXT, 0, "Two")
    await wait_until(lambda: late.stored == 1)
    commit.add(later, Kind.TEXT, 0, "Three")
    await wait_until(lambda: later.stored == 1)
    assert read_published(published) == ["One", "Two", "Three"]
    await commit.flush(early)
    assert read_published(published)[3:] == [" more"]


async def test_what_waited_beside_a_first_text_is_stored_with_the_tick(
    commit: GroupCommit,
    two: tuple[Draft, Draft],
    published: list[Event],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_commit, "TICK_SECONDS", 0.3)
    early, late = two
    commit.add(early, Kind.TEXT, 0, "One")
    await wait_until(lambda: early.stored == 1)
    commit.add(early, Kind.TEXT, 0, " more")
    commit.add(late, Kind.TEXT, 0, "Two")
    await wait_until(lambda: early.stored == 2)
    assert sorted(read_published(published)) == [" more", "One", "Two"]


# --- one turn's trouble --------------------------------------------------------------------------
async def test_a_draft_that_is_refused_stops_no_other_turn(
    commit: GroupCommit, two: tuple[Draft, Draft], monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = two
    append_texts = journal.append_texts

    def refuse(batches: list[journal.TextBatch]) -> set[Hold]:
        if any(batch.lease is bad.lease for batch in batches):
            raise DataError("unsupported Unicode escape sequence")
        return append_texts(batches)

    monkeypatch.setattr(journal, "append_texts", refuse)
    commit.add(bad, Kind.TEXT, 0, "bad")
    commit.add(good, Kind.TEXT, 0, "good")
    with pytest.raises(DataError):
        await commit.flush(bad)
    await commit.flush(good)
    assert await load_texts(good) == ["good"]
    assert await load_texts(bad) == []
    with pytest.raises(DataError):
        commit.add(bad, Kind.TEXT, 0, "more")


async def test_a_draft_whose_lease_is_gone_stops_no_other_turn(
    commit: GroupCommit, two: tuple[Draft, Draft]
) -> None:
    lost, held = two
    await in_database(Turn.objects.filter(pk=lost.lease.turn_id).update, lease_owner="another")
    commit.add(lost, Kind.TEXT, 0, "lost")
    commit.add(held, Kind.TEXT, 0, "held")
    with pytest.raises(LeaseLost):
        await commit.flush(lost)
    await commit.flush(held)
    assert (await load_texts(lost), await load_texts(held)) == ([], ["held"])


async def test_an_old_and_a_new_hold_on_one_turn_are_told_apart_in_one_batch(
    commit: GroupCommit, turn: Turn
) -> None:
    old = await in_database(lease_of, turn)
    await in_database(Turn.objects.update, lease_until="2020-01-01T00:00Z")
    new = await in_database(lease_of, turn)
    before, after = draft_of(turn, old), draft_of(turn, new)
    after.attempt = 2
    commit.add(before, Kind.TEXT, 0, "stale")
    commit.add(after, Kind.TEXT, 0, "current")
    with pytest.raises(LeaseLost):
        await commit.flush(before)
    await commit.flush(after)
    assert await load_texts(after) == ["current"]


async def test_what_is_forgotten_during_a_commit_that_fails_is_not_stored_by_the_next(
    two: tuple[Draft, Draft], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, other = two
    commit = GroupCommit()
    commit.add(gone, Kind.TEXT, 0, "gone")
    commit.add(other, Kind.TEXT, 0, "here")
    storing = Held(Away(group_commit._store, 1))
    monkeypatch.setattr(group_commit, "_store", storing)
    flushing = asyncio.create_task(commit.flush(other))
    await wait_for_event(storing.reached)
    commit.forget(gone)
    storing.released.set()
    await flushing
    assert (await load_texts(gone), await load_texts(other)) == ([], ["here"])


# --- a database that is away ---------------------------------------------------------------------
@pytest.mark.parametrize("loses_answers", [False, True], ids=["before", "after its commit"])
async def test_a_database_that_goes_away_costs_no_word_and_doubles_none(
    commit: GroupCommit,
    two: tuple[Draft, Draft],
    published: list[Event],
    monkeypatch: pytest.MonkeyPatch,
    loses_answers: bool,
) -> None:
    away = Away(group_commit._store, 2, loses_answers=loses_answers)
    monkeypatch.setattr(group_commit, "_store", away)
    for number in range(20):
        for draft in two:
            commit.add(draft, Kind.TEXT, 0, f"{number} ")
        await asyncio.sleep(0.02)
    for draft in two:
        await commit.flush(draft)
        assert "".join(await load_texts(draft)) == "".join(f"{number} " for number in range(20))
    assert away.failures == 2


async def test_words_after_a_lost_answer_do_not_join_an_event_that_may_be_stored(
    two: tuple[Draft, Draft], monkeypatch: pytest.MonkeyPatch
) -> None:
    draft, commit = two[0], GroupCommit()
    away = Away(group_commit._store, 1, loses_answers=True)
    monkeypatch.setattr(group_commit, "_store", away)
    commit.add(draft, Kind.TEXT, 0, "Hello")
    storing = asyncio.create_task(commit.flush(draft))
    await wait_until(lambda: bool(draft.doubtful))
    commit.add(draft, Kind.TEXT, 0, " there")
    await storing
    assert await load_texts(draft) == ["Hello", " there"]


async def test_a_flush_waits_for_words_that_a_failing_commit_puts_back(
    commit: GroupCommit, two: tuple[Draft, Draft], monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = two[0]
    storing = Held(Away(group_commit._store, 1))
    monkeypatch.setattr(group_commit, "_store", storing)
    commit.add(draft, Kind.TEXT, 0, "Hello")
    await wait_for_event(storing.reached)
    flushing = asyncio.create_task(commit.flush(draft))
    await asyncio.sleep(0)  # it looks while the commit is under way
    storing.released.set()
    await flushing
    assert await load_texts(draft) == ["Hello"]


async def test_nothing_is_shown_that_is_not_stored(
    commit: GroupCommit,
    two: tuple[Draft, Draft],
    published: list[Event],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draft = two[0]
    # After the last statement of the transaction, which is undone by it.
    away = Away(journal._insert, 1, loses_answers=True)
    monkeypatch.setattr(journal, "_insert", away)
    commit.add(draft, Kind.TEXT, 0, "Hello")
    await wait_until(lambda: away.failures > 0)
    assert (published, await load_texts(draft)) == ([], [])
    await commit.flush(draft)
    assert [event.data["text"] for event in published] == ["Hello"]


async def test_a_turn_that_may_be_lost_is_told_and_the_others_are_kept(
    commit: GroupCommit, two: tuple[Draft, Draft], monkeypatch: pytest.MonkeyPatch
) -> None:
    stale, fresh = two
    stale.lease.renewed -= 3600
    monkeypatch.setattr(group_commit, "_store", Away(group_commit._store, 1))
    commit.add(stale, Kind.TEXT, 0, "stale")
    commit.add(fresh, Kind.TEXT, 0, "fresh")
    with pytest.raises(OperationalError):
        await commit.flush(stale)
    await commit.flush(fresh)
    assert (await load_texts(stale), await load_texts(fresh)) == ([], ["fresh"])


async def test_a_flush_that_is_cancelled_costs_no_other_turn_its_words(
    two: tuple[Draft, Draft], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever flushes commits for all: its Stop must not take the others' words along."""
    stopped, other = two
    commit = GroupCommit()
    commit.add(stopped, Kind.TEXT, 0, "stopped")
    commit.add(other, Kind.TEXT, 0, "other")
    hold = threading.Event()
    busy = [asyncio.create_task(in_database(hold.wait, 10)) for _ in range(THREADS)]
    flushing = asyncio.create_task(commit.flush(stopped))
    await wait_until(
        lambda: not other.entries
    )  # they were taken, and no thread is free to store them
    flushing.cancel()
    hold.set()
    await asyncio.gather(flushing, *busy, return_exceptions=True)
    await commit.flush(other)
    assert await load_texts(other) == ["other"]


async def test_a_commit_that_is_cancelled_while_it_writes_is_not_overtaken_by_the_next(
    two: tuple[Draft, Draft], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else both would store the same words: neither can see what the other has not committed."""
    stopped, other = two
    commit = GroupCommit()
    commit.add(stopped, Kind.TEXT, 0, "stopped")
    commit.add(other, Kind.TEXT, 0, "other")
    storing = Held(group_commit._store)
    with monkeypatch.context() as held:
        held.setattr(group_commit, "_store", storing)
        first = asyncio.create_task(commit.flush(stopped))
        await wait_for_event(storing.reached)
        first.cancel()
    second = asyncio.create_task(commit.flush(other))
    await asyncio.wait([second], timeout=0.3)
    storing.released.set()
    await asyncio.gather(first, second, return_exceptions=True)
    await commit.flush(other)
    assert (await load_texts(stopped), await load_texts(other)) == (["stopped"], ["other"])


async def test_a_commit_that_is_cancelled_and_fails_keeps_the_words_of_the_others(
    two: tuple[Draft, Draft], monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped, other = two
    commit = GroupCommit()
    commit.add(stopped, Kind.TEXT, 0, "stopped")
    commit.add(other, Kind.TEXT, 0, "other")
    storing = Held(Away(group_commit._store, 1))
    monkeypatch.setattr(group_commit, "_store", storing)
    first = asyncio.create_task(commit.flush(stopped))
    await wait_for_event(storing.reached)
    first.cancel()
    storing.released.set()
    await asyncio.gather(first, return_exceptions=True)
    await commit.flush(other)
    assert await load_texts(other) == ["other"]


async def test_words_that_the_database_refuses_again_and_again_hold_up_no_other_turn(
    two: tuple[Draft, Draft], monkeypatch: pytest.MonkeyPatch, settings: pytest.FixtureRequest
) -> None:
    """An error that looks as if the database were away, although others are served meanwhile."""
    settings.LEASE_SECONDS = 0.5  # type: ignore[attr-defined]
    bad, good = two
    for draft in two:
        draft.lease.renewed += 3600  # as if it were renewed again and again
    append_texts = journal.append_texts

    def refuse(batches: list[journal.TextBatch]) -> set[Hold]:
        if any(batch.lease is bad.lease for batch in batches):
            raise OperationalError("index row size exceeds the maximum")
        return append_texts(batches)

    monkeypatch.setattr(journal, "append_texts", refuse)
    commit = GroupCommit()
    commit.add(bad, Kind.TEXT, 0, "bad")
    commit.add(good, Kind.TEXT, 0, "good")
    async with asyncio.timeout(60):
        await commit.flush(good)
        with pytest.raises(OperationalError):
            await commit.flush(bad)
    assert (await load_texts(bad), await load_texts(good)) == ([], ["good"])
