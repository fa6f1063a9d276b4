"""A service that asks first: the call waits in a row, and goes on with what a person answered.

The service is a real one, made with the SDK.
"""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.test import override_settings
from django.utils import timezone

from chatapp.approvals import questions, sign_ins
from chatapp.calls.ledger import begin_sending
from chatapp.conversations import intake
from chatapp.conversations.turn_events import list_waiting
from chatapp.engine import sweep
from chatapp.engine.runtime import EngineRuntime, close_engine_runtime, open_engine_runtime
from chatapp.journal.lease import acquire, drop
from chatapp.models import Member, Permit, Question, ToolCall, Turn
from chatapp.people.refused import Refused
from chatapp.server.database import in_database
from mcpconfig.models import Service
from mcpconfig.services import secret_rotation
from tests import scripted
from tests.conftest import signed_in
from tests.dom_tree import parse
from tests.peers.questioner import QuestionLog, application
from tests.peers.serving import Served
from tests.scripted import calls, text
from tests.turns.acts import create_offered_service, read_last_outcome, wait_for_rest
from tests.turns.questions import GREET, asked, card, finished, open_question, post

pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
State = ToolCall.State
ERASE = ("asker_erase", "{}")
VISIT = ("asker_visit", "{}")
LATER = ("asker_later", "{}")


@pytest.fixture
def diary() -> QuestionLog:
    return QuestionLog()


@pytest.fixture
def service(transactional_db: None, diary: QuestionLog) -> Iterator[Service]:
    with Served(application(diary, "modern")) as served:
        tools = ("greet", "erase", "visit", "later")
        yield create_offered_service("asker", served.url, *tools, title="The asker")


# --- answering -----------------------------------------------------------------------------------
async def test_the_turn_parks_and_the_same_call_goes_on_with_the_answer(
    runtime: EngineRuntime, service: Service, turn: Turn, diary: QuestionLog
) -> None:
    question = await asked(runtime, turn)
    assert diary.entries == []

    assert (await in_database(post, question, "accept", v0_name="Ada")).status_code == 200

    call = await finished(runtime, question)
    assert (call.state, diary.entries) == (State.SUCCEEDED, ["greeted Ada"])
    assert call.content[0]["text"] == "Hello, Ada"
    assert (call.attempt, call.pauses) == (2, 1)
    permits = await in_database(lambda: list(Permit.objects.values_list("attempt", flat=True)))
    assert permits == [1, 2]


async def test_what_is_asked_together_is_answered_together(
    runtime: EngineRuntime, service: Service, turn: Turn, diary: QuestionLog
) -> None:
    question = await asked(runtime, turn, ERASE)
    assert len(question.requests) == 2
    half = await in_database(post, question, "accept", v1_sure="true")
    assert half.status_code == 422
    await in_database(post, question, "accept", v0_name="Ada", v1_sure="true")
    call = await finished(runtime, question)
    assert (call.state, diary.entries) == (State.SUCCEEDED, ["erased Ada: True"])


@pytest.mark.parametrize(("action", "state"), [("decline", "declined"), ("cancel", "cancelled")])
async def test_the_service_hears_a_no_and_a_dismissal_apart(
    runtime: EngineRuntime,
    service: Service,
    turn: Turn,
    diary: QuestionLog,
    action: str,
    state: str,
) -> None:
    question = await asked(runtime, turn, VISIT)
    await in_database(post, question, action)
    await finished(runtime, question)
    await question.arefresh_from_db()
    assert question.state == state
    assert diary.entries == [f"visited: {action} None"]


async def test_the_state_of_the_service_comes_back_to_it_and_lies_here_encrypted(
    runtime: EngineRuntime, service: Service, turn: Turn
) -> None:
    question = await asked(runtime, turn, VISIT)
    assert question.request_state
    assert question.request_state.encode() not in bytes(question.sealed_state)
    await in_database(post, question, "accept")
    call = await finished(runtime, question)
    assert call.content[0]["text"] == "accept, ticket 7"


async def test_only_the_first_answer_counts(
    runtime: EngineRuntime, service: Service, turn: Turn, diary: QuestionLog
) -> None:
    question = await asked(runtime, turn)
    await in_database(post, question, "accept", v0_name="Ada")
    again = await in_database(post, question, "accept", v0_name="Bob")
    assert again.status_code == 409
    await finished(runtime, question)
    assert diary.entries == ["greeted Ada"]


