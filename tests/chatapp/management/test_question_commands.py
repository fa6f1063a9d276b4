"""`approvals answer`: a service's question answered from a shell."""

import json
from collections.abc import Iterator

import pytest

from chatapp.models import ToolCall
from chatapp.providers import registry
from chatapp.server.database import close_threads
from tests import scripted
from tests.peers.questioner import QuestionLog, application
from tests.peers.serving import Served
from tests.scripted import calls, text
from tests.turns.acts import create_offered_service

from .test_commands import Shell

pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
GREET = ("asker_greet", '{"greeting": "Hello"}')
ERASE = ("asker_erase", "{}")


@pytest.fixture
def diary(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[QuestionLog]:
    monkeypatch.setitem(registry.PROVIDERS, "scripted", scripted.PROVIDER)
    scripted.scenes.clear()
    scripted.requests.clear()
    diary = QuestionLog()
    with Served(application(diary, "modern")) as served:
        create_offered_service("asker", served.url, "greet", "erase", title="The asker")
        yield diary
    close_threads()


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


def asked(shell: Shell, call: tuple[str, str] = GREET) -> str:
    scripted.scenes += [calls(call), text("So it is.")]
    code, events = shell("chat", "Greet somebody", "--model", scripted.MODEL)
    assert code == 3
    (waits,) = events[-1]["for"]
    assert waits["kind"] == "question"
    return str(waits["id"])


def test_an_answer_moves_the_turn_to_its_end(shell: Shell, diary: QuestionLog) -> None:
    code, events = shell("approvals", "answer", asked(shell), '{"name": "Ada"}')
    assert (code, events[-1]) == (0, {"type": "done", "reason": "complete"})
    assert diary.entries == ["greeted Ada"]


def test_what_is_asked_is_listed(shell: Shell, diary: QuestionLog) -> None:
    call_id = asked(shell)
    assert shell.code("approvals", "--json") == 0
    (listed,) = json.loads(shell.said()[0])
    assert (listed["id"], listed["kind"]) == (call_id, "question")
    assert listed["asks"][0]["message"] == "Whom shall I greet?"


@pytest.mark.parametrize("values", ['{"name": "A"}', "{}", '{"name": "Ada", "more": 1}', "[]", "x"])
def test_what_does_not_fit_is_refused_and_can_be_given_again(
    shell: Shell, diary: QuestionLog, values: str
) -> None:
    call_id = asked(shell)
    assert shell.code("approvals", "answer", call_id, values) == 1
    assert ToolCall.objects.get().state == ToolCall.State.AWAITING_INPUT
    shell("approvals", "answer", call_id, '{"name": "Ada"}')
    assert diary.entries == ["greeted Ada"]


def test_two_forms_are_filled_in_together(shell: Shell, diary: QuestionLog) -> None:
    code, _ = shell("approvals", "answer", asked(shell, ERASE), '{"name": "Ada", "sure": true}')
    assert (code, diary.entries) == (0, ["erased Ada: True"])


def test_a_no_is_told_to_the_service(shell: Shell, diary: QuestionLog) -> None:
    code, _ = shell("approvals", "answer", asked(shell), "--decline")
    assert (code, diary.entries) == (0, [])


def test_a_call_that_asks_nothing_cannot_be_answered(shell: Shell, diary: QuestionLog) -> None:
    call_id = asked(shell)
    shell("approvals", "answer", call_id, "--cancel")
    assert shell.code("approvals", "answer", call_id) == 1
