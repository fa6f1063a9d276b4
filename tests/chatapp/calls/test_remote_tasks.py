"""Long tasks of a service: the turn is parked, the sweep asks after the task, and what comes of it
settles the call. The service is a server with the extension for tasks."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.utils import timezone

from chatapp.approvals import decisions
from chatapp.calls import remote_tasks
from chatapp.calls.remote_tasks import poll_due
from chatapp.conversations import intake
from chatapp.conversations.turn_events import list_waiting
from chatapp.engine.runtime import EngineRuntime
from chatapp.models import Member, RemoteTask, ToolCall, Turn
from chatapp.server.database import in_database
from mcpconfig.models import Exchange, Service
from tests import scripted
from tests.peers.errands import Errands, application
from tests.peers.serving import Served
from tests.scripted import text
from tests.turns.acts import create_offered_service, read_last_outcome, wait_for_rest
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


async def test_the_turn_is_parked_and_goes_on_with_the_result(
    runtime: EngineRuntime, served: Served, turn: Turn, errands: Errands
) -> None:
    call = await started(runtime, turn)
    errands.done(TASK, "Bread and milk.")
    await polled()
    done = await wait_for_rest(runtime, turn)
    call = await call_of(turn)
    assert (done.state, call.state) == (Turn.State.DONE, State.SUCCEEDED)
    assert call.content[0]["text"] == "Bread and milk."
    assert read_last_outcome() == "Bread and milk."
    assert len(errands.tasks) == 1
    polls = Exchange.objects.filter(operation="get_task").values_list("round_id", flat=True)
    assert set(await in_database(list, polls)) == {str(call.pk)}


async def test_nobody_asks_before_the_services_own_pace(
    runtime: EngineRuntime, served: Served, turn: Turn, errands: Errands
) -> None:
    await started(runtime, turn)
    served.arrivals.clear()
    await poll_due()
    assert served.arrivals.seen == []
    await polled()
    assert len(served.arrivals.seen) == 1
    await poll_due()
    assert len(served.arrivals.seen) == 1


async def test_of_two_processes_one_asks(
    runtime: EngineRuntime, served: Served, turn: Turn
) -> None:
    await started(runtime, turn)
    past = timezone.now() - timedelta(seconds=1)
    await in_database(RemoteTask.objects.update, next_poll_at=past)
    first = await in_database(remote_tasks.claim_due)
    second = await in_database(remote_tasks._claim, first[0])
    assert (len(first), second) == (1, False)


async def test_the_card_runs_and_says_how_far_it_is(
    runtime: EngineRuntime, served: Served, turn: Turn, errands: Errands
) -> None:
    call = await started(runtime, turn)
    assert "On the way." in (await in_database(card, call)).text
    errands.goes_on(TASK, statusMessage="At the till.")
    await polled()
    shown = await in_database(card, await call_of(turn))
    assert "At the till." in shown.text and "running" in shown.text
    (told,) = await in_database(list_waiting, turn)
    assert (told["kind"], told["id"]) == ("task", str(call.pk))


async def test_the_person_may_go_on_in_another_conversation(
    runtime: EngineRuntime, served: Served, turn: Turn, owner: Member
) -> None:
    await started(runtime, turn)
    scripted.scenes[:] = [text("Hello to you.")]
    other = await in_database(
        lambda: intake.receive(owner, None, text="Hello", model=scripted.MODEL)
    )
    assert (await wait_for_rest(runtime, other)).state == Turn.State.DONE


# --- other ends ----------------------------------------------------------------------------------
async def test_a_tool_that_failed_in_its_task_has_failed(
    runtime: EngineRuntime, served: Served, turn: Turn, errands: Errands
) -> None:
    await started(runtime, turn)
    errands.done(TASK, "The shop was closed.", is_error=True)
    await polled()
    await wait_for_rest(runtime, turn)
    assert (await call_of(turn)).state == State.FAILED
    assert read_last_outcome() == "The shop was closed."


@pytest.mark.parametrize(
    ("said", "state", "words"),
    [
        ({"status": "failed", "error": {"message": "no wheels"}}, State.FAILED, "no wheels"),
        (
            {"status": "cancelled", "statusMessage": ""},
            State.CANCELLED,
            "it ran for a while. The service cancelled the task. It may have taken effect",
        ),
        (
            {"status": "cancelled", "statusMessage": "Three of five parcels are on their way."},
            State.CANCELLED,
            "The service cancelled the task and said: “Three of five parcels are on their way.”",
        ),
    ],
)
async def test_a_task_that_ends_without_a_result_ends_its_call(
    runtime: EngineRuntime,
    served: Served,
    turn: Turn,
    errands: Errands,
    said: dict[str, object],
    state: str,
    words: str,
) -> None:
    await started(runtime, turn)
    errands.goes_on(TASK, **said)
    await polled()
    await wait_for_rest(runtime, turn)
    assert (await call_of(turn)).state == state
    assert words in read_last_outcome()


async def test_a_task_that_the_service_has_forgotten_has_an_unknown_outcome(
    runtime: EngineRuntime, served: Served, turn: Turn, errands: Errands
) -> None:
    await started(runtime, turn)
    errands.tasks.clear()
    await polled()
    waiting = await wait_for_rest(runtime, turn)
    call = await call_of(turn)
    assert (waiting.state, call.state) == (Turn.State.WAITING, State.UNKNOWN)
    assert call.error is not None and "no longer knows this task" in call.error["message"]


async def test_a_task_without_an_end_is_given_up_at_its_deadline(
    runtime: EngineRuntime, served: Served, turn: Turn
) -> None:
    await started(runtime, turn)
    await in_database(RemoteTask.objects.update, deadline=timezone.now())
    await polled()
    assert (await call_of(turn)).state == State.UNKNOWN
    assert await in_database(RemoteTask.objects.exclude(next_poll_at=None).count) == 0


async def test_a_service_that_is_away_is_asked_again_and_less_often(
    runtime: EngineRuntime, served: Served, turn: Turn, errands: Errands
) -> None:
    await started(runtime, turn)
    await in_database(Service.objects.update, allows_private_addresses=False)
    for failures in (1, 2):
        await polled()
        task = await in_database(RemoteTask.objects.get)
        wait = task.next_poll_at - timezone.now()  # type: ignore[operator]  # it is planned
        assert task.failures == failures
        assert wait > timedelta(seconds=task.poll_seconds * 2**failures - 2)
    assert (await call_of(turn)).state == State.AWAITING_TASK
    await in_database(Service.objects.update, allows_private_addresses=True)
    errands.done(TASK, "At last.")
    await polled()
    await wait_for_rest(runtime, turn)
    assert (await call_of(turn)).state == State.SUCCEEDED


async def test_a_process_that_ends_while_it_asks_lets_another_ask_at_once(
    runtime: EngineRuntime, served: Served, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    await started(runtime, turn)
    asking_now = asyncio.Event()

    async def held(*_: object, **__: object) -> None:
        asking_now.set()
        await asyncio.Event().wait()

    monkeypatch.setattr("chatapp.calls.remote_tasks.tasks.get_task", held)
    polling = asyncio.create_task(polled())
    async with asyncio.timeout(60):
        await asking_now.wait()
    polling.cancel()
    await asyncio.gather(polling, return_exceptions=True)
    assert len(await in_database(remote_tasks.claim_due)) == 1


# --- cancel and Stop -----------------------------------------------------------------------------
async def test_cancel_reaches_the_service_and_what_came_counts(
    runtime: EngineRuntime, served: Served, turn: Turn, errands: Errands
) -> None:
    call = await started(runtime, turn)
    await in_database(decisions.cancel_call, call)
    await poll_due()
    assert errands.cancelled == [TASK]
    errands.goes_on(TASK, status="cancelled")
    await polled()
    done = await wait_for_rest(runtime, turn)
    assert (await call_of(turn)).state == State.CANCELLED
    assert (done.state, errands.cancelled) == (Turn.State.DONE, [TASK])
    assert "it ran for a while" in read_last_outcome()


async def test_stop_reaches_the_service_and_the_card_says_what_came_of_it(
    runtime: EngineRuntime, served: Served, turn: Turn, errands: Errands
) -> None:
    await started(runtime, turn)
    await in_database(intake.stop, turn.conversation)
    stopped = await call_of(turn)
    assert (stopped.state, stopped.turn.state) == (State.UNKNOWN, Turn.State.STOPPED)
    errands.goes_on(TASK, status="cancelled")
    await poll_due()
    assert errands.cancelled == [TASK]
    assert (await call_of(turn)).state == State.CANCELLED


async def test_what_a_person_has_said_of_a_stopped_task_stays(
    runtime: EngineRuntime, served: Served, turn: Turn, errands: Errands
) -> None:
    await started(runtime, turn)
    await in_database(intake.stop, turn.conversation)
    await in_database(ToolCall.objects.update, state=State.FAILED, resolution="did-not")
    errands.done(TASK, "Too late.")
    await poll_due()
    call = await call_of(turn)
    assert (call.state, call.result) == (State.FAILED, None)
