"""Django's backend for PostgreSQL, in which every loss of the session is an OperationalError.

PostgreSQL ends the session of a process that was frozen inside a transaction. It reports that in
the class of internal errors (SQLSTATE 25P03), which Django reports like a bug of the database. The
connection is gone as after a restart of the server, so the work must be tried again as then.
"""

from types import TracebackType

from django.db import OperationalError
from django.db.backends.postgresql import base
from django.db.utils import DatabaseErrorWrapper
from django.utils.functional import cached_property
from psycopg.errors import IdleInTransactionSessionTimeout, TransactionTimeout

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
    @cached_property
    def wrap_database_errors(self) -> DatabaseErrorWrapper:
        return ErrorTranslation(self)
