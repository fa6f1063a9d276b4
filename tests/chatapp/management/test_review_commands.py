"""`approvals give` and `hold-back`: results that the assistant has not seen, from a shell."""

import json
from collections.abc import Iterator

import pytest

from chatapp.demo.seed import seed
from chatapp.models import Note, Review
from chatapp.providers import registry
from chatapp.server.database import close_threads
from mcpconfig.models import ToolSetting
from tests import scripted
from tests.scripted import calls, text
from tests.turns.acts import READ, read_last_outcome

from .test_commands import Shell

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
SECRET = "The safe has the number 4711."


@pytest.fixture
def shell(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Shell]:
    monkeypatch.setitem(registry.PROVIDERS, "scripted", scripted.PROVIDER)
    scripted.scenes.clear()
    scripted.requests.clear()
    seed()
    Note.objects.update_or_create(title="Old ideas", defaults={"text": SECRET})
    ToolSetting.objects.filter(name="read_note").update(wants_review=True)
    yield Shell(capsys)
    close_threads()


def held(shell: Shell) -> str:
    """The id of a call whose result nobody has looked at."""
    scripted.scenes += [calls(READ), text("So it is.")]
    code, events = shell("chat", "Read it", "--model", scripted.MODEL)
    assert code == 3
    (waits,) = events[-1]["for"]
    assert waits["kind"] == "review"
    return str(waits["id"])


def test_a_result_that_waits_is_listed_with_what_it_says(shell: Shell) -> None:
    call_id = held(shell)
    assert shell.code("approvals", "--json") == 0
    (listed,) = json.loads(shell.said()[0])
    assert (listed["id"], listed["kind"], listed["state"]) == (call_id, "review", "succeeded")
    assert SECRET in str(listed["content"])
    assert listed["expires_at"]
    shell.code("approvals")
    assert "not shown to the assistant" in shell.said()[0]


@pytest.mark.parametrize(("word", "is_told"), [("give", True), ("hold-back", False)])
def test_the_word_moves_the_turn_to_its_end(shell: Shell, word: str, is_told: bool) -> None:
    code, events = shell("approvals", word, held(shell))
    assert (code, events[-1]) == (0, {"type": "done", "reason": "complete"})
    assert (SECRET in read_last_outcome()) is is_told


def test_a_word_to_the_assistant_goes_along(shell: Shell) -> None:
    shell("approvals", "hold-back", held(shell), "--reason", "Not this one.")
    assert "Not this one." in read_last_outcome()


def test_a_second_word_is_refused(shell: Shell) -> None:
    call_id = held(shell)
    shell("approvals", "hold-back", call_id)
    assert shell.code("approvals", "give", call_id) == 1
    assert Review.objects.get().state == Review.State.HELD_BACK


def test_a_stranger_gives_nothing(shell: Shell) -> None:
    call_id = held(shell)
    shell.code("member", "add", "stranger", "--password-env", "HOME")
    assert shell.code("approvals", "give", call_id, "--user", "stranger") == 1
    assert Review.objects.get().state == Review.State.OPEN
