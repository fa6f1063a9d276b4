"""The verbs `mcp import` and `mcp export`, for configuration files of other programs."""

import logging
import sys
from pathlib import Path
from typing import Any

from django.utils.translation import gettext as _

from mcpconfig.models import Service
from mcpconfig.services.export import build_mcp_servers, build_server_json, list_exportable
from mcpconfig.services.import_plan import (
    ONLY_ADMINS,
    Access,
    ImportPlan,
    add_planned,
    plan_service,
)
from mcpconfig.values.import_formats import (
    MAX_BYTES,
    ImportFormatError,
    RejectedEntry,
    parse_services,
)

from .service_options import get_group_id, read_environment
from .verbs import AddVerb, Options, VerbCommand, make_failure

logger = logging.getLogger(__name__)


def add_import_verbs(add_verb: AddVerb) -> None:
    import_parser = add_verb("import", _("add services from mcpServers JSON or a server.json"))
    import_parser.add_argument("file", help=_("the file; - reads standard input"))
    import_parser.add_argument(
        "--dry-run", action="store_true", help=_("only show what would be added")
    )
    import_parser.add_argument(
        "--allow-private",
        action="store_true",
        help=_("allow http:// and private addresses for all of them"),
    )
    audience = import_parser.add_mutually_exclusive_group()
    audience.add_argument(
        "--everyone", action="store_true", help=_("for all members (default: only for admins)")
    )
    audience.add_argument(
        "--group", metavar="NAME", action="append", help=_("for members of this group; repeatable")
    )
    import_parser.add_argument(
        "--value-env",
        metavar="BLANK=VAR",
        action="append",
        default=[],
        help=_("the variable with the value of ${BLANK} in the file; repeatable"),
    )
    export_parser = add_verb("export", _("all admin services as mcpServers JSON, without secrets"))
    export_parser.add_argument(
        "--service", metavar="NAME", help=_("only this service, as a server.json")
    )


class ImportVerbs(VerbCommand):
    """Verbs that do what the admin pages do. Only named variables fill the blanks of a file."""

    def _import(self, options: Options) -> None:
        try:
            entries = parse_services(_read_file(options["file"]))
        except ImportFormatError as error:
            raise make_failure(str(error)) from error
        access = _read_access(options)
        rejected = [entry for entry in entries if isinstance(entry, RejectedEntry)]
        plans = _plan_services(
            [entry for entry in entries if not isinstance(entry, RejectedEntry)], options, access
        )
        valid = [plan for plan in plans if not plan.problems]
        refused = [
            (plan.name or plan.entry.label, " ".join(plan.problems))
            for plan in plans
            if plan.problems
        ]
        refused += [(entry.label, entry.reason) for entry in rejected]
        if not valid:
            raise make_failure(
                _("Nothing can be added."),
                " ".join(f"{name}: {reason}" for name, reason in refused),
            )
        if not options["dry_run"]:
            names = ", ".join(service.name for service in add_planned(valid))
            logger.info("Services were imported: %s.", names)
        result = (
            _("Would add %(name)s: %(url)s, %(sign_in)s")
            if options["dry_run"]
            else _("Added %(name)s: %(url)s, %(sign_in)s")
        )
        self._print(
            options,
            {"added": [_build_value(plan) for plan in valid], "refused": dict(refused)},
            [result % _build_value(plan) for plan in valid]
            + [
                _("Refused %(name)s: %(reason)s") % {"name": name, "reason": reason}
                for name, reason in refused
            ]
            + _list_next_steps(access, options),
        )

    def _export(self, options: Options) -> None:
        value = (
            _build_server_json(options["service"]) if options["service"] else build_mcp_servers()
        )
        self._print(options | {"json": True}, value, [])


def _build_server_json(name: str) -> dict[str, Any]:
    for service in list_exportable(Service.objects.filter(name=name)):
        return build_server_json(service)
    raise make_failure(
        _("There is no service “%(name)s” to export.") % {"name": name},
        _("See: %(command)s") % {"command": "manage.py mcp export"},
    )


def _plan_services(entries: list[Any], options: Options, access: Access) -> list[ImportPlan]:
    values = dict(_parse_value(text) for text in options["value_env"])
    known = {blank.key for entry in entries for blank in entry.placeholders}
    if unknown := sorted(values.keys() - known):
        raise make_failure(
            _("There is no blank %(blank)s in the file.") % {"blank": f"${{{unknown[0]}}}"}
        )
    plans: list[ImportPlan] = []
    for entry in entries:
        plans.append(
            plan_service(
                entry,
                values=values,
                allows_private=options["allow_private"],
                access=access,
                taken=[plan.name for plan in plans],
            )
        )
    return plans


def _list_next_steps(access: Access, options: Options) -> list[str]:
    if options["dry_run"] or access != ONLY_ADMINS:
        return []
    command = "manage.py mcp set NAME --everyone"
    return [_("Only admins can use them. To change that: %(command)s") % {"command": command}]


def _read_access(options: Options) -> Access:
    if options["group"]:
        groups = [get_group_id(name) for name in options["group"]]
        return Access(visibility=Service.Visibility.GROUPS, groups=groups)
    return Access(visibility=Service.Visibility.EVERYONE) if options["everyone"] else ONLY_ADMINS


def _parse_value(text: str) -> tuple[str, str]:
    blank, equals, variable = text.rpartition("=")
    if not equals or not blank:
        raise make_failure(
            _("A value has the form BLANK=VAR."), _("For example: --value-env input:token=TOKEN")
        )
    return blank, read_environment(variable)


def _build_value(plan: ImportPlan) -> dict[str, str]:
    return {"name": plan.name, "url": plan.url, "sign_in": plan.sign_in}


def _read_file(place: str) -> str:
    """Return the text of the file, up to one character over the limit, so that it is refused."""
    try:
        if place == "-":
            return sys.stdin.read(MAX_BYTES + 1)
        with Path(place).open(encoding="utf-8") as file:
            return file.read(MAX_BYTES + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise make_failure(_("“%(file)s” can’t be read as text.") % {"file": place}) from error
