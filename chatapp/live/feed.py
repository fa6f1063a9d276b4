"""One conversation's frames in this process: a fold of its journal, in order, handed to its tabs.

One event is one frame, except that words of a very long open block are painted together.
"""

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Protocol, TypeVar

from chatapp.models import Conversation
from chatapp.rendering.page import ConversationView
from chatapp.storage import in_database

from . import journal
from .changes import changes_of, changes_since, parts_of_step
from .frames import KeptFrames, Op, frame_of, number_of
from .journal import Event, Kind
from .open_parts import WORDS, OpenPart, OpenParts, is_of_same_part, read_open
from .reading import read_whole

log = logging.getLogger(__name__)
R = TypeVar("R")


class Unresumable(Exception):
    """The conversation is gone, or lacks frames that the tab has seen: the page must load anew."""


class Watcher(Protocol):
    """A tab: it takes frames, until it is dropped and has to come back."""

    def take(self, frame: str) -> None: ...

    def drop(self) -> None: ...


class Feed:
    """Frames of one conversation. Tabs join with the number of the last frame that they have
    seen.

    `seq` is the event that every watching tab has come to, -1 while nothing is loaded. It moves
    only under the lock. `joined` is the hub's count of those who want this feed.
    """

    def __init__(self, conversation_id: uuid.UUID) -> None:
        self.conversation_id = conversation_id
        self.seq = -1
        self.joined = 0
        self._open = OpenParts()
        self._frames = KeptFrames()
        self._watching: set[Watcher] = set()
        self._inbox: list[Event] = []
        self._target = 0
        self._painted_at = 0.0
        self._cannot_wait = asyncio.Event()
        self._turning = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    # --- tabs ------------------------------------------------------------------------------
    async def join(self, tab: Watcher, after: int) -> None:
        """Add a tab and bring it up to date; raises Unresumable."""
        async with self._turning:
            if self.seq < 0:
                self._begin(*await self._read(read_open))
            if after > self.seq and after > await self._read(_latest_seq):
                raise Unresumable
            while after != self.seq:
                after = await self._bring(tab, after)
            self._watching.add(tab)
        self.nudge(self._target)

    def leave(self, tab: Watcher) -> None:
        self._watching.discard(tab)

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _bring(self, tab: Watcher, seen: int) -> int:
        """Bring a tab on by the frames themselves or by the state as it is; what it has then."""
        if seen > self.seq:
            await self._read_up_to(seen)
            return seen
        frames = self._frames.since(seen)
        if frames is None:
            view, _parts = await self._read(_whole)
            frames = [frame_of(view.seq, await in_database(changes_since, view, seen))]
        for frame in frames:
            tab.take(frame)
        return number_of(frames[-1])

    # --- events ----------------------------------------------------------------------------
    def offer(self, events: Sequence[Event]) -> None:
        """Events that were committed in this process."""
        if self.seq >= 0:
            self._inbox.extend(events)
        if any(event.kind not in WORDS for event in events):
            self._cannot_wait.set()
        self.nudge(events[-1].seq)

    def nudge(self, seq: int) -> None:
        """The conversation has come to `seq`; whatever is missing is read."""
        self._target = max(self._target, seq)
        if self._target > self.seq >= 0 and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._turn())

    async def _turn(self) -> None:
        try:
            while self._target > self.seq >= 0:  # the first join loads everything
                await self._wait_for_more()
                await self._advance()
        except Unresumable:
            log.info("The conversation %s is gone", self.conversation_id)
        except Exception:
            log.exception("The feed of %s is read anew", self.conversation_id)

    async def _wait_for_more(self) -> None:
        """A long open block is painted less often; what is not words never waits."""
        if interval := self._open.interval_seconds:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(self._painted_at + interval):
                    await self._cannot_wait.wait()
        self._cannot_wait.clear()

    async def _advance(self) -> None:
        async with self._turning:
            events, self._inbox = self._inbox, []
            if self.seq < 0:
                return
            try:
                await self._send_all(_in_turn(events, self.seq, self._target))
                if self._target > self.seq:
                    await self._read_up_to(self._target)
            except Exception:
                self._drop_everybody()
                raise

    async def _read_up_to(self, seq: int) -> None:
        """Apply what the journal has up to `seq`; when it no longer has it, start from the
        state."""
        events = await in_database(journal.after, self.conversation_id, self.seq)
        await self._send_all(_in_turn(events, self.seq, seq))
        if self.seq < seq:
            await self._start_over()

    async def _start_over(self) -> None:
        """Every tab is sent the state: nobody knows any more what led to it."""
        before = self.seq
        view, parts = await self._read(_whole)
        ops = await in_database(changes_since, view, before)
        self._begin(view.seq, parts)
        self._hand(frame_of(view.seq, ops))

    def _begin(self, seq: int, parts: list[OpenPart]) -> None:
        self.seq, self._open = seq, OpenParts(parts)
        self._frames.clear()

    def _drop_everybody(self) -> None:
        """Let every tab come back after its last frame; the first one has everything read anew."""
        self.seq = -1
        self._frames.clear()
        self._inbox.clear()
        watching, self._watching = self._watching, set()
        for tab in watching:
            tab.drop()

    # --- frames ----------------------------------------------------------------------------
    async def _send_all(self, events: Sequence[Event]) -> None:
        try:
            for event, following in zip_longest(events, events[1:]):
                if following is not None and self._can_wait(event, following):
                    self._open.hear(event)
                else:
                    self._send(event.seq, await self._ops(event))
        except BaseException:
            # Whoever asked for this went away, or it failed: half an event is in the fold, and it
            # must not be applied again.
            self._drop_everybody()
            raise

    def _can_wait(self, event: Event, following: Event) -> bool:
        """Whether the paint of the following event brings this one as well."""
        return self._open.interval_seconds > 0 and is_of_same_part(event, following)

    def _send(self, last: int, ops: list[Op]) -> None:
        frame = frame_of(last, ops)
        self._frames.add(self.seq + 1, last, frame)
        self.seq = last
        self._hand(frame)

    def _hand(self, frame: str) -> None:
        for tab in self._watching:
            tab.take(frame)

    async def _ops(self, event: Event) -> list[Op]:
        match event.kind:
            case Kind.TEXT | Kind.REASONING:
                return await self._paint(event)
            case Kind.RESTART:
                return self._open.restart(event)
            case Kind.STEP:
                return await in_database(_close_step, self._open, event)
            case _:
                return await in_database(changes_of, event)

    async def _paint(self, event: Event) -> list[Op]:
        part, message = self._open.hear(event), uuid.UUID(event.data["message"])
        if part.stream.is_costly:
            ops = await asyncio.to_thread(part.paint, message)
        else:
            ops = part.paint(message)
        self._painted_at = asyncio.get_running_loop().time()
        return ops

    async def _read(self, work: Callable[[uuid.UUID], R]) -> R:
        try:
            return await in_database(work, self.conversation_id)
        except Conversation.DoesNotExist:
            raise Unresumable from None


def _in_turn(events: Sequence[Event], seq: int, last: int) -> list[Event]:
    """Those from after `seq` to `last`, each once, as far as none is missing."""
    found: list[Event] = []
    for event in sorted(events, key=lambda event: event.seq):
        if event.seq == seq + len(found) + 1 <= last:
            found.append(event)
    return found


def _close_step(parts: OpenParts, event: Event) -> list[Op]:
    """The end of a long text takes a while, so this too is done in a thread of the database."""
    ops, seen = parts.close(event)
    return ops + parts_of_step(event, seen)


def _latest_seq(conversation_id: uuid.UUID) -> int:
    return Conversation.objects.values_list("last_seq", flat=True).get(pk=conversation_id)


def _whole(conversation_id: uuid.UUID) -> tuple[ConversationView, list[OpenPart]]:
    return read_whole(Conversation.objects.get(pk=conversation_id))
