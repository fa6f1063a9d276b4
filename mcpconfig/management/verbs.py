"""What all verbs of the `mcp` command share: output, failures, and finding what was named."""

import argparse
import json
from collections.abc import Callable
from typing import Any, NoReturn

from django.core.management.base import BaseCommand, CommandParser

from mcpconfig import console
from mcpconfig.errors import OperationError
from mcpconfig.models import Service

Options = dict[str, Any]
MakeVerb = Callable[[str, str], CommandParser]


class VerbParser(CommandParser):
    """Wrong usage of a verb ends with exit code 2, where Django would raise an exception."""

    def error(self, message: str) -> NoReturn:
        argparse.ArgumentParser.error(self, message)


class Verbs(BaseCommand):
    """A command of verbs: `_NAME(options)` does each, and an OperationError ends it."""

    def handle(self, *args: object, **options: Any) -> None:
        verb: Callable[[Options], None] = getattr(self, f"_{options['verb']}")
        try:
            verb(options)
        except OperationError as error:
            self._fail(error, options, {"error": console.error_value(error)})

    def _print(self, options: Options, value: Any, lines: list[str]) -> None:
        if options["json"]:
            self.stdout.write(console.as_json(value))
            return
        for line in lines:
            self.stdout.write(console.printable(line))

    def _fail(self, error: OperationError, options: Options, value: Any) -> NoReturn:
        self.stderr.write(console.printable(console.error_text(error)))
        if options["json"]:
            self.stdout.write(console.as_json(value))
        raise SystemExit(1)


def wrong(message: str, hint: str = "") -> OperationError:
    return OperationError(
        kind="configuration", message=message, hint=hint, was_sent=False, is_definite=True
    )


def json_object(text: str) -> dict[str, Any]:
    """The arguments that were given as JSON."""
    try:
        arguments = json.loads(text)
    except ValueError as error:
        raise wrong("The arguments are not JSON.", "For example: '{\"id\": 3}'") from error
    if not isinstance(arguments, dict):
        raise wrong("The arguments must be a JSON object.")
    return arguments


def named_service(options: Options) -> Service:
    service = Service.objects.filter(name=options["name"]).first()
    if service is None:
        raise wrong(f"There is no service “{options['name']}”.", "See: manage.py mcp list")
    return service
