"""A long task asks in the middle: on the same card, and the answer reaches the task."""

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from django.test import override_settings
from django.utils import timezone

from chatapp.approvals import questions
from chatapp.calls.remote_tasks import poll_due
from chatapp.engine.runtime import EngineRuntime
from chatapp.models import Member, Question, RemoteTask, ToolCall, Turn
from chatapp.server.database import in_database
from mcpconfig.models import Service
from tests.peers.errands import FORM, Errands, application
from tests.peers.serving import Served
from tests.turns.acts import create_offered_service, wait_for_rest
from tests.turns.remote_tasks import TASK, call_of, card, polled, started

pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
State = ToolCall.State


@pytest.fixture
def errands() -> Errands:
    return Errands()


@pytest.fixture
def served(errands: Errands, transactional_db: None) -> Iterator[Served]:
    with Served(application(errands)) as served:
        create_offered_service("errands", served.url, "errand", title="Errands")
        yield served


async def asking(runtime: EngineRuntime, turn: Turn, errands: Errands) -> Question:
    await started(runtime, turn)
    errands.goes_on(TASK, status="input_required", inputRequests={"who": FORM})
    await polled()
    call = await call_of(turn)
    assert call.state == State.AWAITING_INPUT
    return await in_database(
        Question.objects.select_related("tool_call").get, state=Question.State.OPEN
    )


async def test_a_task_asks_on_the_same_card_and_gets_the_answer(
    runtime: EngineRuntime, served: Served, turn: Turn, errands: Errands, owner: Member
) -> None:
    question = await asking(runtime, turn, errands)
    shown = await in_database(card, await call_of(turn))
    assert "What is your name?" in shown.text
    values = {"who": {"name": "Ada"}}
    await in_database(questions.answer, question, by=owner, action="accept", values=values)
    await polled()  # the service has not read it yet, and repeats its question
    assert errands.answers == [{"who": {"action": "accept", "content": {"name": "Ada"}}}]
    assert (await call_of(turn)).state == State.AWAITING_TASK
    errands.done(TASK, "For Ada.")
    await polled()
    await wait_for_rest(runtime, turn)
    assert (await call_of(turn)).state == State.SUCCEEDED
    assert len(errands.answers) == 1


async def test_a_question_that_the_task_takes_back_is_withdrawn(
    runtime: EngineRuntime, served: Served, turn: Turn, errands: Errands
) -> None:
    question = await asking(runtime, turn, errands)
    errands.goes_on(TASK, status="working")
    await polled()
    await question.arefresh_from_db()
    assert question.state == Question.State.WITHDRAWN
    assert (await call_of(turn)).state == State.AWAITING_TASK


def has_gone_on(question: Question) -> None:
    """As if the service had been seen at work since."""
    RemoteTask.objects.update(status="working")


def was_long_ago(question: Question) -> None:
    past = timezone.now() - timedelta(minutes=2)
    Question.objects.filter(pk=question.pk).update(answered_at=past)


def was_just_now(question: Question) -> None:
    """The service may not have read the answer yet."""


@pytest.mark.parametrize(
    ("since", "questions_asked"), [(has_gone_on, 2), (was_long_ago, 2), (was_just_now, 1)]
)
async def test_the_same_question_again_is_shown_unless_the_answer_may_have_crossed_it(
    runtime: EngineRuntime,
    served: Served,
    turn: Turn,
    errands: Errands,
    owner: Member,
    since: Callable[[Question], None],
    questions_asked: int,
) -> None:
    question = await asking(runtime, turn, errands)
    values = {"who": {"name": "Ada"}}
    await in_database(questions.answer, question, by=owner, action="accept", values=values)
    await polled()
    assert (await call_of(turn)).state == State.AWAITING_TASK
    await in_database(since, question)
    await polled()
    assert await in_database(Question.objects.count) == questions_asked
    waits = State.AWAITING_INPUT if questions_asked == 2 else State.AWAITING_TASK
    assert (await call_of(turn)).state == waits


@override_settings(QUESTION_ROUNDS=1)
async def test_a_task_that_asks_more_often_than_the_limit_is_cancelled(
    runtime: EngineRuntime, served: Served, turn: Turn, errands: Errands, owner: Member
) -> None:
    question = await asking(runtime, turn, errands)
    values = {"who": {"name": "Ada"}}
    await in_database(questions.answer, question, by=owner, action="accept", values=values)
    errands.goes_on(TASK, inputRequests={"who again": FORM})
    await polled()
    await polled()
    assert errands.cancelled == [TASK]
    assert await in_database(Question.objects.count) == 1


async def test_an_answer_that_reaches_the_service_late_is_not_asked_for_again_at_once(
    runtime: EngineRuntime, served: Served, turn: Turn, errands: Errands, owner: Member
) -> None:
    question = await asking(runtime, turn, errands)
    values = {"who": {"name": "Ada"}}
    await in_database(questions.answer, question, by=owner, action="accept", values=values)
    await in_database(was_long_ago, question)
    await polled()
    assert len(errands.answers) == 1
    assert (await call_of(turn)).state == State.AWAITING_TASK


async def test_a_question_that_was_taken_back_may_be_asked_again(
    runtime: EngineRuntime, served: Served, turn: Turn, errands: Errands
) -> None:
    await asking(runtime, turn, errands)
    for status, state in [("working", State.AWAITING_TASK), ("input_required", "awaiting_input")]:
        errands.goes_on(TASK, status=status)
        await polled()
        assert (await call_of(turn)).state == state


async def test_a_task_whose_question_nobody_answers_is_cancelled(
    runtime: EngineRuntime, served: Served, turn: Turn, errands: Errands
) -> None:
    await asking(runtime, turn, errands)
    past = timezone.now() - timedelta(seconds=1)
    await in_database(Question.objects.update, expires_at=past)
    await in_database(questions.expire_questions)
    await poll_due()
    assert errands.cancelled == [TASK]
    assert (await call_of(turn)).state == State.UNKNOWN


async def test_a_task_that_asks_for_what_nobody_can_answer_fails_and_is_cancelled(
    runtime: EngineRuntime, served: Served, turn: Turn, errands: Errands
) -> None:
    await started(runtime, turn)
    sampling = {"method": "sampling/createMessage", "params": {}}
    errands.goes_on(TASK, status="input_required", inputRequests={"model": sampling})
    await polled()
    assert (await call_of(turn)).state == State.FAILED
    await poll_due()
    assert errands.cancelled == [TASK]


async def test_who_is_at_another_address_is_told_neither_of_the_task_nor_what_was_answered(
    runtime: EngineRuntime, served: Served, turn: Turn, errands: Errands, owner: Member
) -> None:
    question = await asking(runtime, turn, errands)
    values = {"who": {"name": "Ada"}}
    await in_database(questions.answer, question, by=owner, action="accept", values=values)
    with Served(application(Errands())) as other:
        await in_database(Service.objects.update, url=other.url)
        await polled()
        assert other.arrivals.seen == []
    call = await call_of(turn)
    assert (call.state, errands.answers) == (State.UNKNOWN, [])
    assert call.error is not None and "address of the service changed" in call.error["message"]
