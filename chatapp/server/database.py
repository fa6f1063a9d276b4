"""Database access of async code: in threads of its own, and in snapshots. The lock of a server that
sets the database up."""

import asyncio
import fcntl
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from datetime import timedelta
from functools import partial
from threading import Barrier
from typing import ParamSpec, TypeVar

from django.conf import settings
from django.db import (
    InterfaceError,
    OperationalError,
    close_old_connections,
    connection,
    transaction,
)
from django.db.models import DateTimeField, ExpressionWrapper
from django.db.models.expressions import CombinedExpression
from django.db.models.functions import Now

from chatapp.telemetry import metrics

from .locales import carry_locale
from .private_files import make_private_folder

P = ParamSpec("P")
R = TypeVar("R")

THREADS = 4
# Any number, the same in all servers of one database.
SETUP_LOCK = 6_740_000_001
SETUP_RETRY_SECONDS = 0.2


def keep_connection() -> None:
    """Let this thread keep a connection of its own, beside the DATABASE_CONNECTIONS of requests."""
    connection.is_kept = True  # type: ignore[attr-defined]  # of chatapp.server.postgresql


_pool = ThreadPoolExecutor(THREADS, thread_name_prefix="turns", initializer=keep_connection)


async def in_database(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run blocking database work outside the event loop, on a connection that its thread keeps.

    Work that has begun runs to its end even if the caller is cancelled: a transaction commits or
    rolls back, and the next reader sees which. It runs in the caller's context, so that the log has
    the person who acts, and in the caller's language and time zone.
    """
    loop, context = asyncio.get_running_loop(), copy_context()
    guarded = partial(_run_guarded, carry_locale(work), *args, **kwargs)
    return await loop.run_in_executor(_pool, context.run, guarded)


def _run_guarded(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    # Lets the first statement notice a connection that was closed while it was idle.
    connection.health_check_done = False  # type: ignore[attr-defined]  # the stubs lack it
    try:
        return work(*args, **kwargs)
    except (InterfaceError, OperationalError) as error:
        metrics.DATABASE_ERRORS.labels(type(error).__name__).inc()
        # The database server may be gone, so the next work starts with a new connection.
        if not connection.in_atomic_block:
            connection.close()
        raise


def release_connection() -> None:
    """Let other requests use the connection of this thread, unless it is in a transaction."""
    if not connection.in_atomic_block:
        close_old_connections()


def close_threads() -> None:
    """Close the connections of all threads. The pool stays usable."""
    together = Barrier(THREADS)

    def close_mine() -> None:
        together.wait(timeout=10)
        connection.close()

    for closing in [_pool.submit(close_mine) for _ in range(THREADS)]:
        closing.result(timeout=10)


@contextmanager
def snapshot() -> Iterator[None]:
    """Read everything inside the block as of one moment, without a write lock.

    Has no effect inside an open transaction.
    """
    if connection.in_atomic_block:
        yield
    elif connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("BEGIN DEFERRED")
            try:
                yield
            finally:
                cursor.execute("ROLLBACK")
    else:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield


def from_now(**span: float) -> "ExpressionWrapper[CombinedExpression]":
    """Return an expression for a time after now by the database's clock. `span` has the arguments
    of `timedelta`."""
    return ExpressionWrapper(Now() + timedelta(**span), output_field=DateTimeField())


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Wait until no other server with this database or this VAR_DIR is inside the block."""
    make_private_folder(settings.VAR_DIR)
    with (settings.VAR_DIR / "setup.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if connection.vendor != "postgresql":
            yield
            return
        while not _try_setup_lock():
            time.sleep(SETUP_RETRY_SECONDS)
        try:
            yield
        finally:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [SETUP_LOCK])


def _try_setup_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [SETUP_LOCK])
        return bool(cursor.fetchone()[0])
