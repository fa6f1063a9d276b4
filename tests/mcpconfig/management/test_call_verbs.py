"""`manage.py mcp call` where the service asks or takes its time, and `manage.py mcp task`."""

from collections.abc import Iterator

import pytest

from tests.mcp_command import Ran
from tests.peers import errands as errand_server
from tests.peers import questioner as questioning_server
from tests.peers.errands import FORM, Errands
from tests.peers.questioner import QuestionLog
from tests.peers.serving import Served

pytestmark = [pytest.mark.gate, pytest.mark.timeout(30)]

CALL = ("call", "asker", "greet", '{"greeting": "Hello"}')


@pytest.fixture
def diary() -> QuestionLog:
    return QuestionLog()


@pytest.fixture(params=["modern", "handshake"])
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def asker(diary: QuestionLog, era: str) -> Iterator[Served]:
    application = questioning_server.application(
        diary, "modern" if era == "modern" else "handshake"
    )
    with Served(application) as served:
        assert Ran("add", "asker", served.url, "--allow-private").code == 0
        yield served


@pytest.fixture
def errands() -> Iterator[Errands]:
    kept = Errands()
    with Served(errand_server.application(kept)) as served:
        assert Ran("add", "runner", served.url, "--allow-private").code == 0
        yield kept


@pytest.mark.parametrize("era", ["modern"], indirect=True)
def test_a_question_is_printed_and_the_command_waits_for_a_person(
    asker: Served, diary: QuestionLog
) -> None:
    asked = Ran(*CALL, "--json")

    assert asked.code == 3
    assert asked.json["outcome"] == "waiting"
    (question,) = asked.json["for"]
    assert (question["kind"], question["message"]) == ("question", "Whom shall I greet?")
    assert question["schema"]["required"] == ["name"]
    said = Ran(*CALL).out
    assert "Whom shall I greet?" in said
    assert f"--answer '{question['key']}=" in said
    assert diary.entries == []


def test_a_call_goes_on_with_the_answer_that_was_given(
    asker: Served, diary: QuestionLog, era: str
) -> None:
    key = "1" if era == "handshake" else Ran(*CALL, "--json").json["for"][0]["key"]

    answered = Ran(*CALL, "--answer", f'{key}={{"name": "Ada"}}', "--json")

    assert answered.code == 0
    assert answered.json["content"][0]["text"] == "Hello, Ada"
    assert diary.entries == ["greeted Ada"]


def test_no_is_an_answer(asker: Served, diary: QuestionLog) -> None:
    declined = Ran(*CALL, "--decline", "--json")

    assert declined.code == 1
    assert declined.json["is_error"]
    assert diary.entries == []


@pytest.mark.parametrize("era", ["handshake"], indirect=True)
def test_a_service_that_waits_hears_that_nobody_answers_and_the_question_is_told(
    asker: Served, diary: QuestionLog
) -> None:
    asked = Ran(*CALL)

    assert asked.code == 3
    assert "No answer given to:" in asked.err
    assert "Whom shall I greet?" in asked.err
    assert diary.entries == []


@pytest.mark.parametrize("era", ["handshake"], indirect=True)
def test_the_question_of_a_service_that_waits_is_in_the_json_and_can_be_answered_next(
    asker: Served, diary: QuestionLog
) -> None:
    asked = Ran(*CALL, "--json")

    assert asked.code == 3
    (question,) = asked.json["for"]
    assert (question["kind"], question["message"]) == ("question", "Whom shall I greet?")
    assert asked.json["is_error"], "the service ended the call, so its outcome is known"
    assert diary.entries == []
    answered = Ran(*CALL, "--json", "--answer", f'{question["key"]}={{"name": "Ada"}}')
    assert (answered.code, diary.entries) == (0, ["greeted Ada"])
    assert "for" not in answered.json


