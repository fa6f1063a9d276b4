"""A long block that is still open: it is painted less often, in a thread, and ends the same."""

import asyncio

import pytest

from chatapp.journal import journal
from chatapp.live import open_parts
from chatapp.live.feed import Feed
from chatapp.live.hub import Viewer
from chatapp.models import Turn
from chatapp.rendering import page_values
from chatapp.rendering.markdown import code_colours
from chatapp.rendering.markdown.stream import COSTLY_CHARS, MarkdownStream
from chatapp.server.database import in_database
from tests.dom import Tab
from tests.turns.acts import wait_for_event
from tests.turns.faults import Held
from tests.turns.tabs import (
    assert_as_reloaded,
    begin,
    caught_up,
    closed,
    drained,
    latest,
    loaded,
    said,
    shown,
    watched,
    written,
)

pytestmark = pytest.mark.django_db(transaction=True)
ITEM = "- worker {n} waits for a `connection` and the **queue** behind it grows\n"
LIST = "".join(ITEM.replace("{n}", str(n)) for n in range(150))
LINES = [f"number_{n} = work({n}, again=True)  # as before\n" for n in range(1_000)]
NEVER = 30.0


async def offer_new_events(made: Feed, turn: Turn, since: int) -> None:
    """The feed is offered what its own process wrote after `since`."""
    made.offer(await in_database(journal.read_events_after, turn.conversation_id, since))


async def come_to(tab: Tab, number: int) -> None:
    async with asyncio.timeout(60):
        while tab.last < number:
            tab.moved.clear()
            await tab.moved.wait()


async def with_a_long_list(turn: Turn) -> tuple[Feed, Tab]:
    """A tab that shows a long list whose last item is not complete."""
    await in_database(begin, turn)
    made, tab = await watched(turn)
    await in_database(said, turn, LIST)
    made.nudge(await latest(turn.conversation))
    await caught_up(tab, turn.conversation)
    return made, tab


async def test_words_of_a_long_open_block_are_painted_together(
    turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, tab = await with_a_long_list(turn)
    monkeypatch.setattr(open_parts.OpenParts, "interval_seconds", NEVER)
    before = tab.last
    for word in ("- and ", "one ", "more ", "item"):
        await in_database(said, turn, word)
        await offer_new_events(made, turn, before)
    await in_database(written, turn, journal.turn_entry(turn, Turn.State.RUNNING))
    await offer_new_events(made, turn, before)
    await come_to(tab, before + 5)
    assert tab.numbers[-2:] == [before + 4, before + 5]
    assert before + 3 not in tab.numbers
    await assert_as_reloaded(tab, turn.conversation)


async def test_words_of_a_short_block_are_painted_one_by_one(turn: Turn) -> None:
    await in_database(begin, turn)
    made, tab = await watched(turn)
    before = tab.last
    await in_database(said, turn, "- and ", "one ", "more ", "item")
    await offer_new_events(made, turn, before)
    await caught_up(tab, turn.conversation)
    assert tab.numbers == [before + n for n in (1, 2, 3, 4)]


async def test_a_held_paint_comes_by_itself(turn: Turn) -> None:
    """The model says a word and falls silent: it is painted without anything that follows it."""
    made, tab = await with_a_long_list(turn)
    assert made._open.interval_seconds > 0.1
    await in_database(said, turn, "- the last word")
    await offer_new_events(made, turn, tab.last)
    await caught_up(tab, turn.conversation)
    assert "the last word" in tab.text(page_values.THREAD_ID)


async def test_what_is_not_words_does_not_wait(turn: Turn, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question to a person comes at once, however long the block above it is."""
    made, tab = await with_a_long_list(turn)
    monkeypatch.setattr(open_parts.OpenParts, "interval_seconds", NEVER)
    before = tab.last
    await in_database(said, turn, "- held")
    await offer_new_events(made, turn, before)
    await asyncio.sleep(0)  # the feed begins to wait
    await in_database(written, turn, journal.turn_entry(turn, Turn.State.RUNNING))
    await offer_new_events(made, turn, before)
    await come_to(tab, before + 2)
    assert "held" in tab.text(page_values.THREAD_ID)


async def test_a_page_that_was_loaded_while_words_were_held_has_them_once(turn: Turn) -> None:
    made, first = await with_a_long_list(turn)
    before = first.last
    late: list[Tab] = []
    for word in ("- and ", "one ", "more\n- item"):
        await in_database(said, turn, word)
        late.append(await loaded(turn.conversation))
    await offer_new_events(made, turn, before)
    await caught_up(first, turn.conversation)
    for tab in late:
        await made.join(tab, tab.last)
        await caught_up(tab, turn.conversation)
        assert shown(tab) == shown(first)
    await assert_as_reloaded(first, turn.conversation)


async def test_a_page_that_joins_while_words_are_held_brings_the_feed_to_itself(
    turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, first = await with_a_long_list(turn)
    monkeypatch.setattr(open_parts.OpenParts, "interval_seconds", NEVER)
    await in_database(said, turn, "- and ", "one ", "more")
    await offer_new_events(made, turn, first.last)
    await asyncio.sleep(0)  # the feed begins to wait
    late = await loaded(turn.conversation)
    await made.join(late, late.last)
    assert first.last == late.last
    assert shown(first) == shown(late)


# --- off the event loop --------------------------------------------------------------------
@pytest.mark.parametrize("end", ["section", "step"])
async def test_a_frame_that_takes_long_does_not_hold_up_the_event_loop(
    turn: Turn, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """Other conversations stream on while a section of a long code block is coloured."""
    step = await in_database(begin, turn)
    tab, viewer = await loaded(turn.conversation), Viewer()
    made = Feed(turn.conversation_id)
    await made.join(viewer, tab.last)
    code = "```python\n" + "".join(LINES[:440])
    await in_database(said, turn, code)
    made.nudge(await latest(turn.conversation))
    await drained(tab, viewer, turn.conversation)
    if end == "section":
        await in_database(said, turn, "".join(LINES[440:460]))
    else:
        await in_database(closed, turn, step, ("text", code))
    held = Held(code_colours._colour_section)
    monkeypatch.setattr(code_colours, "_colour_section", held)
    made.nudge(await latest(turn.conversation))
    await wait_for_event(held.reached)  # by an event loop that goes on meanwhile
    assert viewer.frames.empty()
    held.released.set()
    await drained(tab, viewer, turn.conversation)
    await assert_as_reloaded(tab, turn.conversation)


@pytest.mark.parametrize(
    ("text", "is_costly"),
    [
        ("A few words.", False),
        ("A paragraph.\n\n" * 5_000, True),  # nothing of it is rendered yet
        ("word " * (COSTLY_CHARS // 4), True),
    ],
)
def test_what_was_not_rendered_yet_tells_what_the_next_frame_costs(
    text: str, is_costly: bool
) -> None:
    stream = MarkdownStream()
    stream.feed(text)
    assert stream.is_costly is is_costly


def test_closed_blocks_and_coloured_code_cost_nothing_more() -> None:
    stream = MarkdownStream()
    stream.feed("A paragraph.\n\n" * 5_000)
    stream.frame()
    assert not stream.is_costly
    stream.feed("```python\n" + "".join(LINES))
    stream.frame()
    assert not stream.is_costly
    stream.feed("".join(LINES[:330]))
    assert stream.is_costly
    stream.frame()
    assert stream.is_costly  # up to 450 lines wait for a place to cut them
    stream.feed("".join(LINES[330:360]))
    stream.frame()
    assert not stream.is_costly
