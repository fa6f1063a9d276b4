"""`mcp confirm`: what is new or changed is shown first; a person at a terminal says yes to it."""

import logging
import sys

from asgiref.sync import async_to_sync
from django.core.management.base import OutputWrapper
from django.template.defaultfilters import pluralize

from mcpconfig import console, ledger
from mcpconfig.models import Service, ToolDefinition

from .failures import Failure
from .verbs import MakeVerb, Options, Verbs, acting, named_service, named_tool

logger = logging.getLogger(__name__)
YES = "yes"


def add_confirming_verbs(asking: MakeVerb) -> None:
    confirm = asking("confirm", "let its tools, or some, be offered without a warning")
    confirm.add_argument("tools", metavar="tool", nargs="*", help="without one all of them")
    confirm.add_argument("--yes", action="store_true", help="do not ask, also on a terminal")


class ConfirmingVerbs(Verbs):
    """What is confirmed is what was shown: definitions, whatever the service lists by then."""

    def _confirm(self, options: Options) -> None:
        service = named_service(options)
        tools = async_to_sync(ledger.fresh_tools)(service, acting=acting(options))
        if options["tools"]:
            names = dict.fromkeys(options["tools"])
            tools = [named_tool(service, tools, name) for name in names]
        waiting = ledger.unconfirmed(service, tools)
        asks = bool(waiting) and sys.stdin.isatty() and not options["yes"]
        # A program that wants JSON reads nothing else; who is asked reads the other output.
        said = self.stderr if options["json"] else self.stdout
        for line in _lines(service, waiting) if asks or not options["json"] else ():
            said.write(console.printable(line), style_func=str)
        if asks and not _agreed(said, waiting):
            raise Failure("failed", "Nothing is confirmed.", f"Only “{YES}” confirms.")
        confirmed = ledger.confirm(waiting)
        logger.info("%d tools of service %s were confirmed.", confirmed, service.name)
        words = f"{confirmed} tool{pluralize(confirmed, ' is,s are')} confirmed."
        lines = [words if waiting else "Nothing is new or changed."]
        self._print(options, {"confirmed": confirmed}, lines)


def _lines(service: Service, waiting: list[ToolDefinition]) -> list[str]:
    """Each tool with its risk and state, and why its risk is high."""
    values = console.tool_values(service, waiting)
    return [line for value in values for line in (console.tool_line(value), *_warning(value))]


def _warning(value: console.Json) -> list[str]:
    return [f"  high risk: {reason}" for reason in value["reasons"] if value["level"] == "high"]


def _agreed(said: OutputWrapper, waiting: list[ToolDefinition]) -> bool:
    """Whether the person at the terminal writes yes; the end of the input is a no."""
    which = "this tool" if len(waiting) == 1 else f"these {len(waiting)} tools"
    said.write(f"Confirm {which}? Write {YES}: ", style_func=str, ending="")
    said.flush()
    return sys.stdin.readline().strip().lower() == YES
