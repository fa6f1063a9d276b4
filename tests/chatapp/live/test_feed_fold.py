"""The frames of one real conversation, told again in every way: each page that was ever loaded ends
as the page that is loaded now."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chatapp.approvals.decisions import deny
from chatapp.engine.runtime import close_engine_runtime, open_engine_runtime
from chatapp.journal import group_commit
from chatapp.journal.journal import Event
from chatapp.live.feed import Feed
from chatapp.live.open_parts import OpenParts
from chatapp.models import Conversation, ToolCall, Turn
from chatapp.providers.events import ReasoningDelta, TextDelta, ToolCallReady
from chatapp.server.database import in_database
from chatapp.server.runtime import current_runtime
from mcpconfig.models import Service
from tests import scripted
from tests.dom import Tab
from tests.scripted import Pause, Scene, text
from tests.turns.acts import DELETE, READ, get_owner, wait_for_rest
from tests.turns.tabs import WORDS, shown, whole_page

pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True)]
THOROUGH = [pytest.mark.long, pytest.mark.timeout(300)]
PIECE = 9


class Story:
    """A turn with thoughts, words in many pieces and three tool calls, one of which is denied; and
    each page that could be loaded meanwhile, by its number."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.first = turn.conversation.last_seq
        self.pages: dict[int, str] = {}
        self.events: list[Event] = []
        self._breaths: list[Pause] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def hear(self, events: Sequence[Event]) -> None:
        """After each commit somebody loads the page, and the model says its next piece."""
        loaded = whole_page(Conversation.objects.get(pk=self.turn.conversation_id))
        self.pages.setdefault(loaded.last, str(loaded.soup))
        self.events += events
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._go_on)

    def _go_on(self) -> None:
        if self._breaths:
            self._breaths.pop(0).ended.set()

    async def happen(self) -> None:
        self._loop = asyncio.get_running_loop()
        runtime = await open_engine_runtime(sweeps=False)
        current_runtime().journal_listeners.append(self.hear)
        try:
            scripted.scenes += [self._spoken(READ, READ), self._spoken(DELETE), self._spoken()]
            await wait_for_rest(runtime, self.turn)
            await in_database(self._deny)
            await wait_for_rest(runtime, self.turn)
        finally:
            current_runtime().journal_listeners.remove(self.hear)
            await close_engine_runtime(runtime)

    def _deny(self) -> None:
        call = ToolCall.objects.get(turn=self.turn, state=ToolCall.State.AWAITING_APPROVAL)
        deny(call, by=get_owner(self.turn), binding=call.approval.binding, reason="No.")

    def _spoken(self, *asked: tuple[str, str]) -> Scene:
        """Thoughts, words in pieces that are each an event, and then these calls."""
        said: Scene = []
        pieces: Scene = [ReasoningDelta(text="Let me <see>. "), ReasoningDelta(text="Yes.")]
        pieces += [TextDelta(text=WORDS[at : at + PIECE]) for at in range(0, len(WORDS), PIECE)]
        for piece in pieces:
            self._breaths.append(Pause())
            said += [piece, self._breaths[-1]]
        ready = [
            ToolCallReady(index=n, call_id=f"call_{n}_{name}", name=name, arguments=arguments)
            for n, (name, arguments) in enumerate(asked)
        ]
        return [*said, *ready, *text(reason="tool_calls" if asked else "stop")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """One way of telling it again: in which batches, when which pages join, what is lost."""

    cuts: set[int]
    joins: list[tuple[int, int]]
    seed: int
    is_held: bool


tellings = st.builds(
    Telling,
    cuts=st.sets(st.integers(0, 60), max_size=20),
    joins=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 60)), min_size=1, max_size=5),
    seed=st.integers(0, 1_000),
    is_held=st.booleans(),
)


def disturbed(batch: list[Event], seed: int) -> list[Event]:
    """Some of it twice, some of it not at all, in any order."""
    chance = Random(seed + batch[0].seq)  # noqa: S311  a repeatable shuffle, not a secret
    told = [event for event in batch for _ in range(chance.choice([0, 1, 1, 1, 2]))]
    if seed % 2:
        chance.shuffle(told)
    return told


async def told_again(story: Story, telling: Telling) -> list[Tab]:
    """Every tab, once it has come to the end."""
    feed = Feed(story.turn.conversation_id)
    feed._begin(story.first, [])  # as one that was loaded before the turn began
    numbers, tabs = sorted(story.pages), []
    places = sorted({0, len(story.events), *(n for n in telling.cuts if n < len(story.events))})
    for index, (start, end) in enumerate(pairwise(places)):
        for when, page in telling.joins:
            if when % (len(places) - 1) == index:
                seen = numbers[page % len(numbers)]
                tabs.append(Tab(story.pages[seen], seen))
                await feed.join(tabs[-1], seen)
        if batch := disturbed(story.events[start:end], telling.seed):
            feed.offer(batch)
            await asyncio.sleep(0)
    feed.nudge(story.events[-1].seq)
    async with asyncio.timeout(60):
        for tab in tabs:
            while tab.last < story.events[-1].seq:
                tab.moved.clear()
                await tab.moved.wait()
    feed.close()
    return tabs


@pytest.mark.parametrize("ways", [10, pytest.param(100, marks=THOROUGH)])
def test_any_batches_and_any_resumes_end_in_the_page_that_is_loaded_now(
    turn: Turn, notebook: Service, monkeypatch: pytest.MonkeyPatch, ways: int
) -> None:
    monkeypatch.setattr(group_commit, "TICK_SECONDS", 0.005)
    story = Story(turn)
    asyncio.run(story.happen())
    final = shown(whole_page(turn.conversation))
    assert len(story.pages) > 30
    assert "denied" in final and "The end." in final
    joined = []

    @settings(max_examples=ways, deadline=None)
    @given(tellings)
    def check(telling: Telling) -> None:
        interval = 0.001 if telling.is_held else 0.0
        with pytest.MonkeyPatch.context() as planted:
            planted.setattr(OpenParts, "interval_seconds", interval)
            for tab in asyncio.run(told_again(story, telling)):
                joined.append(tab)
                assert shown(tab) == final

    check()
    assert len(joined) >= ways
