"""The live stream: whatever a tab missed, it ends with what a tab that never left shows."""

import asyncio
import random
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from chatapp.models import Conversation, JournalEvent, Member, Turn
from chatapp.providers.events import ReasoningDelta, TextDelta
from chatapp.rendering import fragments, page
from chatapp.turns import intake, journal
from chatapp.turns.feed import Feed, Unresumable
from chatapp.turns.journal import Event
from chatapp.turns.live import Viewer
from chatapp.turns.reading import read_conversation
from chatapp.turns.storage import in_database
from chatapp.turns.workplace import Workplace
from tests import scripted
from tests.dom import Tab
from tests.scripted import Pause, Scene, text

pytestmark = pytest.mark.django_db(transaction=True)
WORDS = "# Title\n\nSome *words* and `code`.\n\n- one\n- two\n\n```python\nx = 1\n```\n\nThe end."


def whole_page(conversation: Conversation) -> Tab:
    """A tab that loads the page now."""
    view = read_conversation(conversation)
    messages = "".join(fragments.message(message) for message in view.messages)
    actions = fragments.composer_actions(conversation, view.live_turn)
    return Tab(f'<ol id="{page.THREAD_ID}">{messages}</ol>{actions}', view.seq)


async def loaded(conversation: Conversation) -> Tab:
    return await in_database(whole_page, conversation)


def slowly(pieces: int = 40) -> tuple[Scene, list[Pause]]:
    """A long answer that stops twice on its way."""
    size = max(1, len(WORDS) // pieces)
    words: list[object] = [ReasoningDelta(text="Let me "), ReasoningDelta(text="think.")]
    words += [TextDelta(text=WORDS[i : i + size]) for i in range(0, len(WORDS), size)]
    pauses = [Pause(), Pause()]
    words.insert(len(words) // 3, pauses[0])
    words.insert(2 * len(words) // 3, pauses[1])
    return [*words, *text()], pauses  # type: ignore[list-item]


async def settled(workplace: Workplace, turn: Turn) -> None:
    async with asyncio.timeout(15):
        await workplace.engine.finished(turn.pk)
        await workplace.engine.advance(turn.pk)


async def caught_up(tab: Tab, conversation: Conversation) -> None:
    """Until the tab has the conversation's last frame."""
    async with asyncio.timeout(10):
        latest = await in_database(
            Conversation.objects.values_list("last_seq", flat=True).get, pk=conversation.pk
        )
        while tab.last < latest:
            tab.moved.clear()
            await tab.moved.wait()


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
    await settled(workplace, turn)
    await caught_up(tab, turn.conversation)
    reloaded = await loaded(turn.conversation)
    assert tab.text(page.THREAD_ID) == reloaded.text(page.THREAD_ID)
    assert "The end." in tab.text(page.THREAD_ID)


async def test_frames_rise_by_one(workplace: Workplace, turn: Turn, tab: Tab) -> None:
    scripted.scenes.append(text("One ", "two ", "three"))
    await settled(workplace, turn)
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
    await settled(workplace, turn)
    await drained(late, viewer.frames, turn.conversation)
    reloaded = await loaded(turn.conversation)
    assert late.text(page.THREAD_ID) == reloaded.text(page.THREAD_ID)


async def drained(tab: Tab, frames: "asyncio.Queue[str]", conversation: Conversation) -> None:
    latest = await in_database(
        Conversation.objects.values_list("last_seq", flat=True).get, pk=conversation.pk
    )
    async with asyncio.timeout(10):
        while tab.last < latest:
            tab.take(await frames.get())


@pytest.mark.parametrize("seen", ["nothing", "some", "all"])
async def test_a_tab_that_comes_back_is_brought_up_to_date(
    workplace: Workplace, turn: Turn, tab: Tab, seen: str
) -> None:
    early = await loaded(turn.conversation)
    scripted.scenes.append(text("Some ", "words ", "of ", "wisdom."))
    await settled(workplace, turn)
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
        assert early.text(page.THREAD_ID) == tab.text(page.THREAD_ID)


async def test_a_tab_from_before_a_restart_is_sent_the_state(
    workplace: Workplace, turn: Turn
) -> None:
    early = await loaded(turn.conversation)
    scripted.scenes.append(text(*WORDS.split(" ")))
    await settled(workplace, turn)
    await in_database(JournalEvent.objects.all().delete)
    feed = Feed(turn.conversation_id)  # as in a process that has just started
    viewer = Viewer()
    await feed.join(viewer, early.last)
    assert viewer.frames.qsize() == 1
    early.take(viewer.frames.get_nowait())
    reloaded = await loaded(turn.conversation)
    assert early.text(page.THREAD_ID) == reloaded.text(page.THREAD_ID)


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
        await settled(workplace, turn)
        latest = await in_database(
            Conversation.objects.values_list("last_seq", flat=True).get, pk=turn.conversation_id
        )
        feed.nudge(latest)  # the slow poll
        await caught_up(tab, turn.conversation)
    finally:
        journal.LISTENERS.remove(disturbed)
    reloaded = await loaded(turn.conversation)
    assert tab.text(page.THREAD_ID) == reloaded.text(page.THREAD_ID)


async def test_no_text_is_painted_that_is_not_stored(workplace: Workplace, turn: Turn) -> None:
    stored: list[bool] = []

    def check(events: object) -> None:
        for event in events:  # type: ignore[attr-defined]
            rows = JournalEvent.objects.filter(conversation_id=event.conversation_id, seq=event.seq)
            stored.append(rows.exists())

    journal.LISTENERS.append(check)
    try:
        scripted.scenes.append(text(*WORDS.split(" ")))
        await settled(workplace, turn)
    finally:
        journal.LISTENERS.remove(check)
    assert stored
    assert all(stored)


async def test_a_slow_tab_falls_behind_alone(workplace: Workplace, turn: Turn, tab: Tab) -> None:
    """F13: nobody reads the second viewer's frames; the first one gets all of its own."""
    slow = await workplace.hub.join(turn.conversation_id, tab.last)
    slow.frames = asyncio.Queue(1)
    scripted.scenes.append(text("Many ", "words."))
    await settled(workplace, turn)
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
    await asyncio.gather(settled(workplace, turn), settled(workplace, other))
    await caught_up(tab, turn.conversation)
    await drained(other_tab, viewer.frames, other.conversation)
    for shown, conversation in [(tab, turn.conversation), (other_tab, other.conversation)]:
        assert shown.text(page.THREAD_ID) == (await loaded(conversation)).text(page.THREAD_ID)
        assert "The end." in shown.text(page.THREAD_ID)
