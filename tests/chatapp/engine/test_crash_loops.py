"""A model call that takes its worker down each time is given up some day; one that deploys cut off
is not, and neither is one that a person keeps stopping at."""

import asyncio

import pytest

from chatapp.models import Step, Turn
from chatapp.providers.events import TextDelta
from chatapp.storage import in_database
from chatapp.turns.budgets import read_turn
from chatapp.turns.ending import finish
from chatapp.turns.lease import Lease, acquire, drop, release
from chatapp.turns.next_action import MOST_ATTEMPTS, CallModel, Finish, next_action
from chatapp.turns.steps import open_step
from chatapp.turns.workplace import Workplace, close_workplace, open_workplace
from tests import scripted
from tests.scripted import Pause, text

from .acts import notices, rest, said, until

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
        assert finish(lease, live.signals, action.reason, action.sentence)
        return None
    assert action == CallModel(number=1)
    open_step(lease, 1)
    return lease


def test_a_model_call_that_ends_every_worker_is_given_up_with_a_plain_word(turn: Turn) -> None:
    deaths = 0
    while lease := began(turn):
        dies(lease)
        deaths += 1
        assert deaths <= MOST_ATTEMPTS, "It is taken up for ever."
    assert deaths == MOST_ATTEMPTS
    turn.refresh_from_db()
    assert (turn.state, turn.reason) == (Turn.State.FAILED, "failed")
    (notice,) = notices(turn)
    assert "stopped 5 times" in notice


def test_a_database_that_went_away_counts_as_a_death(turn: Turn) -> None:
    """Else a turn that cannot be stored would be asked for ever, at its owner's cost."""
    for _ in range(MOST_ATTEMPTS):
        lease = began(turn)
        assert lease is not None
        drop(lease)
    assert began(turn) is None


def test_deploys_in_the_middle_of_an_answer_never_give_it_up(turn: Turn) -> None:
    for _ in range(2 * MOST_ATTEMPTS):
        lease = began(turn)
        assert lease is not None, "Deploys alone ended the turn."
        release(lease)
    assert Step.objects.get().attempt == 2 * MOST_ATTEMPTS


def test_deaths_among_deploys_are_counted(turn: Turn) -> None:
    for _ in range(MOST_ATTEMPTS - 1):
        for end in (release, dies):
            lease = began(turn)
            assert lease is not None
            end(lease)
    lease = began(turn)
    assert lease is not None
    dies(lease)
    assert began(turn) is None


async def test_five_restarts_of_the_server_within_one_answer_end_in_the_answer(
    workplace: Workplace, turn: Turn
) -> None:
    current = workplace
    for _ in range(MOST_ATTEMPTS):
        pause = Pause()
        scripted.scenes.append([TextDelta(text="Half an ans"), pause])
        current.engine.wake(turn.pk)
        async with asyncio.timeout(10):
            await pause.reached.wait()
        await close_workplace(current)
        current = await open_workplace(sweeps=False)
    scripted.scenes.append(text("The whole answer."))
    done = await rest(current, turn)
    await close_workplace(current)
    assert (done.state, await in_database(said, turn)) == (Turn.State.DONE, "The whole answer.")


async def test_an_engine_ends_the_turn_that_has_killed_too_many(
    workplace: Workplace, turn: Turn
) -> None:
    for _ in range(MOST_ATTEMPTS):
        lease = await in_database(began, turn)
        assert lease is not None
        await in_database(dies, lease)
    done = await rest(workplace, turn)
    assert done.state == Turn.State.FAILED
    assert not scripted.requests, "The model was asked once more."


async def test_a_worker_that_dies_while_tools_are_listed_has_begun_an_attempt(
    workplace: Workplace, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step is opened before anything of a service is read."""
    reading = asyncio.Event()

    async def never(*_: object) -> None:
        reading.set()
        await asyncio.Event().wait()

    monkeypatch.setattr("chatapp.turns.engine.catalogue_for", never)
    workplace.engine.wake(turn.pk)
    await until(reading.is_set)
    step = await in_database(Step.objects.get)
    assert (step.state, step.attempt) == (Step.State.CALLING, 1)
