"""What is finished although its caller is cancelled, and what is tried again while the database is
away."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, ParamSpec, TypeVar

from django.conf import settings
from django.db import InterfaceError, OperationalError

from chatapp.storage import in_database

from .lease import Lease, LeaseLost

log = logging.getLogger(__name__)
P = ParamSpec("P")
R = TypeVar("R")

# What the drivers raise when the server is gone, shuts down, or cannot take a lock in time.
AWAY = (InterfaceError, OperationalError)
FIRST_WAIT_SECONDS = 0.1
LONGEST_WAIT_SECONDS = 2.0


async def uninterrupted(work: Coroutine[Any, Any, R]) -> R:
    """What `work` returns. Cancelled meanwhile, this waits for its end first, and is cancelled
    then."""
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as interruption:
            cancelled = interruption
    if cancelled is None:
        return task.result()
    _report(task)
    raise cancelled


def _report(task: asyncio.Task[Any]) -> None:
    """Nobody asks for the result of what was cancelled, so its failure is told here."""
    error = None if task.cancelled() else task.exception()
    if isinstance(error, LeaseLost):
        log.info("What was cancelled belongs to another worker by now")
    elif error is not None:
        log.error("What was cancelled could not be brought to its end", exc_info=error)


async def kept_trying(lease: Lease, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Do `work` in the database; while that is away and the lease is fresh, try again.

    A commit whose answer was lost is done twice by this, so `work` must not mind.
    """
    began = time.monotonic()
    for wait in waits():
        try:
            return await in_database(work, *args, **kwargs)
        except AWAY as error:
            if not lease.is_fresh or is_long_ago(began):
                raise
            log.warning("The database is away; trying again in %.1f s: %s", wait, error)
        await asyncio.sleep(wait)
    raise AssertionError("waits() has no end")


def is_long_ago(began: float) -> bool:
    """Whether trouble that began then (monotonic) cannot be the database's any more: a lease that
    is fresh by now was renewed meanwhile. So it is this work that is refused."""
    return bool(time.monotonic() - began > settings.LEASE_SECONDS)


def waits() -> Iterator[float]:
    """Short growing waits in seconds, without an end."""
    wait = FIRST_WAIT_SECONDS
    while True:
        yield wait
        wait = min(2 * wait, LONGEST_WAIT_SECONDS)
