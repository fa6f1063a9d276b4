"""Reads what blocks in threads of its own, and hands it over to the event loop.

The threads that everybody shares would be too few: a stream holds its own for minutes.
"""

import asyncio
import functools
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from django.conf import settings

from chatapp.providers.reading import EVENTS_BEFORE_OTHERS

SHORTEST_PAUSE_SECONDS = 0.005

Event = dict[str, Any]
Batch = list[Event]

_thread = threading.local()


@functools.cache
def threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(settings.BEDROCK_STREAMS, thread_name_prefix="bedrock")


def reader_of_thread() -> "Reader | None":
    return getattr(_thread, "reader", None)


def nothing() -> None:
    """There is nothing to break off."""


async def each_of(batches: AsyncGenerator[Batch, None]) -> AsyncGenerator[Event, None]:
    async for batch in batches:
        for event in batch:
            yield event


class Bell:
    """Wakes one event loop for all its readers. A call from thread to thread costs more than an
    event does, so what comes within a few milliseconds shares one."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[asyncio.Event] = deque()
        self._is_called = False
        self._last_time = 0.0

    def ring(self, woken: asyncio.Event) -> None:
        """Called in any thread: have this event set, soon."""
        self._waiting.append(woken)
        if not self._is_called:
            self._is_called = True
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._hear)

    def _hear(self) -> None:
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


_bells: dict[asyncio.AbstractEventLoop, Bell] = {}
_bells_lock = threading.Lock()


def bell_of_loop() -> Bell:
    loop = asyncio.get_running_loop()
    with _bells_lock:
        for known in [known for known in _bells if known.is_closed()]:
            del _bells[known]
        return _bells.setdefault(loop, Bell(loop))


class Stopped(Exception):
    """Nobody wants the rest of this stream."""


class Reader:
    """Reads one stream in a thread. `stop` ends that at once, whatever the thread waits for."""

    def __init__(self, events: Callable[["Reader"], Iterator[Event]]) -> None:
        self._events = events
        self._bell = bell_of_loop()
        self._came: deque[Event | Exception | None] = deque()
        self._woken = asyncio.Event()
        self._is_called = False
        self._lock = threading.Lock()
        self._is_stopped = False
        self._break: Callable[[], None] = nothing
        threads().submit(self._read)

    async def next(self) -> Batch | None:
        """The events that came, None at the end."""
        if self._came:
            await asyncio.sleep(0)
        while not self._came:
            self._woken.clear()
            self._is_called = False
            if not self._came:
                await self._woken.wait()
        return self._batch()

    def stop(self) -> None:
        """Break off; what still waits for a thread does not even begin."""
        with self._lock:
            self._is_stopped = True
            # It may just have come to its end.
            with suppress(OSError, RuntimeError, ValueError):
                self._break()

    def stop_by(self, break_off: Callable[[], None]) -> None:
        """Called in the thread before it waits: from now on this is how to break that off."""
        with self._lock:
            if self._is_stopped:
                raise Stopped
            self._break = break_off

    def _batch(self) -> Batch | None:
        batch: Batch = []
        while self._came and len(batch) < EVENTS_BEFORE_OTHERS:
            came = self._came[0]
            if not isinstance(came, dict):
                break
            batch.append(came)
            self._came.popleft()
        if batch:
            return batch
        end = self._came.popleft()
        if isinstance(end, Exception):
            raise end
        return None

    def _read(self) -> None:
        """The whole work of the thread on this stream."""
        _thread.reader = self
        try:
            self.stop_by(nothing)
            for event in self._events(self):
                self._put(event)
            self._put(None)
        except Exception as error:
            self._put(error)
        finally:
            _thread.reader = None

    def _put(self, came: Event | Exception | None) -> None:
        self._came.append(came)
        if not self._is_called:
            self._is_called = True
            self._bell.ring(self._woken)
