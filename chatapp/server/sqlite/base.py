"""Django's backend for SQLite, which uses its connections again and lets the threads of a process
write one after another.

Django opens a connection for each request. Opening one, with Django's functions and the first look
at the schema, takes longer than ten statements.

A connection that waits for another one to commit sleeps and looks again, each time for longer, up
to a tenth of a second. Transactions of one process therefore wait for a lock of their own first,
which wakes the next one at once.
"""

import os
import sqlite3
import threading
from collections import defaultdict, deque
from typing import Any

from django.db.backends.sqlite3 import base
from django.db.utils import OperationalError

MOST_IDLE = 16
PROBE = "countersign_probe"


class DatabaseWrapper(base.DatabaseWrapper):
    # By the file, which is another one after a restore.
    idle: dict[tuple[str, int], deque[sqlite3.Connection]] = defaultdict(deque)
    # By the file, too. The connection that has it may be used in several threads.
    writing: "dict[str, threading.Lock]" = defaultdict(threading.Lock)
    _turn_to_write: "threading.Lock | None" = None

    def get_new_connection(self, conn_params: dict[str, Any]) -> sqlite3.Connection:
        try:
            connection = self.idle[self._identify_file()].pop()
        except (IndexError, OSError):
            opened: sqlite3.Connection = super().get_new_connection(conn_params)
            opened.create_function(PROBE, 0, bool)
            return opened
        connection.execute("PRAGMA foreign_keys = ON")
        connection.executescript(self.settings_dict["OPTIONS"].get("init_command", ""))
        return connection

    def _start_transaction_under_autocommit(self) -> None:
        """Begin a transaction once no other one of this process writes."""
        if not self.is_in_memory_db():
            lock = self.writing[str(self.settings_dict["NAME"])]
            if not lock.acquire(timeout=self.settings_dict["OPTIONS"].get("timeout", 5.0)):
                raise OperationalError("database is locked")
            self._turn_to_write = lock
        try:
            super()._start_transaction_under_autocommit()  # type: ignore[misc]  # the stubs lack it
        except BaseException:
            self._let_others_write()
            raise

    def _commit(self) -> None:
        super()._commit()  # type: ignore[misc]
        self._let_others_write()

    def _rollback(self) -> None:
        try:
            super()._rollback()  # type: ignore[misc]
        finally:
            self._let_others_write()

    def _let_others_write(self) -> None:
        lock, self._turn_to_write = self._turn_to_write, None
        if lock is not None:
            lock.release()

    def _close(self) -> None:
        try:
            self._close_or_keep()
        finally:
            self._let_others_write()

    def _close_or_keep(self) -> None:
        connection: sqlite3.Connection | None = self.connection
        if connection is None or self.is_in_memory_db() or not self._is_at_rest(connection):
            return super()._close()  # type: ignore[misc, no-any-return]  # the stubs lack it
        try:
            idle = self.idle[self._identify_file()]
        except OSError:
            return super()._close()  # type: ignore[misc, no-any-return]
        idle.append(connection)
        if len(idle) > MOST_IDLE:
            idle.popleft().close()

    def _is_at_rest(self, connection: sqlite3.Connection) -> bool:
        """Whether it works and nothing is under way. The next user of a statement that was not read
        to its end would see the database as it was then."""
        if connection.in_transaction or self.errors_occurred:
            return False
        try:
            # SQLite refuses to replace a function while a statement runs.
            connection.create_function(PROBE, 0, bool)
        except sqlite3.OperationalError:
            return False
        return True

    def _identify_file(self) -> tuple[str, int]:
        name = str(self.settings_dict["NAME"])
        return name, os.stat(name).st_ino
