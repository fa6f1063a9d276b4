"""How `manage.py` begins: settings that cannot be used end every command in words."""

import sys

import django
from django.core.management import execute_from_command_line

from mcpconfig.management.failures import FAILED, INTERRUPTED, Failure, failure_of

HINT = "See docs/configuration.md."


def run(words: list[str]) -> None:
    """Do what `manage.py` was asked to do; its commands end by themselves."""
    try:
        prepare(words)
        execute_from_command_line(words)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def prepare(words: list[str]) -> None:
    """Read the settings and load the applications, or end in words."""
    try:
        django.setup()
    except Exception as error:
        if "--traceback" in words:
            raise
        print(settings_failure(error), file=sys.stderr)
        sys.exit(FAILED)


def settings_failure(error: Exception) -> Failure:
    """Beside what the settings themselves complain of: Django's own complaints are ValueErrors."""
    if isinstance(error, ValueError):
        return Failure("configuration", f"The settings cannot be read: {error}", HINT)
    return failure_of(error)
