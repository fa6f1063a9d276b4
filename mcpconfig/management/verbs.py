"""Base classes and functions that the verbs of the `mcp` command share."""

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any, NoReturn
from uuid import UUID

from django.contrib.auth import get_user_model
from django.core.management.base import CommandParser
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from mcpconfig.models import Exchange, Service, ToolDefinition
from mcpconfig.output import services
from mcpconfig.values.acting import Acting

from .failures import Failure
from .operator_command import OperatorCommand

Options = dict[str, Any]
AddVerb = Callable[[str, str], CommandParser]


class VerbParser(CommandParser):
    """A parser that exits with code 2 on wrong usage, where Django would raise an exception."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self._wants_json = "--json" in (args or ())
        known, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(
                _("unrecognized arguments: %(arguments)s") % {"arguments": " ".join(unknown)}
            )
        return known, unknown

    def error(self, message: str) -> NoReturn:
        if self._wants_json:
            hint = _("See: %(command)s") % {"command": f"{self.prog} --help"}
            self._print_message(json.dumps(Failure("usage", message, hint).value), sys.stdout)
        argparse.ArgumentParser.error(self, message)


class VerbCommand(OperatorCommand):
    """A command with verbs. The method `_NAME` runs the verb NAME."""

    def handle(self, *args: object, **options: Any) -> None:
        verb: Callable[[Options], None] = getattr(self, f"_{options['verb'].replace('-', '_')}")
        verb(options)

    def _print(self, options: Options, value: Any, lines: list[str]) -> None:
        if options["json"]:
            self.stdout.write(services.format_json(value))
            return
        for line in lines:
            self.stdout.write(services.replace_controls(line))


def make_failure(message: str, hint: str = "") -> Failure:
    return Failure("configuration", message, hint)


def parse_json_object(text: str) -> dict[str, Any]:
    """Parse the arguments of a call from a JSON object."""
    try:
        arguments = json.loads(text, parse_constant=_refuse_constant)
        json.dumps(arguments, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise make_failure(
            _("The arguments are not JSON."), _("For example: '{\"id\": 3}'")
        ) from error
    if not isinstance(arguments, dict):
        raise make_failure(_("The arguments must be a JSON object."))
    return arguments


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON.")


def get_service(options: Options) -> Service:
    service = Service.objects.filter(name=options["name"]).first()
    if service is None:
        raise make_failure(
            _("There is no service “%(name)s”.") % {"name": options["name"]},
            _("See: %(command)s") % {"command": "manage.py mcp list"},
        )
    return service


def get_tool(service: Service, tools: list[ToolDefinition], name: str) -> ToolDefinition:
    for tool in tools:
        if tool.name == name:
            return tool
    raise make_failure(
        _("%(service)s has no tool “%(tool)s”.") % {"service": service.name, "tool": name},
        _("See: %(command)s") % {"command": f"manage.py mcp tools {service.name}"},
    )


def get_acting(options: Options) -> Acting | None:
    """Return the member named by `--user`, who must be allowed to use the service.

    Without `--user`, return None: the operator acts.
    """
    if not options["user"]:
        return None
    members = get_user_model().objects.filter(username=options["user"], is_active=True)
    person = members.first()
    if person is None:
        raise make_failure(_("There is no member “%(name)s”.") % {"name": options["user"]})
    if not Service.objects.for_member(person).filter(name=options["name"]).exists():
        raise make_failure(
            _("“%(name)s” can’t use the service “%(service)s”.")
            % {"name": options["user"], "service": options["name"]}
        )
    return Acting.of(person)


def list_exchanges(service: Service, operation: str, limit: int) -> QuerySet[Exchange]:
    """Return the newest exchanges with a service, of one operation or of all."""
    exchanges = Exchange.objects.filter(service=service)
    if operation:
        try:
            exchanges = exchanges.filter(operation_id=UUID(operation))
        except ValueError as error:
            raise make_failure(_("Name an operation by its id, as in the trace.")) from error
    return exchanges[: max(0, limit)]
