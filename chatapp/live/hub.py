"""The hub: gives the events of a process to the feeds and the pages of people that it serves.

Events of this process come from memory, those of others after a hint of the channel layer or a slow
poll. Hints may be lost, doubled or out of order: the sequence number repairs that.
"""

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from channels.layers import get_channel_layer

from chatapp.journal.journal import Event
from chatapp.models import Conversation
from chatapp.people.signals import Mark, PersonPages, load_marks
from chatapp.server.commits import CommitWatch
from chatapp.server.database import in_database
from chatapp.server.runtime import Runtime, current_runtime

from .feed import Feed
from .rights import RightsLookups

log = logging.getLogger(__name__)
POLL_SECONDS = 1.0
RETRY_SECONDS = 1.0
QUEUE_FRAMES = 256


@dataclass(eq=False, slots=True)
class Viewer:
    """The frames that wait to be sent to one tab. `fell_behind` says that it reads too slowly and
    has to reconnect with its last number."""

    frames: asyncio.Queue[str] = field(default_factory=lambda: asyncio.Queue(QUEUE_FRAMES))
    fell_behind: bool = False

    def take(self, frame: str) -> None:
        try:
            self.frames.put_nowait(frame)
        except asyncio.QueueFull:
            self.fell_behind = True

    def drop(self) -> None:
        """Make the tab reconnect with the last frame that it has."""
        self.fell_behind = True
        with contextlib.suppress(asyncio.QueueFull):
            self.frames.put_nowait("")


