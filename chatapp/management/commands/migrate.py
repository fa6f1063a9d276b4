"""Django's command, which ignores changes of labels."""

from django.core.management.commands import migrate

from chatapp.server.migration_changes import DatabaseChanges


class Command(migrate.Command):
    autodetector = DatabaseChanges
