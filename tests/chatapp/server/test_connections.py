"""The connections to PostgreSQL that the requests of one process share."""

import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import psycopg
import pytest
from django.db import OperationalError

from chatapp.server.environment import Environment
from chatapp.server.postgresql import connections
from chatapp.server.postgresql.base import DatabaseWrapper
from chatapp.server.postgresql.connections import LentConnections
from tests.migrated import POSTGRESQL, run_on_postgresql

Connection = psycopg.Connection[Any]
connect = partial(psycopg.connect, f"{POSTGRESQL}/postgres", autocommit=True)


@pytest.fixture(autouse=True)
def server() -> None:
    run_on_postgresql("SELECT 1")


@pytest.fixture
def lent() -> Iterator[LentConnections]:
    made = LentConnections(1)
    yield made
    made.close_idle()


def get_pid(connection: Connection) -> int:
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    assert row is not None
    return int(row[0])


def test_the_next_request_uses_the_same_connection(lent: LentConnections) -> None:
    first = lent.take(connect)
    lent.give_back(first)
    again = lent.take(connect)
    assert again is first
    lent.give_back(again)


def test_who_waits_gets_the_connection_that_becomes_free(lent: LentConnections) -> None:
    taken = lent.take(connect)
    pid, seen = get_pid(taken), []

    def wait() -> None:
        mine = lent.take(connect)
        seen.append(get_pid(mine))
        lent.give_back(mine)

    waiting = threading.Thread(target=wait)
    waiting.start()
    lent.give_back(taken)
    waiting.join(60)
    assert seen == [pid]


def test_who_waits_in_vain_gets_the_error_of_a_database_that_is_away(
    lent: LentConnections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "WAIT_SECONDS", 0)
    taken = lent.take(connect)
    with pytest.raises(OperationalError):
        lent.take(connect)
    lent.give_back(taken)


def test_connections_that_the_server_ended_are_replaced() -> None:
    lent = LentConnections(2)
    taken = [lent.take(connect) for _ in range(2)]
    pids = [get_pid(each) for each in taken]
    for each in taken:
        lent.give_back(each)
    for pid in pids:
        run_on_postgresql(f"SELECT pg_terminate_backend({pid}, 60000)")
    fresh = [lent.take(connect) for _ in range(2)]
    assert not {get_pid(each) for each in fresh} & set(pids)
    for each in fresh:
        lent.give_back(each)
    lent.close_idle()


def test_a_connection_inside_a_transaction_is_not_lent_again(lent: LentConnections) -> None:
    left = lent.take(connect)
    left.execute("BEGIN")
    lent.give_back(left)
    fresh = lent.take(connect)
    assert left.closed
    assert fresh is not left
    lent.give_back(fresh)


def test_a_refused_connection_is_told_at_once_and_takes_no_place(lent: LentConnections) -> None:
    def refuse() -> Connection:
        raise OperationalError("refused")

    for _ in range(2):
        with pytest.raises(OperationalError, match="refused"):
            lent.take(refuse)
    lent.give_back(lent.take(connect))


def test_what_nobody_used_for_a_while_is_closed(
    lent: LentConnections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0)
    taken = lent.take(connect)
    lent.give_back(taken)
    assert taken.closed


# --- Django's backend ----------------------------------------------------------------------
@pytest.fixture
def lends_one(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most one connection, and nobody waits for it."""
    settings.DATABASE_CONNECTIONS = 1
    monkeypatch.setattr(DatabaseWrapper, "lent", {})
    monkeypatch.setattr(connections, "WAIT_SECONDS", 0)


def make_wrapper() -> DatabaseWrapper:
    """What another thread would have."""
    return DatabaseWrapper(
        {
            **Environment.db_url_config(f"{POSTGRESQL}/postgres"),
            **{"AUTOCOMMIT": True, "CONN_MAX_AGE": 0, "CONN_HEALTH_CHECKS": True},
            **{"TIME_ZONE": None, "OPTIONS": {}},
        },
        alias="lent",
    )


@pytest.mark.django_db
@pytest.mark.usefixtures("lends_one")
def test_threads_share_the_connections_and_those_that_keep_one_have_their_own() -> None:
    first, second, keeper = make_wrapper(), make_wrapper(), make_wrapper()
    keeper.is_kept = True
    first.connect()
    with pytest.raises(OperationalError):
        second.connect()
    keeper.connect()
    used = first.connection
    first.close()
    second.connect()
    assert second.connection is used
    assert keeper.connection is not used
    second.close()
    keeper.close()
    second.close_pool()
    assert used.closed


@pytest.mark.django_db
@pytest.mark.usefixtures("lends_one")
def test_a_connection_that_is_closed_inside_a_transaction_frees_its_place() -> None:
    first, second = make_wrapper(), make_wrapper()
    first.connect()
    first.set_autocommit(False)
    with first.cursor() as cursor:
        cursor.execute("SELECT 1")
    first.close()
    second.connect()
    second.close()
    second.close_pool()
