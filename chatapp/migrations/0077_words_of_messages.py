"""PostgreSQL splits messages at punctuation, as SQLite does."""

from django.db import migrations

from chatapp.models.conversations import search_index


def rebuild(apps, schema_editor):
    search_index.rebuild(schema_editor.connection)


class Migration(migrations.Migration):
    # Only the drop keeps readers out, and the new index keeps out writers only.
    atomic = False
    dependencies = [("chatapp", "0076_workers_and_last_runs")]

    operations = [migrations.RunPython(rebuild, migrations.RunPython.noop)]