class Hub:
    """The feeds of this process and its pages of people, in one event loop."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._feeds: dict[uuid.UUID, Feed] = {}
        self._pages = PersonPages()
        self.rights = RightsLookups()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._layer: Any = get_channel_layer()
        self._channel = ""
        self.commits = CommitWatch()
        self._looked_at: object = None  # the state of the database at the last look

    def start(self) -> None:
        self._runtime.journal_listeners.append(self.publish)
        self._runtime.person_listeners.append(self.publish_people)
        self._keep(self._poll())
        if self._layer is not None:
            self._keep(self._receive_hints())

    async def close(self) -> None:
        self._runtime.journal_listeners.remove(self.publish)
        self._runtime.person_listeners.remove(self.publish_people)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        for feed in self._feeds.values():
            feed.close()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.commits.close()

    # --- tabs ------------------------------------------------------------------------------
    async def join(self, conversation_id: uuid.UUID, after: int) -> Viewer:
        """Return a viewer whose first frames bring the tab from event `after` to now."""
        viewer = Viewer()
        feed = self._feeds.get(conversation_id)
        if feed is None:
            feed = self._feeds[conversation_id] = Feed(conversation_id)
        feed.joined += 1
        self._looked_at = None
        try:
            await self._subscribe(_conversation_group(conversation_id))
            await feed.join(viewer, after)
        except BaseException:
            self.leave(conversation_id, viewer)
            raise
        return viewer

    def leave(self, conversation_id: uuid.UUID, viewer: Viewer) -> None:
        feed = self._feeds[conversation_id]
        feed.leave(viewer)
        feed.joined -= 1
        if not feed.joined:
            feed.close()
            del self._feeds[conversation_id]
            self._forget(_conversation_group(conversation_id))

    async def join_person(self, person_id: int) -> asyncio.Event:
        """Return an event for one page of this person. It is set when the page may have changed."""
        changed = self._pages.join(person_id)
        self._looked_at = None
        try:
            await self._subscribe(_person_group(person_id))
        except BaseException:
            self.leave_person(person_id, changed)
            raise
        return changed

    @property
    def signals_heard(self) -> int:
        return self._pages.heard

    def leave_person(self, person_id: int, changed: asyncio.Event) -> None:
        self._pages.leave(person_id, changed)
        self._forget(_person_group(person_id))

    # --- events ----------------------------------------------------------------------------
    def publish(self, events: Sequence[Event]) -> None:
        """Accept committed events of this process. Called in the thread that committed them."""
        with contextlib.suppress(RuntimeError):  # the loop is closing
            # A context of its own, since what starts here outlives the request that wrote the
            # events.
            self._loop.call_soon_threadsafe(
                self._publish, events, time.monotonic(), context=Context()
            )

    def _publish(self, events: Sequence[Event], committed: float) -> None:
        for conversation_id, group in groupby(events, key=lambda event: event.conversation_id):
            mine = list(group)
            if feed := self._feeds.get(conversation_id):
                feed.offer(mine, committed)
            if self._layer is not None:
                self._keep(self._send_hint(conversation_id, mine[-1].seq))

    def publish_people(self, person_ids: Iterable[int]) -> None:
        """Accept committed signals of this process, as `publish` accepts events."""
        with contextlib.suppress(RuntimeError):  # the loop is closing
            self._loop.call_soon_threadsafe(self._publish_people, person_ids, context=Context())

    def _publish_people(self, person_ids: Iterable[int]) -> None:
        for person_id in person_ids:
            self._pages.notify(person_id)
            if self._layer is not None:
                self._keep(self._send_person_hint(person_id))

    async def _send_person_hint(self, person_id: int) -> None:
        hint = {"type": "person.hint", "person": person_id}
        await self._on_layer(lambda layer: layer.group_send(_person_group(person_id), hint))

    async def _send_hint(self, conversation_id: uuid.UUID, seq: int) -> None:
        hint = {"type": "journal.hint", "conversation": str(conversation_id), "seq": seq}
        await self._on_layer(
            lambda layer: layer.group_send(_conversation_group(conversation_id), hint)
        )

    async def _receive_hints(self) -> None:
        while True:
            try:
                await self._receive_hint()
            except Exception:
                log.warning("The channel layer is away; changes elsewhere are found by polling")
                self._channel = ""
                # Otherwise the channels of a lost connection stay in the layer.
                await self._on_layer(lambda layer: layer.flush())
                await asyncio.sleep(RETRY_SECONDS)

    async def _receive_hint(self) -> None:
        if not self._channel:
            self._channel = await self._layer.new_channel()
            for group in self._groups():
                await self._subscribe(group)
        hint = await self._layer.receive(self._channel)
        if hint["type"] == "person.hint":
            self._pages.notify(hint["person"])
        else:
            self._nudge(uuid.UUID(hint["conversation"]), hint["seq"])

    def _groups(self) -> set[str]:
        """Return the groups of the feeds and people of this process."""
        conversations = {_conversation_group(each) for each in self._feeds}
        return {*conversations, *map(_person_group, self._pages.people)}

    async def _subscribe(self, group: str) -> None:
        if channel := self._channel:
            await self._on_layer(lambda layer: layer.group_add(group, channel))

    def _forget(self, group: str) -> None:
        if self._channel and group not in self._groups():
            self._keep(self._unsubscribe(group, self._channel))

    async def _unsubscribe(self, group: str, channel: str) -> None:
        """Leave the group unless a tab has joined it meanwhile."""
        if group not in self._groups():
            await self._on_layer(lambda layer: layer.group_discard(group, channel))
        if group in self._groups():
            await self._subscribe(group)

    async def _on_layer(self, act: Callable[[Any], Awaitable[None]]) -> None:
        """Call the channel layer and ignore its failures: they cost latency only."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(RETRY_SECONDS):
                await act(self._layer)

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            try:
                await self._look()
            except Exception:
                log.exception("Looking for changes failed; it is tried again")

    async def _look(self) -> None:
        for feed in self._feeds.values():
            feed.drop_old_frames()
            feed.nudge(0)  # goes on if it failed
        feeds, people = list(self._feeds), self._pages.people
        if not feeds and not people:
            return
        state = self.commits.read_state()
        if state == self._looked_at:
            return
        self._looked_at = state
        try:
            seqs, marks = await in_database(_read_changes, feeds, people)
        except BaseException:
            self._looked_at = None
            raise
        for conversation_id, seq in seqs:
            self._nudge(conversation_id, seq)
        self._pages.compare(marks)

    def _nudge(self, conversation_id: uuid.UUID, seq: int) -> None:
        if feed := self._feeds.get(conversation_id):
            feed.nudge(seq)

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def current_hub() -> Hub:
    """Return the hub of this process's server."""
    hub = current_runtime().hub
    if not isinstance(hub, Hub):
        raise RuntimeError("No server runs in this process.")
    return hub


def _conversation_group(conversation_id: uuid.UUID) -> str:
    return f"conversation.{conversation_id.hex}"


def _person_group(person_id: int) -> str:
    return f"person.{person_id}"


def _read_changes(
    conversation_ids: list[uuid.UUID], person_ids: list[int]
) -> tuple[list[tuple[uuid.UUID, int]], dict[int, Mark]]:
    watched = Conversation.objects.filter(pk__in=conversation_ids)
    seqs = list(watched.values_list("pk", "last_seq")) if conversation_ids else []
    return seqs, load_marks(person_ids) if person_ids else {}
