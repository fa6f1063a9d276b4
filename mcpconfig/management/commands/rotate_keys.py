"""`manage.py rotate_keys`: encrypt every stored secret with the first of ENCRYPTION_KEYS."""

import argparse
import json
import logging
from dataclasses import asdict
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from mcpconfig.management.failures import Failure
from mcpconfig.management.operator_command import OperatorCommand
from mcpconfig.services.secret_rotation import Rotation, rotate_secrets

logger = logging.getLogger(__name__)


class Command(OperatorCommand):
    help = gettext_lazy("Encrypt all stored secrets again, with the first key of ENCRYPTION_KEYS.")

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help=_("print JSON only"))

    def handle(self, *args: object, **options: Any) -> None:
        rotation = rotate_secrets()
        if rotation.rotated:
            logger.info("%d stored secrets were put under the newest key.", rotation.rotated)
        if rotation.unreadable:
            raise _make_failure(rotation)
        if options["json"]:
            self.stdout.write(json.dumps(asdict(rotation)))
            return
        self.stdout.write(
            _("Encrypted with the newest key: %(count)s. Already current: %(current)s.")
            % {"count": rotation.rotated, "current": rotation.were_current}
        )
        if rotation.missed:
            self.stdout.write(
                _("Written meanwhile: %(count)s. Run it again.") % {"count": rotation.missed}
            )
        else:
            self.stdout.write(_("You can remove the older keys from ENCRYPTION_KEYS."))


def _make_failure(rotation: Rotation) -> Failure:
    count = len(rotation.unreadable)
    failure = Failure(
        "configuration",
        (
            _(
                "Stored secrets that no key in ENCRYPTION_KEYS opens: %(count)s (%(secrets)s). "
                "Encrypted with the newest key: %(rotated)s."
            )
            % {
                "count": count,
                "secrets": "; ".join(rotation.unreadable),
                "rotated": rotation.rotated,
            }
        ),
        _("Restore the old key and run this again, or enter those secrets again."),
    )
    failure.value |= asdict(rotation)
    return failure
