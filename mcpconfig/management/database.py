"""Failures of the database as commands print them, and the pending migrations."""

import contextlib
import pkgutil
from collections.abc import Iterator
from importlib import import_module

from django.apps import apps
from django.db import DEFAULT_DB_ALIAS, Error, connections
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder
from django.utils.translation import gettext as _

from .failures import Failure, get_first_line


def explain_database_error(error: Error) -> Failure:
    try:
        is_behind = bool(list_pending_migrations())
    except Error as connection_error:
        return explain_no_answer(connection_error)
    if is_behind:
        return Failure(
            "database",
            _("The database is not up to date."),
            _("Run: %(command)s") % {"command": "manage.py migrate"},
        )
    return Failure(
        "database",
        _("The database refused: %(reason)s") % {"reason": get_first_line(error)},
        _("Try again. If it fails again, run `manage.py doctor`."),
    )


def explain_no_answer(error: Error) -> Failure:
    return Failure(
        "database",
        _("The database does not answer: %(reason)s") % {"reason": get_first_line(error)},
        _("Check DATABASE_URL, and that the database is running and reachable."),
    )


def list_pending_migrations() -> list[str]:
    """Return the migrations that are not applied to the database."""
    if _are_all_recorded():
        return []
    executor = MigrationExecutor(connections[DEFAULT_DB_ALIAS])
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    return [str(migration) for migration, _backwards in plan]


def _are_all_recorded() -> bool:
    """Whether each migration has been applied, by their names. To load them all takes a start
    0.1 s."""
    applied = MigrationRecorder(connections[DEFAULT_DB_ALIAS]).applied_migrations()
    return all((app, name) in applied for app, name in _list_migrations())


def _list_migrations() -> Iterator[tuple[str, str]]:
    for config in apps.get_app_configs():
        with contextlib.suppress(ModuleNotFoundError):
            folder = import_module(f"{config.name}.migrations")
            names = [name for _finder, name, _is_package in pkgutil.iter_modules(folder.__path__)]
            yield from ((config.label, name) for name in names if name[0] not in "_~")
