"""Failures of the database as commands print them, and the pending migrations."""

from django.db import DEFAULT_DB_ALIAS, Error, connections
from django.db.migrations.executor import MigrationExecutor

from .failures import Failure, get_first_line


def explain_database_error(error: Error) -> Failure:
    try:
        is_behind = bool(list_pending_migrations())
    except Error as connection_error:
        return explain_no_answer(connection_error)
    if is_behind:
        return Failure("database", "The database is not up to date.", "Run: manage.py migrate")
    return Failure(
        "database",
        f"The database refused: {get_first_line(error)}",
        "Try again; if it stays so, `manage.py doctor` looks at what may be wrong.",
    )


def explain_no_answer(error: Error) -> Failure:
    return Failure(
        "database",
        f"The database does not answer: {get_first_line(error)}",
        "Check DATABASE_URL, and that the database runs and can be reached from here.",
    )


def list_pending_migrations() -> list[str]:
    """Return the migrations that are not applied to the database."""
    executor = MigrationExecutor(connections[DEFAULT_DB_ALIAS])
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    return [str(migration) for migration, _backwards in plan]
