"""What commands say of the database: whether it answers, is up to date, or refused."""

from django.db import DEFAULT_DB_ALIAS, Error, connections
from django.db.migrations.executor import MigrationExecutor

from .failures import Failure, one_line


def failure_of_database(error: Error) -> Failure:
    try:
        is_behind = bool(pending_migrations())
    except Error as again:
        return silent(again)
    if is_behind:
        return Failure("database", "The database is not up to date.", "Run: manage.py migrate")
    return Failure(
        "database",
        f"The database refused: {one_line(error)}",
        "Try again; if it stays so, `manage.py doctor` looks at what may be wrong.",
    )


def silent(error: Error) -> Failure:
    return Failure(
        "database",
        f"The database does not answer: {one_line(error)}",
        "Check DATABASE_URL, and that the database runs and can be reached from here.",
    )


def pending_migrations() -> list[str]:
    """The migrations that this program has and the database has not."""
    executor = MigrationExecutor(connections[DEFAULT_DB_ALIAS])
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    return [str(migration) for migration, _backwards in plan]
