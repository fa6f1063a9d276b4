"""A feed: folds the journal of one conversation into frames and gives them to its tabs in order.

An event is one frame, except that several deltas of a very long open block are one.
"""

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby, zip_longest
from typing import Protocol, TypeVar

from chatapp.journal import journal
from chatapp.journal.journal import Event, Kind
from chatapp.models import Conversation
from chatapp.rendering.page_values import ConversationView
from chatapp.server.database import in_database
from chatapp.server.locales import carry_locale, get_locale, make_context, using_locale
from chatapp.telemetry import metrics

from .frames import Op, RecentFrames, build_frame, parse_number
from .open_parts import TEXT_KINDS, OpenPart, OpenParts, is_of_same_part, load_open_parts
from .page_changes import CurrentTurns, render_changes, render_changes_since, render_step_parts
from .page_view import load_changes_and_open_parts

log = logging.getLogger(__name__)
# A tab that comes back later is sent the state.
FRAMES_KEPT_SECONDS = 60.0
R = TypeVar("R")


class Unresumable(Exception):
    """The conversation is gone, or the tab has a later frame: the page must be loaded again."""


class Watcher(Protocol):
    """A tab that gets frames until it is dropped and has to reconnect."""

    def take(self, frame: str) -> None: ...

    def drop(self) -> None: ...


