"""`approvals` for two people: the requester signs first, an approver second, each from a shell."""

import json
from collections.abc import Iterator

import pytest

from chatapp.demo.seed import seed
from chatapp.models import Approval, Note
from chatapp.providers import registry
from chatapp.server.database import close_threads
from tests import scripted
from tests.scripted import calls, text
from tests.turns.second_signers import member, two_sign

from .test_commands import DELETE, Shell, Told, of_type

pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
WORDS = "Nobody else reads this."


@pytest.fixture
def shell(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Shell]:
    monkeypatch.setitem(registry.PROVIDERS, "scripted", scripted.PROVIDER)
    scripted.scenes.clear()
    scripted.requests.clear()
    seed()
    Note.objects.update_or_create(title="Old ideas", defaults={"text": "Nothing of worth."})
    two_sign()
    for name, group in (("grace", "Staff"), ("ada", "Operations"), ("stranger", "Staff")):
        member(name, group)
    yield Shell(capsys)
    close_threads()


def asked(shell: Shell, *words: str) -> str:
    """The id of grace's call, which nobody or only she has signed."""
    scripted.scenes += [calls(DELETE), text(WORDS)]
    code, events = shell("chat", "Tidy", "--model", scripted.MODEL, "--user", "grace", *words)
    assert code == 3
    return str(events[-1]["for"][0]["id"])


def listed(shell: Shell, name: str) -> list[Told]:
    assert shell.code("approvals", "--json", "--user", name) == 0
    found: list[Told] = json.loads(shell.said()[0])
    return found


def test_the_requester_signs_first_and_still_waits(shell: Shell) -> None:
    call_id = asked(shell)
    assert [item["id"] for item in listed(shell, "grace")] == [call_id]
    assert listed(shell, "ada") == []
    code, events = shell("approvals", "approve", call_id, "--user", "grace")
    assert (code, events[-1]["type"]) == (3, "waiting")
    assert listed(shell, "grace") == []
    assert Note.objects.filter(title="Old ideas").exists()


def test_an_approver_finds_it_signs_it_and_reads_nothing_else(shell: Shell) -> None:
    call_id = asked(shell, "--approve", "all")
    (item,) = listed(shell, "ada")
    assert (item["id"], item["requester"], item["conversation"]) == (call_id, "grace", "")
    assert json.loads(item["arguments"]) == {"title": "Old ideas"}
    shell.code("approvals", "--user", "ada")
    assert f"{call_id}  second approval for grace  notebook_delete_note" in shell.said()[0]
    code, events = shell("approvals", "approve", call_id, "--user", "ada")
    assert code == 0
    assert of_type(events, "tool_call") == events
    assert events[-1]["state"] == "succeeded"
    assert WORDS not in json.dumps(events)
    assert not Note.objects.filter(title="Old ideas").exists()


def test_an_approver_says_no_with_a_word(shell: Shell) -> None:
    call_id = asked(shell, "--approve", "all")
    code, _events = shell("approvals", "deny", call_id, "--user", "ada", "--reason", "Keep it.")
    assert code == 0
    assert "Keep it." in scripted.requests[-1].history[-1].text  # type: ignore[union-attr]
    assert Note.objects.filter(title="Old ideas").exists()


@pytest.mark.parametrize("name", ["stranger", "grace"])
@pytest.mark.parametrize("answer", ["approve", "deny"])
def test_nobody_else_signs(shell: Shell, name: str, answer: str) -> None:
    call_id = asked(shell, "--approve", "all")
    if (name, answer) == ("grace", "deny"):
        answer = "approve"  # she may still take it back
    code, (told,) = shell("approvals", answer, call_id, "--user", name)
    assert code == 1
    assert told["error"]["kind"] == {"stranger": "not_found", "grace": "refused"}[name]
    assert Approval.objects.get().state == Approval.State.OPEN


@pytest.mark.parametrize("answer", [("resolve", "worked"), ("answer",), ("give",)])
def test_an_approver_has_no_other_say(shell: Shell, answer: tuple[str, ...]) -> None:
    call_id = asked(shell, "--approve", "all")
    code, (told,) = shell("approvals", answer[0], call_id, *answer[1:], "--user", "ada")
    assert (code, told["error"]["kind"]) == (1, "not_found")
