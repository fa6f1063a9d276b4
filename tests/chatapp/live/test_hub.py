"""The hub: a feed belongs to its viewers, and lives as long as the last of them."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from django.db import OperationalError

from chatapp.live import feed, open_parts
from chatapp.live import hub as live
from chatapp.live.feed import Unresumable
from chatapp.live.hub import QUEUE_FRAMES, Hub, Viewer
from chatapp.models import Conversation, Turn
from chatapp.people.signals import notify
from chatapp.server.database import in_database
from chatapp.server.runtime import current_runtime
from tests.turns.faults import Away, Held
from tests.turns.tabs import (
    assert_as_reloaded,
    begin,
    drained,
    latest,
    loaded,
    numbers,
    said,
    taken,
)

pytestmark = pytest.mark.django_db(transaction=True)
REDIS = "redis://127.0.0.1:6379/13"
MANY = 60


@pytest.fixture
def without_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hubs that are opened after it never look by themselves."""
    monkeypatch.setattr(live, "POLL_SECONDS", 600.0)


@pytest_asyncio.fixture
async def hub(turn: Turn) -> AsyncIterator[Hub]:
    opened = Hub(current_runtime())
    opened.start()
    yield opened
    await opened.close()


def said_now(turn: Turn) -> int:
    """One more event; its number."""
    said(turn, "word ")
    return Conversation.objects.get(pk=turn.conversation_id).last_seq


async def test_a_feed_lives_as_long_as_its_last_viewer(hub: Hub, turn: Turn) -> None:
    await in_database(begin, turn)
    last = await latest(turn.conversation)
    viewers = [await hub.join(turn.conversation_id, last) for _ in range(3)]
    for gone in range(3):
        number = await in_database(said_now, turn)
        for viewer in viewers[gone:]:
            async with asyncio.timeout(30):
                assert numbers([await viewer.frames.get()]) == [number]
        assert list(hub._feeds) == [turn.conversation_id]
        hub.leave(turn.conversation_id, viewers[gone])
    assert hub._feeds == {}


async def test_a_viewer_that_left_is_sent_nothing_more(hub: Hub, turn: Turn) -> None:
    await in_database(begin, turn)
    last = await latest(turn.conversation)
    leaves, stays = [await hub.join(turn.conversation_id, last) for _ in range(2)]
    hub.leave(turn.conversation_id, leaves)
    await in_database(said, turn, "words")
    async with asyncio.timeout(30):
        await stays.frames.get()
    assert taken(leaves) == []


async def test_a_join_that_is_refused_leaves_no_feed_behind(hub: Hub, turn: Turn) -> None:
    for conversation_id, after in [(turn.conversation_id, 10_000), (uuid.uuid4(), 0)]:
        with pytest.raises(Unresumable):
            await hub.join(conversation_id, after)
    assert hub._feeds == {}


async def test_a_join_that_is_refused_does_not_close_the_feed_under_a_viewer(
    hub: Hub, turn: Turn
) -> None:
    await in_database(begin, turn)
    viewer = await hub.join(turn.conversation_id, await latest(turn.conversation))
    with pytest.raises(Unresumable):
        await hub.join(turn.conversation_id, 10_000)
    number = await in_database(said_now, turn)
    async with asyncio.timeout(30):
        assert numbers([await viewer.frames.get()]) == [number]


