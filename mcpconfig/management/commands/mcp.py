"""`manage.py mcp`: services from the command line. The operator's own acts: logged, not asked."""

import logging
from functools import partial

from asgiref.sync import async_to_sync
from django.core.management.base import CommandParser

from mcpconfig import console, console_trace, ledger
from mcpconfig.errors import OperationError
from mcpconfig.management.calling import CallingVerbs, add_calling_verbs
from mcpconfig.management.configuring import ConfiguringVerbs, add_configuring_verbs
from mcpconfig.management.confirming import ConfirmingVerbs, add_confirming_verbs
from mcpconfig.management.failures import Failure
from mcpconfig.management.identity_providers import (
    IdentityProviderVerbs,
    add_identity_provider_verbs,
)
from mcpconfig.management.importing import ImportingVerbs, add_importing_verbs
from mcpconfig.management.reading import ReadingVerbs, add_reading_verbs
from mcpconfig.management.upkeep import UpkeepVerbs, add_upkeep_verbs
from mcpconfig.management.verbs import (
    Options,
    VerbParser,
    acting,
    named_service,
)
from mcpconfig.models import Service
from mcpconfig.on_first_use import operations

logger = logging.getLogger(__name__)


class Command(
    ConfiguringVerbs,
    ImportingVerbs,
    IdentityProviderVerbs,
    ConfirmingVerbs,
    CallingVerbs,
    ReadingVerbs,
    UpkeepVerbs,
):
    help = "Add, test and use services. Each verb explains itself with --help."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, parser_class=VerbParser)

        def verb(name: str, help_text: str, *, has_name: bool = True) -> CommandParser:
            made = verbs.add_parser(name, help=help_text)
            if has_name:
                made.add_argument("name", help="its name")
            made.add_argument("--json", action="store_true", help="print JSON only")
            return made

        def asking(name: str, help_text: str) -> CommandParser:
            made = verb(name, help_text)
            made.add_argument("--user", metavar="NAME", help="the member who acts")
            return made

        add_configuring_verbs(verb)
        add_importing_verbs(partial(verb, has_name=False))
        add_identity_provider_verbs(verb)
        verb("identity-providers", "all of them", has_name=False)
        verb("list", "all services", has_name=False)
        verb("remove", "forget a service and its tools")
        asking("test", "connect as if for the first time")
        verb("status", "what is configured and remembered")
        tools = asking("tools", "the tools that it offers")
        tools.add_argument("--refresh", action="store_true", help="ask it, also if it is too soon")
        trace = verb("trace", "what was exchanged lately, newest first")
        trace.add_argument("--limit", type=int, default=20, help="how many exchanges; 20")
        trace.add_argument("--operation", metavar="ID", default="", help="one only, with bodies")
        add_confirming_verbs(asking)
        add_calling_verbs(asking)
        add_reading_verbs(asking)
        add_upkeep_verbs(verb, asking)

    def _list(self, options: Options) -> None:
        services = list(Service.objects.all())
        lines = [console.service_line(service) for service in services]
        self._print(
            options,
            [console.service_value(service) for service in services],
            lines or ["No services yet. Add one: manage.py mcp add NAME URL"],
        )

    def _remove(self, options: Options) -> None:
        service = named_service(options)
        service.delete()
        logger.info("Service %s was removed.", service.name)
        self._print(options, {"removed": service.name}, [f"{service.name} is removed."])

    def _test(self, options: Options) -> None:
        service = named_service(options)
        try:
            report = async_to_sync(operations.test_connection)(service, acting=acting(options))
        except OperationError as error:
            if not options["json"]:
                self._print(options, None, [f"{step}: {said}" for step, said in error.tried])
            value = console.failed_test_value(error)
            raise Failure(error.kind, error.message, error.hint, value=value) from error
        self._print(options, console.report_value(report), console.report_lines(report))

    def _status(self, options: Options) -> None:
        service = named_service(options)
        value = console.service_value(service)
        self._print(options, value, console.field_lines(value))

    def _tools(self, options: Options) -> None:
        service = named_service(options)
        if options["refresh"]:
            tools = async_to_sync(ledger.fetch_tools)(service, acting=acting(options), refresh=True)
        else:
            tools = async_to_sync(ledger.fresh_tools)(service, acting=acting(options))
        values = console.tool_values(service, tools)
        self._print(options, values, [console.tool_line(value) for value in values])

    def _trace(self, options: Options) -> None:
        operation = options["operation"]
        found = console_trace.exchanges_of(named_service(options), operation, options["limit"])
        lines = console_trace.trace_lines(found, has_bodies=bool(operation))
        self._print(options, [console_trace.exchange_value(each) for each in found], lines)
