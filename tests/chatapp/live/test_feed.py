"""The live stream: whatever a tab missed, it ends with what a tab that never left shows."""

import asyncio
import random
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from chatapp.approvals.decisions import deny
from chatapp.conversations import intake
from chatapp.engine.runtime import EngineRuntime
from chatapp.journal.journal import Event, Kind
from chatapp.live.feed import Feed, Unresumable
from chatapp.live.hub import Viewer
from chatapp.models import Conversation, JournalEvent, Member, ToolCall, Turn
from chatapp.providers.events import ReasoningDelta, TextDelta
from chatapp.rendering import page_values
from chatapp.rendering.markdown.stream import COSTLY_CHARS
from chatapp.server.database import in_database
from chatapp.server.runtime import current_runtime
from mcpconfig.models import Service
from tests import scripted
from tests.dom import Tab
from tests.scripted import Pause, Scene, calls, text
from tests.turns.acts import DELETE, READ, wait_for_rest
from tests.turns.tabs import WORDS, assert_as_reloaded, caught_up, drained, latest, loaded, shown

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
async def tab(runtime: EngineRuntime, turn: Turn) -> AsyncIterator[Tab]:
    """A tab that watches from the start and never leaves."""
    tab = await loaded(turn.conversation)
    viewer = await runtime.hub.join(turn.conversation_id, tab.last)

    async def watch() -> None:
        while True:
            tab.take(await viewer.frames.get())

    task = asyncio.create_task(watch())
    yield tab
    task.cancel()
    runtime.hub.leave(turn.conversation_id, viewer)


async def test_a_tab_that_watches_shows_what_a_reload_shows(
    runtime: EngineRuntime, turn: Turn, tab: Tab
) -> None:
    scene, pauses = slowly()
    scripted.scenes.append(scene)
    for pause in pauses:
        pause.ended.set()
    await wait_for_rest(runtime, turn)
    await caught_up(tab, turn.conversation)
    reloaded = await loaded(turn.conversation)
    assert shown(tab) == shown(reloaded)
    assert "The end." in tab.text(page_values.THREAD_ID)


async def test_frames_rise_by_one(runtime: EngineRuntime, turn: Turn, tab: Tab) -> None:
    scripted.scenes.append(text("One ", "two ", "three"))
    await wait_for_rest(runtime, turn)
    await caught_up(tab, turn.conversation)
    assert tab.numbers == list(range(tab.numbers[0], tab.numbers[-1] + 1))


async def test_a_tab_that_joins_in_the_middle_shows_the_same(
    runtime: EngineRuntime, turn: Turn
) -> None:
    scene, pauses = slowly()
    scripted.scenes.append(scene)
    runtime.engine.wake(turn.pk)
    async with asyncio.timeout(60):
        await pauses[0].reached.wait()
    late = await loaded(turn.conversation)
    viewer = await runtime.hub.join(turn.conversation_id, late.last)
    for pause in pauses:
        pause.ended.set()
    await wait_for_rest(runtime, turn)
    await drained(late, viewer, turn.conversation)
    reloaded = await loaded(turn.conversation)
    assert shown(late) == shown(reloaded)


@pytest.mark.parametrize("seen", ["nothing", "some", "all"])
async def test_a_tab_that_comes_back_is_brought_up_to_date(
    runtime: EngineRuntime, turn: Turn, tab: Tab, seen: str
) -> None:
    early = await loaded(turn.conversation)
    scripted.scenes.append(text("Some ", "words ", "of ", "wisdom."))
    await wait_for_rest(runtime, turn)
    await caught_up(tab, turn.conversation)
    after = {"nothing": early.last, "some": early.last + 1, "all": tab.last}[seen]
    viewer = await runtime.hub.join(turn.conversation_id, after)
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
    runtime: EngineRuntime, turn: Turn
) -> None:
    early = await loaded(turn.conversation)
    scripted.scenes.append(text(*WORDS.split(" ")))
    await wait_for_rest(runtime, turn)
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


def build_text(turn: Turn, seq: int, words: str, kind: Kind = Kind.TEXT) -> Event:
    data = {"message": str(turn.answer_id), "step": 1, "position": 0, "text": words}
    return Event(
        conversation_id=turn.conversation_id, seq=seq, turn_id=turn.pk, kind=kind, data=data
    )


async def test_text_that_follows_is_sent_at_once_and_anything_else_is_not(turn: Turn) -> None:
    latest = await in_database(Conversation.objects.get, pk=turn.conversation_id)
    feed, viewer = Feed(turn.conversation_id), Viewer()
    await feed.join(viewer, latest.last_seq)
    feed.offer([build_text(turn, feed.seq + 1, "One "), build_text(turn, feed.seq + 2, "two")])
    assert viewer.frames.qsize() == 2
    assert feed.seq == latest.last_seq + 2
    for events in (
        [build_text(turn, feed.seq + 1, "three", Kind.TURN)],
        [build_text(turn, feed.seq + 2, "after a gap")],
        [build_text(turn, feed.seq + 1, "a" * (COSTLY_CHARS + 1))],
    ):
        assert not feed._is_next_text(events)
    feed.offer([build_text(turn, feed.seq + 2, "after a gap")])
    assert viewer.frames.qsize() == 2
    assert not feed._is_next_text([build_text(turn, feed.seq + 1, "beside a task that reads")])
    feed.close()