class Feed:
    """The frames of one conversation in this process. A tab joins with the number of its last
    frame.

    `seq` is the last event that every watching tab has, -1 while nothing is loaded. It changes only
    under the lock. `joined` is the hub's count of the viewers of this feed.
    """

    def __init__(self, conversation_id: uuid.UUID) -> None:
        self.conversation_id = conversation_id
        self.seq = -1
        self.joined = 0
        self._open = OpenParts()
        self._frames = RecentFrames()
        self._locale = get_locale()
        self._context = make_context(self._locale)
        self._watching: set[Watcher] = set()
        self._inbox: list[Event] = []
        # The last event of each commit of this process, and when it was, in monotonic seconds.
        self._commits: list[tuple[int, float]] = []
        self._target = 0
        self._painted_at = 0.0
        self._sent_at = 0.0
        self._cannot_wait = asyncio.Event()
        self._turning = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    # --- tabs ------------------------------------------------------------------------------
    async def join(self, tab: Watcher, after: int) -> None:
        """Bring a tab up to date and add it. Raises Unresumable.

        Frames are rendered once for all tabs, in the language and time zone of the last one: they
        are all of the same person.
        """
        async with self._turning:
            if self._locale != get_locale():
                self._locale = get_locale()
                self._context = make_context(self._locale)
                self._frames.clear()
            if self.seq < 0:
                self._begin(*await self._read(load_open_parts))
            if after > self.seq and after > await self._read(_latest_seq):
                raise Unresumable
            while after != self.seq:
                after = await self._bring_up(tab, after)
            self._watching.add(tab)
        self.nudge(self._target)

    def leave(self, tab: Watcher) -> None:
        self._watching.discard(tab)

    def drop_old_frames(self) -> None:
        """Free the memory of frames that no tab has missed for a while."""
        if time.monotonic() > self._sent_at + FRAMES_KEPT_SECONDS:
            self._frames.clear()

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _bring_up(self, tab: Watcher, seen: int) -> int:
        """Send a tab the frames that it lacks, or the whole state. Return the number that it has
        then."""
        if seen > self.seq:
            await self._read_up_to(seen)
            return seen
        frames = self._frames.since(seen)
        if frames is None:
            view, _parts = await self._read(partial(_load_changes, seen=seen))
            frames = [build_frame(view.seq, await in_database(render_changes_since, view, seen))]
        for frame in frames:
            tab.take(frame)
        return parse_number(frames[-1])

    # --- events ----------------------------------------------------------------------------
    def offer(self, events: Sequence[Event], committed: float | None = None) -> None:
        """Add events of this process, which were `committed` then, in monotonic seconds."""
        if self._is_next_text(events):
            self._send_text_now(events, committed)
            return
        if self.seq >= 0:
            self._inbox.extend(events)
            if committed is not None:
                self._commits.append((events[-1].seq, committed))
        if any(event.kind not in TEXT_KINDS for event in events):
            self._cannot_wait.set()
        self.nudge(events[-1].seq)

    def _is_next_text(self, events: Sequence[Event]) -> bool:
        """Whether these events are text that can be painted here at once. Most events are, and a
        task for each would cost more than the paint."""
        return (
            (self._task is None or self._task.done())
            and not self._turning.locked()
            and not self._inbox
            and self.seq >= max(0, self._target)
            and not self._open.interval_seconds
            and all(event.kind in TEXT_KINDS for event in events)
            and [event.seq - self.seq for event in events] == list(range(1, len(events) + 1))
            and not self._open.would_be_costly(events)
        )

    def _send_text_now(self, events: Sequence[Event], committed: float | None) -> None:
        self._target = events[-1].seq
        try:
            self._context.run(self._paint_all, events)
        except Exception:
            # Half of an event may be in the fold, so it must not be applied again.
            self._drop_all()
            log.exception("The feed of %s failed; tabs reconnect", self.conversation_id)
            return
        self._painted_at = asyncio.get_running_loop().time()
        if committed is not None:
            metrics.PUBLISH_SECONDS.observe(time.monotonic() - committed)

    def _paint_all(self, events: Sequence[Event]) -> None:
        for event in events:
            part = self._open.feed(event)
            self._send(event.seq, part.paint(uuid.UUID(event.data["message"])))

    def nudge(self, seq: int) -> None:
        """Read what is missing up to `seq`, the last event of the conversation."""
        self._target = max(self._target, seq)
        if self._target > self.seq >= 0 and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._catch_up())

    async def _catch_up(self) -> None:
        with using_locale(self._locale):
            await self._catch_up_in_locale()

    async def _catch_up_in_locale(self) -> None:
        try:
            while self._target > self.seq >= 0:  # the first join loads everything
                # What is ready goes first, such as the request of a new turn to its model.
                await asyncio.sleep(0)
                await self._wait_for_more()
                await self._advance()
        except Unresumable:
            log.info("The conversation %s is gone", self.conversation_id)
        except Exception:
            log.exception("The feed of %s failed; tabs reconnect", self.conversation_id)

    async def _wait_for_more(self) -> None:
        """Wait while a long open block should not be painted yet, unless an event is no text."""
        if interval := self._open.interval_seconds:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(self._painted_at + interval):
                    await self._cannot_wait.wait()
        self._cannot_wait.clear()

    async def _advance(self) -> None:
        async with self._turning:
            events, self._inbox = self._inbox, []
            commits, self._commits = self._commits, []
            before = self.seq
            if before < 0:
                return
            try:
                await self._send_all(_order_events(events, self.seq, self._target))
                if self._target > self.seq:
                    await self._read_up_to(self._target)
            except Exception:
                self._drop_all()
                raise
            waited = [time.monotonic() - at for last, at in commits if last > before]
            if waited:
                metrics.PUBLISH_SECONDS.observe(max(waited))

    async def _read_up_to(self, seq: int) -> None:
        """Apply the journal's events up to `seq`. If some were deleted, start over from the
        state."""
        events = await in_database(journal.read_events_after, self.conversation_id, self.seq)
        await self._send_all(_order_events(events, self.seq, seq))
        if self.seq < seq:
            await self._start_over()

    async def _start_over(self) -> None:
        """Send every tab the whole state, where the events that led to it are gone."""
        before = self.seq
        view, parts = await self._read(partial(_load_changes, seen=before))
        ops = await in_database(render_changes_since, view, before)
        self._begin(view.seq, parts)
        self._send_to_all(build_frame(view.seq, ops))

    def _begin(self, seq: int, parts: list[OpenPart]) -> None:
        self.seq, self._open = seq, OpenParts(parts)
        self._frames.clear()

    def _drop_all(self) -> None:
        """Make every tab reconnect with its last frame. The first one causes a full read."""
        self.seq = -1
        self._frames.clear()
        self._inbox.clear()
        self._commits.clear()
        watching, self._watching = self._watching, set()
        for tab in watching:
            tab.drop()

    # --- frames ----------------------------------------------------------------------------
    async def _send_all(self, events: Sequence[Event]) -> None:
        try:
            for is_text, group in groupby(events, key=lambda event: event.kind in TEXT_KINDS):
                if is_text:
                    await self._send_text(list(group))
                else:
                    await self._send_changes(list(group))
        except BaseException:
            # Cancelled or failed: half of an event may be in the fold, so it must not be applied
            # again.
            self._drop_all()
            raise

    async def _send_text(self, events: Sequence[Event]) -> None:
        for event, following in zip_longest(events, events[1:]):
            if following is not None and self._can_wait(event, following):
                self._open.feed(event)
            else:
                self._send(event.seq, await self._paint(event))

    async def _send_changes(self, events: Sequence[Event]) -> None:
        """Render events that change rows together, as each visit of the database takes time."""
        rendered = await in_database(_render_events, self._open, events)
        for event, ops in zip(events, rendered, strict=True):
            self._send(event.seq, ops)

    def _can_wait(self, event: Event, following: Event) -> bool:
        """Whether the paint of the following event includes this one."""
        return self._open.interval_seconds > 0 and is_of_same_part(event, following)

    def _send(self, last: int, ops: list[Op]) -> None:
        frame = build_frame(last, ops)
        self._frames.add(self.seq + 1, last, frame)
        self._sent_at = time.monotonic()
        self.seq = last
        self._send_to_all(frame)

    def _send_to_all(self, frame: str) -> None:
        for tab in self._watching:
            tab.take(frame)

    async def _paint(self, event: Event) -> list[Op]:
        part, message = self._open.feed(event), uuid.UUID(event.data["message"])
        if part.stream.is_costly:
            ops = await asyncio.to_thread(carry_locale(part.paint), message)
        else:
            ops = part.paint(message)
        self._painted_at = asyncio.get_running_loop().time()
        return ops

    async def _read(self, work: Callable[[uuid.UUID], R]) -> R:
        try:
            return await in_database(work, self.conversation_id)
        except Conversation.DoesNotExist:
            raise Unresumable from None


