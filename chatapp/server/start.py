"""The start of `manage.py`: invalid settings end every command with a message."""

import sys

import django
from django.core.management import execute_from_command_line

from mcpconfig.management.failures import FAILED, INTERRUPTED, Failure, to_failure

HINT = "See docs/configuration.md."


def run(words: list[str]) -> None:
    """Run the command of `manage.py`."""
    try:
        prepare(words)
        execute_from_command_line(words)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def prepare(words: list[str]) -> None:
    """Load the settings and applications, or exit with a message."""
    try:
        django.setup()
    except Exception as error:
        if "--traceback" in words:
            raise
        print(build_settings_failure(error), file=sys.stderr)
        sys.exit(FAILED)


def build_settings_failure(error: Exception) -> Failure:
    """Return the failure for an error while loading. Django raises ValueError for invalid
    settings."""
    if isinstance(error, ValueError):
        return Failure("configuration", f"The settings cannot be read: {error}", HINT)
    return to_failure(error)
