"""The live stream: journal events become numbered frames, once per process, for every tab that
watches; and people's pages hear that something changed for them.

Events of this process come from memory, others through a hint or the slow poll; the sequence number
repairs what is lost, doubled or out of order.
"""

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from channels.layers import get_channel_layer

from chatapp.models import Conversation
from chatapp.storage import in_database

from . import journal, person_signals
from .feed import Feed
from .journal import Event
from .people import Bell, People

log = logging.getLogger(__name__)
POLL_SECONDS = 1.0
RETRY_SECONDS = 1.0
QUEUE_FRAMES = 256


@dataclass(eq=False, slots=True)
class Viewer:
    """One tab. `fell_behind` is set when it reads too slowly; it then starts again from its
    last number."""

    frames: asyncio.Queue[str] = field(default_factory=lambda: asyncio.Queue(QUEUE_FRAMES))
    fell_behind: bool = False

    def take(self, frame: str) -> None:
        try:
            self.frames.put_nowait(frame)
        except asyncio.QueueFull:
            self.fell_behind = True

    def drop(self) -> None:
        """Wake the reader, so that it comes back after the last frame that it has seen."""
        self.fell_behind = True
        with contextlib.suppress(asyncio.QueueFull):
            self.frames.put_nowait("")


class Hub:
    """All feeds of this process. `start` once per event loop; tabs `join` and `leave`."""

    def __init__(self) -> None:
        self._feeds: dict[uuid.UUID, Feed] = {}
        self._people = People()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._layer: Any = get_channel_layer()
        self._channel = ""

    def start(self) -> None:
        journal.LISTENERS.append(self.publish)
        person_signals.LISTENERS.append(self.publish_people)
        self._keep(self._poll())
        if self._layer is not None:
            self._keep(self._hear_hints())

    async def close(self) -> None:
        journal.LISTENERS.remove(self.publish)
        person_signals.LISTENERS.remove(self.publish_people)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        for feed in self._feeds.values():
            feed.close()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- tabs ------------------------------------------------------------------------------
    async def join(self, conversation_id: uuid.UUID, after: int) -> Viewer:
        """A viewer whose first frames bring the tab from `after` to now."""
        viewer = Viewer()
        feed = self._feeds.get(conversation_id)
        if feed is None:
            feed = self._feeds[conversation_id] = Feed(conversation_id)
        feed.joined += 1
        try:
            await self._subscribe(_group(conversation_id))
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
            self._forget(_group(conversation_id))

    async def join_person(self, person_id: int) -> Bell:
        """A bell for one page of this person: it rings when what they are shown may have
        changed."""
        bell = self._people.join(person_id)
        try:
            await self._subscribe(_group_of_person(person_id))
        except BaseException:
            self.leave_person(person_id, bell)
            raise
        return bell

    def leave_person(self, person_id: int, bell: Bell) -> None:
        self._people.leave(person_id, bell)
        self._forget(_group_of_person(person_id))

    # --- events ----------------------------------------------------------------------------
    def publish(self, events: Sequence[Event]) -> None:
        """Committed events of this process, from whichever thread committed them."""
        with contextlib.suppress(RuntimeError):  # the loop is closing
            # A context of its own: what begins here outlives the request that wrote the events.
            self._loop.call_soon_threadsafe(self._publish, events, context=Context())

    def _publish(self, events: Sequence[Event]) -> None:
        for conversation_id, group in groupby(events, key=lambda event: event.conversation_id):
            mine = list(group)
            if feed := self._feeds.get(conversation_id):
                feed.offer(mine)
            if self._layer is not None:
                self._keep(self._send_hint(conversation_id, mine[-1].seq))

    def publish_people(self, person_ids: Iterable[int]) -> None:
        """Committed signals of this process, likewise."""
        with contextlib.suppress(RuntimeError):  # the loop is closing
            self._loop.call_soon_threadsafe(self._publish_people, person_ids, context=Context())

    def _publish_people(self, person_ids: Iterable[int]) -> None:
        for person_id in person_ids:
            self._people.ring(person_id)
            if self._layer is not None:
                self._keep(self._send_person_hint(person_id))

    async def _send_person_hint(self, person_id: int) -> None:
        hint = {"type": "person.hint", "person": person_id}
        await self._on_layer(lambda layer: layer.group_send(_group_of_person(person_id), hint))

    async def _send_hint(self, conversation_id: uuid.UUID, seq: int) -> None:
        hint = {"type": "journal.hint", "conversation": str(conversation_id), "seq": seq}
        await self._on_layer(lambda layer: layer.group_send(_group(conversation_id), hint))

    async def _hear_hints(self) -> None:
        while True:
            try:
                await self._hear_one()
            except Exception:
                log.warning("The channel layer is away; changes elsewhere are found by polling")
                self._channel = ""
                await self._on_layer(lambda layer: layer.flush())  # or each channel stays for ever
                await asyncio.sleep(RETRY_SECONDS)

    async def _hear_one(self) -> None:
        if not self._channel:
            self._channel = await self._layer.new_channel()
            for group in self._groups():
                await self._subscribe(group)
        hint = await self._layer.receive(self._channel)
        if hint["type"] == "person.hint":
            self._people.ring(hint["person"])
        else:
            self._nudge(uuid.UUID(hint["conversation"]), hint["seq"])

    def _groups(self) -> set[str]:
        """What the tabs of this process want to hear of."""
        return {_group(each) for each in self._feeds} | {
            _group_of_person(each) for each in self._people.here
        }

    async def _subscribe(self, group: str) -> None:
        if channel := self._channel:
            await self._on_layer(lambda layer: layer.group_add(group, channel))

    def _forget(self, group: str) -> None:
        if self._channel and group not in self._groups():
            self._keep(self._unsubscribe(group, self._channel))

    async def _unsubscribe(self, group: str, channel: str) -> None:
        """Nobody watches it any more; a tab that has come meanwhile stays subscribed."""
        if group not in self._groups():
            await self._on_layer(lambda layer: layer.group_discard(group, channel))
        if group in self._groups():
            await self._subscribe(group)

    async def _on_layer(self, act: Callable[[Any], Awaitable[None]]) -> None:
        """A layer that fails costs latency only."""
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
        if self._feeds:
            for conversation_id, seq in await in_database(_latest, list(self._feeds)):
                self._nudge(conversation_id, seq)
        if here := self._people.here:
            self._people.compare(await in_database(person_signals.marks, here))

    def _nudge(self, conversation_id: uuid.UUID, seq: int) -> None:
        if feed := self._feeds.get(conversation_id):
            feed.nudge(seq)

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _group(conversation_id: uuid.UUID) -> str:
    return f"conversation.{conversation_id.hex}"


def _group_of_person(person_id: int) -> str:
    return f"person.{person_id}"


def _latest(conversation_ids: list[uuid.UUID]) -> list[tuple[uuid.UUID, int]]:
    return list(Conversation.objects.filter(pk__in=conversation_ids).values_list("pk", "last_seq"))