def _order_events(events: Sequence[Event], seq: int, last: int) -> list[Event]:
    """Return the events after `seq` up to `last` in order, each once, up to the first gap."""
    found: list[Event] = []
    for event in sorted(events, key=lambda event: event.seq):
        if event.seq == seq + len(found) + 1 <= last:
            found.append(event)
    return found


def _render_events(parts: OpenParts, events: Sequence[Event]) -> list[list[Op]]:
    """Render each event from the rows as they are now. The last state of a turn or of a call
    includes those before it."""
    lasts = {event.data["message"]: event.seq for event in events if event.kind == Kind.TURN}
    lasts |= {event.data["call"]: event.seq for event in events if _is_call_change(event)}
    rendered: list[list[Op]] = []
    turns = CurrentTurns()
    for event in events:
        match event.kind:
            case Kind.RESTART:
                rendered.append(parts.restart(event))
            case Kind.STEP:
                rendered.append(_close_step(parts, event))
            case Kind.TURN if event.seq != lasts[event.data["message"]]:
                rendered.append([])
            case Kind.TOOL_CALL if event.seq < lasts.get(event.data["call"], 0) and (
                _is_call_change(event)
            ):
                rendered.append([])
            case _:
                rendered.append(render_changes(event, turns))
    return rendered


def _is_call_change(event: Event) -> bool:
    """Whether it is a change of a call that pages show already."""
    return event.kind == Kind.TOOL_CALL and not event.data["is_new"]


def _close_step(parts: OpenParts, event: Event) -> list[Op]:
    """Close the parts of a step. Runs in a database thread, as the end of a long text takes
    time."""
    has_only_texts = parts.has_only_texts(event)
    ops, seen = parts.close(event)
    return ops if has_only_texts else ops + render_step_parts(event, seen)


def _latest_seq(conversation_id: uuid.UUID) -> int:
    return Conversation.objects.values_list("last_seq", flat=True).get(pk=conversation_id)


def _load_changes(conversation_id: uuid.UUID, seen: int) -> tuple[ConversationView, list[OpenPart]]:
    return load_changes_and_open_parts(Conversation.objects.get(pk=conversation_id), seen)
