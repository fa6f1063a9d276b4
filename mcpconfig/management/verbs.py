"""What all verbs of the `mcp` command share: output, and finding what was named."""

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from django.contrib.auth import get_user_model
from django.core.management.base import CommandParser

from mcpconfig import console
from mcpconfig.acting import Acting
from mcpconfig.models import Service, ToolDefinition

from .ending import OperatorCommand
from .failures import Failure

Options = dict[str, Any]
MakeVerb = Callable[[str, str], CommandParser]


class VerbParser(CommandParser):
    """Wrong usage of a verb ends with exit code 2, where Django would raise an exception."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self._wants_json = "--json" in (args or ())
        known, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return known, unknown

    def error(self, message: str) -> NoReturn:
        if self._wants_json:
            hint = f"See: {self.prog} --help"
            self._print_message(json.dumps(Failure("usage", message, hint).value), sys.stdout)
        argparse.ArgumentParser.error(self, message)


class Verbs(OperatorCommand):
    """A command of verbs: `_NAME(options)` does each."""

    def handle(self, *args: object, **options: Any) -> None:
        verb: Callable[[Options], None] = getattr(self, f"_{options['verb'].replace('-', '_')}")
        verb(options)

    def _print(self, options: Options, value: Any, lines: list[str]) -> None:
        if options["json"]:
            self.stdout.write(console.as_json(value))
            return
        for line in lines:
            self.stdout.write(console.printable(line))


def wrong(message: str, hint: str = "") -> Failure:
    return Failure("configuration", message, hint)


def json_object(text: str) -> dict[str, Any]:
    """The arguments that were given as JSON."""
    try:
        arguments = json.loads(text, parse_constant=_no_number)
        json.dumps(arguments, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise wrong("The arguments are not JSON.", "For example: '{\"id\": 3}'") from error
    if not isinstance(arguments, dict):
        raise wrong("The arguments must be a JSON object.")
    return arguments


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON.")


def named_service(options: Options) -> Service:
    service = Service.objects.filter(name=options["name"]).first()
    if service is None:
        raise wrong(f"There is no service “{options['name']}”.", "See: manage.py mcp list")
    return service


def named_tool(service: Service, tools: list[ToolDefinition], name: str) -> ToolDefinition:
    for tool in tools:
        if tool.name == name:
            return tool
    raise wrong(f"{service.name} has no tool “{name}”.", f"See: manage.py mcp tools {service.name}")


def acting(options: Options) -> Acting | None:
    """The member whom the operator named, if he may use the service; None, the operator himself."""
    if not options["user"]:
        return None
    people = get_user_model().objects.filter(username=options["user"], is_active=True)
    person = people.first()
    if person is None:
        raise wrong(f"There is no member “{options['user']}”.")
    if not Service.objects.for_member(person).filter(name=options["name"]).exists():
        raise wrong(f"“{options['user']}” may not use the service “{options['name']}”.")
    return Acting.of(person)
