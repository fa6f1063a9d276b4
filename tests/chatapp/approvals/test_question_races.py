"""A service's question and what happens at the same time: two answers, and changes of what the call
was decided about. The service is a real one."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from chatapp.approvals import questions
from chatapp.engine.runtime import EngineRuntime
from chatapp.models import Member, ToolCall, Turn
from chatapp.server.database import THREADS, in_database
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from tests.peers.questioner import QuestionLog, application
from tests.peers.serving import Served
from tests.turns.acts import create_offered_service, grant_call
from tests.turns.questions import asked, finished, post

pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
State = ToolCall.State


@pytest.fixture
def diary() -> QuestionLog:
    return QuestionLog()


@pytest.fixture
def service(transactional_db: None, diary: QuestionLog) -> Iterator[Service]:
    with Served(application(diary, "modern")) as served:
        yield create_offered_service("asker", served.url, "greet")


async def test_of_answers_at_the_same_moment_one_counts_and_the_service_hears_one(
    runtime: EngineRuntime, service: Service, turn: Turn, diary: QuestionLog
) -> None:
    question = await asked(runtime, turn)
    together = threading.Barrier(THREADS)

    def answer(name: str) -> int:
        together.wait(60)
        return int(post(question, "accept", v0_name=name).status_code)

    names = [f"Ada {number}" for number in range(THREADS)]
    codes = await asyncio.gather(*(in_database(answer, name) for name in names))
    assert sorted(codes) == [200, *[409] * (THREADS - 1)]
    await finished(runtime, question)
    assert diary.entries == [f"greeted {names[codes.index(200)]}"]


def definition_changed() -> None:
    ToolDefinition.objects.filter(name="greet").update(is_current=False)


def tool_switched_off() -> None:
    ToolSetting.objects.filter(name="greet").update(is_enabled=False)


def service_switched_off() -> None:
    Service.objects.update(is_enabled=False)


def person_deactivated() -> None:
    Member.objects.update(is_active=False)


def service_moved() -> None:
    """Whoever is there now gets neither the call nor what was answered."""
    service = Service.objects.get()
    Service.objects.update(url=service.url.replace("127.0.0.1", "localhost"))


@pytest.mark.parametrize("is_approved", [False, True], ids=["by policy", "by a person"])
@pytest.mark.parametrize(
    "change",
    [
        definition_changed,
        tool_switched_off,
        service_switched_off,
        person_deactivated,
        service_moved,
    ],
)
async def test_an_answer_goes_nowhere_when_what_was_decided_about_is_another_by_then(
    runtime: EngineRuntime,
    service: Service,
    turn: Turn,
    diary: QuestionLog,
    change: Callable[[], None],
    is_approved: bool,
) -> None:
    question = await asked(runtime, turn)
    if is_approved:
        await in_database(grant_call, question.tool_call)
    await in_database(change)
    values = {question.requests[0]["key"]: {"name": "Ada"}}
    owner = turn.conversation.owner
    await in_database(questions.answer, question, by=owner, action="accept", values=values)
    call = await finished(runtime, question)
    assert call.state == (State.WITHDRAWN if is_approved else State.FAILED)
    assert (call.attempt, diary.entries) == (1, [])


@pytest.mark.parametrize(
    ("level", "state", "done"),
    [("low", State.SUCCEEDED, ["greeted Ada"]), ("high", State.AWAITING_APPROVAL, [])],
)
async def test_what_comes_back_from_a_pause_is_decided_by_what_is_known_of_its_tool(
    runtime: EngineRuntime,
    service: Service,
    turn: Turn,
    diary: QuestionLog,
    level: str,
    state: str,
    done: list[str],
) -> None:
    question = await asked(runtime, turn)
    failed = {"kind": "timeout", "message": "It did not answer in time.", "hint": "", "at": "now"}
    later = timezone.now() + timedelta(hours=1)
    await in_database(Service.objects.update, last_error=failed, next_retry_at=later)
    await in_database(ToolSetting.objects.filter(name="greet").update, level=level)
    await in_database(post, question, "accept", v0_name="Ada")
    call = await finished(runtime, question)
    assert (call.state, diary.entries) == (state, done)


@pytest.mark.parametrize("change", [{"is_enabled": False}, {"visibility": "groups"}])
async def test_what_comes_back_from_a_pause_does_not_run_where_the_service_is_taken_away(
    runtime: EngineRuntime, service: Service, turn: Turn, diary: QuestionLog, change: dict[str, Any]
) -> None:
    question = await asked(runtime, turn)
    await in_database(Service.objects.update, **change)
    await in_database(post, question, "accept", v0_name="Ada")
    call = await finished(runtime, question)
    assert (call.state, call.attempt, diary.entries) == (State.FAILED, 1, [])
