"""The verbs `mcp retry`, `mcp tool` and `mcp sign-ins`."""

import argparse
import logging

from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model
from django.utils.translation import gettext as _

from mcpconfig.models import Service, ToolSetting
from mcpconfig.models.service import MAX_GUIDANCE_CHARACTERS
from mcpconfig.oauth import sign_in_admin
from mcpconfig.operations.service_retries import retry_now
from mcpconfig.operations.tool_listing import load_fresh_tools
from mcpconfig.output import services
from mcpconfig.output import sign_ins as console_sign_ins

from .failures import Failure
from .verbs import AddVerb, Options, VerbCommand, get_acting, get_service, get_tool, make_failure

logger = logging.getLogger(__name__)
AUTOMATIC_LEVEL = "auto"
SETTING_FIELDS = ("is_enabled", "is_safe_to_repeat", "wants_review", "level", "guidance")


def add_upkeep_verbs(add_verb: AddVerb, add_acting_verb: AddVerb) -> None:
    add_acting_verb("retry", _("check it now, even after failed tries"))
    tool = add_acting_verb("tool", _("show one tool, and change its settings"))
    tool.add_argument("tool", help=_("its name at the service"))
    on_off = argparse.BooleanOptionalAction
    tool.add_argument("--enabled", dest="is_enabled", action=on_off, help=_("offer it in chats"))
    tool.add_argument(
        "--safe-to-repeat",
        dest="is_safe_to_repeat",
        action=on_off,
        help=_("run it again automatically after an unknown outcome"),
    )
    tool.add_argument("--guidance", metavar="TEXT", help=_("instructions for the assistant"))
    tool.add_argument(
        "--review-results",
        dest="wants_review",
        action=on_off,
        help=_("a person reviews its results before the assistant reads them"),
    )
    levels = [*ToolSetting.Level.values, AUTOMATIC_LEVEL]
    tool.add_argument(
        "--level",
        choices=levels,
        help=_("its risk; %(level)s: determined automatically") % {"level": AUTOMATIC_LEVEL},
    )
    sign_ins = add_verb("sign-ins", _("who is signed in to it"))
    revoke = sign_ins.add_mutually_exclusive_group()
    revoke.add_argument("--revoke", metavar="MEMBER", help=_("end this member’s sign-in"))
    revoke.add_argument("--revoke-shared", action="store_true", help=_("end the shared sign-in"))


class UpkeepVerbs(VerbCommand):
    """Verbs that change stored data only. Ending a sign-in may also revoke it at its server."""

    def _retry(self, options: Options) -> None:
        service = get_service(options)
        if error := async_to_sync(retry_now)(service, get_acting(options)):
            raise error
        service.refresh_from_db()
        if failed := service.last_error:  # another process is retrying it
            raise Failure(failed["kind"], failed["message"], failed["hint"])
        lines = [_("%(name)s is %(state)s.") % {"name": service.name, "state": service.state.label}]
        self._print(options, services.build_service_value(service), lines)

    def _tool(self, options: Options) -> None:
        service = get_service(options)
        tools = async_to_sync(load_fresh_tools)(service, acting=get_acting(options))
        tool = get_tool(service, tools, options["tool"])
        values = {name: options[name] for name in SETTING_FIELDS}
        changes = {name: value for name, value in values.items() if value is not None}
        if len(changes.get("guidance", "")) > MAX_GUIDANCE_CHARACTERS:
            raise make_failure(
                _("The guidance can have at most %(count)s characters.")
                % {"count": MAX_GUIDANCE_CHARACTERS}
            )
        if changes.get("level") == AUTOMATIC_LEVEL:
            changes["level"] = ""
        if changes:
            ToolSetting.objects.update_or_create(service=service, name=tool.name, defaults=changes)
            logger.info("Decided about tool %s of %s: %s.", tool.name, service.name, changes)
        value = services.build_tool_setting_value(service, tool)
        self._print(options, value, services.format_fields(value))

    def _sign_ins(self, options: Options) -> None:
        service = get_service(options)
        if options["revoke"] or options["revoke_shared"]:
            self._revoke(service, options)
            return
        sign_ins = sign_in_admin.list_sign_ins(service)
        self._print(
            options,
            [console_sign_ins.build_sign_in_value(sign_in) for sign_in in sign_ins],
            [console_sign_ins.format_sign_in(sign_in) for sign_in in sign_ins]
            or [_("Nobody is signed in.")],
        )

    def _revoke(self, service: Service, options: Options) -> None:
        name = options["revoke"]
        person = get_user_model().objects.filter(username=name).first() if name else None
        if name and person is None:
            raise make_failure(_("There is no member “%(name)s”.") % {"name": name})
        sign_ins = [
            sign_in for sign_in in sign_in_admin.list_sign_ins(service) if sign_in.person == person
        ]
        if not sign_ins or not sign_in_admin.revoke(service, sign_ins[0].id):
            text = (
                _("“%(name)s” is not signed in.") % {"name": name}
                if name
                else _("There is no shared sign-in.")
            )
            raise make_failure(
                text, _("See: %(command)s") % {"command": f"manage.py mcp sign-ins {service.name}"}
            )
        values = {"name": name, "service": service.name}
        logger.info(
            "The sign-in of %s to %s was ended by the operator.", name or "everybody", service.name
        )
        text = (
            _("Ended the sign-in of %(name)s to %(service)s.")
            if name
            else _("Ended the shared sign-in to %(service)s.")
        )
        self._print(
            options,
            {"revoked": name, "service": service.name},
            [text % values],
        )
