"""The live stream: whatever a tab missed, it ends with what a tab that never left shows."""

import asyncio
import random
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from chatapp.models import JournalEvent, Member, ToolCall, Turn
from chatapp.providers.events import ReasoningDelta, TextDelta
from chatapp.rendering import page
from chatapp.storage import in_database
from chatapp.turns import intake, journal
from chatapp.turns.answers import deny
from chatapp.turns.feed import Feed, Unresumable
from chatapp.turns.journal import Event
from chatapp.turns.live import Viewer
from chatapp.turns.workplace import Workplace
from mcpconfig.models import Service
from tests import scripted
from tests.dom import Tab
from tests.scripted import Pause, Scene, calls, text

from .acts import DELETE, READ, rest
from .watching import WORDS, assert_as_reloaded, caught_up, drained, latest, loaded, shown

pytestmark = pytest.mark.django_db(transaction=True)


def slowly(pieces: int = 40) -> tuple[Scene, list[Pause]]:
    """A long answer that stops twice on its way."""
    size = max(1, len(WORDS) // pieces)
    words: list[object] = [ReasoningDelta(text="Let me "), ReasoningDelta(text="think.")]
    words += [TextDelta(text=WORDS[i : i + size]) for i in range(0, len(WORDS), size)]
    pauses = [Pause(), Pause()]
    words.insert(len(words) // 3, pauses[0])
    words.insert(2 * len(words) // 3, pauses[1])
    return [*words, *text()], pauses  # type: ignore[list-item]


@pytest_asyncio.fixture
async def tab(workplace: Workplace, turn: Turn) -> AsyncIterator[Tab]:
    """A tab that watches from the start and never leaves."""
    tab = await loaded(turn.conversation)
    viewer = await workplace.hub.join(turn.conversation_id, tab.last)

    async def watch() -> None:
        while True:
            tab.take(await viewer.frames.get())

    task = asyncio.create_task(watch())
    yield tab
    task.cancel()
    workplace.hub.leave(turn.conversation_id, viewer)


async def test_a_tab_that_watches_shows_what_a_reload_shows(
    workplace: Workplace, turn: Turn, tab: Tab
) -> None:
    scene, pauses = slowly()
    scripted.scenes.append(scene)
    for pause in pauses:
        pause.ended.set()
    await rest(workplace, turn)
    await caught_up(tab, turn.conversation)
    reloaded = await loaded(turn.conversation)
    assert shown(tab) == shown(reloaded)
    assert "The end." in tab.text(page.THREAD_ID)


async def test_frames_rise_by_one(workplace: Workplace, turn: Turn, tab: Tab) -> None:
    scripted.scenes.append(text("One ", "two ", "three"))
    await rest(workplace, turn)
    await caught_up(tab, turn.conversation)
    assert tab.numbers == list(range(tab.numbers[0], tab.numbers[-1] + 1))


async def test_a_tab_that_joins_in_the_middle_shows_the_same(
    workplace: Workplace, turn: Turn
) -> None:
    scene, pauses = slowly()
    scripted.scenes.append(scene)
    workplace.engine.wake(turn.pk)
    async with asyncio.timeout(10):
        await pauses[0].reached.wait()
    late = await loaded(turn.conversation)
    viewer = await workplace.hub.join(turn.conversation_id, late.last)
    for pause in pauses:
        pause.ended.set()
    await rest(workplace, turn)
    await drained(late, viewer, turn.conversation)
    reloaded = await loaded(turn.conversation)
    assert shown(late) == shown(reloaded)


@pytest.mark.parametrize("seen", ["nothing", "some", "all"])
async def test_a_tab_that_comes_back_is_brought_up_to_date(
    workplace: Workplace, turn: Turn, tab: Tab, seen: str
) -> None:
    early = await loaded(turn.conversation)
    scripted.scenes.append(text("Some ", "words ", "of ", "wisdom."))
    await rest(workplace, turn)
    await caught_up(tab, turn.conversation)
    after = {"nothing": early.last, "some": early.last + 1, "all": tab.last}[seen]
    viewer = await workplace.hub.join(turn.conversation_id, after)
    if seen == "all":
        assert viewer.frames.empty()
        return
    numbers = []
    while not viewer.frames.empty():
        frame = viewer.frames.get_nowait()
        early.take(frame)
        numbers.append(early.last)
    assert numbers[-1] == tab.last
    if seen == "nothing":
        assert shown(early) == shown(tab)


async def test_a_tab_from_before_a_restart_is_sent_the_state(
    workplace: Workplace, turn: Turn
) -> None:
    early = await loaded(turn.conversation)
    scripted.scenes.append(text(*WORDS.split(" ")))
    await rest(workplace, turn)
    await in_database(JournalEvent.objects.all().delete)
    feed = Feed(turn.conversation_id)  # as in a process that has just started
    viewer = Viewer()
    await feed.join(viewer, early.last)
    assert viewer.frames.qsize() == 1
    early.take(viewer.frames.get_nowait())
    reloaded = await loaded(turn.conversation)
    assert shown(early) == shown(reloaded)


async def test_a_tab_that_has_seen_more_than_there_is_must_reload(turn: Turn) -> None:
    feed = Feed(turn.conversation_id)
    with pytest.raises(Unresumable):
        await feed.join(Viewer(), 10_000)


@pytest.mark.parametrize("seed", range(5))
async def test_events_that_are_dropped_doubled_and_shuffled_give_the_same_page(
    workplace: Workplace, turn: Turn, seed: int
) -> None:
    """F9: what reaches a feed is a hint; the journal's numbers repair it."""
    chance = random.Random(seed)  # noqa: S311  a repeatable shuffle, not a secret
    held: list[Event] = []
    feed = Feed(turn.conversation_id)
    tab = await loaded(turn.conversation)
    await feed.join(tab, tab.last)

    def disturbed(events: object) -> None:
        held.extend(list(events) * chance.choice([0, 1, 1, 2]))  # type: ignore[call-overload]
        chance.shuffle(held)
        loop.call_soon_threadsafe(release)

    def release() -> None:
        some, held[:] = held[: len(held) // 2], held[len(held) // 2 :]
        if some:
            feed.offer(some)

    loop = asyncio.get_running_loop()
    journal.LISTENERS.append(disturbed)
    try:
        scripted.scenes.append(text(*WORDS.split(" ")))
        await rest(workplace, turn)
        feed.nudge(await latest(turn.conversation))  # the slow poll
        await caught_up(tab, turn.conversation)
    finally:
        journal.LISTENERS.remove(disturbed)
    reloaded = await loaded(turn.conversation)
    assert shown(tab) == shown(reloaded)


async def test_no_text_is_painted_that_is_not_stored(workplace: Workplace, turn: Turn) -> None:
    stored: list[bool] = []

    def check(events: object) -> None:
        for event in events:  # type: ignore[attr-defined]
            rows = JournalEvent.objects.filter(conversation_id=event.conversation_id, seq=event.seq)
            stored.append(rows.exists())

    journal.LISTENERS.append(check)
    try:
        scripted.scenes.append(text(*WORDS.split(" ")))
        await rest(workplace, turn)
    finally:
        journal.LISTENERS.remove(check)
    assert stored
    assert all(stored)


async def test_a_slow_tab_falls_behind_alone(workplace: Workplace, turn: Turn, tab: Tab) -> None:
    """F13: nobody reads the second viewer's frames; the first one gets all of its own."""
    slow = await workplace.hub.join(turn.conversation_id, tab.last)
    slow.frames = asyncio.Queue(1)
    scripted.scenes.append(text("Many ", "words."))
    await rest(workplace, turn)
    await caught_up(tab, turn.conversation)
    assert slow.fell_behind
    assert "Many words." in tab.text(page.THREAD_ID)


async def test_one_commit_for_many_turns_reaches_every_tab(
    workplace: Workplace, owner: Member, turn: Turn, tab: Tab
) -> None:
    """The group commit announces events of several conversations at once."""
    for scene, pauses in [slowly(), slowly()]:
        scripted.scenes.append(scene)
        for pause in pauses:
            pause.ended.set()
    other = await in_database(
        intake.receive, owner, None, text="Another chat", model=scripted.MODEL
    )
    other_tab = await loaded(other.conversation)
    viewer = await workplace.hub.join(other.conversation_id, other_tab.last)
    await asyncio.gather(rest(workplace, turn), rest(workplace, other))
    await caught_up(tab, turn.conversation)
    await drained(other_tab, viewer, other.conversation)
    for seen, conversation in [(tab, turn.conversation), (other_tab, other.conversation)]:
        assert shown(seen) == shown(await loaded(conversation))
        assert "The end." in seen.text(page.THREAD_ID)


async def test_ten_tabs_that_come_and_go_end_as_a_reload_shows(
    workplace: Workplace, notebook: Service, turn: Turn
) -> None:
    """Thoughts, tool calls, a question to a person and a long answer, seen from everywhere."""
    long, pauses = slowly()
    scripted.scenes += [calls(READ, ("nowhere_at_all", "{}")), calls(DELETE), long]
    conversation = turn.conversation
    tabs = [await loaded(conversation) for _ in range(10)]
    viewers = {n: await workplace.hub.join(conversation.pk, tabs[n].last) for n in range(5)}
    workplace.engine.wake(turn.pk)
    waiting = await rest(workplace, turn)
    assert waiting.state == Turn.State.WAITING
    for n in (5, 6):
        viewers[n] = await workplace.hub.join(conversation.pk, tabs[n].last)
    await in_database(_deny_what_waits, turn)
    for n, pause in zip((0, 1), pauses, strict=True):
        async with asyncio.timeout(10):
            await pause.reached.wait()
        await drained(tabs[n], viewers[n], conversation)
        workplace.hub.leave(conversation.pk, viewers.pop(n))
        tabs[7 + n] = await loaded(conversation)
        viewers[7 + n] = await workplace.hub.join(conversation.pk, tabs[7 + n].last)
        pause.ended.set()
    await rest(workplace, turn)
    for n in (0, 1, 9):
        viewers[n] = await workplace.hub.join(conversation.pk, tabs[n].last)
    for n, tab in enumerate(tabs):
        await drained(tab, viewers[n], conversation)
        await assert_as_reloaded(tab, conversation)
    assert "The end." in tabs[0].text(page.THREAD_ID)
    assert "denied" in tabs[0].text(page.THREAD_ID)


def _deny_what_waits(turn: Turn) -> None:
    call = turn.tool_calls.get(state=ToolCall.State.AWAITING_APPROVAL)
    deny(call, by=turn.conversation.owner, binding=call.approval.binding)
