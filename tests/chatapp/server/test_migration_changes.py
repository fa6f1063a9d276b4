"""Which changes of models need a migration."""

from typing import Any

from django.apps import apps
from django.db import models
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ModelState, ProjectState

from chatapp.server.migration_changes import DatabaseChanges


def state(**options: Any) -> ProjectState:
    found = ProjectState()
    meta = {"verbose_name": options.pop("title", "thing")}
    fields: dict[str, models.Field[Any, Any]] = {
        "id": models.BigAutoField(primary_key=True),
        "name": models.CharField(**options),
    }
    found.add_model(ModelState("things", "Thing", fields, meta))
    return found


def changes(after: ProjectState) -> Any:
    detector: Any = DatabaseChanges(state(max_length=10), after)
    return detector._detect_changes()


def test_labels_need_no_migration() -> None:
    choices = [("a", "first")]
    labels = {"verbose_name": "Name", "help_text": "Its name.", "choices": choices}
    assert changes(state(max_length=10, title="object", **labels)) == {}


def test_a_change_of_the_database_is_found() -> None:
    (migration,) = changes(state(max_length=20, help_text="Its name."))["things"]
    assert [type(each).__name__ for each in migration.operations] == ["AlterField"]


def test_the_migrations_are_complete() -> None:
    loader = MigrationLoader(None)
    detector = DatabaseChanges(loader.project_state(), ProjectState.from_apps(apps))
    found = detector.changes(graph=loader.graph)
    assert not {"chatapp", "mcpconfig"} & found.keys()
