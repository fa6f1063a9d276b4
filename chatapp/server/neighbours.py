"""Whether another process works on the same SQLite database, by locks of two files beside it."""

import fcntl
import os
from pathlib import Path

from django.db import connection


class Neighbours:
    """This process among those that share the database. The system drops the locks of a process
    that dies.

    The first process holds the lock of one file. Each other one shares the lock of the second file,
    so the first one is alone while it could lock that one too.
    """

    def __init__(self) -> None:
        name = str(connection.settings_dict["NAME"])
        self._locks: tuple[int, int] | None = None
        self._is_first = False
        if connection.vendor == "sqlite" and Path(name).is_file():
            self._locks = (_open(f"{name}-first"), _open(f"{name}-others"))

    def is_alone(self) -> bool:
        """Return whether no other process has a `Neighbours` of this database."""
        if self._locks is None:
            return False
        first, others = self._locks
        if not self._is_first:
            self._is_first = _try_lock(first)
            if not self._is_first:
                fcntl.flock(others, fcntl.LOCK_SH)
                return False
        is_alone = _try_lock(others)
        fcntl.flock(others, fcntl.LOCK_UN)
        return is_alone

    def close(self) -> None:
        for lock in self._locks or ():
            os.close(lock)
        self._locks = None


def _open(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
