"""`manage.py log`: the log checked, read and taken out, and files of evidence checked anywhere."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chatapp.audit import audit_log, evidence
from chatapp.journal import journal
from chatapp.models import LogEntry, Member, Turn
from chatapp.models.policy import audit_log_guards
from tests.commands import Ran
from tests.turns import rows

pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True)]
File = dict[str, Any]


@pytest.fixture
def turn(owner: Member, stranger: Member) -> Iterator[Turn]:
    """A denied call of the owner's between calls of somebody else."""
    mine = rows.turn(owner)
    for turn in (rows.turn(stranger), mine, rows.turn(stranger)):
        call = rows.question(turn, {"title": "Old ideas"}, why="It is a high risk.")
        journal.append_call(turn, call.pk, "awaiting_approval")
        call.approval.state, call.approval.decided_by = "denied", turn.conversation.owner
        call.approval.decided_at = timezone.now()
        call.approval.save()
        journal.append_call(turn, call.pk, "denied")
    audit_log_guards.install(connection)
    yield mine
    audit_log_guards.remove(connection)


def test_verify_prints_the_end_that_can_be_written_down(turn: Turn) -> None:
    ran = Ran("log", "verify")
    end = audit_log.read_end()
    assert ran.code == 0
    assert f"{end.position}:{end.hash}" in ran.out
    assert Ran("log", "verify", "--head", f"{end.position}:{end.hash}").code == 0


def test_verify_names_the_first_broken_position_and_fails(turn: Turn) -> None:
    audit_log_guards.remove(connection)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE chatapp_logentry SET kind = 'call.ended' WHERE position = 3")
    ran = Ran("log", "verify")
    assert (ran.code, "Entry 3: The entry was changed." in ran.err) == (1, True)


def test_verify_misses_the_guards_and_guard_puts_them_back(turn: Turn) -> None:
    assert Ran("log", "verify").code == 0
    audit_log_guards.remove(connection)
    ran = Ran("log", "verify")
    assert (ran.code, "log_refuses_delete" in ran.err) == (1, True)
    assert Ran("log", "guard").code == 0
    assert Ran("log", "verify").code == 0
    assert audit_log_guards.list_missing(connection) == []


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (["verify", "--head", "7"], "POSITION:HASH"),
        (["export", "--since", "yesterday"], "not a date"),
        (["export", "--since", "2026-13-45"], "not a date"),
        (["export", "--conversation", "x"], "not the id of a chat"),
        (["export", "--person", "nobody"], "no entries about"),
        (["evidence", "x"], "not the id of a chat"),
        (["verify", "--file", "pyproject.toml"], "not a file of evidence"),
    ],
)
def test_what_cannot_be_meant_is_said(turn: Turn, words: list[str], wrong: str) -> None:
    ran = Ran("log", *words)
    assert (ran.code, wrong in ran.err) == (1, True), ran.err


def test_export_is_narrowed_and_each_line_is_an_entry_with_its_chain(turn: Turn) -> None:
    def exported(*words: str) -> list[File]:
        return [json.loads(line) for line in Ran("log", "export", *words).out.splitlines()]

    whole = exported()
    assert [entry["position"] for entry in whole] == list(
        range(1, audit_log.read_end().position + 1)
    )
    assert all(b["previous"] == a["hash"] for a, b in zip(whole, whole[1:], strict=False))
    chat = str(turn.conversation_id)
    mine = exported("--conversation", chat)
    assert [entry["kind"] for entry in mine] == ["call.decided", "approval.denied", "call.ended"]
    assert {entry["person"]["name"] for entry in exported("--person", "owner")} == {"owner"}
    assert exported("--since", "2001-01-01") == whole
    assert exported("--since", "2100-01-01T00:00:00") == []


def test_the_log_of_a_person_who_is_gone_can_still_be_read(turn: Turn, owner: Member) -> None:
    owner.delete()
    assert '"name": "owner"' in Ran("log", "export", "--person", "owner").out


@pytest.fixture
def file(turn: Turn, tmp_path: Path) -> Path:
    path = tmp_path / "evidence.json"
    path.write_text(Ran("log", "evidence", str(turn.conversation_id)).out)
    return path


