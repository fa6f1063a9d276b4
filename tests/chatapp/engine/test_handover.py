"""Engines that close: whatever they were about to do, the turn is free for the next one at once."""

import asyncio

import pytest

from chatapp.models import Conversation, Step, Turn
from chatapp.providers.events import TextDelta
from chatapp.storage import in_database
from chatapp.turns import engine as engines
from chatapp.turns import group_commit, intake
from chatapp.turns.engine import Engine
from chatapp.turns.lease import acquire
from chatapp.turns.reading import read_conversation
from chatapp.turns.workplace import Workplace, close_workplace, open_workplace
from tests import scripted
from tests.scripted import Pause, Scene, text

from .acts import notices, reached, rest, said, until
from .faults import Held

pytestmark = pytest.mark.django_db(transaction=True)


async def in_the_middle(workplace: Workplace, turn: Turn) -> Pause:
    """The model has begun to answer and pauses."""
    pause = Pause()
    scripted.scenes.append([TextDelta(text="Half an ans"), pause, *text("wer")])
    workplace.engine.wake(turn.pk)
    async with asyncio.timeout(10):
        await pause.reached.wait()
    await until_stored(workplace)
    return pause


async def until_stored(workplace: Workplace) -> None:
    """Until all that was said so far is in the journal."""
    commit = workplace.engine.commit
    await until(lambda: not commit._waiting and not commit._committing.locked())


async def test_closing_while_the_model_answers_frees_the_turn(
    workplace: Workplace, turn: Turn
) -> None:
    await in_the_middle(workplace, turn)
    await close_workplace(workplace)
    now = await in_database(Turn.objects.get, pk=turn.pk)
    assert (now.state, now.lease_owner, now.lease_until) == (Turn.State.QUEUED, "", None)
    lease = await in_database(acquire, turn.pk)
    assert lease is not None
    assert lease.was_handed_on


async def test_words_that_were_not_stored_when_the_engine_closes_are_forgotten(
    workplace: Workplace, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has seen them, and the model is asked anew."""
    monkeypatch.setattr(group_commit, "TICK_SECONDS", 60.0)
    first, second = Pause(), Pause()
    words: Scene = [TextDelta(text="Half"), first, TextDelta(text=" an ans"), second]
    scripted.scenes.append(words)
    workplace.engine.wake(turn.pk)
    async with asyncio.timeout(10):
        await first.reached.wait()
        await until_stored(workplace)
        first.ended.set()
        await second.reached.wait()
    assert workplace.engine.commit._waiting
    await close_workplace(workplace)
    assert not workplace.engine.commit._waiting


async def test_closing_while_a_lease_is_being_taken_leaves_none_behind(
    workplace: Workplace, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    taking = Held(acquire)
    monkeypatch.setattr(engines, "acquire", taking)
    workplace.engine.wake(turn.pk)
    await reached(taking.reached)
    closing = asyncio.create_task(close_workplace(workplace))
    await asyncio.wait([closing], timeout=0.2)
    taking.released.set()
    await closing
    now = await in_database(Turn.objects.get, pk=turn.pk)
    assert (now.state, now.lease_owner) == (Turn.State.QUEUED, "")
    assert await in_database(acquire, turn.pk) is not None


async def test_a_lease_that_is_not_to_be_had_is_not_given_back(
    workplace: Workplace, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = await in_database(acquire, turn.pk)
    assert held is not None
    taking = Held(acquire)
    monkeypatch.setattr(engines, "acquire", taking)
    workplace.engine.wake(turn.pk)
    await reached(taking.reached)
    closing = asyncio.create_task(close_workplace(workplace))
    await asyncio.wait([closing], timeout=0.2)
    taking.released.set()
    await closing
    now = await in_database(Turn.objects.get, pk=turn.pk)
    assert (now.state, now.lease_owner) == (Turn.State.RUNNING, held.owner)


async def test_a_closed_engine_takes_nothing_up_any_more(turn: Turn) -> None:
    engine = Engine()
    engine.start(sweeps=False)
    engine.wake(turn.pk)  # heard by the loop only once the engine is closed
    await engine.close()
    if engine._tasks:
        await asyncio.wait(engine._tasks, timeout=5)
    now = await in_database(Turn.objects.get, pk=turn.pk)
    assert (now.state, now.lease_owner) == (Turn.State.QUEUED, "")


async def test_a_turn_that_was_woken_while_it_ran_is_not_begun_by_a_closed_engine(
    workplace: Workplace, turn: Turn
) -> None:
    await in_the_middle(workplace, turn)
    workplace.engine.wake(turn.pk)
    await asyncio.sleep(0)
    await close_workplace(workplace)
    now = await in_database(Turn.objects.get, pk=turn.pk)
    assert (now.state, now.lease_owner) == (Turn.State.QUEUED, "")
    assert len(scripted.requests) == 1


async def test_words_stay_on_the_page_between_two_workers(workplace: Workplace, turn: Turn) -> None:
    await in_the_middle(workplace, turn)
    await close_workplace(workplace)
    conversation = await in_database(Conversation.objects.get)
    view = await in_database(read_conversation, conversation)
    (part,) = view.messages[-1].parts
    assert "Half an ans" in f"{getattr(part, 'blocks', '')}{getattr(part, 'tail', '')}"


async def test_stop_of_a_turn_that_was_handed_on_keeps_its_words(
    workplace: Workplace, turn: Turn
) -> None:
    await in_the_middle(workplace, turn)
    await close_workplace(workplace)
    await in_database(intake.stop, turn.conversation)
    now = await in_database(Turn.objects.get, pk=turn.pk)
    assert now.state == Turn.State.STOPPED
    assert await in_database(said, turn) == "Half an ans"
    assert await in_database(notices, turn) == ["Stopped by you."]
    step = await in_database(Step.objects.get)
    assert step.state == Step.State.INTERRUPTED


async def test_the_next_engine_finishes_what_was_handed_on(
    workplace: Workplace, turn: Turn
) -> None:
    await in_the_middle(workplace, turn)
    await close_workplace(workplace)
    scripted.scenes.append(text("The whole answer."))
    successor = await open_workplace(sweeps=False)
    done = await rest(successor, turn)
    await close_workplace(successor)
    assert (done.state, await in_database(said, turn)) == (Turn.State.DONE, "The whole answer.")
