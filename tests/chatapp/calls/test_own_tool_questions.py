"""The assistant asks its person: a form that waits as long as it takes, and an answer or a no."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.utils import timezone

from chatapp.models import LogEntry, Member, Permit, Question, ToolCall, Turn
from chatapp.storage import in_database
from chatapp.turns import intake, questions
from chatapp.turns.engine import Engine
from chatapp.turns.workplace import Workplace
from tests import scripted
from tests.chatapp.views.dom import parse
from tests.conftest import signed_in
from tests.scripted import calls, text

from .acts import heard, rest
from .asking import asked, card, finished, post
from .core_turns import asked_for

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True), pytest.mark.timeout(90)]
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
    workplace: Workplace, turn: Turn
) -> None:
    question = await asked(workplace, turn, ASK)
    answered = await in_database(partial(post, question, "accept", **ANSWERS))
    assert answered.status_code == 200
    call = await finished(workplace, question)
    assert (call.state, call.attempt, call.pauses) == (State.SUCCEEDED, 2, 1)
    assert heard() == ("Which room? Blue room\nWhat else? Tea, A screen\nWho comes? Ada and Bob")
    assert call.result is not None
    assert call.result["structured"]["answers"][1]["answers"] == ["Tea", "A screen"]
    permits = await in_database(lambda: list(Permit.objects.values_list("attempt", flat=True)))
    assert permits == [1, 2]
    kinds = await in_database(
        lambda: set(LogEntry.objects.filter(call_id=call.pk).values_list("kind", flat=True))
    )
    assert {"call.decided", "call.sent", "call.ended"} < kinds


async def test_the_card_asks_in_the_assistants_name_and_offers_a_no(
    workplace: Workplace, turn: Turn
) -> None:
    question = await asked(workplace, turn, ASK)
    shown = await in_database(card, question)
    assert "The assistant asks you something" in shown.text
    assert "To book it." in shown.text
    assert shown.buttons() == ["Answer", "Decline"]
    assert [each.text.strip() for each in shown.all("option")] == [
        "Choose…",
        "Blue room",
        "Green room",
    ]
    assert "stays in this chat" in shown.text


async def test_without_a_script_the_answer_is_a_plain_form(
    workplace: Workplace, turn: Turn, owner: Member
) -> None:
    question = await asked(workplace, turn, ASK)

    def answer() -> Any:
        form = {"action": "accept", "v0-question-1": "Green room"}
        return signed_in(owner).post(f"/questions/{question.pk}/answer", form)

    answered = await in_database(answer)
    assert answered.status_code == 302
    await finished(workplace, question)
    assert heard() == "Which room? Green room\nWhat else? Left open.\nWho comes? Left open."


async def test_what_was_not_offered_is_refused_and_nothing_typed_is_lost(
    workplace: Workplace, turn: Turn
) -> None:
    question = await asked(workplace, turn, ASK)
    wrong = ANSWERS | {"v0_question-1": "Red room"}
    answered = await in_database(partial(post, question, "accept", **wrong))
    assert answered.status_code == 422
    shown = parse(answered.content.decode())
    assert "Choose from what is offered." in shown.text
    assert shown.one("textarea").text.strip() == "Ada and Bob"


async def test_a_no_is_told_to_the_model(workplace: Workplace, turn: Turn) -> None:
    question = await asked(workplace, turn, ASK)
    await in_database(post, question, "decline")
    call = await finished(workplace, question)
    assert call.state == State.SUCCEEDED
    assert heard().startswith("The person does not want to answer.")


async def test_when_the_time_is_over_the_model_is_told(workplace: Workplace, turn: Turn) -> None:
    question = await asked(workplace, turn, ASK)
    late = {"expires_at": timezone.now() - timedelta(seconds=1)}
    await in_database(partial(Question.objects.filter(pk=question.pk).update, **late))
    await in_database(questions.expire_questions)
    call = await finished(workplace, question)
    assert call.state == State.EXPIRED
    assert heard() == "Not run. Nobody answered the question in time."


async def test_it_waits_in_no_process_and_any_worker_goes_on(
    workplace: Workplace, turn: Turn
) -> None:
    question = await asked(workplace, turn, ASK)
    await workplace.engine.close()
    await in_database(partial(post, question, "accept", **ANSWERS))
    workplace.engine = Engine()
    workplace.engine.start(sweeps=False)
    call = await finished(workplace, question)
    assert call.state == State.SUCCEEDED


async def test_stop_withdraws_the_question(workplace: Workplace, turn: Turn) -> None:
    question = await asked(workplace, turn, ASK)
    await in_database(intake.stop, question.tool_call.turn.conversation)
    await rest(workplace, turn)
    await question.arefresh_from_db()
    assert question.state == Question.State.WITHDRAWN
    late = await in_database(partial(post, question, "accept", **ANSWERS))
    assert late.status_code == 409


async def test_a15_a_stranger_neither_sees_nor_answers_it(workplace: Workplace, turn: Turn) -> None:
    question = await asked(workplace, turn, ASK)

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
    workplace: Workplace, turn: Turn, bad: list[Any], says: str
) -> None:
    scripted.scenes += [calls(asked_for("ask-person", why="So.", questions=bad)), text("I see.")]
    await rest(workplace, turn)
    assert says in heard()
    assert not await in_database(Question.objects.exists)
