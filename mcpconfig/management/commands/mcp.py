"""`manage.py mcp`: services from the command line. The operator's own acts: logged, not asked."""

import logging
import os
import time

from asgiref.sync import async_to_sync
from django.core.exceptions import ValidationError
from django.core.management.base import CommandParser

from mcpconfig import builtin, console, credentials, ledger, operations
from mcpconfig.errors import OperationError
from mcpconfig.management.reading import ReadingVerbs, add_reading_verbs
from mcpconfig.management.verbs import Options, VerbParser, json_object, named_service, wrong
from mcpconfig.models import Exchange, Service, ToolDefinition
from mcpconfig.network import check_url

logger = logging.getLogger(__name__)


class Command(ReadingVerbs):
    help = "Add, test and use services. Each verb explains itself with --help."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, parser_class=VerbParser)

        def verb(name: str, help_text: str, *, has_name: bool = True) -> CommandParser:
            made = verbs.add_parser(name, help=help_text)
            if has_name:
                made.add_argument("name", help="the service's name")
            made.add_argument("--json", action="store_true", help="print JSON only")
            return made

        _add_options(verb("add", "configure a service"))
        verb("list", "all services", has_name=False)
        verb("remove", "forget a service and its tools")
        verb("test", "connect as if for the first time")
        verb("status", "what is configured and remembered")
        verb("tools", "the tools that it offers")
        trace = verb("trace", "what was exchanged lately, newest first")
        trace.add_argument("--limit", type=int, default=20)
        confirm = verb("confirm", "let its tools, or one, be offered without a warning")
        confirm.add_argument("tool", nargs="?")
        call = verb("call", "run a tool once")
        call.add_argument("tool")
        call.add_argument("arguments", nargs="?", default="{}", help="a JSON object")
        add_reading_verbs(verb)

    def _add(self, options: Options) -> None:
        headers = dict(_header(text) for text in options["header"])
        bearer = _from_environment(options["bearer_env"])
        service = Service(
            name=options["name"],
            url=options["url"],
            transport=options["transport"],
            allows_private_addresses=options["allow_private"],
            is_trusted=options["trusted"],
            authentication="bearer" if bearer else "headers" if headers else "none",
        )
        if not builtin.is_builtin(service.url):
            check_url(service.url, allows_private=service.allows_private_addresses)
        try:
            service.full_clean()
        except ValidationError as error:
            raise wrong(" ".join(error.messages)) from error
        service.save()
        if bearer:
            credentials.set_bearer(service, bearer)
        if headers:
            credentials.set_headers(service, headers)
        logger.info("Service %s was added with the URL %s.", service.name, service.url)
        self._print(
            options,
            console.service_value(service),
            [f"{service.name} is added. Try it: manage.py mcp test {service.name}"],
        )

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
        report = async_to_sync(operations.test_connection)(named_service(options))
        self._print(options, console.report_value(report), console.report_lines(report))

    def _status(self, options: Options) -> None:
        service = named_service(options)
        self._print(options, console.service_value(service), console.service_lines(service))

    def _tools(self, options: Options) -> None:
        service = named_service(options)
        values = console.tool_values(service, async_to_sync(ledger.fresh_tools)(service))
        self._print(options, values, [console.tool_line(value) for value in values])

    def _trace(self, options: Options) -> None:
        exchanges = Exchange.objects.filter(service=named_service(options))[: options["limit"]]
        self._print(
            options,
            [console.exchange_value(exchange) for exchange in exchanges],
            [console.exchange_line(exchange) for exchange in exchanges],
        )

    def _confirm(self, options: Options) -> None:
        service = named_service(options)
        tools = async_to_sync(ledger.fresh_tools)(service)
        if options["tool"]:
            tools = [_tool(service, tools, options["tool"])]
        confirmed = ledger.confirm(tools)
        logger.info("%d tools of service %s were confirmed.", confirmed, service.name)
        self._print(options, {"confirmed": confirmed}, [f"{confirmed} tools are confirmed."])

    def _call(self, options: Options) -> None:
        service = named_service(options)
        arguments = json_object(options["arguments"])
        tools = async_to_sync(ledger.fresh_tools)(service)
        tool = _tool(service, tools, options["tool"])
        started = time.monotonic()
        logger.info("Tool %s of service %s is run by the operator.", tool.name, service.name)
        try:
            outcome = async_to_sync(operations.call_tool)(service, tool, arguments)
        except OperationError as error:
            duration_ms = round((time.monotonic() - started) * 1000)
            self._fail(error, options, console.failed_call_value(error, duration_ms))
        lines = [console.block_line(block) for block in outcome.result.content]
        self._print(options, console.call_value(outcome), lines)
        if outcome.result.is_error:
            raise SystemExit(1)


def _add_options(parser: CommandParser) -> None:
    parser.add_argument("url")
    parser.add_argument("--transport", choices=Service.Transport.values, default="auto")
    entry = parser.add_mutually_exclusive_group()
    entry.add_argument("--bearer-env", metavar="VAR", help="the variable that holds the token")
    entry.add_argument("--header", metavar="NAME=VALUE", action="append", default=[])
    parser.add_argument("--allow-private", action="store_true", help="http:// and own network")
    parser.add_argument("--trusted", action="store_true", help="its hints may lower a risk")


def _header(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise wrong("A header has the form NAME=VALUE.")
    return name.strip(), value.strip()


def _from_environment(variable: str | None) -> str:
    if not variable:
        return ""
    if not os.environ.get(variable):
        raise wrong(f"The environment variable {variable} is not set.")
    return os.environ[variable]


def _tool(service: Service, tools: list[ToolDefinition], name: str) -> ToolDefinition:
    for tool in tools:
        if tool.name == name:
            return tool
    raise wrong(f"{service.name} has no tool “{name}”.", f"See: manage.py mcp tools {service.name}")
