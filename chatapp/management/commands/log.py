"""`manage.py log`: whether the log is whole, what is in it, the evidence of one conversation."""

import json
import uuid
from argparse import ArgumentParser
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.db import connection
from django.db.models import Q
from django.utils.dateparse import parse_date, parse_datetime

from chatapp.models import LogEntry, Member, log_guards
from chatapp.turns import evidence, log
from chatapp.turns.chain import Mark, exported
from mcpconfig.management.ending import OperatorCommand
from mcpconfig.management.failures import Failure

WRITE_DOWN = "Write this line down where nobody who may write to this database can change it."
GUARDS = "The database does not refuse changes to the log: {} is missing. `manage.py log guard`."


class Command(OperatorCommand):
    help = "Check the log, read it, or take the evidence of one conversation out of it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        verify = verbs.add_parser("verify", help="Is the log, or a file of evidence, whole?")
        verify.add_argument("--file", type=Path, help="evidence instead of this database's log")
        verify.add_argument(
            "--head",
            action="append",
            default=[],
            metavar="POSITION:HASH",
            help="an end of the log that was written down; may be given more than once",
        )
        export = verbs.add_parser("export", help="Entries as JSON, one a line.")
        export.add_argument("--since", metavar="DATE", help="from this day or moment (UTC) on")
        export.add_argument("--conversation", metavar="ID")
        export.add_argument("--person", metavar="NAME", help="what they did or were concerned by")
        proof = verbs.add_parser("evidence", help="One conversation's entries, and their proof.")
        proof.add_argument("conversation", metavar="ID")
        verbs.add_parser("guard", help="Make the database refuse changes to the log again.")

    def handle(self, *args: Any, verb: str, **options: Any) -> None:
        match verb:
            case "verify" if options["file"]:
                self._verify_file(options["file"], [mark_of(text) for text in options["head"]])
            case "verify":
                self._verify([mark_of(text) for text in options["head"]])
            case "export":
                self._export(options)
            case "evidence":
                made = evidence.of_conversation(conversation_of(options["conversation"]))
                self.stdout.write(evidence.as_text(made), ending="")
            case _:
                log_guards.install(connection)
                self.stdout.write("The database refuses changes to the log.")

    def _verify(self, known: list[Mark]) -> None:
        mark, why = log.verify(known)
        if why:
            raise broken(mark.position, why)
        if missing := log_guards.missing(connection):
            self.stderr.write(GUARDS.format(", ".join(missing)))
        self.stdout.write(f"The log is whole. Its last entry is {mark.position}:")
        self.stdout.write(f"{mark.position}:{mark.hash}")
        self.stdout.write(WRITE_DOWN)

    def _verify_file(self, file: Path, known: list[Mark]) -> None:
        """The marks show whether the file was made of the log that they are of."""
        try:
            taken = json.loads(file.read_text(encoding="utf-8"))
            found = evidence.first_break(taken, known)
            head = taken["head"]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Failure("refused", f"{file} is not a file of evidence.") from error
        if found is not None:
            raise broken(found.position, found.why)
        self.stdout.write("The evidence is whole. It stands in the log that ends with:")
        self.stdout.write(f"{head['position']}:{head['hash']}")

    def _export(self, options: dict[str, Any]) -> None:
        narrowed: dict[str, Any] = {}
        if options["since"]:
            narrowed["at__gte"] = moment_of(options["since"])
        if options["conversation"]:
            narrowed["conversation_id"] = conversation_of(options["conversation"])
        for entry in log.entries(concerning(options["person"]), **narrowed):
            self.stdout.write(json.dumps(exported(entry), ensure_ascii=False))


def broken(position: int, why: str) -> Failure:
    hint = "Compare with a backup from before; until then trust nothing from there on."
    value = {"position": position, "why": why}
    return Failure("broken_log", f"Entry {position}: {why}", hint, value=value)


def concerning(name: str | None) -> Q:
    """What this person did or what was theirs, also under a name that is gone."""
    if name is None:
        return Q()
    named = Q(actor_name=name) | Q(person_name=name)
    member = Member.objects.filter(username=name).first()
    if member is not None:
        named |= Q(actor_id=member.pk) | Q(person_id=member.pk)
    elif not LogEntry.objects.filter(named).exists():
        raise Failure("not_found", f"The log has nothing about anybody named {name!r}.")
    return named


def mark_of(text: str) -> Mark:
    position, _colon, written = text.partition(":")
    if not position.isdecimal() or len(written) != 64:
        raise Failure("refused", f"{text!r} is not POSITION:HASH.", "`log verify` prints it so.")
    return Mark(position=int(position), hash=written)


def conversation_of(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError as error:
        raise Failure("not_found", f"{text!r} is not the id of a chat.") from error


def moment_of(text: str) -> datetime:
    """A moment, or the beginning of a day; UTC where it does not say."""
    try:
        day = parse_date(text)
        found = parse_datetime(text) if day is None else datetime(day.year, day.month, day.day)
    except ValueError:
        found = None
    if found is None:
        raise Failure("refused", f"{text!r} is not a date.", "Write it as 2026-11-30.")
    return found if found.tzinfo else found.replace(tzinfo=UTC)
