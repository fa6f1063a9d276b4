"""Finds the changes of models that need a migration. A changed label needs none.

Labels are translated and reworded often. Migrations for them would slow down every first start,
because Django rebuilds the state of its models for each changed field.
"""

from typing import Any

from django.db import models
from django.db.migrations.autodetector import MigrationAutodetector

# Validators have messages.
LABELS_OF_FIELDS = ("verbose_name", "help_text", "choices", "validators")
LABELS_OF_MODELS = ("verbose_name", "verbose_name_plural")


class DatabaseChanges(MigrationAutodetector):
    """Django's detector without what people read of models and fields."""

    def __init__(self, from_state: Any, to_state: Any, questioner: Any = None) -> None:
        for state in (from_state, to_state):
            for model in state.models.values():
                model.options = _drop(model.options, LABELS_OF_MODELS)
        super().__init__(from_state, to_state, questioner)

    def deep_deconstruct(self, obj: Any) -> Any:
        found = super().deep_deconstruct(obj)
        if not isinstance(obj, models.Field):
            return found
        path, arguments, options = found
        return path, arguments, _drop(options, LABELS_OF_FIELDS)


def _drop(options: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in names}
