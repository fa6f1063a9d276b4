"""Counts the statements that this process sends to its database, without those that begin or end a
transaction."""

from collections.abc import Callable
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from . import metrics

# PostgreSQL's driver begins a transaction itself, SQLite's does not.
TRANSACTION_STATEMENTS = ("BEGIN", "SAVEPOINT", "RELEASE", "ROLLBACK")


def connect_signals() -> None:
    connection_created.connect(_count_from_now_on, dispatch_uid="count_database_statements")


def _count_from_now_on(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    if _count_statement not in connection.execute_wrappers:
        connection.execute_wrappers.append(_count_statement)


def _count_statement(
    execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]
) -> Any:
    if not sql.startswith(TRANSACTION_STATEMENTS):
        metrics.DATABASE_STATEMENTS.inc()
    return execute(sql, params, many, context)
