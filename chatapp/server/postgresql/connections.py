"""The PostgreSQL connections of one process that are lent to requests: a bounded number, each used
by one request after the other.

Django opens a connection in each thread that works, and each request under ASGI has a thread of its
own. psycopg's pool is not used because it does not tell those who wait that the server refuses
connections: every request would wait for its whole time limit while the database is away.
"""

import time
from collections import deque
from collections.abc import Callable
from threading import BoundedSemaphore
from typing import Any

from django.db import OperationalError
from psycopg import Connection, Error
from psycopg.pq import TransactionStatus

WAIT_SECONDS = 20
IDLE_SECONDS = 60


class LentConnections:
    """At most `most` connections, in use and idle ones together."""

    def __init__(self, most: int) -> None:
        self._places = BoundedSemaphore(most)
        # With the time of the last use, the latest at the right end.
        self._idle: deque[tuple[float, Connection[Any]]] = deque()

    def take(self, connect: Callable[[], Connection[Any]]) -> Connection[Any]:
        """Return a connection for this thread alone, if necessary a new one by `connect`.

        Wait while as many as allowed are in use. Raise OperationalError after WAIT_SECONDS.
        """
        if not self._places.acquire(timeout=WAIT_SECONDS):
            raise OperationalError(f"No connection became free within {WAIT_SECONDS} seconds.")
        try:
            return self._find_idle() or connect()
        except BaseException:
            self._places.release()
            raise

    def give_back(self, connection: Connection[Any]) -> None:
        try:
            is_idle = connection.info.transaction_status == TransactionStatus.IDLE
            if is_idle and connection.autocommit:
                self._idle.append((time.monotonic(), connection))
            else:
                connection.close()
        finally:
            self._places.release()
        self.close_idle(IDLE_SECONDS)

    def close_idle(self, seconds: float = 0) -> None:
        """Close the connections that have not been used for so long."""
        end = time.monotonic() - seconds
        while True:
            try:
                used_at, connection = self._idle.popleft()
            except IndexError:
                return
            if used_at > end:
                self._idle.appendleft((used_at, connection))
                return
            connection.close()

    def _find_idle(self) -> Connection[Any] | None:
        try:
            _, connection = self._idle.pop()
        except IndexError:
            return None
        try:
            connection.execute("")
        except Error:
            # The server was restarted or cannot be reached: the others are lost as well.
            connection.close()
            self.close_idle()
            return None
        return connection