async def test_a_stranger_can_neither_see_nor_answer_a_question(
    runtime: EngineRuntime, service: Service, turn: Turn
) -> None:
    question = await asked(runtime, turn)

    def attempt() -> int:
        stranger = Member.objects.create_user("stranger", password="a-long-password")
        client = signed_in(stranger)
        return int(
            client.post(f"/questions/{question.pk}/answer", {"action": "cancel"}).status_code
        )

    assert await in_database(attempt) == 404
    await question.arefresh_from_db()
    assert question.state == Question.State.OPEN


# --- the card ------------------------------------------------------------------------------------
async def test_the_card_names_who_asks_and_where_the_answer_goes(
    runtime: EngineRuntime, service: Service, turn: Turn
) -> None:
    shown = await in_database(card, await asked(runtime, turn))
    assert "The asker has a question about" in shown.text
    assert "Whom shall I greet?" in shown.text
    assert "Your answer goes to The asker. Never enter a password." in shown.text
    assert shown.buttons() == ["Answer", "Decline", "Close question"]
    field = shown.one("input", name="v0-name")
    assert (field["type"], field["minlength"], "required" in field) == ("text", "2", True)
    assert shown.one("label", for_=field["id"]).text == "Name required"


async def test_what_does_not_fit_comes_back_with_what_was_typed_and_nothing_is_sent(
    runtime: EngineRuntime, service: Service, turn: Turn
) -> None:
    question = await asked(runtime, turn)
    answer = await in_database(post, question, "accept", v0_name="A")
    assert answer.status_code == 422
    shown = parse(answer.content.decode())
    field = shown.one("input", name="v0-name")
    assert (field["value"], field["aria-invalid"]) == ("A", "true")
    assert shown.one(id=field["aria-describedby"]).text == "At least 2 characters."
    await question.arefresh_from_db()
    assert question.state == Question.State.OPEN


async def test_an_address_is_shown_whole_and_opened_by_the_person(
    runtime: EngineRuntime, service: Service, turn: Turn
) -> None:
    shown = await in_database(card, await asked(runtime, turn, VISIT))
    link = shown.one("a", target="_blank")
    assert (link["href"], link["rel"]) == ("https://pay.example/7", "noopener noreferrer")
    assert link.text == "Open pay.example"
    assert "https://pay.example/7" in shown.one("p", class_="leads").text
    assert shown.buttons() == ["Done", "Decline", "Close question"]


async def test_what_waits_is_said_by_the_command_and_listed_with_the_approvals(
    runtime: EngineRuntime, service: Service, turn: Turn, owner: Member
) -> None:
    question = await asked(runtime, turn)
    (told,) = await in_database(list_waiting, turn)
    assert (told["kind"], told["id"]) == ("question", str(question.tool_call_id))
    listed = await in_database(lambda: signed_in(owner).get("/approvals/").content.decode())
    row = parse(listed).one(href=f"/approvals/{question.tool_call_id}/")
    assert "waiting for your answer" in row.text


# --- ends ----------------------------------------------------------------------------------------
async def test_stop_withdraws_the_question(
    runtime: EngineRuntime, service: Service, turn: Turn
) -> None:
    question = await asked(runtime, turn)
    await in_database(intake.stop, turn.conversation)
    await question.arefresh_from_db()
    call = await in_database(ToolCall.objects.get, turn=turn)
    assert (question.state, call.state) == (Question.State.WITHDRAWN, State.WITHDRAWN)
    with pytest.raises(Refused, match="withdrawn"):
        await in_database(
            questions.answer, question, by=turn.conversation.owner, action="cancel", values={}
        )


async def test_nobody_answers_in_time_and_the_model_is_told(
    runtime: EngineRuntime, service: Service, turn: Turn, diary: QuestionLog
) -> None:
    question = await asked(runtime, turn)
    await in_database(questions.expire_questions)
    assert (await open_question(turn)).pk == question.pk, "It expires before its time."

    past = timezone.now() - timedelta(seconds=1)
    await in_database(Question.objects.update, expires_at=past)
    await in_database(questions.expire_questions)
    call = await finished(runtime, question)
    await question.arefresh_from_db()
    assert (question.state, call.state) == (Question.State.EXPIRED, State.EXPIRED)
    assert "No one answered the service’s question in time." in read_last_outcome()
    assert diary.entries == []


async def test_a_late_answer_is_refused_even_before_the_sweep_has_come(
    runtime: EngineRuntime, service: Service, turn: Turn
) -> None:
    question = await asked(runtime, turn)
    past = timezone.now() - timedelta(seconds=1)
    await in_database(Question.objects.update, expires_at=past)
    assert (await in_database(post, question, "accept", v0_name="Ada")).status_code == 409


