"""A service's question and what happens at the same time: two answers, and changes of what the call
was decided about. The service is a real one."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from chatapp.models import Member, ToolCall, Turn
from chatapp.storage import THREADS, in_database
from chatapp.turns import questions
from chatapp.turns.workplace import Workplace
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from tests.peers.questioner import Diary, application
from tests.peers.serving import Served

from .acts import granted, offered
from .asking import asked, finished, post

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True), pytest.mark.timeout(60)]
State = ToolCall.State


@pytest.fixture
def diary() -> Diary:
    return Diary()


@pytest.fixture
def service(transactional_db: None, diary: Diary) -> Iterator[Service]:
    with Served(application(diary, "modern")) as served:
        yield offered("asker", served.url, "greet")


async def test_of_answers_at_the_same_moment_one_counts_and_the_service_hears_one(
    workplace: Workplace, service: Service, turn: Turn, diary: Diary
) -> None:
    question = await asked(workplace, turn)
    together = threading.Barrier(THREADS)

    def answer(name: str) -> int:
        together.wait(10)
        return int(post(question, "accept", v0_name=name).status_code)

    names = [f"Ada {number}" for number in range(THREADS)]
    codes = await asyncio.gather(*(in_database(answer, name) for name in names))
    assert sorted(codes) == [200, *[409] * (THREADS - 1)]
    await finished(workplace, question)
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
    workplace: Workplace,
    service: Service,
    turn: Turn,
    diary: Diary,
    change: Callable[[], None],
    is_approved: bool,
) -> None:
    question = await asked(workplace, turn)
    if is_approved:
        await in_database(granted, question.tool_call)
    await in_database(change)
    values = {question.requests[0]["key"]: {"name": "Ada"}}
    owner = turn.conversation.owner
    await in_database(questions.answer, question, by=owner, action="accept", values=values)
    call = await finished(workplace, question)
    assert call.state == (State.WITHDRAWN if is_approved else State.FAILED)
    assert (call.attempt, diary.entries) == (1, [])


@pytest.mark.parametrize(
    ("level", "state", "done"),
    [("low", State.SUCCEEDED, ["greeted Ada"]), ("high", State.AWAITING_APPROVAL, [])],
)
async def test_what_comes_back_from_a_pause_is_decided_by_what_is_known_of_its_tool(
    workplace: Workplace,
    service: Service,
    turn: Turn,
    diary: Diary,
    level: str,
    state: str,
    done: list[str],
) -> None:
    question = await asked(workplace, turn)
    failed = {"kind": "timeout", "message": "It did not answer in time.", "hint": "", "at": "now"}
    later = timezone.now() + timedelta(hours=1)
    await in_database(Service.objects.update, last_error=failed, next_retry_at=later)
    await in_database(ToolSetting.objects.filter(name="greet").update, level=level)
    await in_database(post, question, "accept", v0_name="Ada")
    call = await finished(workplace, question)
    assert (call.state, diary.entries) == (state, done)


@pytest.mark.parametrize("change", [{"is_enabled": False}, {"visibility": "groups"}])
async def test_what_comes_back_from_a_pause_does_not_run_where_the_service_is_taken_away(
    workplace: Workplace, service: Service, turn: Turn, diary: Diary, change: dict[str, Any]
) -> None:
    question = await asked(workplace, turn)
    await in_database(Service.objects.update, **change)
    await in_database(post, question, "accept", v0_name="Ada")
    call = await finished(workplace, question)
    assert (call.state, call.attempt, diary.entries) == (State.FAILED, 1, [])
