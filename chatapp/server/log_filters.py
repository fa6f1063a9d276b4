"""What the log leaves out: entries that say the same again during an outage of the database, and
clients that leave before their answer."""

import logging
import threading
from dataclasses import dataclass
from time import monotonic

from django.db import InterfaceError, OperationalError

EVERY_SECONDS = 60.0
AWAY = (InterfaceError, OperationalError)


@dataclass(slots=True)
class _Kind:
    logged_at: float
    left_out: int = 0


class OutageFilter(logging.Filter):
    """Leaves out entries about a database that is away if one of the same kind was logged within
    the last minute. The next one says how many were left out.

    A kind is a logger and a message without its values. Every retry of every turn, socket and
    background task makes an entry, which would hide all others.
    """

    def __init__(self) -> None:
        super().__init__()
        self._kinds: dict[tuple[str, str], _Kind] = {}
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        if not _is_about_outage(record):
            return True
        with self._lock:
            left_out = self._count(record)
        if left_out is None:
            return False
        if left_out:
            record.msg = f"{record.getMessage()} ({left_out} more like this were not logged)"
            record.args = ()
        return True

    def _count(self, record: logging.LogRecord) -> int | None:
        """Return how many entries were left out before this one; None if it is left out too."""
        key, now = (record.name, str(record.msg)), monotonic()
        kind = self._kinds.get(key)
        if kind is not None and now - kind.logged_at < EVERY_SECONDS:
            kind.left_out += 1
            return None
        self._kinds[key] = _Kind(logged_at=now)
        return kind.left_out if kind is not None else 0


def _is_about_outage(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    values = record.args if isinstance(record.args, tuple) else ()
    return isinstance(error, AWAY) or any(isinstance(value, AWAY) for value in values)


class DepartureFilter(logging.Filter):
    """Leaves out entries about a client that left in the middle of a request. The server of the MCP
    SDK logs each as an error with its trace.

    The exceptions are known by their names: importing their libraries takes long, and commands that
    do not serve need none of them.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return type(error).__name__ not in ("ClientDisconnect", "ClientDisconnected")