async def test_a_tab_that_goes_away_while_it_joins_is_not_counted(
    hub: Hub, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(open_parts.load_open_parts)
    with monkeypatch.context() as planted:
        planted.setattr("chatapp.live.feed.load_open_parts", held)
        joining = [asyncio.create_task(hub.join(turn.conversation_id, 0)) for _ in range(2)]
        assert await asyncio.to_thread(held.reached.wait, 10)
        assert hub._feeds[turn.conversation_id].joined == 2
        joining[0].cancel()
        held.released.set()
        viewer = await joining[1]
    assert hub._feeds[turn.conversation_id].joined == 1
    assert numbers(taken(viewer)) == [await latest(turn.conversation)]
    hub.leave(turn.conversation_id, viewer)
    assert hub._feeds == {}


async def test_a_feed_that_was_loaded_while_words_came_is_up_to_date(
    without_poll: None, hub: Hub, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the reading of the state and the first frame an event may be announced."""
    await in_database(begin, turn)
    before = await loaded(turn.conversation)
    real = open_parts.load_open_parts

    def read_and_speak(conversation_id: uuid.UUID) -> Any:
        found = real(conversation_id)
        said(turn, "just then")
        return found

    monkeypatch.setattr("chatapp.live.feed.load_open_parts", read_and_speak)
    viewer = await hub.join(turn.conversation_id, before.last)
    await drained(before, viewer, turn.conversation)
    await assert_as_reloaded(before, turn.conversation)


async def test_a_dropped_viewer_wakes_up_even_when_its_queue_is_full() -> None:
    idle, full = Viewer(), Viewer()
    for _ in range(QUEUE_FRAMES):
        full.take("{}")
    for viewer in (idle, full):
        assert not viewer.fell_behind
        viewer.drop()
        assert viewer.fell_behind
        async with asyncio.timeout(30):
            await viewer.frames.get()


async def test_frames_that_no_tab_missed_for_a_while_are_dropped(
    without_poll: None, hub: Hub, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tab that comes back after that is sent the state."""
    await in_database(begin, turn)
    early, watching = [await loaded(turn.conversation) for _ in range(2)]
    viewer = await hub.join(turn.conversation_id, early.last)
    await in_database(said, turn, "One ", "two ", "three.")
    hub._nudge(turn.conversation_id, await latest(turn.conversation))
    await drained(watching, viewer, turn.conversation)
    await hub._look()
    soon = await hub.join(turn.conversation_id, early.last)
    assert len(taken(soon)) == 3
    monkeypatch.setattr(feed, "FRAMES_KEPT_SECONDS", -1.0)
    await hub._look()
    late = await hub.join(turn.conversation_id, early.last)
    (state,) = taken(late)
    early.take(state)
    await assert_as_reloaded(early, turn.conversation)


# --- looking for changes of other processes ------------------------------------------------
@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[list[uuid.UUID]]:
    """What each look reads from the database."""
    seen: list[list[uuid.UUID]] = []
    real = live._read_changes

    def read(conversations: list[uuid.UUID], people: list[int]) -> Any:
        seen.append(conversations)
        return real(conversations, people)

    monkeypatch.setattr(live, "_read_changes", read)
    return seen


async def test_while_nothing_is_committed_a_look_reads_nothing(
    without_poll: None, hub: Hub, turn: Turn, reads: list[list[uuid.UUID]]
) -> None:
    await hub.join(turn.conversation_id, 0)
    for _ in range(3):
        await hub._look()
    assert len(reads) == 1
    await in_database(said_now, turn)
    await hub._look()
    assert len(reads) == 2


async def test_a_tab_that_opens_is_looked_for_without_a_commit(
    without_poll: None, hub: Hub, turn: Turn, reads: list[list[uuid.UUID]]
) -> None:
    await in_database(notify, turn.conversation.owner_id)
    await hub.join(turn.conversation_id, 0)
    await hub._look()
    bell = await hub.join_person(turn.conversation.owner_id)
    await hub._look()
    assert bell.is_set()
    await hub.join(turn.conversation_id, 0)
    await hub._look()
    assert len(reads) == 3


async def test_a_look_that_failed_is_tried_again_without_a_commit(
    without_poll: None,
    hub: Hub,
    turn: Turn,
    reads: list[list[uuid.UUID]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await hub.join(turn.conversation_id, 0)
    with monkeypatch.context() as planted:
        planted.setattr(live, "_read_changes", Away(live._read_changes, times=1))
        with pytest.raises(OperationalError):
            await hub._look()
    await hub._look()
    assert len(reads) == 1


async def test_a_feed_that_could_not_read_goes_on_without_a_commit(
    without_poll: None, hub: Hub, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    await in_database(begin, turn)
    viewer = await hub.join(turn.conversation_id, await latest(turn.conversation))
    current_runtime().journal_listeners.remove(hub.publish)  # as in another process
    number = await in_database(said_now, turn)
    opened = hub._feeds[turn.conversation_id]
    with monkeypatch.context() as planted:
        planted.setattr(feed.Feed, "_advance", Away(feed.Feed._advance, times=1))
        await hub._look()
        assert opened._task is not None
        await opened._task
    await hub._look()
    async with asyncio.timeout(30):
        assert numbers([await viewer.frames.get()]) == [number]
    current_runtime().journal_listeners.append(hub.publish)
