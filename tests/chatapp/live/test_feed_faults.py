"""What goes wrong in a feed ends with the right page in every tab: nothing is applied twice, nobody
is left behind, and no conversation freezes."""

import asyncio
import logging
from typing import Any

import pytest
from django.db import OperationalError

from chatapp.journal import journal
from chatapp.live import feed, page_changes
from chatapp.live.feed import Feed, Unresumable
from chatapp.live.frames import MAX_RECENT_FRAMES, MAX_REPLAYED_FRAMES
from chatapp.live.hub import QUEUE_FRAMES, Viewer
from chatapp.models import Conversation, JournalEvent, Turn
from chatapp.rendering import page_values
from chatapp.rendering.markdown.stream import MarkdownStream
from chatapp.rendering.pages import fragments
from chatapp.server.database import in_database
from tests.turns.faults import Away, Failing, Held
from tests.turns.tabs import (
    Gone,
    assert_as_reloaded,
    begin,
    caught_up,
    closed,
    drained,
    gone,
    latest,
    loaded,
    numbers,
    said,
    shown,
    taken,
    told,
    watched,
)

pytestmark = pytest.mark.django_db(transaction=True)
NOTICE = "The model stopped in the middle of its answer."


async def dropped(tab: Gone) -> None:
    async with asyncio.timeout(60):
        while not tab.drops:
            tab.moved.clear()
            await tab.moved.wait()


