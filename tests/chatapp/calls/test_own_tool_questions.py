"""The assistant asks its person: a form that waits as long as it takes, and an answer or a no."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.utils import timezone

from chatapp.approvals import questions
from chatapp.conversations import intake
from chatapp.engine.engine import Engine
from chatapp.engine.runtime import EngineRuntime
from chatapp.models import LogEntry, Member, Permit, Question, ToolCall, Turn
from chatapp.server.database import in_database
from chatapp.server.runtime import current_runtime
from tests import scripted
from tests.conftest import signed_in
from tests.dom_tree import parse
from tests.scripted import calls, text
from tests.turns.acts import read_last_outcome, wait_for_rest
from tests.turns.own_tool_turns import asked_for
from tests.turns.questions import asked, card, finished, post

pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
State = ToolCall.State
ROOM = {"text": "Which room?", "kind": "one", "options": ["Blue room", "Green room"]}
EXTRAS = {"text": "What else?", "kind": "several", "options": ["Tea", "Cake", "A screen"]}
NAMES = {"text": "Who comes?", "kind": "text"}
ASK = asked_for("ask-person", why="To book it.", questions=[ROOM, EXTRAS, NAMES])
ANSWERS: dict[str, Any] = {
    "v0_question-1": "Blue room",
    "v0_question-2": ["Tea", "A screen"],
    "v0_question-3": "Ada and Bob",
}


async def test_the_answers_go_back_to_the_model_as_the_result(
    runtime: EngineRuntime, turn: Turn
) -> None:
    question = await asked(runtime, turn, ASK)
    answered = await in_database(partial(post, question, "accept", **ANSWERS))
    assert answered.status_code == 200
    call = await finished(runtime, question)
    assert (call.state, call.attempt, call.pauses) == (State.SUCCEEDED, 2, 1)
    assert read_last_outcome() == (
        "Which room? Blue room\nWhat else? Tea, A screen\nWho comes? Ada and Bob"
    )
    assert call.result is not None
    assert call.result["structured"]["answers"][1]["answers"] == ["Tea", "A screen"]
    permits = await in_database(lambda: list(Permit.objects.values_list("attempt", flat=True)))
    assert permits == [1, 2]
    kinds = await in_database(
        lambda: set(LogEntry.objects.filter(call_id=call.pk).values_list("kind", flat=True))
    )
    assert {"call.decided", "call.sent", "call.ended"} < kinds


async def test_the_card_asks_in_the_assistants_name_and_offers_a_no(
    runtime: EngineRuntime, turn: Turn
) -> None:
    question = await asked(runtime, turn, ASK)
    shown = await in_database(card, question)
    assert "The assistant asks a question" in shown.text
    assert "To book it." in shown.text
    assert shown.buttons() == ["Answer", "Decline"]
    assert [each.text.strip() for each in shown.all("option")] == [
        "Choose…",
        "Blue room",
        "Green room",
    ]
    assert "stays in this chat" in shown.text


async def test_without_a_script_the_answer_is_a_plain_form(
    runtime: EngineRuntime, turn: Turn, owner: Member
) -> None:
    question = await asked(runtime, turn, ASK)

    def answer() -> Any:
        form = {"action": "accept", "v0-question-1": "Green room"}
        return signed_in(owner).post(f"/questions/{question.pk}/answer", form)

    answered = await in_database(answer)
    assert answered.status_code == 302
    await finished(runtime, question)
    assert (
        read_last_outcome()
        == "Which room? Green room\nWhat else? Left open.\nWho comes? Left open."
    )


async def test_what_was_not_offered_is_refused_and_nothing_typed_is_lost(
    runtime: EngineRuntime, turn: Turn
) -> None:
    question = await asked(runtime, turn, ASK)
    wrong = ANSWERS | {"v0_question-1": "Red room"}
    answered = await in_database(partial(post, question, "accept", **wrong))
    assert answered.status_code == 422
    shown = parse(answered.content.decode())
    assert "Choose one of the options." in shown.text
    assert shown.one("textarea").text.strip() == "Ada and Bob"


async def test_a_no_is_told_to_the_model(runtime: EngineRuntime, turn: Turn) -> None:
    question = await asked(runtime, turn, ASK)
    await in_database(post, question, "decline")
    call = await finished(runtime, question)
    assert call.state == State.SUCCEEDED
    assert read_last_outcome().startswith("The person does not want to answer.")


async def test_when_the_time_is_over_the_model_is_told(runtime: EngineRuntime, turn: Turn) -> None:
    question = await asked(runtime, turn, ASK)
    late = {"expires_at": timezone.now() - timedelta(seconds=1)}
    await in_database(partial(Question.objects.filter(pk=question.pk).update, **late))
    await in_database(questions.expire_questions)
    call = await finished(runtime, question)
    assert call.state == State.EXPIRED
    assert read_last_outcome() == "Not run. No one answered the question in time."


async def test_it_waits_in_no_process_and_any_worker_goes_on(
    runtime: EngineRuntime, turn: Turn
) -> None:
    question = await asked(runtime, turn, ASK)
    await runtime.engine.close()
    await in_database(partial(post, question, "accept", **ANSWERS))
    runtime.engine = Engine(current_runtime())
    runtime.engine.start(sweeps=False)
    call = await finished(runtime, question)
    assert call.state == State.SUCCEEDED


async def test_stop_withdraws_the_question(runtime: EngineRuntime, turn: Turn) -> None:
    question = await asked(runtime, turn, ASK)
    await in_database(intake.stop, question.tool_call.turn.conversation)
    await wait_for_rest(runtime, turn)
    await question.arefresh_from_db()
    assert question.state == Question.State.WITHDRAWN
    late = await in_database(partial(post, question, "accept", **ANSWERS))
    assert late.status_code == 409


async def test_a_stranger_neither_sees_nor_answers_it(runtime: EngineRuntime, turn: Turn) -> None:
    question = await asked(runtime, turn, ASK)

    def try_it() -> Any:
        stranger = Member.objects.create_user("stranger", password="stranger-password")
        client = signed_in(stranger)
        sent = client.post(f"/questions/{question.pk}/answer", {"action": "accept"})
        inbox = client.get("/approvals/").content.decode()
        return sent.status_code, inbox

    status, inbox = await in_database(try_it)
    assert status == 404
    assert "Which room?" not in inbox
    await question.arefresh_from_db()
    assert question.state == Question.State.OPEN


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ([], "at least 1 item"),
        ([ROOM] * 5, "at most 4 items"),
        ([{"text": "Which?", "kind": "one", "options": ["Blue"]}], "at least two options"),
        ([{"text": "Which?", "kind": "one", "options": ["Blue", "Blue"]}], "each of them once"),
        ([{"text": "Which?", "kind": "one", "options": ["Blue", " "]}], "1 to 100 characters"),
        ([{"text": "Why?", "kind": "text", "options": ["a", "b"]}], "has no options"),
        ([{"text": "Which?", "kind": "file"}], "Input should be"),
    ],
)
async def test_a_form_that_nobody_could_fill_in_is_refused(
    runtime: EngineRuntime, turn: Turn, bad: list[Any], says: str
) -> None:
    scripted.scenes += [calls(asked_for("ask-person", why="So.", questions=bad)), text("I see.")]
    await wait_for_rest(runtime, turn)
    assert says in read_last_outcome()
    assert not await in_database(Question.objects.exists)


@pytest.mark.parametrize(
    ("why", "label"),
    [
        ("To sign in.", "What is your password?"),
        ("To sign in.", "API key"),
        ("To pay.", "cardNumber"),
        ("Please enter your password.", "Value"),
    ],
)
async def test_the_assistant_cannot_ask_for_a_secret(
    runtime: EngineRuntime, turn: Turn, why: str, label: str
) -> None:
    """Threat: `question-for-a-secret`."""
    wanted = [{"text": label, "kind": "text"}]
    scripted.scenes += [calls(asked_for("ask-person", why=why, questions=wanted)), text("I see.")]
    await wait_for_rest(runtime, turn)
    assert "Forms must not ask for passwords, API keys or card numbers" in read_last_outcome()
    assert not await in_database(Question.objects.exists)
