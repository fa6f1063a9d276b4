"""`manage.py rotate_keys`: encrypt every stored secret with the first of ENCRYPTION_KEYS."""

import argparse
import json
import logging
from dataclasses import asdict
from typing import Any

from mcpconfig.management.failures import Failure
from mcpconfig.management.operator_command import OperatorCommand
from mcpconfig.services.secret_rotation import Rotation, rotate_secrets

logger = logging.getLogger(__name__)


class Command(OperatorCommand):
    help = "Encrypt every stored secret anew with the first of ENCRYPTION_KEYS."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print JSON only")

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
            f"{rotation.rotated} put under the newest key, {rotation.were_current} were already."
        )
        if rotation.missed:
            self.stdout.write(f"{rotation.missed} were written meanwhile: run it again.")
        else:
            self.stdout.write("The older keys can be removed from ENCRYPTION_KEYS.")


def _make_failure(rotation: Rotation) -> Failure:
    count = len(rotation.unreadable)
    failure = Failure(
        "configuration",
        f"No key in ENCRYPTION_KEYS opens {count} of the stored secrets: "
        f"{'; '.join(rotation.unreadable)}. {rotation.rotated} others were put under the newest "
        "key.",
        "Bring the old key back and run it again, or enter those secrets again.",
    )
    failure.value |= asdict(rotation)
    return failure