def test_evidence_holds_one_conversation_and_of_others_only_digests(file: Path) -> None:
    text = file.read_text()
    taken: File = json.loads(text)
    assert "stranger" not in text
    entries = [link["entry"] for link in taken["chain"] if "entry" in link]
    assert [entry["kind"] for entry in entries] == ["call.decided", "approval.denied", "call.ended"]
    assert len(taken["chain"]) > len(entries)
    (approval,) = taken["approvals"]
    assert (approval["as"], approval["decided_by"], approval["state"]) == (
        "owner",
        "owner",
        "denied",
    )
    assert approval["arguments"] == '{"title": "Old ideas"}'
    assert taken["head"] == {
        "position": audit_log.read_end().position,
        "hash": audit_log.read_end().hash,
    }


@pytest.mark.parametrize("number", [1, 2, 3])
def test_evidence_in_pieces_is_the_same(
    file: Path, turn: Turn, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "LINKS_AT_ONCE", number)
    taken = json.loads(Ran("log", "evidence", str(turn.conversation_id)).out)
    assert taken["chain"] == json.loads(file.read_text())["chain"]
    assert evidence.find_break(taken) is None


def test_entries_are_read_when_their_piece_is_asked_for(turn: Turn, file: Path) -> None:
    pieces = evidence.write_evidence(evidence.read_evidence(turn.conversation_id))
    with CaptureQueriesContext(connection) as captured:
        assert '"chain": [' in next(pieces)
        assert not captured.captured_queries
        next(pieces)
        assert len(captured.captured_queries) == 1


def test_evidence_is_checked_without_the_log_it_is_of(file: Path) -> None:
    end = audit_log.read_end()
    audit_log_guards.remove(connection)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM chatapp_logentry")
    ran = Ran("log", "verify", "--file", str(file), "--head", f"{end.position}:{end.hash}")
    assert (ran.code, f"{end.position}:{end.hash}" in ran.out) == (0, True), ran.err
    other = Ran("log", "verify", "--file", str(file), "--head", f"{end.position}:{'0' * 64}")
    assert (other.code, "the saved one" in other.err) == (1, True)


def entry_of(taken: File) -> dict[str, Any]:
    entry: dict[str, Any] = next(link["entry"] for link in taken["chain"] if "entry" in link)
    return entry


def other_words(taken: File) -> None:
    entry_of(taken)["data"]["reason"] = "An admin allowed it."


def other_time(taken: File) -> None:
    entry_of(taken)["at"] = "2020-01-01T00:00:00.000000Z"


def left_out(taken: File) -> None:
    taken["chain"].pop(0)


def other_end(taken: File) -> None:
    taken["head"]["hash"] = "a" * 64


def other_arguments_on_the_card(taken: File) -> None:
    taken["approvals"][0]["arguments_hash"] = "a" * 64


def other_binding_on_the_card(taken: File) -> None:
    taken["approvals"][0]["binding"] = "a" * 64


@pytest.mark.parametrize(
    "tamper",
    [
        other_words,
        other_time,
        left_out,
        other_end,
        other_arguments_on_the_card,
        other_binding_on_the_card,
    ],
)
def test_evidence_that_was_changed_is_found_out(file: Path, tamper: Callable[[File], None]) -> None:
    taken = json.loads(file.read_text())
    tamper(taken)
    file.write_text(json.dumps(taken))
    ran = Ran("log", "verify", "--file", str(file))
    assert (ran.code, "broken_log" in ran.err) == (1, True), ran.out


def test_the_check_in_the_documentation_works(file: Path) -> None:
    """Whoever has the file needs nothing of ours to check it."""
    words = Path("docs/log.md").read_text()
    program = words.partition("```python\n")[2].partition("```")[0]
    known: dict[str, Any] = {}
    exec(program, known)  # noqa: S102  our own words
    assert known["is_whole"](json.loads(file.read_text()))
    taken = json.loads(file.read_text())
    other_words(taken)
    assert not known["is_whole"](taken)


def test_the_log_says_nothing_of_a_conversation_without_entries(turn: Turn, owner: Member) -> None:
    quiet = rows.turn(owner, text="Quiet").conversation_id
    assert LogEntry.objects.filter(conversation_id=quiet).count() == 0
    taken = json.loads(Ran("log", "evidence", str(quiet)).out)
    assert (taken["chain"], taken["approvals"]) == ([], [])
