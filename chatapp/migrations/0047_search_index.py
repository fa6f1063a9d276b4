"""The full-text index of messages."""

from django.db import migrations

from chatapp.models.conversations import search_index


def install(apps, schema_editor):
    search_index.install(schema_editor.connection)


def remove(apps, schema_editor):
    search_index.remove(schema_editor.connection)


class Migration(migrations.Migration):
    dependencies = [("chatapp", "0046_chat_list")]

    operations = [migrations.RunPython(install, remove)]