@pytest.mark.parametrize("era", ["modern"], indirect=True)
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ('{"name": "A"}', "name: At least 2 characters."),
        ("{}", "name: This field is required."),
        ("Ada", "not JSON"),
    ],
)
def test_an_answer_that_does_not_fit_is_not_sent(
    asker: Served, diary: QuestionLog, answer: str, said: str
) -> None:
    key = Ran(*CALL, "--json").json["for"][0]["key"]

    wrong = Ran(*CALL, "--answer", f"{key}={answer}")

    assert wrong.code == 1
    assert said in wrong.err
    assert diary.entries == []


@pytest.mark.parametrize("era", ["modern"], indirect=True)
def test_an_address_is_printed_and_consent_is_an_empty_answer(
    asker: Served, diary: QuestionLog
) -> None:
    asked = Ran("call", "asker", "visit")
    assert asked.code == 3
    assert "Open: https://pay.example/7" in asked.out

    answered = Ran("call", "asker", "visit", "--answer", "page={}")

    assert answered.code == 0
    assert diary.entries == ["visited: accept None"]


@pytest.mark.parametrize("era", ["modern"], indirect=True)
def test_a_service_that_is_not_ready_says_so(asker: Served) -> None:
    asked = Ran("call", "asker", "later")

    assert asked.code == 3
    assert "Run it again" in asked.out


def test_a_long_task_is_started_and_followed_to_its_end(errands: Errands) -> None:
    started = Ran("call", "runner", "errand", "--json")
    assert started.code == 3
    assert started.json["for"] == [{"kind": "task", "id": "errand 1", "status": "working"}]
    assert "mcp task runner" in Ran("call", "runner", "errand").out

    working = Ran("task", "runner", "errand 1", "--json")
    assert (working.code, working.json["status"]) == (3, "working")
    assert working.json["message"] == "On the way."

    errands.done("errand 1", "brought")
    done = Ran("task", "runner", "errand 1", "--json")
    assert (done.code, done.json["outcome"]) == (0, "succeeded")
    assert done.json["content"] == [{"type": "text", "text": "brought"}]
    assert "brought" in Ran("task", "runner", "errand 1").out


def test_a_task_is_answered_and_cancelled(errands: Errands) -> None:
    Ran("call", "runner", "errand")
    errands.goes_on("errand 1", status="input_required", inputRequests={"who": FORM})
    asked = Ran("task", "runner", "errand 1", "--json")
    assert (asked.code, asked.json["for"][0]["key"]) == (3, "who")
    assert errands.answers == []

    Ran("task", "runner", "errand 1", "--answer", 'who={"name": "Ada"}')
    assert errands.answers == [{"who": {"action": "accept", "content": {"name": "Ada"}}}]

    assert Ran("task", "runner", "errand 1", "--cancel").code == 3, "it may take a moment"
    assert errands.cancelled == ["errand 1"]


@pytest.mark.parametrize(
    "said",
    [
        {"status": "failed", "error": {"code": -32603, "message": "Rain."}},
        {"status": "cancelled"},
        {"status": "completed", "result": {"content": [], "isError": True}},
    ],
)
def test_a_task_that_came_to_nothing_is_a_failure(
    errands: Errands, said: dict[str, object]
) -> None:
    Ran("call", "runner", "errand")
    errands.goes_on("errand 1", **said)

    assert Ran("task", "runner", "errand 1").code == 1


def test_a_task_that_nobody_knows_is_a_failure(errands: Errands) -> None:
    gone = Ran("task", "runner", "never", "--json")

    assert (gone.code, gone.json["status"]) == (1, "unknown")


@pytest.mark.parametrize("era", ["handshake"], indirect=True)
def test_an_answer_that_does_not_fit_does_not_reach_a_service_that_waits(
    asker: Served, diary: QuestionLog
) -> None:
    asked = Ran(*CALL, "--answer", '1={"name": "A"}', "--json")

    assert asked.code == 3
    assert asked.json["is_error"]
    assert [question["key"] for question in asked.json["for"]] == ["1"]
    assert "name: At least 2 characters." in asked.err
    assert diary.entries == []
