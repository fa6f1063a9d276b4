"""The pending migrations, which each start of a server asks for."""

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from mcpconfig.management import database
from mcpconfig.management.database import list_pending_migrations

# The database of the fast tests is not made by migrations.
pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True)]
LAST = ("mcpconfig", "0023_last_failure_and_capabilities")


def test_of_a_database_that_is_up_to_date_no_migration_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(database, "MigrationExecutor", None)
    assert list_pending_migrations() == []


def test_a_migration_that_is_not_recorded_is_pending() -> None:
    recorder = MigrationRecorder(connection)
    recorder.record_unapplied(*LAST)
    try:
        assert list_pending_migrations() == [".".join(LAST)]
    finally:
        recorder.record_applied(*LAST)
