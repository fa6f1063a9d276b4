"""What is logged while the database is away, and when clients leave."""

import logging
import sys

import pytest
from django.db import IntegrityError, InterfaceError, OperationalError
from starlette.requests import ClientDisconnect
from uvicorn.protocols.utils import ClientDisconnected

from chatapp.server.log_filters import EVERY_SECONDS, DepartureFilter, OutageFilter
from chatapp.telemetry.log_ids import IdsFilter


class Log(logging.Handler):
    """A handler with the filter, like that of the console."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.addFilter(OutageFilter())
        self.addFilter(DepartureFilter())

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr("chatapp.server.log_filters.monotonic", lambda: now[0])
    return now


def log_error(log: Log, name: str, message: str, *values: object, error: Exception) -> None:
    try:
        raise error
    except Exception:
        record = logging.LogRecord(name, 40, "", 0, message, values, sys.exc_info())
    log.handle(record)


def log_warning(log: Log, name: str, message: str, *values: object) -> None:
    log.handle(logging.LogRecord(name, 30, "", 0, message, values, None))


def test_an_outage_is_logged_once_a_minute_with_a_count(clock: list[float]) -> None:
    log = Log()
    for number in range(100):
        log_error(log, "engine", "Turn %s goes on later", number, error=OperationalError("away"))
        log_warning(log, "retry", "The database is away: %s", InterfaceError("closed"))
    assert log.lines == ["Turn 0 goes on later", "The database is away: closed"]
    clock[0] += EVERY_SECONDS
    for number in (100, 101):
        log_error(log, "engine", "Turn %s goes on later", number, error=OperationalError("away"))
    assert log.lines[2:] == ["Turn 100 goes on later (99 more like this were not logged)"]


def test_kinds_are_counted_apart(clock: list[float]) -> None:
    log = Log()
    for name, message in (("a", "One"), ("a", "Two"), ("b", "One")):
        log_error(log, name, message, error=OperationalError("away"))
    assert log.lines == ["One", "Two", "One"]


def test_other_entries_are_all_logged(clock: list[float]) -> None:
    log = Log()
    for _ in range(3):
        log_error(log, "engine", "A bug", error=IntegrityError("twice"))
        log_warning(log, "engine", "A warning")
    assert log.lines == ["A bug", "A warning"] * 3


@pytest.mark.parametrize("error", [ClientDisconnect(), ClientDisconnected()])
def test_a_client_that_leaves_is_no_entry(error: Exception) -> None:
    log = Log()
    log_error(log, "mcp.server", "Error handling POST request", error=error)
    log_error(log, "mcp.server", "Error handling POST request", error=ValueError())
    assert log.lines == ["Error handling POST request"]


def test_the_console_has_the_filters() -> None:
    handlers = [each for each in logging.getLogger().handlers if each.name == "console"]
    filters = [each for handler in handlers for each in handler.filters]
    assert {type(each) for each in filters} == {OutageFilter, DepartureFilter, IdsFilter}
