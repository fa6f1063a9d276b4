"""A new database for a benchmark, beside the configured one. `DATABASE_URL` chooses its kind."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection
from django.test.utils import setup_databases, teardown_databases

from chatapp.models.policy import audit_log_guards


@contextmanager
def own_database() -> Iterator[None]:
    """Within, models use a new database, which is dropped afterwards. Its tables are created from
    the models, which takes less time than all migrations; the triggers of the log are added."""
    connection.settings_dict["TEST"]["MIGRATE"] = False
    databases = setup_databases(verbosity=0, interactive=False)
    try:
        audit_log_guards.install(connection)
        yield
    finally:
        teardown_databases(databases, verbosity=0)
