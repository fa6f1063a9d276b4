"""Django's backend for PostgreSQL with a bound on the connections of requests. Every loss of the
session is an OperationalError.

PostgreSQL ends the session of a process that was frozen inside a transaction. It reports that in
the class of internal errors (SQLSTATE 25P03), which Django reports like a bug of the database. The
connection is gone as after a restart of the server, so the work must be tried again as then.
"""

from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any

from django.conf import settings
from django.db import OperationalError
from django.db.backends.postgresql import base
from django.db.utils import DatabaseErrorWrapper
from django.utils.functional import cached_property
from psycopg import Connection
from psycopg.errors import IdleInTransactionSessionTimeout, TransactionTimeout

from .connections import LentConnections

SESSION_ENDED = (IdleInTransactionSessionTimeout, TransactionTimeout)


class ErrorTranslation(DatabaseErrorWrapper):
    def __init__(self, connection: base.DatabaseWrapper) -> None:
        super().__init__(connection)
        self._connection = connection

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, SESSION_ENDED):
            self._connection.errors_occurred = True
            raise OperationalError(*error.args).with_traceback(traceback) from error
        super().__exit__(kind, error, traceback)


class DatabaseWrapper(base.DatabaseWrapper):
    """The database in one thread. It borrows a connection while it needs one, except in a thread
    that keeps its own (`is_kept`)."""

    # By the name of the database: tests have one of their own beside the installation's.
    lent: dict[str, LentConnections] = {}
    is_kept = False
    lender: LentConnections | None = None

    @cached_property
    def wrap_database_errors(self) -> DatabaseErrorWrapper:
        return ErrorTranslation(self)

    def get_new_connection(self, conn_params: dict[str, Any]) -> Connection[Any]:
        connect: Callable[[], Connection[Any]] = partial(super().get_new_connection, conn_params)
        name = self.settings_dict["NAME"]
        if self.is_kept or name is None:
            return connect()
        lender = self.lent.setdefault(name, LentConnections(settings.DATABASE_CONNECTIONS))
        connection = lender.take(connect)
        self.lender = lender
        return connection

    def _close(self) -> None:
        lender, self.lender = self.lender, None
        if lender is None:
            super()._close()  # type: ignore[misc]  # the stubs lack it
        else:
            with self.wrap_database_errors:
                lender.give_back(self.connection)

    def close_pool(self) -> None:
        """Close what no thread uses. Django's tests call it before they drop the database."""
        for lender in self.lent.values():
            lender.close_idle()
