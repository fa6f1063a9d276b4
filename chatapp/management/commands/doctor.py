"""`manage.py doctor`: check the whole installation and report problems."""

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from typing import Any

from django.db import Error
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.management.diagnostics import (
    connections,
    database,
    mail,
    models,
    settings,
    sign_in,
    tasks,
)
from chatapp.management.diagnostics.findings import Finding, report_wrong
from mcpconfig.management.database import explain_database_error
from mcpconfig.management.failures import Failure
from mcpconfig.management.operator_command import OperatorCommand
from mcpconfig.output.services import replace_controls


class Command(OperatorCommand):
    help = gettext_lazy("Check the installation and report problems.")
    # The system checks run in `check_settings`, whose findings are printed with all others.
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--connect", action="store_true", help=_("also test each service now"))
        parser.add_argument("--json", action="store_true", help=_("print JSON only"))

    def handle(self, *args: object, connect: bool, **options: Any) -> None:
        findings: list[Finding] = []
        for finding in run_diagnostics(connects=connect):
            findings.append(finding)
            if not options["json"]:
                self._print_finding(finding)
        faults = [finding for finding in findings if finding.state == "wrong"]
        report = {"ok": not faults, "findings": [asdict(finding) for finding in findings]}
        if faults:
            raise _make_failure(faults, report)
        if options["json"]:
            self.stdout.write(json.dumps(report, ensure_ascii=False))

    def _print_finding(self, finding: Finding) -> None:
        line = f"{finding.state:<9} {finding.subject}: {finding.message}"
        self.stdout.write(replace_controls(line))
        if finding.hint:
            self.stdout.write(replace_controls(f"          {finding.hint}"))


def run_diagnostics(*, connects: bool) -> Iterator[Finding]:
    """Yield all findings. Stored data is checked only if the database answers and is migrated."""
    yield from settings.check_settings()
    yield from settings.check_addresses()
    yield from settings.check_files()
    yield from connections.check_channel_layer()
    yield from mail.check_server()
    yield from sign_in.check_directory()
    database_findings = _run_on_database(database.check_database)
    yield from database_findings
    if all(finding.state == "good" for finding in database_findings[:2]):
        yield from _run_on_database(models.check_models)
        yield from _run_on_database(database.check_clock)
        yield from _run_on_database(connections.check_secrets)
        yield from _run_on_database(mail.check_addresses)
        yield from _run_on_database(tasks.check_tasks)
        yield from _run_on_database(partial(connections.check_services, connects=connects))


def _run_on_database(check: Callable[[], list[Finding]]) -> list[Finding]:
    try:
        return check()
    except Error as error:
        failure = explain_database_error(error)
        return [report_wrong(database.SUBJECT, failure.message, failure.hint)]


def _make_failure(faults: list[Finding], report: dict[str, Any]) -> Failure:
    subjects = ", ".join(dict.fromkeys(fault.subject for fault in faults))
    failure = Failure(
        "unwell",
        _("Problems with: %(subjects)s.") % {"subjects": subjects},
        faults[0].hint or _("See the report for what to do."),
    )
    failure.value |= report
    return failure