# --- a frame that cannot be made -----------------------------------------------------------
@pytest.mark.parametrize("kind", ["words", "rows"])
async def test_a_frame_that_fails_sends_every_tab_back_to_the_right_page(
    turn: Turn, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    step = await in_database(begin, turn)
    tabs = [gone(await loaded(turn.conversation)) for _ in range(3)]
    made = Feed(turn.conversation_id)
    for tab in tabs:
        await made.join(tab, tab.last)
    await in_database(said, turn, "One ")
    await told(made, turn)
    for tab in tabs:
        await caught_up(tab, turn.conversation)
    with monkeypatch.context() as planted:
        error = ValueError("a fault in a fragment")
        where: Any = MarkdownStream if kind == "words" else fragments
        name = "frame" if kind == "words" else "render_part"
        work = getattr(where, name)
        planted.setattr(where, name, lambda *a, **k: Failing(work, _always, error)(*a, **k))
        await in_database(said, turn, "two ")
        if kind == "rows":
            await in_database(closed, turn, step, ("text", "One two "), ("notice", NOTICE))
        await told(made, turn)
        for tab in tabs:
            await dropped(tab)
    if kind == "words":
        await in_database(closed, turn, step, ("text", "One two "))
    for tab in tabs:
        await made.join(tab, tab.last)
        await caught_up(tab, turn.conversation)
        await assert_as_reloaded(tab, turn.conversation)
        assert tab.drops == 1


def _always(*_args: Any, **_options: Any) -> bool:
    return True


async def test_a_feed_goes_on_after_a_fault(turn: Turn, monkeypatch: pytest.MonkeyPatch) -> None:
    await in_database(begin, turn)
    made, tab = await watched(turn, gone(await loaded(turn.conversation)))
    assert isinstance(tab, Gone)
    with monkeypatch.context() as planted:
        planted.setattr(journal, "read_events_after", Away(journal.read_events_after, times=1))
        await in_database(said, turn, "One ")
        await told(made, turn)
        await dropped(tab)
    await made.join(tab, tab.last)
    await in_database(said, turn, "two.")
    await told(made, turn)
    await caught_up(tab, turn.conversation)
    assert "One two." in tab.text(page_values.THREAD_ID)
    assert tab.drops == 1


async def test_a_fault_is_in_the_log_once(
    turn: Turn, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await in_database(begin, turn)
    made, tab = await watched(turn, gone(await loaded(turn.conversation)))
    assert isinstance(tab, Gone)
    monkeypatch.setattr(journal, "read_events_after", Away(journal.read_events_after, times=1))
    await in_database(said, turn, "One ")
    with caplog.at_level(logging.INFO, logger=feed.__name__):
        await told(made, turn)
        await dropped(tab)
    records = [record for record in caplog.records if record.name == feed.__name__]
    assert [(record.levelname, bool(record.exc_info)) for record in records] == [("ERROR", True)]


async def test_tabs_of_a_conversation_that_is_deleted_are_told_to_load_anew(
    turn: Turn, caplog: pytest.LogCaptureFixture
) -> None:
    made, tab = await watched(turn, gone(await loaded(turn.conversation)))
    assert isinstance(tab, Gone)
    await in_database(Conversation.objects.all().delete)
    made.nudge(tab.last + 1)
    await dropped(tab)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    with pytest.raises(Unresumable):
        await made.join(tab, tab.last)


# --- half an event -------------------------------------------------------------------------
async def test_a_tab_that_leaves_while_it_joins_does_not_make_others_see_words_twice(
    turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The joining tab makes the feed close a step. It goes away in the middle of that."""
    step = await in_database(begin, turn)
    await in_database(said, turn, "Some words.")
    made, tab = await watched(turn, gone(await loaded(turn.conversation)))
    assert isinstance(tab, Gone)
    await in_database(closed, turn, step, ("text", "Some words."), ("notice", NOTICE))
    held = Held(page_changes.render_step_parts)
    with monkeypatch.context() as planted:
        planted.setattr("chatapp.live.feed.render_step_parts", held)
        late = await loaded(turn.conversation)
        joining = asyncio.create_task(made.join(late, late.last))
        assert await asyncio.to_thread(held.reached.wait, 10)
        joining.cancel()
        await asyncio.gather(joining, return_exceptions=True)
        held.released.set()
    await dropped(tab)
    await made.join(tab, tab.last)
    await assert_as_reloaded(tab, turn.conversation)
    assert tab.text(page_values.THREAD_ID).count("Some words.") == 1


async def test_a_join_that_fails_in_the_middle_of_an_event_does_not_apply_it_twice(
    turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = await in_database(begin, turn)
    await in_database(said, turn, "Some words.")
    made, tab = await watched(turn, gone(await loaded(turn.conversation)))
    assert isinstance(tab, Gone)
    await in_database(closed, turn, step, ("text", "Some words."), ("notice", NOTICE))
    late = await loaded(turn.conversation)
    away = Away(page_changes.render_step_parts, times=1)
    monkeypatch.setattr("chatapp.live.feed.render_step_parts", away)
    with pytest.raises(OperationalError):
        await made.join(late, late.last)
    assert tab.drops == 1
    for each in (late, tab):
        await made.join(each, each.last)
        await assert_as_reloaded(each, turn.conversation)


# --- far behind ----------------------------------------------------------------------------
@pytest.mark.parametrize(
    "behind", [MAX_REPLAYED_FRAMES, MAX_REPLAYED_FRAMES + 1, QUEUE_FRAMES + 1, MAX_RECENT_FRAMES]
)
async def test_a_tab_that_is_far_behind_gets_one_frame_with_the_state(
    turn: Turn, behind: int
) -> None:
    """A replay of more frames than its queue holds would drop it again and again."""
    await in_database(begin, turn)
    made, first = await watched(turn)
    late = await loaded(turn.conversation)
    words = [f"word{n} " for n in range(behind)]
    for start in range(0, behind, 100):
        await in_database(said, turn, *words[start : start + 100])
        await told(made, turn)
        await caught_up(first, turn.conversation)
    viewer = Viewer()
    await made.join(viewer, late.last)
    frames = taken(viewer)
    assert not viewer.fell_behind
    is_replayed = behind <= MAX_REPLAYED_FRAMES
    assert numbers(frames) == (
        [*range(late.last + 1, first.last + 1)] if is_replayed else [first.last]
    )
    for frame in frames:
        late.take(frame)
    await assert_as_reloaded(late, turn.conversation)
    assert shown(first) == shown(late)


async def test_starting_over_sends_the_state_and_nothing_else(turn: Turn) -> None:
    """The journal was cleared while a process was frozen. Frames that led to the state would be
    painted before it, and those after it would be missing."""
    await in_database(begin, turn)
    made = Feed(turn.conversation_id)
    tab, viewer = await loaded(turn.conversation), Viewer()
    await made.join(viewer, tab.last)
    await in_database(said, turn, "These ", "are ", "gone. ")
    await in_database(JournalEvent.objects.filter(seq__lt=tab.last + 3).delete)
    await told(made, turn)
    async with asyncio.timeout(60):
        state = await viewer.frames.get()
    assert numbers([state, *taken(viewer)]) == [await latest(turn.conversation)]
    await in_database(said, turn, "These ", "follow.")
    await told(made, turn)
    tab.take(state)
    await drained(tab, viewer, turn.conversation)
    assert tab.numbers == [tab.last - 2, tab.last - 1, tab.last]
    await assert_as_reloaded(tab, turn.conversation)


async def test_a_tab_that_leaves_while_its_feed_starts_over_has_left(
    turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, stays = await watched(turn)
    leaves = Viewer()
    await made.join(leaves, stays.last)
    await in_database(begin, turn)
    await in_database(said, turn, "Gone ", "words. ")
    await in_database(JournalEvent.objects.all().delete)
    held = Held(page_changes.render_changes_since)
    with monkeypatch.context() as planted:
        planted.setattr("chatapp.live.feed.render_changes_since", held)
        await told(made, turn)
        assert await asyncio.to_thread(held.reached.wait, 10)
        made.leave(leaves)
        held.released.set()
        await caught_up(stays, turn.conversation)
    assert taken(leaves) == []
