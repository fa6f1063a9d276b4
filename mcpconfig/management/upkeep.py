"""The verbs of the `mcp` command that look after a service: try it again, see and end sign-ins, and
decide about a tool."""

import argparse
import logging

from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model

from mcpconfig import console, console_sign_ins, ledger
from mcpconfig.models import Service, ToolSetting
from mcpconfig.models.service import GUIDANCE_CHARACTERS
from mcpconfig.oauth import sign_ins
from mcpconfig.retries import retry_now

from .failures import Failure
from .verbs import MakeVerb, Options, Verbs, acting, named_service, named_tool, wrong

logger = logging.getLogger(__name__)
UNDECIDED = "auto"
DECIDED = ("is_enabled", "is_safe_to_repeat", "wants_review", "level", "guidance")


def add_upkeep_verbs(verb: MakeVerb, asking: MakeVerb) -> None:
    asking("retry", "look at it now, whatever was tried before")
    tool = asking("tool", "one tool in full, and decide about it")
    tool.add_argument("tool", help="its name at the service")
    on_off = argparse.BooleanOptionalAction
    tool.add_argument("--enabled", dest="is_enabled", action=on_off, help="offer it in chats")
    tool.add_argument(
        "--safe-to-repeat",
        dest="is_safe_to_repeat",
        action=on_off,
        help="after an unknown outcome it is run again by itself",
    )
    tool.add_argument("--guidance", metavar="TEXT", help="what the assistant is told of it")
    tool.add_argument(
        "--review-results",
        dest="wants_review",
        action=on_off,
        help="a person sees what it brings back before the assistant does",
    )
    levels = [*ToolSetting.Level.values, UNDECIDED]
    tool.add_argument("--level", choices=levels, help=f"its risk; {UNDECIDED}: as it is worked out")
    ends = verb("sign-ins", "who is signed in to it").add_mutually_exclusive_group()
    ends.add_argument("--revoke", metavar="MEMBER", help="end this member's sign-in")
    ends.add_argument("--revoke-shared", action="store_true", help="end the one for everybody")


class UpkeepVerbs(Verbs):
    """They change what is kept here, and nothing at the service but its sign-ins."""

    def _retry(self, options: Options) -> None:
        service = named_service(options)
        if error := async_to_sync(retry_now)(service, acting(options)):
            raise error
        service.refresh_from_db()
        if failed := service.last_error:  # somebody else looks at it in this moment
            raise Failure(failed["kind"], failed["message"], failed["hint"])
        lines = [f"{service.name} is {service.state}."]
        self._print(options, console.service_value(service), lines)

    def _tool(self, options: Options) -> None:
        service = named_service(options)
        tools = async_to_sync(ledger.fresh_tools)(service, acting=acting(options))
        tool = named_tool(service, tools, options["tool"])
        said = {name: options[name] for name in DECIDED}
        decided = {name: value for name, value in said.items() if value is not None}
        if len(decided.get("guidance", "")) > GUIDANCE_CHARACTERS:
            raise wrong(f"What the assistant is told has at most {GUIDANCE_CHARACTERS} characters.")
        if decided.get("level") == UNDECIDED:
            decided["level"] = ""
        if decided:
            ToolSetting.objects.update_or_create(service=service, name=tool.name, defaults=decided)
            logger.info("Decided about tool %s of %s: %s.", tool.name, service.name, decided)
        value = console.decided_tool_value(service, tool)
        self._print(options, value, console.field_lines(value))

    def _sign_ins(self, options: Options) -> None:
        service = named_service(options)
        if options["revoke"] or options["revoke_shared"]:
            self._revoke(service, options)
            return
        found = sign_ins.sign_ins(service)
        self._print(
            options,
            [console_sign_ins.sign_in_value(sign_in) for sign_in in found],
            [console_sign_ins.sign_in_line(sign_in) for sign_in in found]
            or ["Nobody is signed in."],
        )

    def _revoke(self, service: Service, options: Options) -> None:
        name = options["revoke"]
        person = get_user_model().objects.filter(username=name).first() if name else None
        if name and person is None:
            raise wrong(f"There is no member “{name}”.")
        found = [each for each in sign_ins.sign_ins(service) if each.person == person]
        if not found or not sign_ins.revoke(service, found[0].id):
            said = f"“{name}” is not signed in." if name else "There is no sign-in for everybody."
            raise wrong(said, f"See: manage.py mcp sign-ins {service.name}")
        whose = name or "everybody"
        logger.info("The sign-in of %s to %s was ended by the operator.", whose, service.name)
        self._print(
            options,
            {"revoked": name, "service": service.name},
            [f"The sign-in of {whose} to {service.name} is ended."],
        )
