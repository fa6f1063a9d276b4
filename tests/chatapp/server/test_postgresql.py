"""The errors of PostgreSQL that mean that the session has ended."""

import psycopg
import pytest
from django.db import DatabaseError, InterfaceError, InternalError, OperationalError
from psycopg import errors

from chatapp.journal.db_retry import DATABASE_AWAY
from chatapp.server.postgresql.base import DatabaseWrapper

ENDED = [
    errors.IdleInTransactionSessionTimeout("terminating connection"),
    errors.TransactionTimeout("terminating connection"),
    errors.IdleSessionTimeout("terminating connection"),
    errors.AdminShutdown("terminating connection"),
    errors.CrashShutdown("terminating connection"),
    errors.CannotConnectNow("the database system is starting up"),
    errors.ConnectionFailure("connection failure"),
    errors.ConnectionDoesNotExist("connection does not exist"),
    psycopg.OperationalError("the connection is closed"),
    psycopg.InterfaceError("the connection is closed"),
]


@pytest.mark.parametrize("cause", ENDED, ids=lambda cause: type(cause).__name__)
def test_the_end_of_a_session_counts_as_a_database_that_is_away(cause: psycopg.Error) -> None:
    wrapper = DatabaseWrapper({"ENGINE": "chatapp.server.postgresql"})
    with pytest.raises(DATABASE_AWAY) as raised, wrapper.wrap_database_errors:
        raise cause
    assert raised.type in (InterfaceError, OperationalError)
    assert raised.value.__cause__ is cause
    assert wrapper.errors_occurred


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        (errors.InFailedSqlTransaction("aborted"), InternalError),
        (errors.UniqueViolation("twice"), DatabaseError),
    ],
)
def test_other_errors_stay_as_they_are(cause: psycopg.Error, kind: type[Exception]) -> None:
    wrapper = DatabaseWrapper({"ENGINE": "chatapp.server.postgresql"})
    with pytest.raises(kind) as raised, wrapper.wrap_database_errors:
        raise cause
    assert not isinstance(raised.value, DATABASE_AWAY)
