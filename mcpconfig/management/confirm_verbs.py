"""The verb `mcp confirm`, which shows new and changed tools and asks before confirming them."""

import logging
import sys

from asgiref.sync import async_to_sync
from django.core.management.base import OutputWrapper
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from mcpconfig.models import Service, ToolDefinition
from mcpconfig.operations.tool_listing import load_fresh_tools
from mcpconfig.output import services
from mcpconfig.services import tool_definitions

from .failures import Failure
from .verbs import AddVerb, Options, VerbCommand, get_acting, get_service, get_tool

logger = logging.getLogger(__name__)
YES = "yes"


def add_confirm_verbs(add_acting_verb: AddVerb) -> None:
    confirm = add_acting_verb("confirm", _("confirm all or some of its tools"))
    confirm.add_argument("tools", metavar="tool", nargs="*", help=_("default: all tools"))
    confirm.add_argument("--yes", action="store_true", help=_("do not ask, not even on a terminal"))


class ConfirmVerbs(VerbCommand):
    """Exactly the definitions that were shown are confirmed, even if the service changes them."""

    def _confirm(self, options: Options) -> None:
        service = get_service(options)
        tools = async_to_sync(load_fresh_tools)(service, acting=get_acting(options))
        if options["tools"]:
            names = dict.fromkeys(options["tools"])
            tools = [get_tool(service, tools, name) for name in names]
        waiting = tool_definitions.list_unconfirmed(service, tools)
        asks = bool(waiting) and sys.stdin.isatty() and not options["yes"]
        # With --json, standard output holds only JSON, so the question goes to standard error.
        output = self.stderr if options["json"] else self.stdout
        for line in _format_tools(service, waiting) if asks or not options["json"] else ():
            output.write(services.replace_controls(line), style_func=str)
        if asks and not _ask_for_confirmation(output, waiting):
            raise Failure(
                "failed",
                _("Nothing was confirmed."),
                _("Only “%(word)s” confirms.") % {"word": YES},
            )
        confirmed = tool_definitions.confirm_tools(waiting)
        logger.info("%d tools of service %s were confirmed.", confirmed, service.name)
        text = ngettext("Confirmed %(count)s tool.", "Confirmed %(count)s tools.", confirmed) % {
            "count": confirmed
        }
        lines = [text if waiting else _("No new or changed tools.")]
        self._print(options, {"confirmed": confirmed}, lines)


def _format_tools(service: Service, waiting: list[ToolDefinition]) -> list[str]:
    """Return lines with the risk and state of each tool, and the reasons for a high risk."""
    values = services.build_tool_values(service, waiting)
    return [
        line for value in values for line in (services.format_tool(value), *_format_warnings(value))
    ]


def _format_warnings(value: services.Json) -> list[str]:
    return [
        _("  high risk: %(reason)s") % {"reason": reason}
        for reason in value["reasons"]
        if value["level"] == "high"
    ]


def _ask_for_confirmation(output: OutputWrapper, waiting: list[ToolDefinition]) -> bool:
    """Return whether the person at the terminal types "yes". The end of the input means no."""
    count = len(waiting)
    question = ngettext(
        "Confirm this tool? Type %(word)s: ",
        "Confirm these %(count)s tools? Type %(word)s: ",
        count,
    )
    output.write(question % {"count": count, "word": YES}, style_func=str, ending="")
    output.flush()
    return sys.stdin.readline().strip().lower() == YES
