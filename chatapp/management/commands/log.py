"""`manage.py log`: verify and export the audit log, and export the evidence of a conversation."""

import json
import uuid
from argparse import ArgumentParser
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.db import connection
from django.db.models import Q
from django.utils.dateparse import parse_date, parse_datetime
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.audit import anchors, audit_log, evidence
from chatapp.audit.hash_chain import Mark, export_entry
from chatapp.models import LogEntry, Member
from chatapp.models.policy import audit_log_guards
from mcpconfig.management.failures import Failure
from mcpconfig.management.operator_command import OperatorCommand

SAVE_THIS_LINE = gettext_lazy(
    "Save this line in a place that nobody with write access to this database can change."
)
GUARDS_MISSING = gettext_lazy(
    "The log is intact, but the database does not refuse changes to it. Missing: %(names)s."
)


class Command(OperatorCommand):
    help = gettext_lazy(
        "Verify the activity log, export it, or export the evidence of one conversation."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        verify = verbs.add_parser("verify", help=_("Verify the log, or a file of evidence."))
        verify.add_argument(
            "--file", type=Path, help=_("a file of evidence, instead of this database’s log")
        )
        verify.add_argument(
            "--head",
            action="append",
            default=[],
            metavar="POSITION:HASH",
            help=_("a saved last entry of the log; repeatable"),
        )
        verify.add_argument(
            "--anchor", type=Path, metavar="FILE", help=_("a file of saved anchors")
        )
        verify.add_argument(
            "--public-key",
            action="append",
            default=[],
            metavar="KEY",
            help=_("a further key that signed anchors; repeatable"),
        )
        anchor = verbs.add_parser("anchor", help=_("Write a signed anchor of the log now."))
        anchor.add_argument(
            "--public-key",
            action="store_true",
            help=_("only print the key that verifies anchors"),
        )
        export = verbs.add_parser("export", help=_("Entries as JSON, one per line."))
        export.add_argument("--since", metavar="DATE", help=_("from this day or moment (UTC)"))
        export.add_argument("--conversation", metavar="ID")
        export.add_argument("--person", metavar="NAME", help=_("entries by or about this person"))
        proof = verbs.add_parser("evidence", help=_("One conversation’s entries, with proof."))
        proof.add_argument("conversation", metavar="ID")
        verbs.add_parser("guard", help=_("Make the database refuse changes to the log again."))

    def handle(self, *args: Any, verb: str, **options: Any) -> None:
        match verb:
            case "verify" if options["file"]:
                self._verify_file(options["file"], load_marks(options))
            case "verify":
                self._verify_log(load_marks(options))
            case "anchor" if options["public_key"]:
                self.stdout.write(anchors.format_public_key())
            case "anchor":
                self._write_anchor()
            case "export":
                self._export(options)
            case "evidence":
                chat = parse_conversation_id(options["conversation"])
                for piece in evidence.write_evidence(evidence.read_evidence(chat)):
                    self.stdout.write(piece, ending="")
            case _:
                audit_log_guards.install(connection)
                self.stdout.write(_("The database refuses changes to the log."))

    def _verify_log(self, marks: list[Mark]) -> None:
        mark, why = audit_log.verify(marks)
        if why:
            raise make_failure(mark.position, why)
        if missing := audit_log_guards.list_missing(connection):
            hint = _("Find out who removed them, then run: %(command)s") % {
                "command": "manage.py log guard"
            }
            value = {"missing": missing}
            problem = GUARDS_MISSING % {"names": ", ".join(missing)}
            raise Failure("unguarded_log", problem, hint, value=value)
        self.stdout.write(
            _("The log is intact. Its last entry is %(position)s:") % {"position": mark.position}
        )
        self.stdout.write(f"{mark.position}:{mark.hash}")
        self.stdout.write(str(SAVE_THIS_LINE))

    def _write_anchor(self) -> None:
        anchor = anchors.make_anchor()
        self.stdout.write(anchor)
        if failures := anchors.write_anchor(anchor):
            raise Failure("not_written", " ".join(failures), _("Check LOG_ANCHORS."))

    def _verify_file(self, file: Path, marks: list[Mark]) -> None:
        """Verify a file of evidence, also against marks of the log that were written down."""
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            broken = evidence.find_break(content, marks)
            head = content["head"]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Failure(
                "refused", _("%(file)s is not a file of evidence.") % {"file": file}
            ) from error
        if broken is not None:
            raise make_failure(broken.position, broken.why)
        self.stdout.write(_("The evidence is intact. It belongs to the log that ends with:"))
        self.stdout.write(f"{head['position']}:{head['hash']}")

    def _export(self, options: dict[str, Any]) -> None:
        filters: dict[str, Any] = {}
        if options["since"]:
            filters["at__gte"] = parse_moment(options["since"])
        if options["conversation"]:
            filters["conversation_id"] = parse_conversation_id(options["conversation"])
        for entry in audit_log.iter_entries(filter_by_person(options["person"]), **filters):
            self.stdout.write(json.dumps(export_entry(entry), ensure_ascii=False))


def make_failure(position: int, why: str) -> Failure:
    hint = _(
        "Compare it with an earlier backup. Until then, do not trust this entry and later ones."
    )
    value = {"position": position, "why": why}
    return Failure(
        "broken_log",
        _("Entry %(position)s: %(reason)s") % {"position": position, "reason": why},
        hint,
        value=value,
    )


def filter_by_person(name: str | None) -> Q:
    """Return a filter for entries by or about this person, who may have been deleted."""
    if name is None:
        return Q()
    by_person = Q(actor_name=name) | Q(person_name=name)
    member = Member.objects.filter(username=name).first()
    if member is not None:
        by_person |= Q(actor_id=member.pk) | Q(person_id=member.pk)
    elif not LogEntry.objects.filter(by_person).exists():
        raise Failure("not_found", _("The log has no entries about “%(name)s”.") % {"name": name})
    return by_person


def load_marks(options: dict[str, Any]) -> list[Mark]:
    """Return what was written down of the log: ends on the command line, and anchors in a file."""
    marks = [parse_mark(text) for text in options["head"]]
    if file := options["anchor"]:
        keys = [
            anchors.get_public_key(),
            *(anchors.parse_public_key(key) for key in options["public_key"]),
        ]
        try:
            with file.open(encoding="utf-8") as lines:
                found = list(anchors.read_anchors(lines, keys))
        except anchors.BadAnchor as error:
            hint = _(
                "The file was changed, or another server signed it. In that case, pass that "
                "server’s key with --public-key."
            )
            raise Failure("bad_anchor", f"{file}: {error}", hint) from error
        except (OSError, UnicodeDecodeError) as error:
            raise Failure(
                "refused",
                _("%(file)s can’t be read: %(reason)s.") % {"file": file, "reason": error},
            ) from error
        if not found:
            raise Failure(
                "refused",
                _("%(file)s has no anchor.") % {"file": file},
                _("To write one, run `manage.py log anchor`."),
            )
        marks += found
    return marks


def parse_mark(text: str) -> Mark:
    position, _colon, hash_ = text.partition(":")
    if not position.isdecimal() or len(hash_) != 64:
        raise Failure(
            "refused",
            _("“%(text)s” is not POSITION:HASH.") % {"text": text},
            _("Copy it from the output of `manage.py log verify`."),
        )
    return Mark(position=int(position), hash=hash_)


def parse_conversation_id(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError as error:
        raise Failure(
            "not_found", _("“%(text)s” is not the id of a chat.") % {"text": text}
        ) from error


def parse_moment(text: str) -> datetime:
    """Parse a date as the start of its day, or a date with a time. The default zone is UTC."""
    try:
        day = parse_date(text)
        moment = parse_datetime(text) if day is None else datetime(day.year, day.month, day.day)
    except ValueError:
        moment = None
    if moment is None:
        raise Failure(
            "refused",
            _("“%(text)s” is not a date.") % {"text": text},
            _("Write it as 2026-11-30."),
        )
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
