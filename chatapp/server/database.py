"""How turns and their tools reach the database: from threads of their own, and in snapshots."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from datetime import timedelta
from functools import partial
from threading import Barrier
from typing import ParamSpec, TypeVar

from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import DateTimeField, ExpressionWrapper
from django.db.models.expressions import CombinedExpression
from django.db.models.functions import Now

P = ParamSpec("P")
R = TypeVar("R")

THREADS = 4
_pool = ThreadPoolExecutor(THREADS, thread_name_prefix="turns")


async def in_database(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run blocking database work off the event loop, on a connection that its thread keeps.

    Work that has begun runs to its end even when the caller is cancelled: a transaction commits
    whole or not at all, and the caller's successor reads what became of it. It is done in the
    caller's context, so that the log names whoever acts there.
    """
    loop, context = asyncio.get_running_loop(), copy_context()
    guarded = partial(_guarded, work, *args, **kwargs)
    return await loop.run_in_executor(_pool, context.run, guarded)


def _guarded(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    # A connection that died while nobody used it is found out by the first statement.
    connection.health_check_done = False  # type: ignore[attr-defined]  # the stubs lack it
    try:
        return work(*args, **kwargs)
    except (InterfaceError, OperationalError):
        # The server may have gone away: the next piece of work begins with a new connection.
        if not connection.in_atomic_block:
            connection.close()
        raise


def close_threads() -> None:
    """Close the connections of all threads; the pool itself stays usable."""
    together = Barrier(THREADS)

    def close_mine() -> None:
        together.wait(timeout=10)
        connection.close()

    for closing in [_pool.submit(close_mine) for _ in range(THREADS)]:
        closing.result(timeout=10)


@contextmanager
def snapshot() -> Iterator[None]:
    """Everything read inside is as of one moment, without taking a write lock.

    Inside an open transaction this adds nothing: there the caller's own rules hold.
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


def in_time(**span: float) -> "ExpressionWrapper[CombinedExpression]":
    """That long from now, by the database's clock; `span` as `timedelta` takes it."""
    return ExpressionWrapper(Now() + timedelta(**span), output_field=DateTimeField())