@override_settings(QUESTION_ROUNDS=0)
async def test_a_service_that_asks_more_often_than_the_limit_ends_its_call(
    runtime: EngineRuntime, service: Service, turn: Turn, diary: QuestionLog
) -> None:
    scripted.scenes += [calls(GREET), text("It asks too many questions.")]
    done = await wait_for_rest(runtime, turn)
    call = await in_database(ToolCall.objects.get, turn=turn)
    assert (done.state, call.state, diary.entries) == (Turn.State.DONE, State.FAILED, [])
    assert "asked more than 0 times" in read_last_outcome()


async def test_a_state_that_cannot_be_read_any_more_ends_the_call_and_sends_nothing(
    runtime: EngineRuntime, service: Service, turn: Turn, diary: QuestionLog
) -> None:
    question = await asked(runtime, turn)
    await in_database(Question.objects.update, sealed_state=b"of another key")
    await in_database(post, question, "accept", v0_name="Ada")
    call = await finished(runtime, question)
    assert (call.state, call.attempt, diary.entries) == (State.WITHDRAWN, 1, [])


# --- a service that only wants to be asked again later -------------------------------------------
async def test_a_call_that_is_wanted_again_later_goes_on_when_its_time_has_come(
    runtime: EngineRuntime, service: Service, turn: Turn
) -> None:
    scripted.scenes += [calls(LATER), text("It is ready.")]
    waiting = await wait_for_rest(runtime, turn)
    assert waiting.state == Turn.State.WAITING
    await in_database(questions.approve_postponed_calls)
    call = await in_database(ToolCall.objects.get, turn=turn)
    assert call.state == State.AWAITING_TASK, "It is asked before its time."

    past = timezone.now() - timedelta(seconds=1)
    await in_database(ToolCall.objects.update, waits_until=past)
    await in_database(questions.approve_postponed_calls)
    await wait_for_rest(runtime, turn)
    await call.arefresh_from_db()
    assert (call.state, call.content[0]["text"]) == (State.SUCCEEDED, "ready")


async def test_stop_of_a_call_that_is_wanted_again_later_says_that_it_did_not_run(
    runtime: EngineRuntime, service: Service, turn: Turn
) -> None:
    scripted.scenes += [calls(LATER), text("It is ready.")]
    await wait_for_rest(runtime, turn)
    await in_database(intake.stop, turn.conversation)
    call = await in_database(ToolCall.objects.get, turn=turn)
    assert (call.state, call.error) == (State.CANCELLED, None)


# --- other processes -----------------------------------------------------------------------------
async def test_another_process_goes_on_with_what_was_answered_after_the_first_has_ended(
    runtime: EngineRuntime, service: Service, turn: Turn, diary: QuestionLog
) -> None:
    question = await asked(runtime, turn)
    await close_engine_runtime(runtime)
    await in_database(post, question, "accept", v0_name="Ada")
    assert diary.entries == []
    second = await open_engine_runtime(sweeps=False)
    try:
        call = await finished(second, question)
    finally:
        await close_engine_runtime(second)
    assert (call.state, diary.entries) == (State.SUCCEEDED, ["greeted Ada"])


async def test_a_leg_whose_worker_died_has_an_unknown_outcome_and_is_not_sent_again(
    runtime: EngineRuntime, service: Service, turn: Turn, diary: QuestionLog
) -> None:
    question = await asked(runtime, turn)
    await close_engine_runtime(runtime)

    def dies_in_the_leg() -> None:
        post(question, "accept", v0_name="Ada")
        lease = acquire(turn.pk)
        assert lease is not None
        sending = begin_sending(lease, question.tool_call_id)
        assert sending is not None and sending.resumption.request_state
        drop(lease)

    await in_database(dies_in_the_leg)
    second = await open_engine_runtime(sweeps=False)
    try:
        call = await finished(second, question)
    finally:
        await close_engine_runtime(second)
    assert (call.state, call.attempt, diary.entries) == (State.UNKNOWN, 2, [])


def test_the_state_of_a_service_goes_under_a_new_key_with_all_other_secrets() -> None:
    assert (Question, "sealed_state") in list(secret_rotation.list_secret_fields())


def test_the_sweep_looks_after_every_pause() -> None:
    wanted = {
        questions.expire_questions,
        questions.approve_postponed_calls,
        sign_ins.expire_sign_ins,
    }
    assert wanted <= set(sweep.JOBS)
