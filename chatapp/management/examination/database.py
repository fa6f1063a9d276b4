"""Examines the database: whether it answers, is up to date, takes writes, keeps them, and agrees
with this process about the time."""

import uuid
from datetime import datetime, timedelta
from typing import Any

from django.contrib.sessions.models import Session
from django.db import Error, connection, transaction
from django.utils import timezone

from mcpconfig.management.database import pending_migrations, silent
from mcpconfig.management.failures import one_line

from .findings import Finding, doubtful, good, wrong

SUBJECT = "database"
WRITE_HINT = "Check the disk, and the rights of this user on the database and its folder."
MOST_SECONDS_APART = 2
SQLITE = {"journal_mode": "wal", "synchronous": 2}
POSTGRESQL = {"transaction_isolation": "read committed", "fsync": "on", "full_page_writes": "on"}
POSTGRESQL_HINT = "Set it in the server's postgresql.conf, or for this role."


def database() -> list[Finding]:
    """Without an answer there is nothing more to see."""
    try:
        pending = pending_migrations()
    except Error as error:
        failure = silent(error)
        return [wrong(SUBJECT, failure.message, failure.hint)]
    answers = good(SUBJECT, f"{connection.display_name} answers.")
    if pending:
        behind = f"It is not up to date: {len(pending)} migrations are missing."
        return [answers, wrong(SUBJECT, behind, "Run: manage.py migrate")]
    up_to_date = good(SUBJECT, "It is up to date.")
    return [answers, up_to_date, takes_writes(), *keeps_its_word()]


def takes_writes() -> Finding:
    """Writes a row and takes it back."""
    try:
        with transaction.atomic():
            Session.objects.create(
                session_key=uuid.uuid4().hex, session_data="", expire_date=timezone.now()
            )
            transaction.set_rollback(True)
    except Error as error:
        return wrong(SUBJECT, f"It takes no writes: {one_line(error)}", WRITE_HINT)
    return good(SUBJECT, "It takes writes.")


def keeps_its_word() -> list[Finding]:
    """Whether what is committed survives a crash, and transactions see what the program expects."""
    if connection.vendor == "sqlite":
        return [_sqlite(name, wanted) for name, wanted in SQLITE.items()]
    found = [_postgresql(name, wanted) for name, wanted in POSTGRESQL.items()]
    if _value("SHOW synchronous_commit") == "off":
        lost = "synchronous_commit is off: a crash can lose messages that were accepted."
        found.append(wrong(SUBJECT, lost, POSTGRESQL_HINT))
    return found


def _sqlite(name: str, wanted: object) -> Finding:
    is_value = _value(f"PRAGMA {name}")
    if is_value == wanted:
        return good(SUBJECT, f"{name} is {is_value}.")
    hint = "Put the file on a local disk that allows it; an in-memory database does not."
    return wrong(SUBJECT, f"{name} is {is_value}, not {wanted}.", hint)


def _postgresql(name: str, wanted: str) -> Finding:
    is_value = _value(f"SHOW {name}")
    if is_value == wanted:
        return good(SUBJECT, f"{name} is {is_value}.")
    return wrong(SUBJECT, f"{name} is {is_value}, not {wanted}.", POSTGRESQL_HINT)


def clock(now: datetime | None = None) -> list[Finding]:
    """Leases go by the database's clock, sign-ins and approvals by this machine's (`now`)."""
    here = now or timezone.now()
    apart = abs(_database_time() - here)
    seconds = round(apart.total_seconds(), 1)
    if apart <= timedelta(seconds=MOST_SECONDS_APART):
        return [good("clock", f"The database and this machine are {seconds} s apart.")]
    hint = "Let both take their time from the network (NTP)."
    if apart > timedelta(minutes=1):
        return [wrong("clock", f"The database and this machine are {seconds} s apart.", hint)]
    return [doubtful("clock", f"The database and this machine are {seconds} s apart.", hint)]


def _database_time() -> datetime:
    if connection.vendor == "sqlite":
        text = _value("SELECT strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now')")
        return datetime.fromisoformat(str(text))
    found: datetime = _value("SELECT clock_timestamp()")
    return found


def _value(query: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchone()[0]
