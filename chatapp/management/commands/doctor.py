"""`manage.py doctor`: looks at the whole installation and says in words what is wrong with it."""

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from typing import Any

from django.db import Error

from chatapp.management.examination import connections, database, mail, models, settings
from chatapp.management.examination.findings import Finding, wrong
from mcpconfig.console import printable
from mcpconfig.management.database import failure_of_database
from mcpconfig.management.ending import OperatorCommand
from mcpconfig.management.failures import Failure


class Command(OperatorCommand):
    help = "Look at the installation: what is in order, what is doubtful, what is wrong."
    # What they find is shown beside all the rest.
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--connect", action="store_true", help="also try each service now")
        parser.add_argument("--json", action="store_true", help="print JSON only")

    def handle(self, *args: object, connect: bool, **options: Any) -> None:
        findings: list[Finding] = []
        for finding in examined(connects=connect):
            findings.append(finding)
            if not options["json"]:
                self._show(finding)
        faults = [finding for finding in findings if finding.state == "wrong"]
        value = {"ok": not faults, "findings": [asdict(finding) for finding in findings]}
        if faults:
            raise _unwell(faults, value)
        if options["json"]:
            self.stdout.write(json.dumps(value, ensure_ascii=False))

    def _show(self, finding: Finding) -> None:
        line = f"{finding.state:<9} {finding.subject}: {finding.message}"
        self.stdout.write(printable(line))
        if finding.hint:
            self.stdout.write(printable(f"          {finding.hint}"))


def examined(*, connects: bool) -> Iterator[Finding]:
    """All findings. What is in the database is looked at only where there is one in order."""
    yield from settings.settings()
    yield from settings.addresses()
    yield from settings.files()
    yield from connections.layer()
    yield from mail.server()
    of_database = _unless_refused(database.database)
    yield from of_database
    if all(finding.state == "good" for finding in of_database[:2]):
        yield from _unless_refused(models.models)
        yield from _unless_refused(database.clock)
        yield from _unless_refused(connections.secrets)
        yield from _unless_refused(mail.addresses)
        yield from _unless_refused(partial(connections.services, connects=connects))


def _unless_refused(examination: Callable[[], list[Finding]]) -> list[Finding]:
    try:
        return examination()
    except Error as error:
        failure = failure_of_database(error)
        return [wrong(database.SUBJECT, failure.message, failure.hint)]


def _unwell(faults: list[Finding], value: dict[str, Any]) -> Failure:
    subjects = ", ".join(dict.fromkeys(fault.subject for fault in faults))
    failure = Failure(
        "unwell", f"Wrong: {subjects}.", faults[0].hint or "The report says what to do."
    )
    failure.value |= value
    return failure
