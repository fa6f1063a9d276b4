"""Django's command, which ignores changes of labels."""

from django.core.management.commands import makemigrations

from chatapp.server.migration_changes import DatabaseChanges


class Command(makemigrations.Command):
    autodetector = DatabaseChanges
