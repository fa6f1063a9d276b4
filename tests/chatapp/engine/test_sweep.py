"""The sweep: what nobody has in hand is found, and one job that fails keeps no other from its
work."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import OperationalError

from chatapp.approvals.questions import approve_postponed_calls, expire_questions
from chatapp.approvals.reviews import expire_reviews
from chatapp.approvals.sign_ins import approve_missed_sign_ins, expire_sign_ins
from chatapp.engine import sweep
from chatapp.engine.engine import Engine
from chatapp.engine.runtime import EngineRuntime
from chatapp.journal.lease import acquire
from chatapp.models import Approval, Question, Review, ToolCall, Turn
from chatapp.server.database import in_database
from chatapp.server.runtime import current_runtime
from mcpconfig.models import Service
from tests import scripted
from tests.scripted import text
from tests.turns.acts import read_text, wait_for_rest, wait_until

pytestmark = pytest.mark.django_db(transaction=True)
State = ToolCall.State


@pytest.fixture
def call(turn: Turn) -> ToolCall:
    """A call that was being sent when everything stopped, in a turn that waits."""
    turn.steps.create(number=1, state="done", finish_reason="tool_calls")
    Turn.objects.filter(pk=turn.pk).update(state=Turn.State.WAITING, fence=1)
    return ToolCall.objects.create(
        turn=turn,
        step=1,
        position=0,
        provider_call_id="call_1",
        tool_id="shop_pay",
        tool_name="pay",
        arguments="{}",
        state=State.SENDING,
        attempt=1,
        sent_at="2026-01-01T00:00Z",
    )


# --- a turn that waits although a call of it was being sent --------------------------------------
async def test_a_turn_that_waits_with_a_call_being_sent_is_settled(
    runtime: EngineRuntime, turn: Turn, call: ToolCall
) -> None:
    await in_database(sweep.queue_unsettled)
    assert turn.pk in await in_database(sweep.find_abandoned_turns)
    done = await wait_for_rest(runtime, turn)
    await call.arefresh_from_db()
    assert (done.state, call.state) == (Turn.State.WAITING, State.UNKNOWN)
    assert call.error is not None
    assert call.error["kind"] == "worker_died"
    await in_database(sweep.queue_unsettled)
    now = await in_database(Turn.objects.get, pk=turn.pk)
    assert now.state == Turn.State.WAITING, "It is settled, and yet taken up again."


async def test_the_sweep_finds_it(
    turn: Turn, call: ToolCall, settings: pytest.FixtureRequest
) -> None:
    settings.SWEEP_SECONDS = 0.05  # type: ignore[attr-defined]
    engine = Engine(current_runtime())
    engine.start()
    try:
        async with asyncio.timeout(60):
            while call.state == State.SENDING:
                await call.arefresh_from_db()
    finally:
        await engine.close()
    assert call.state == State.UNKNOWN


@pytest.mark.parametrize("state", [State.AWAITING_APPROVAL, State.UNKNOWN])
def test_a_turn_that_waits_for_a_person_is_left_alone(
    turn: Turn, call: ToolCall, state: str
) -> None:
    ToolCall.objects.update(state=state)
    sweep.queue_unsettled()
    turn.refresh_from_db()
    assert (turn.state, turn.signals) == (Turn.State.WAITING, 0)


def test_a_turn_whose_worker_is_sending_is_left_alone(turn: Turn, call: ToolCall) -> None:
    Turn.objects.update(state=Turn.State.QUEUED)
    lease = acquire(turn.pk)
    assert lease is not None
    sweep.queue_unsettled()
    turn.refresh_from_db()
    assert (turn.state, turn.lease_owner) == (Turn.State.RUNNING, lease.owner)


# --- the jobs ------------------------------------------------------------------------------------
def test_only_turns_that_nobody_moves_are_taken_up(turn: Turn) -> None:
    assert sweep.find_abandoned_turns() == [turn.pk]
    acquire(turn.pk)
    assert sweep.find_abandoned_turns() == []
    Turn.objects.update(lease_until="2020-01-01T00:00Z")
    assert sweep.find_abandoned_turns() == [turn.pk]


def test_an_approval_that_is_late_expires_and_wakes_its_turn(turn: Turn, call: ToolCall) -> None:
    ToolCall.objects.update(state=State.AWAITING_APPROVAL, attempt=0)
    Approval.objects.create(tool_call=call, binding="b" * 64, expires_at="2020-01-01T00:00Z")
    sweep.expire_approvals()
    turn.refresh_from_db()
    call.refresh_from_db()
    assert (turn.state, call.state) == (Turn.State.QUEUED, State.EXPIRED)


def test_a_sweep_at_rest_is_one_statement(turn: Turn, django_assert_num_queries: Any) -> None:
    Turn.objects.update(state=Turn.State.WAITING)
    with django_assert_num_queries(1):
        due = sweep.find_due()
    assert (due.has_abandoned, due.jobs) == (False, ())


def test_a_turn_that_nobody_moves_is_due(turn: Turn) -> None:
    assert sweep.find_due().has_abandoned
    acquire(turn.pk)
    assert not sweep.find_due().has_abandoned
    Turn.objects.update(lease_until="2020-01-01T00:00Z")
    assert sweep.find_due().has_abandoned


STATES = {
    sweep.queue_unsettled: State.SENDING,
    sweep.expire_approvals: State.AWAITING_APPROVAL,
    expire_reviews: State.SUCCEEDED,
    approve_missed_sign_ins: State.AWAITING_SIGN_IN,
    expire_sign_ins: State.AWAITING_SIGN_IN,
    expire_questions: State.AWAITING_INPUT,
    approve_postponed_calls: State.AWAITING_TASK,
}


@pytest.mark.parametrize("job", sweep.JOBS)
def test_each_job_is_due_while_there_are_rows_for_it(
    turn: Turn, call: ToolCall, notebook: Service, job: Callable[[], None]
) -> None:
    ToolCall.objects.update(state=State.SUCCEEDED)
    assert job not in sweep.find_due().jobs
    early = "2020-01-01T00:00Z"
    ToolCall.objects.update(state=STATES[job], waits_until=early, service=notebook)
    if job == sweep.expire_approvals:
        Approval.objects.create(tool_call=call, binding="b" * 64, expires_at=early)
    elif job == expire_reviews:
        Review.objects.create(tool_call=call, binding="b" * 64, expires_at=early)
    elif job == expire_questions:
        Question.objects.create(tool_call=call, round=1, expires_at=early)
    assert job in sweep.find_due().jobs


async def test_a_job_that_has_not_ended_is_not_begun_again(
    turn: Turn, monkeypatch: pytest.MonkeyPatch, settings: pytest.FixtureRequest
) -> None:
    settings.SWEEP_SECONDS = 0.02  # type: ignore[attr-defined]
    ends, begun, others = threading.Event(), list[int](), list[int]()

    def wait() -> None:
        begun.append(1)
        ends.wait(30)

    jobs = {wait: Turn.objects.all, lambda: others.append(1): Turn.objects.all}
    monkeypatch.setattr(sweep, "JOBS", jobs)
    engine = Engine(current_runtime())
    engine.start()
    try:
        await wait_until(lambda: len(others) > 3)
        assert len(begun) == 1
        ends.set()
        await wait_until(lambda: len(begun) > 1)
    finally:
        ends.set()
        await engine.close()


@pytest.mark.parametrize("broken", [job.__name__ for job in sweep.JOBS])
async def test_a_job_of_the_sweep_that_fails_keeps_no_other_from_its_work(
    turn: Turn, monkeypatch: pytest.MonkeyPatch, settings: pytest.FixtureRequest, broken: str
) -> None:
    settings.SWEEP_SECONDS = 0.05  # type: ignore[attr-defined]
    done: list[str] = []

    def job(name: str) -> object:
        def do() -> None:
            done.append(name)
            if name == broken:
                raise OperationalError("away")

        return do

    names = [each.__name__ for each in sweep.JOBS]
    monkeypatch.setattr(sweep, "JOBS", {job(name): Turn.objects.all for name in names})
    scripted.scenes.append(text("Taken up."))
    engine = Engine(current_runtime())
    engine.start()
    try:
        await wait_until(lambda: all(done.count(name) > 1 for name in names))
        await wait_until(lambda: bool(scripted.closed))
    finally:
        await engine.close()
    assert await in_database(read_text, turn) in ("", "Taken up.")


async def test_a_sweep_that_cannot_take_up_turns_still_does_the_rest(
    turn: Turn, monkeypatch: pytest.MonkeyPatch, settings: pytest.FixtureRequest
) -> None:
    settings.SWEEP_SECONDS = 0.05  # type: ignore[attr-defined]
    done: list[int] = []

    def fail() -> None:
        raise OperationalError("away")

    monkeypatch.setattr(sweep, "find_abandoned_turns", fail)
    monkeypatch.setattr(sweep, "JOBS", {lambda: done.append(1): Turn.objects.all})
    engine = Engine(current_runtime())
    engine.start()
    try:
        await wait_until(lambda: len(done) > 2)
    finally:
        await engine.close()
