"""Checks of the database: connection, migrations, writes, durability and clock."""

import uuid
from datetime import datetime, timedelta
from typing import Any

from django.contrib.sessions.models import Session
from django.db import Error, connection, transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from mcpconfig.management.database import explain_no_answer, list_pending_migrations
from mcpconfig.management.failures import get_first_line

from .findings import Finding, report_doubtful, report_good, report_wrong

SUBJECT = "database"
WRITE_HINT = gettext_lazy("Check the disk, and this user’s rights on the database and its folder.")
MAX_CLOCK_DIFFERENCE_SECONDS = 2
SQLITE = {"journal_mode": "wal", "synchronous": 2}
POSTGRESQL = {"transaction_isolation": "read committed", "fsync": "on", "full_page_writes": "on"}
POSTGRESQL_HINT = gettext_lazy("Set it in the server’s postgresql.conf, or for this role.")


def check_database() -> list[Finding]:
    """Check the database. If it does not answer, skip the other checks."""
    try:
        pending = list_pending_migrations()
    except Error as error:
        failure = explain_no_answer(error)
        return [report_wrong(SUBJECT, failure.message, failure.hint)]
    connected = report_good(
        SUBJECT, _("%(database)s answers.") % {"database": connection.display_name}
    )
    if pending:
        problem = _("It is not up to date: %(count)s migrations are missing.") % {
            "count": len(pending)
        }
        return [
            connected,
            report_wrong(
                SUBJECT, problem, _("Run: %(command)s") % {"command": "manage.py migrate"}
            ),
        ]
    up_to_date = report_good(SUBJECT, _("It is up to date."))
    return [connected, up_to_date, check_writes(), *check_durability()]


def check_writes() -> Finding:
    """Check that a row can be written, in a transaction that is rolled back."""
    try:
        with transaction.atomic():
            Session.objects.create(
                session_key=uuid.uuid4().hex, session_data="", expire_date=timezone.now()
            )
            transaction.set_rollback(True)
    except Error as error:
        return report_wrong(
            SUBJECT,
            _("It refuses writes: %(reason)s") % {"reason": get_first_line(error)},
            str(WRITE_HINT),
        )
    return report_good(SUBJECT, _("It accepts writes."))


def check_durability() -> list[Finding]:
    """Check the settings for durability and for the isolation of transactions."""
    if connection.vendor == "sqlite":
        return [_check_sqlite(name, expected) for name, expected in SQLITE.items()]
    findings = [_check_postgresql(name, expected) for name, expected in POSTGRESQL.items()]
    if _query_value("SHOW synchronous_commit") == "off":
        problem = _("synchronous_commit is off, so a crash can lose accepted messages.")
        findings.append(report_wrong(SUBJECT, problem, str(POSTGRESQL_HINT)))
    return findings


def _check_sqlite(name: str, expected: object) -> Finding:
    value = _query_value(f"PRAGMA {name}")
    if value == expected:
        return report_good(SUBJECT, _("%(name)s is %(value)s.") % {"name": name, "value": value})
    hint = _("Put the file on a local disk that supports it. An in-memory database does not.")
    return report_wrong(
        SUBJECT,
        _("%(name)s is %(value)s, not %(expected)s.")
        % {"name": name, "value": value, "expected": expected},
        hint,
    )


def _check_postgresql(name: str, expected: str) -> Finding:
    value = _query_value(f"SHOW {name}")
    if value == expected:
        return report_good(SUBJECT, _("%(name)s is %(value)s.") % {"name": name, "value": value})
    return report_wrong(
        SUBJECT,
        _("%(name)s is %(value)s, not %(expected)s.")
        % {"name": name, "value": value, "expected": expected},
        str(POSTGRESQL_HINT),
    )


def check_clock(now: datetime | None = None) -> list[Finding]:
    """Compare the clocks of the database and of this machine (`now`).

    Leases use the clock of the database; sign-ins and approvals use the one of this machine.
    """
    local_time = now or timezone.now()
    difference = abs(_get_database_time() - local_time)
    seconds = round(difference.total_seconds(), 1)
    if difference <= timedelta(seconds=MAX_CLOCK_DIFFERENCE_SECONDS):
        return [
            report_good(
                "clock",
                _("The clocks of the database and this machine differ by %(seconds)s s.")
                % {"seconds": seconds},
            )
        ]
    hint = _("Set both clocks from the network (NTP).")
    if difference > timedelta(minutes=1):
        return [
            report_wrong(
                "clock",
                _("The clocks of the database and this machine differ by %(seconds)s s.")
                % {"seconds": seconds},
                hint,
            )
        ]
    return [
        report_doubtful(
            "clock",
            _("The clocks of the database and this machine differ by %(seconds)s s.")
            % {"seconds": seconds},
            hint,
        )
    ]


def _get_database_time() -> datetime:
    if connection.vendor == "sqlite":
        text = _query_value("SELECT strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now')")
        return datetime.fromisoformat(str(text))
    time: datetime = _query_value("SELECT clock_timestamp()")
    return time


def _query_value(query: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchone()[0]
