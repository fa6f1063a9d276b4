"""Reads a blocking stream in a thread, and passes its events to the event loop.

It has a thread pool of its own: a stream uses a thread for minutes, and the default pool is small.
"""

import asyncio
import functools
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from django.conf import settings

from chatapp.providers.stream_reading import EVENTS_BEFORE_OTHERS

SHORTEST_PAUSE_SECONDS = 0.005

Event = dict[str, Any]
Batch = list[Event]

_thread = threading.local()


@functools.cache
def get_threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(settings.BEDROCK_STREAMS, thread_name_prefix="bedrock")


def get_current_reader() -> "Reader | None":
    return getattr(_thread, "reader", None)


def do_nothing() -> None:
    """The interrupt of a thread that does not wait."""


class Waker:
    """Wakes one event loop for all of its readers.

    A call from thread to thread costs more than an event, so that all events of some milliseconds
    share one.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[asyncio.Event] = deque()
        self._is_called = False
        self._last_time = 0.0

    def notify(self, woken: asyncio.Event) -> None:
        """Set this event soon. Called in any thread."""
        self._waiting.append(woken)
        if not self._is_called:
            self._is_called = True
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._schedule)

    def _schedule(self) -> None:
        wait = self._last_time + SHORTEST_PAUSE_SECONDS - self._loop.time()
        if wait > 0:
            self._loop.call_later(wait, self._wake)
        else:
            self._wake()

    def _wake(self) -> None:
        self._last_time = self._loop.time()
        self._is_called = False
        while self._waiting:
            self._waiting.popleft().set()


_wakers: dict[asyncio.AbstractEventLoop, Waker] = {}
_wakers_lock = threading.Lock()


def get_waker() -> Waker:
    loop = asyncio.get_running_loop()
    with _wakers_lock:
        for known in [known for known in _wakers if known.is_closed()]:
            del _wakers[known]
        return _wakers.setdefault(loop, Waker(loop))


class StreamStopped(Exception):
    """The rest of this stream is not wanted."""


class Reader:
    """Reads one stream in a thread. Closing ends it at once, whatever the thread waits for."""

    def __init__(self, events: Callable[["Reader"], Iterator[Event]]) -> None:
        self._events = events
        self._waker = get_waker()
        self._queue: deque[Event | Exception | None] = deque()
        self._woken = asyncio.Event()
        self._is_called = False
        self._lock = threading.Lock()
        self._is_stopped = False
        self._interrupt: Callable[[], None] = do_nothing
        get_threads().submit(self._read)

    async def next(self) -> Batch:
        """Return the events that arrived, none at the end."""
        if self._queue:
            await asyncio.sleep(0)
        while not self._queue:
            self._woken.clear()
            self._is_called = False
            if not self._queue:
                await self._woken.wait()
        return self._take_batch()

    def parse(self, sent: Event) -> Event:
        return sent

    async def aclose(self) -> None:
        """Interrupt the thread. A reader that waits for a thread does not start."""
        with self._lock:
            self._is_stopped = True
            # The stream may just have ended.
            with suppress(OSError, RuntimeError, ValueError):
                self._interrupt()

    def set_interrupt(self, interrupt: Callable[[], None]) -> None:
        """Set how to interrupt the next wait. Called in the thread before it waits."""
        with self._lock:
            if self._is_stopped:
                raise StreamStopped
            self._interrupt = interrupt

    def _take_batch(self) -> Batch:
        batch: Batch = []
        while self._queue and len(batch) < EVENTS_BEFORE_OTHERS:
            item = self._queue[0]
            if not isinstance(item, dict):
                break
            batch.append(item)
            self._queue.popleft()
        if batch:
            return batch
        end = self._queue.popleft()
        if isinstance(end, Exception):
            raise end
        return []

    def _read(self) -> None:
        """Read the whole stream, in the thread."""
        _thread.reader = self
        try:
            self.set_interrupt(do_nothing)
            for event in self._events(self):
                self._put(event)
            self._put(None)
        except Exception as error:
            self._put(error)
        finally:
            _thread.reader = None

    def _put(self, item: Event | Exception | None) -> None:
        self._queue.append(item)
        if not self._is_called:
            self._is_called = True
            self._waker.notify(self._woken)
