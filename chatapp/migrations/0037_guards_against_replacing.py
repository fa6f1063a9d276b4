from typing import Any

from django.db import migrations

from chatapp.models.policy import audit_log_guards


def guard(_apps: Any, schema_editor: Any) -> None:
    """Install the triggers that were added after the log was made."""
    audit_log_guards.install(schema_editor.connection)


class Migration(migrations.Migration):
    dependencies = [
        ("chatapp", "0036_place_of_calls"),
    ]

    operations = [
        migrations.RunPython(guard, migrations.RunPython.noop),
    ]
