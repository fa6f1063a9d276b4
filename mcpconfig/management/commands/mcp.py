"""`manage.py mcp`: manage services from the command line.

The operator needs no approval. Each change and each call is logged.
"""

import logging
from functools import partial

from asgiref.sync import async_to_sync
from django.core.management.base import CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from mcpconfig.management.call_verbs import CallVerbs, add_call_verbs
from mcpconfig.management.configuration_verbs import ConfigurationVerbs, add_configuration_verbs
from mcpconfig.management.confirm_verbs import ConfirmVerbs, add_confirm_verbs
from mcpconfig.management.failures import Failure
from mcpconfig.management.identity_provider_verbs import (
    IdentityProviderVerbs,
    add_identity_provider_verbs,
)
from mcpconfig.management.import_verbs import ImportVerbs, add_import_verbs
from mcpconfig.management.resource_verbs import ResourceVerbs, add_resource_verbs
from mcpconfig.management.upkeep_verbs import UpkeepVerbs, add_upkeep_verbs
from mcpconfig.management.verbs import Options, VerbParser, get_acting, get_service, list_exchanges
from mcpconfig.models import Service
from mcpconfig.operations.lazy import operations
from mcpconfig.operations.tool_listing import fetch_tools, load_fresh_tools
from mcpconfig.output import services as output
from mcpconfig.output import trace as console_trace
from mcpconfig.values.errors import OperationError

logger = logging.getLogger(__name__)


class Command(
    ConfigurationVerbs,
    ImportVerbs,
    IdentityProviderVerbs,
    ConfirmVerbs,
    CallVerbs,
    ResourceVerbs,
    UpkeepVerbs,
):
    help = gettext_lazy(  # type: ignore[assignment]  # `OperatorCommand` makes it a string
        "Add, test and use services. For each verb, see VERB --help."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, parser_class=VerbParser)

        def add_verb(name: str, help_text: str, *, has_name: bool = True) -> CommandParser:
            verb = verbs.add_parser(name, help=help_text)
            if has_name:
                verb.add_argument("name", help=_("its name"))
            verb.add_argument("--json", action="store_true", help=_("print JSON only"))
            return verb

        def add_acting_verb(name: str, help_text: str) -> CommandParser:
            verb = add_verb(name, help_text)
            verb.add_argument("--user", metavar="NAME", help=_("the member who acts"))
            return verb

        add_configuration_verbs(add_verb)
        add_import_verbs(partial(add_verb, has_name=False))
        add_identity_provider_verbs(add_verb)
        add_verb("identity-providers", _("all identity providers"), has_name=False)
        add_verb("list", _("all services"), has_name=False)
        add_verb("remove", _("remove a service and its tools"))
        add_acting_verb("test", _("test the connection, as if for the first time"))
        add_verb("status", _("the configuration and what is known"))
        tools = add_acting_verb("tools", _("its tools"))
        tools.add_argument(
            "--refresh", action="store_true", help=_("fetch the list, even if it is too early")
        )
        trace = add_verb("trace", _("recent exchanges, newest first"))
        trace.add_argument(
            "--limit", type=int, default=20, help=_("number of exchanges; default 20")
        )
        trace.add_argument(
            "--operation", metavar="ID", default="", help=_("only this operation, with bodies")
        )
        add_confirm_verbs(add_acting_verb)
        add_call_verbs(add_acting_verb)
        add_resource_verbs(add_acting_verb)
        add_upkeep_verbs(add_verb, add_acting_verb)

    def _list(self, options: Options) -> None:
        services = list(Service.objects.all())
        lines = [output.format_service(service) for service in services]
        self._print(
            options,
            [output.build_service_value(service) for service in services],
            lines or [_("No services yet. Add one: manage.py mcp add NAME URL")],
        )

    def _remove(self, options: Options) -> None:
        service = get_service(options)
        service.delete()
        logger.info("Service %s was removed.", service.name)
        self._print(
            options, {"removed": service.name}, [_("Removed %(name)s.") % {"name": service.name}]
        )

    def _test(self, options: Options) -> None:
        service = get_service(options)
        try:
            report = async_to_sync(operations.test_connection)(service, acting=get_acting(options))
        except OperationError as error:
            if not options["json"]:
                self._print(options, None, [f"{step}: {detail}" for step, detail in error.tried])
            value = output.build_failed_test_value(error)
            raise Failure(error.kind, error.message, error.hint, value=value) from error
        self._print(options, output.build_report_value(report), output.format_report(report))

    def _status(self, options: Options) -> None:
        service = get_service(options)
        value = output.build_service_value(service)
        self._print(options, value, output.format_fields(value))

    def _tools(self, options: Options) -> None:
        service = get_service(options)
        if options["refresh"]:
            tools = async_to_sync(fetch_tools)(service, acting=get_acting(options), refresh=True)
        else:
            tools = async_to_sync(load_fresh_tools)(service, acting=get_acting(options))
        values = output.build_tool_values(service, tools)
        self._print(options, values, [output.format_tool(value) for value in values])

    def _trace(self, options: Options) -> None:
        operation = options["operation"]
        exchanges = list_exchanges(get_service(options), operation, options["limit"])
        lines = console_trace.format_trace(exchanges, has_bodies=bool(operation))
        values = [console_trace.build_exchange_value(exchange) for exchange in exchanges]
        self._print(options, values, lines)
