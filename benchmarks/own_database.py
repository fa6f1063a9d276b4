"""A new database for a benchmark, beside the configured one. `DATABASE_URL` chooses its kind."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection
from django.test.utils import setup_databases, teardown_databases

from chatapp.models.policy import audit_log_guards


@contextmanager
def own_database(kept_as: str = "") -> Iterator[None]:
    """Within, models use a new database, which is dropped afterwards. Its tables are created from
    the models, which takes less time than all migrations; the triggers of the log are added.

    With a name, the database of that name is used, and created if there is none. It is kept.
    """
    test = connection.settings_dict["TEST"]
    test["MIGRATE"] = False
    if kept_as:
        test["NAME"] = kept_as
    databases = setup_databases(
        verbosity=0, interactive=False, keepdb=bool(kept_as), serialized_aliases=()
    )
    try:
        audit_log_guards.install(connection)
        yield
    finally:
        teardown_databases(databases, verbosity=0, keepdb=bool(kept_as))
