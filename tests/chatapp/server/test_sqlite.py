"""Connections to SQLite are used again, as if each were new."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connection

from chatapp.server.sqlite.base import MOST_IDLE, DatabaseWrapper

pytestmark = pytest.mark.django_db
Connect = Callable[[], DatabaseWrapper]


@pytest.fixture(autouse=True)
def _only_sqlite() -> None:
    if connection.vendor != "sqlite":
        pytest.skip("This is about SQLite.")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "chat.sqlite3"


@pytest.fixture
def connect(file: Path) -> Iterator[Connect]:
    """Connect as Django does in a thread of its own."""

    def open_one() -> DatabaseWrapper:
        wrapper = DatabaseWrapper({**connection.settings_dict, "NAME": str(file)})
        wrapper.inc_thread_sharing()
        wrapper.connect()
        return wrapper

    yield open_one
    for idle in DatabaseWrapper.idle.values():
        while idle:
            idle.pop().close()


def read(wrapper: DatabaseWrapper, sql: str) -> Any:
    with wrapper.cursor() as cursor:
        return cursor.execute(sql).fetchone()[0]


def test_another_thread_uses_the_connection_again(connect: Connect) -> None:
    seen: list[Any] = []

    def work() -> None:
        with closing(connect()) as wrapper:
            seen.append(wrapper.connection)
            assert read(wrapper, "SELECT 1") == 1

    for _ in range(2):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join(60)
    assert seen[0] is seen[1]


def test_two_at_the_same_time_have_one_each(connect: Connect) -> None:
    with closing(connect()) as one, closing(connect()) as other:
        assert one.connection is not other.connection


def test_what_the_last_user_set_is_undone(connect: Connect) -> None:
    names = ("foreign_keys", "synchronous", "journal_mode")
    with closing(connect()) as wrapper:
        fresh = [read(wrapper, f"PRAGMA {name}") for name in names]
        raw = wrapper.connection
        raw.execute("PRAGMA foreign_keys = OFF")
        raw.execute("PRAGMA synchronous = NORMAL")
    with closing(connect()) as wrapper:
        assert wrapper.connection is raw
        assert [read(wrapper, f"PRAGMA {name}") for name in names] == fresh


def test_a_connection_in_a_transaction_is_closed(connect: Connect) -> None:
    with closing(connect()) as wrapper:
        raw = wrapper.connection
        raw.execute("CREATE TABLE kept (id)")
        raw.execute("BEGIN IMMEDIATE")
        raw.execute("INSERT INTO kept VALUES (1)")
    with closing(connect()) as wrapper:
        assert wrapper.connection is not raw
        assert read(wrapper, "SELECT count(*) FROM kept") == 0


def test_a_connection_whose_statement_was_not_read_to_its_end_is_closed(connect: Connect) -> None:
    """Its next user would see the database as it was then."""
    with closing(connect()) as wrapper:
        raw = wrapper.connection
        raw.executescript("CREATE TABLE kept (id); INSERT INTO kept VALUES (1), (2)")
        unread = raw.execute("SELECT id FROM kept")
        assert unread.fetchone() == (1,)
    with closing(connect()) as wrapper:
        assert wrapper.connection is not raw


def test_a_file_that_was_restored_is_opened_anew(connect: Connect, file: Path) -> None:
    with closing(connect()) as wrapper:
        raw = wrapper.connection
    file.rename(file.with_suffix(".old"))
    with closing(connect()) as wrapper:
        assert wrapper.connection is not raw


def test_a_bounded_number_is_kept(connect: Connect, file: Path) -> None:
    opened = [connect() for _ in range(MOST_IDLE + 3)]
    for wrapper in opened:
        wrapper.close()
    assert sum(map(len, DatabaseWrapper.idle.values())) == MOST_IDLE


# --- writing one after another ------------------------------------------------------------------
def begin(wrapper: DatabaseWrapper) -> None:
    wrapper.set_autocommit(False, force_begin_transaction_with_broken_autocommit=True)


@pytest.mark.parametrize("end", ["commit", "rollback", "close"])
def test_the_next_transaction_of_this_process_begins_when_one_ends(
    connect: Connect, end: str
) -> None:
    begun = threading.Event()

    def write() -> None:
        with closing(connect()) as other:
            other.connection.execute("PRAGMA busy_timeout = 0")  # it would fail at once
            begin(other)
            begun.set()
            other.rollback()

    with closing(connect()) as wrapper:
        begin(wrapper)
        thread = threading.Thread(target=write)
        thread.start()
        assert not begun.wait(0.2)
        getattr(wrapper, end)()
        assert begun.wait(60)
        thread.join(60)


def test_one_that_could_not_begin_holds_nobody_up(connect: Connect, file: Path) -> None:
    with closing(connect()) as one, closing(connect()) as other:
        one.connection.execute("PRAGMA busy_timeout = 0")
        with closing(sqlite3.connect(file, isolation_level=None)) as of_another_process:
            of_another_process.execute("BEGIN IMMEDIATE")
            with pytest.raises(OperationalError, match="locked"):
                begin(one)
        begin(other)
        other.rollback()


def test_the_wait_to_write_has_an_end(connect: Connect) -> None:
    with closing(connect()) as one, closing(connect()) as other:
        begin(one)
        other.settings_dict["OPTIONS"] = {**other.settings_dict["OPTIONS"], "timeout": 0.05}
        with pytest.raises(OperationalError, match="locked"):
            begin(other)
        one.rollback()
        begin(other)
        other.rollback()
