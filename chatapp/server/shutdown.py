"""Signals that end a server process, and workers that end with their parent."""

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def on_end_signals(notify: Callable[[bool], None]) -> Iterator[None]:
    """Call `notify` on each signal that ends the process, before the server's own handler does.

    The argument is true from the second SIGINT on: somebody at a terminal does not want to wait.
    Python runs signal handlers in the main thread only, so elsewhere nothing is called.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[signal.Signals, Any] = {}
    interrupts = 0

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal interrupts
        interrupts += number == signal.SIGINT
        notify(interrupts > 1)
        server_handler = before[signal.Signals(number)]
        if callable(server_handler):
            server_handler(number, frame)

    for each in SIGNALS:
        before[each] = signal.signal(each, handle)
    try:
        yield
    finally:
        for each, handler in before.items():
            if signal.getsignal(each) is handle:
                signal.signal(each, handler)


def end_with_parent() -> None:
    """Make a worker end as by SIGTERM when the process that started it is gone.

    A killed parent cannot tell its workers to end, and they would keep its port."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    loop = asyncio.get_running_loop()

    def end() -> None:
        loop.remove_reader(parent.sentinel)
        os.kill(os.getpid(), signal.SIGTERM)

    loop.add_reader(parent.sentinel, end)
