"""`mcp import` and `mcp export`: services from a file of another program, and into one."""

import logging
import sys
from pathlib import Path
from typing import Any

from mcpconfig.admin.exporting import exportable, exported, server_json
from mcpconfig.admin.planning import Planned, add_all, planned
from mcpconfig.import_formats import MOST_BYTES, Refused, Unreadable, found_in
from mcpconfig.models import Service

from .service_options import from_environment
from .verbs import MakeVerb, Options, Verbs, wrong

logger = logging.getLogger(__name__)


def add_importing_verbs(nameless: MakeVerb) -> None:
    importing = nameless("import", "add services from mcpServers JSON or a server.json")
    importing.add_argument("file", help="the file; - reads standard input")
    importing.add_argument("--dry-run", action="store_true", help="only say what would be added")
    importing.add_argument(
        "--allow-private", action="store_true", help="http:// and own network, for all of them"
    )
    importing.add_argument(
        "--value-env",
        metavar="BLANK=VAR",
        action="append",
        default=[],
        help="what stands for ${BLANK} in the file: the variable that holds it; may be repeated",
    )
    exporting = nameless("export", "all services of the admins as mcpServers JSON, without secrets")
    exporting.add_argument("--service", metavar="NAME", help="this one alone, as a server.json")


class ImportingVerbs(Verbs):
    """What the admin's pages do. Blanks are filled by what is named, and by nothing else."""

    def _import(self, options: Options) -> None:
        try:
            found = found_in(_contents(options["file"]))
        except Unreadable as error:
            raise wrong(str(error)) from error
        refused = [each for each in found if isinstance(each, Refused)]
        plans = _planned([each for each in found if not isinstance(each, Refused)], options)
        good = [plan for plan in plans if not plan.problems]
        bad = [(plan.name or plan.entry.label, " ".join(plan.problems)) for plan in plans]
        bad = [each for each in bad if each[1]] + [(each.label, each.reason) for each in refused]
        if not good:
            raise wrong("Nothing can be added.", " ".join(f"{name}: {why}" for name, why in bad))
        if not options["dry_run"]:
            names = ", ".join(service.name for service in add_all(good))
            logger.info("Services were imported: %s.", names)
        said = "would be added" if options["dry_run"] else "is added"
        self._print(
            options,
            {"added": [_value(plan) for plan in good], "refused": dict(bad)},
            [f"{plan.name} {said}: {plan.url}, {plan.sign_in}" for plan in good]
            + [f"{name} is refused: {why}" for name, why in bad],
        )

    def _export(self, options: Options) -> None:
        value = _server_json(options["service"]) if options["service"] else exported()
        self._print(options | {"json": True}, value, [])


def _server_json(name: str) -> dict[str, Any]:
    for service in exportable(Service.objects.filter(name=name)):
        return server_json(service)
    raise wrong(f"There is no service “{name}” to export.", "See: manage.py mcp export")


def _planned(entries: list[Any], options: Options) -> list[Planned]:
    values = dict(_value_of(said) for said in options["value_env"])
    known = {blank.key for entry in entries for blank in entry.blanks}
    if unknown := sorted(values.keys() - known):
        raise wrong(f"There is no blank ${{{unknown[0]}}} in the file.")
    plans: list[Planned] = []
    for entry in entries:
        plans.append(
            planned(
                entry,
                values=values,
                allows_private=options["allow_private"],
                taken=[plan.name for plan in plans],
            )
        )
    return plans


def _value_of(said: str) -> tuple[str, str]:
    blank, equals, variable = said.rpartition("=")
    if not equals or not blank:
        raise wrong("A value has the form BLANK=VAR.", "For example: --value-env input:token=TOKEN")
    return blank, from_environment(variable)


def _value(plan: Planned) -> dict[str, str]:
    return {"name": plan.name, "url": plan.url, "sign_in": plan.sign_in}


def _contents(place: str) -> str:
    """The text of the file, a little more of it than may be."""
    try:
        if place == "-":
            return sys.stdin.read(MOST_BYTES + 1)
        with Path(place).open(encoding="utf-8") as file:
            return file.read(MOST_BYTES + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise wrong(f"“{place}” cannot be read as text.") from error
