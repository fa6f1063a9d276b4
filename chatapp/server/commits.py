"""Tells whether anything was committed to the database, so that a process at rest need not read the
same rows again and again."""

import os
import sqlite3
from pathlib import Path

from django.conf import settings

from .sqlite.base import DatabaseWrapper


class CommitWatch:
    """Watches the database of this process. Only SQLite can tell without a query: in 10 µs, also
    what other processes and threads commit. It is used in one thread."""

    def __init__(self) -> None:
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._times_opened = 0

    def read_state(self) -> object:
        """Return a value that differs after each commit, and for another database always."""
        try:
            return self._read_sqlite()
        except (OSError, sqlite3.Error):
            self.close()
            return object()

    def _read_sqlite(self) -> object:
        database = settings.DATABASES["default"]
        if database["ENGINE"] != DatabaseWrapper.__module__.rpartition(".")[0]:
            return object()
        name = str(database["NAME"])
        found = os.stat(name)
        file = (found.st_dev, found.st_ino)
        if self._connection is None or file != self._file:  # after a restore it is another file
            self.close()
            address = f"{Path(name).absolute().as_uri()}?mode=rw"
            self._connection = sqlite3.connect(address, uri=True, timeout=0, isolation_level=None)
            self._file, self._times_opened = file, self._times_opened + 1
        # The number is that of this connection, which commits nothing itself.
        (number,) = self._connection.execute("PRAGMA data_version").fetchone()
        return self._times_opened, number

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