@pytest.mark.parametrize("seed", range(5))
async def test_events_that_are_dropped_doubled_and_shuffled_give_the_same_page(
    runtime: EngineRuntime, turn: Turn, seed: int
) -> None:
    """What reaches a feed is a hint; the numbers of the journal repair it."""
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
    current_runtime().journal_listeners.append(disturbed)
    try:
        scripted.scenes.append(text(*WORDS.split(" ")))
        await wait_for_rest(runtime, turn)
        feed.nudge(await latest(turn.conversation))  # the slow poll
        await caught_up(tab, turn.conversation)
    finally:
        current_runtime().journal_listeners.remove(disturbed)
    reloaded = await loaded(turn.conversation)
    assert shown(tab) == shown(reloaded)


async def test_no_text_is_painted_that_is_not_stored(runtime: EngineRuntime, turn: Turn) -> None:
    stored: list[bool] = []

    def check(events: object) -> None:
        for event in events:  # type: ignore[attr-defined]
            rows = JournalEvent.objects.filter(conversation_id=event.conversation_id, seq=event.seq)
            stored.append(rows.exists())

    current_runtime().journal_listeners.append(check)
    try:
        scripted.scenes.append(text(*WORDS.split(" ")))
        await wait_for_rest(runtime, turn)
    finally:
        current_runtime().journal_listeners.remove(check)
    assert stored
    assert all(stored)


async def test_a_slow_tab_falls_behind_alone(runtime: EngineRuntime, turn: Turn, tab: Tab) -> None:
    """Nobody reads the frames of the second viewer; the first one gets all of its own."""
    slow = await runtime.hub.join(turn.conversation_id, tab.last)
    slow.frames = asyncio.Queue(1)
    scripted.scenes.append(text("Many ", "words."))
    await wait_for_rest(runtime, turn)
    await caught_up(tab, turn.conversation)
    assert slow.fell_behind
    assert "Many words." in tab.text(page_values.THREAD_ID)


async def test_one_commit_for_many_turns_reaches_every_tab(
    runtime: EngineRuntime, owner: Member, turn: Turn, tab: Tab
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
    viewer = await runtime.hub.join(other.conversation_id, other_tab.last)
    await asyncio.gather(wait_for_rest(runtime, turn), wait_for_rest(runtime, other))
    await caught_up(tab, turn.conversation)
    await drained(other_tab, viewer, other.conversation)
    for seen, conversation in [(tab, turn.conversation), (other_tab, other.conversation)]:
        assert shown(seen) == shown(await loaded(conversation))
        assert "The end." in seen.text(page_values.THREAD_ID)


async def test_ten_tabs_that_come_and_go_end_as_a_reload_shows(
    runtime: EngineRuntime, notebook: Service, turn: Turn
) -> None:
    """Thoughts, tool calls, a question to a person and a long answer, seen from everywhere."""
    long, pauses = slowly()
    scripted.scenes += [calls(READ, ("nowhere_at_all", "{}")), calls(DELETE), long]
    conversation = turn.conversation
    tabs = [await loaded(conversation) for _ in range(10)]
    viewers = {n: await runtime.hub.join(conversation.pk, tabs[n].last) for n in range(5)}
    runtime.engine.wake(turn.pk)
    waiting = await wait_for_rest(runtime, turn)
    assert waiting.state == Turn.State.WAITING
    for n in (5, 6):
        viewers[n] = await runtime.hub.join(conversation.pk, tabs[n].last)
    await in_database(_deny_what_waits, turn)
    for n, pause in zip((0, 1), pauses, strict=True):
        async with asyncio.timeout(60):
            await pause.reached.wait()
        await drained(tabs[n], viewers[n], conversation)
        runtime.hub.leave(conversation.pk, viewers.pop(n))
        tabs[7 + n] = await loaded(conversation)
        viewers[7 + n] = await runtime.hub.join(conversation.pk, tabs[7 + n].last)
        pause.ended.set()
    await wait_for_rest(runtime, turn)
    for n in (0, 1, 9):
        viewers[n] = await runtime.hub.join(conversation.pk, tabs[n].last)
    for n, tab in enumerate(tabs):
        await drained(tab, viewers[n], conversation)
        await assert_as_reloaded(tab, conversation)
    assert "The end." in tabs[0].text(page_values.THREAD_ID)
    assert "denied" in tabs[0].text(page_values.THREAD_ID)


def _deny_what_waits(turn: Turn) -> None:
    call = turn.tool_calls.get(state=ToolCall.State.AWAITING_APPROVAL)
    deny(call, by=turn.conversation.owner, binding=call.approval.binding)
