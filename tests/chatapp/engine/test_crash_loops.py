"""A model call that takes its worker down each time is given up some day; one that deploys cut off
is not, and neither is one that a person keeps stopping at."""

import asyncio

import pytest

from chatapp.calls.attempts import MAX_ATTEMPTS
from chatapp.engine.ending import finish_turn
from chatapp.engine.next_action import CallModel, Finish, next_action
from chatapp.engine.runtime import EngineRuntime, close_engine_runtime, open_engine_runtime
from chatapp.engine.steps import open_step
from chatapp.engine.turn_state import read_turn
from chatapp.journal.lease import Lease, acquire, drop, release
from chatapp.models import Step, Turn
from chatapp.providers.events import TextDelta
from chatapp.server.database import in_database
from tests import scripted
from tests.scripted import Pause, text
from tests.turns.acts import read_notices, read_text, wait_for_rest, wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def dies(lease: Lease) -> None:
    Turn.objects.filter(pk=lease.turn_id).update(lease_until="2020-01-01T00:00:00Z")


def began(turn: Turn) -> Lease | None:
    """A worker takes the turn and begins to ask the model; None when it is to be ended instead."""
    lease = acquire(turn.pk)
    assert lease is not None
    live, state = read_turn(lease)
    action = next_action(state)
    if isinstance(action, Finish):
        assert finish_turn(lease, live.signals, action.reason, action.sentence)
        return None
    assert action == CallModel(number=1)
    open_step(lease, 1)
    return lease


def test_a_model_call_that_ends_every_worker_is_given_up_with_a_plain_word(turn: Turn) -> None:
    deaths = 0
    while lease := began(turn):
        dies(lease)
        deaths += 1
        assert deaths <= MAX_ATTEMPTS, "It is taken up for ever."
    assert deaths == MAX_ATTEMPTS
    turn.refresh_from_db()
    assert (turn.state, turn.reason) == (Turn.State.FAILED, "failed")
    (notice,) = read_notices(turn)
    assert "stopped 5 times" in notice


def test_a_database_that_went_away_counts_as_a_death(turn: Turn) -> None:
    """Else a turn that cannot be stored would be asked for ever, at its owner's cost."""
    for _ in range(MAX_ATTEMPTS):
        lease = began(turn)
        assert lease is not None
        drop(lease)
    assert began(turn) is None


def test_deploys_in_the_middle_of_an_answer_never_give_it_up(turn: Turn) -> None:
    for _ in range(2 * MAX_ATTEMPTS):
        lease = began(turn)
        assert lease is not None, "Deploys alone ended the turn."
        release(lease)
    assert Step.objects.get().attempt == 2 * MAX_ATTEMPTS


def test_deaths_among_deploys_are_counted(turn: Turn) -> None:
    for _ in range(MAX_ATTEMPTS - 1):
        for end in (release, dies):
            lease = began(turn)
            assert lease is not None
            end(lease)
    lease = began(turn)
    assert lease is not None
    dies(lease)
    assert began(turn) is None


async def test_five_restarts_of_the_server_within_one_answer_end_in_the_answer(
    runtime: EngineRuntime, turn: Turn
) -> None:
    current = runtime
    for _ in range(MAX_ATTEMPTS):
        pause = Pause()
        scripted.scenes.append([TextDelta(text="Half an ans"), pause])
        current.engine.wake(turn.pk)
        async with asyncio.timeout(60):
            await pause.reached.wait()
        await close_engine_runtime(current)
        current = await open_engine_runtime(sweeps=False)
    scripted.scenes.append(text("The whole answer."))
    done = await wait_for_rest(current, turn)
    await close_engine_runtime(current)
    assert (done.state, await in_database(read_text, turn)) == (
        Turn.State.DONE,
        "The whole answer.",
    )


async def test_an_engine_ends_the_turn_that_has_killed_too_many(
    runtime: EngineRuntime, turn: Turn
) -> None:
    for _ in range(MAX_ATTEMPTS):
        lease = await in_database(began, turn)
        assert lease is not None
        await in_database(dies, lease)
    done = await wait_for_rest(runtime, turn)
    assert done.state == Turn.State.FAILED
    assert not scripted.requests, "The model was asked once more."


async def test_a_worker_that_dies_while_tools_are_listed_has_begun_an_attempt(
    runtime: EngineRuntime, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step is opened before anything of a service is read."""
    reading = asyncio.Event()

    async def never(*_: object) -> None:
        reading.set()
        await asyncio.Event().wait()

    monkeypatch.setattr("chatapp.engine.model_request.load_fresh_catalogue", lambda *_: None)
    monkeypatch.setattr("chatapp.engine.model_request.build_catalogue", never)
    runtime.engine.wake(turn.pk)
    await wait_until(reading.is_set)
    step = await in_database(Step.objects.get)
    assert (step.state, step.attempt) == (Step.State.CALLING, 1)
