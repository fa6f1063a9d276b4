"""Tabs of a conversation in tests: loading the page, watching it, and saying things to be seen."""

import asyncio
import re
from copy import copy
from typing import Any

from bs4 import Tag
from django.db import transaction

from chatapp.engine.runtime import EngineRuntime
from chatapp.journal import journal
from chatapp.journal.journal import Entry, Kind
from chatapp.live.feed import Feed
from chatapp.live.frames import parse_number
from chatapp.live.hub import Viewer
from chatapp.live.page_view import load_conversation_view
from chatapp.models import Conversation, Part, Step, Turn
from chatapp.rendering import page_values
from chatapp.rendering.pages import fragments
from chatapp.server.database import in_database
from tests.dom import Tab
from tests.turns.acts import wait_for_rest

WORDS = "# Title\n\nSome *words* and `code`.\n\n- one\n- two\n\n```python\nx = 1\n```\n\nThe end."


# --- tabs ----------------------------------------------------------------------------------
def whole_page(conversation: Conversation) -> Tab:
    """A tab that loads the page now."""
    view = load_conversation_view(conversation)
    actions = fragments.render_composer_actions(conversation, view.live_turn)
    return Tab(f"{fragments.render_thread(view)}{actions}", view.seq)


async def loaded(conversation: Conversation) -> Tab:
    return await in_database(whole_page, conversation)


def shown(tab: Tab) -> str:
    """The HTML of all messages, but for the line ends that templates leave between elements."""
    thread = copy(tab.soup.find(id=page_values.THREAD_ID))
    assert isinstance(thread, Tag)
    thread.smooth()  # words that came one after another are one text
    for text in thread.find_all(string=True):
        if text.find_parent("pre") is not None:
            continue
        if text.strip():
            # The parser shortens white space that is a text of its own, as in a frame.
            text.replace_with(re.sub(r"\s+", " ", text))
        else:
            text.extract()
    return str(thread)


async def assert_as_reloaded(tab: Tab, conversation: Conversation) -> None:
    reloaded = await loaded(conversation)
    assert tab.last == reloaded.last
    assert shown(tab) == shown(reloaded)


class Gone(Tab):
    """A tab that notes that it was dropped."""

    drops = 0

    def drop(self) -> None:
        self.drops += 1
        self.moved.set()


def gone(tab: Tab) -> Gone:
    return Gone(str(tab.soup), tab.last)


async def latest(conversation: Conversation) -> int:
    seqs = Conversation.objects.values_list("last_seq", flat=True)
    return await in_database(seqs.get, pk=conversation.pk)


async def caught_up(tab: Tab, conversation: Conversation) -> None:
    """Until the tab has the conversation's last frame."""
    target = await latest(conversation)
    async with asyncio.timeout(60):
        while tab.last < target:
            tab.moved.clear()
            await tab.moved.wait()


async def drained(tab: Tab, viewer: Viewer, conversation: Conversation) -> None:
    """Until the tab has taken the conversation's last frame from its viewer."""
    target = await latest(conversation)
    async with asyncio.timeout(60):
        while tab.last < target:
            tab.take(await viewer.frames.get())


def taken(viewer: Viewer) -> list[str]:
    """The frames that wait for this tab."""
    frames = []
    while not viewer.frames.empty():
        frames.append(viewer.frames.get_nowait())
    return frames


def numbers(frames: list[str]) -> list[int]:
    return [parse_number(frame) for frame in frames]


async def watched(turn: Turn, tab: Tab | None = None) -> tuple[Feed, Tab]:
    """A feed with one tab that loaded the page just now."""
    feed, tab = Feed(turn.conversation_id), tab or await loaded(turn.conversation)
    await feed.join(tab, tab.last)
    return feed, tab


async def told(feed: Feed, turn: Turn) -> None:
    """The feed hears how far its conversation has come, as by the slow poll."""
    feed.nudge(await latest(turn.conversation))


async def assert_shown_live(runtime: EngineRuntime, turn: Turn) -> None:
    """Run the turn while a tab watches; the tab then shows what a reload shows."""
    feed, tab = await watched(turn)
    try:
        await wait_for_rest(runtime, turn)
        await told(feed, turn)
        await caught_up(tab, turn.conversation)
        await assert_as_reloaded(tab, turn.conversation)
    finally:
        feed.close()


# --- what is said without an engine --------------------------------------------------------
def begin(turn: Turn, number: int = 1) -> Step:
    """A step whose model call goes on."""
    Turn.objects.filter(pk=turn.pk).update(state=Turn.State.RUNNING)
    return Step.objects.create(turn=turn, number=number)


def said(turn: Turn, *words: str, kind: Kind = Kind.TEXT, position: int = 0, step: int = 1) -> None:
    """One event for each of these words, in one transaction."""
    place = {"message": str(turn.answer_id), "step": step, "attempt": 1, "position": position}
    written(turn, *(Entry(kind=kind, data={**place, "text": text}) for text in words))


def written(turn: Turn, *entries: Entry) -> None:
    with transaction.atomic():
        journal.append(turn.conversation_id, turn.pk, entries)


def closed(turn: Turn, step: Step, *parts: tuple[str, str]) -> None:
    """The end of a step with these parts, each a kind and its words."""
    with transaction.atomic():
        Step.objects.filter(pk=step.pk).update(state=Step.State.DONE)
        rows: list[dict[str, Any]] = [
            {"kind": kind, "text": text, "position": position}
            for position, (kind, text) in enumerate(parts)
        ]
        for row in rows:
            Part.objects.create(message_id=turn.answer_id, step=step.number, **row)
        positions = list(range(len(parts)))
        entry = journal.step_entry(turn, step.number, positions)
        journal.append(turn.conversation_id, turn.pk, [entry])
