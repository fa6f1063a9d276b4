"""Django's backend for SQLite, which uses its connections again.

Each request under ASGI has a thread of its own, and Django opens a connection in each. Opening one,
with Django's functions and the first look at the schema, takes longer than ten statements.
"""

import os
import sqlite3
from collections import defaultdict, deque
from typing import Any

from django.db.backends.sqlite3 import base

MOST_IDLE = 16


class DatabaseWrapper(base.DatabaseWrapper):
    # By the file, which is another one after a restore.
    idle: dict[tuple[str, int], deque[sqlite3.Connection]] = defaultdict(deque)

    def get_new_connection(self, conn_params: dict[str, Any]) -> sqlite3.Connection:
        try:
            connection = self.idle[self._identify_file()].pop()
        except (IndexError, OSError):
            opened: sqlite3.Connection = super().get_new_connection(conn_params)
            return opened
        connection.execute("PRAGMA foreign_keys = ON")
        connection.executescript(self.settings_dict["OPTIONS"].get("init_command", ""))
        return connection

    def _close(self) -> None:
        connection: sqlite3.Connection | None = self.connection
        is_unsure = connection is None or connection.in_transaction or self.errors_occurred
        if connection is None or is_unsure or self.is_in_memory_db():
            return super()._close()  # type: ignore[misc, no-any-return]  # the stubs lack it
        try:
            idle = self.idle[self._identify_file()]
        except OSError:
            return super()._close()  # type: ignore[misc, no-any-return]
        idle.append(connection)
        if len(idle) > MOST_IDLE:
            idle.popleft().close()

    def _identify_file(self) -> tuple[str, int]:
        name = str(self.settings_dict["NAME"])
        return name, os.stat(name).st_ino
