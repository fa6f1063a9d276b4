"""Database work that finishes although its caller is cancelled, and that is retried while the
database is away."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, ParamSpec, TypeVar

from django.conf import settings
from django.db import InterfaceError, OperationalError

from chatapp.server.database import in_database
from chatapp.server.runtime import current_runtime

from .lease import Lease, LeaseLost

log = logging.getLogger(__name__)
P = ParamSpec("P")
R = TypeVar("R")

# Raised by the drivers when the server is gone, shuts down or cannot get a lock in time.
DATABASE_AWAY = (InterfaceError, OperationalError)
FIRST_WAIT_SECONDS = 0.1
LONGEST_WAIT_SECONDS = 2.0


async def run_uninterrupted(work: Coroutine[Any, Any, R]) -> R:
    """Return the result of `work`. A cancellation takes effect only after `work` has ended."""
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
    """Log the failure of work whose caller was cancelled, since nobody reads its result."""
    error = None if task.cancelled() else task.exception()
    if isinstance(error, LeaseLost):
        log.info("The cancelled work now belongs to another worker")
    elif error is not None:
        log.error("What was cancelled could not be brought to its end", exc_info=error)


async def retry_in_database(
    lease: Lease, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs
) -> R:
    """Run `work` in the database. Retry while the database is away and the lease is fresh.

    `work` must be idempotent: it runs again if the answer to a commit was lost.
    """
    began = time.monotonic()
    for wait in backoff_seconds():
        try:
            return await in_database(work, *args, **kwargs)
        except DATABASE_AWAY as error:
            if not lease.is_fresh or is_long_ago(began):
                raise
            log.warning("The database is away; trying again in %.1f s: %s", wait, error)
        await asyncio.sleep(wait)
    raise AssertionError("backoff_seconds() has no end")


async def keep_for_database(
    lease: Lease, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs
) -> R:
    """Run `work` in the database. Retry however long the database is away, until this process ends.

    For what is known and cannot be found out again. `work` must be idempotent and must raise
    LeaseLost if another worker has taken the turn: a lease that ran out in an outage is still this
    worker's as long as nobody took the turn.
    """
    began = time.monotonic()
    for wait in backoff_seconds():
        try:
            return await in_database(work, *args, **kwargs)
        except DATABASE_AWAY as error:
            if not lease.is_fresh:
                if current_runtime().is_closing:
                    raise
                began = time.monotonic()  # it was away until now, and may refuse work from now on
            elif is_long_ago(began):
                raise
            log.warning("The database is away; what is known is kept for it: %s", error)
        await asyncio.sleep(wait)
    raise AssertionError("backoff_seconds() has no end")


def is_long_ago(began: float) -> bool:
    """Whether failures began more than a lease ago (`began` in monotonic seconds).

    A lease that is still fresh then was renewed in the database meanwhile, so the database works
    and refuses this work.
    """
    return bool(time.monotonic() - began > settings.LEASE_SECONDS)


def backoff_seconds() -> Iterator[float]:
    """Yield growing waits in seconds, without end."""
    wait = FIRST_WAIT_SECONDS
    while True:
        yield wait
        wait = min(2 * wait, LONGEST_WAIT_SECONDS)
