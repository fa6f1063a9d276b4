"""`manage.py rotate_push_key`: make a new key by which push services know this server."""

import argparse
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.audit.audit_log import AuditEvent, append, get_actor
from chatapp.models import LogEntry
from chatapp.notifications.push_keys import rotate_key
from mcpconfig.management.operator_command import OperatorCommand


class Command(OperatorCommand):
    help = gettext_lazy("Make a new key for push notifications, for devices from now on.")

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--drop-devices",
            action="store_true",
            help=_("also delete the earlier keys and turn push off on their devices"),
        )

    def handle(self, *args: object, **options: Any) -> None:
        count = rotate_key(drops_devices=options["drop_devices"])
        data = {"of": "push key", "act": "changed", "devices_removed": count}
        append([AuditEvent(kind=LogEntry.Kind.NOTIFICATIONS, data=data, actor=get_actor())])
        self.stdout.write(_("Made a new key. Devices removed: %(count)d.") % {"count": count})
