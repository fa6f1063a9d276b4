"""`manage.py record_backup`: say that a backup was made, for the page about the system."""

import argparse
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.audit.last_runs import BACKUP, record_run
from mcpconfig.management.operator_command import OperatorCommand


class Command(OperatorCommand):
    help = gettext_lazy("Record that a backup was made, for the page about the system.")

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--failed", metavar="REASON", help=_("the backup failed, for this reason")
        )

    def handle(self, *args: object, **options: Any) -> None:
        failed: str | None = options["failed"]
        if failed is None:
            record_run(BACKUP)
            self.stdout.write(_("Recorded a backup."))
            return
        record_run(BACKUP, failed.strip() or _("No reason was given."))
        self.stdout.write(_("Recorded a backup that failed."))
