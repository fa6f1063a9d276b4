"""Engines that close: whatever they were about to do, the turn is free for the next one at once."""

import asyncio

import pytest

from chatapp.conversations import intake
from chatapp.engine import engine as engines
from chatapp.engine.engine import Engine
from chatapp.engine.runtime import EngineRuntime, close_engine_runtime, open_engine_runtime
from chatapp.engine.step_opening import begin_turn
from chatapp.journal import group_commit
from chatapp.journal.lease import acquire
from chatapp.live.page_view import load_conversation_view
from chatapp.models import Conversation, Step, Turn
from chatapp.providers.events import TextDelta
from chatapp.server.database import in_database
from chatapp.server.runtime import current_runtime
from tests import scripted
from tests.scripted import Pause, Scene, calls, text
from tests.turns.acts import read_notices, read_text, wait_for_event, wait_for_rest, wait_until
from tests.turns.faults import Held

pytestmark = pytest.mark.django_db(transaction=True)


async def in_the_middle(runtime: EngineRuntime, turn: Turn) -> Pause:
    """The model has begun to answer and pauses."""
    pause = Pause()
    scripted.scenes.append([TextDelta(text="Half an ans"), pause, *text("wer")])
    runtime.engine.wake(turn.pk)
    async with asyncio.timeout(60):
        await pause.reached.wait()
    await until_stored(runtime)
    return pause


async def until_stored(runtime: EngineRuntime) -> None:
    """Until all that was said so far is in the journal."""
    commit = runtime.engine.commit
    await wait_until(lambda: not commit._waiting and not commit._committing.locked())


async def test_closing_while_the_model_answers_frees_the_turn(
    runtime: EngineRuntime, turn: Turn
) -> None:
    await in_the_middle(runtime, turn)
    await close_engine_runtime(runtime)
    now = await in_database(Turn.objects.get, pk=turn.pk)
    assert (now.state, now.lease_owner, now.lease_until) == (Turn.State.QUEUED, "", None)
    lease = await in_database(acquire, turn.pk)
    assert lease is not None
    assert lease.was_handed_on


async def test_words_that_were_not_stored_when_the_engine_closes_are_forgotten(
    runtime: EngineRuntime, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has seen them, and the model is asked again."""
    monkeypatch.setattr(group_commit, "TICK_SECONDS", 60.0)
    first, second = Pause(), Pause()
    words: Scene = [TextDelta(text="Half"), first, TextDelta(text=" an ans"), second]
    scripted.scenes.append(words)
    runtime.engine.wake(turn.pk)
    async with asyncio.timeout(60):
        await first.reached.wait()
        await until_stored(runtime)
        first.ended.set()
        await second.reached.wait()
    assert runtime.engine.commit._waiting
    await close_engine_runtime(runtime)
    assert not runtime.engine.commit._waiting


async def test_an_answer_that_ends_within_the_wait_of_a_shutdown_is_whole(
    runtime: EngineRuntime, turn: Turn
) -> None:
    pause = await in_the_middle(runtime, turn)
    closing = asyncio.create_task(close_engine_runtime(runtime, wait_seconds=60))
    done, _ = await asyncio.wait([closing], timeout=0.3)
    assert not done, "It did not wait for the answer."
    pause.ended.set()
    await closing
    now = await in_database(Turn.objects.get, pk=turn.pk)
    assert (now.state, await in_database(read_text, turn)) == (Turn.State.DONE, "Half an answer")


async def test_an_engine_that_shuts_down_calls_no_model_again(
    runtime: EngineRuntime, turn: Turn
) -> None:
    """The step ends with a call that needs no person, so the next step would follow."""
    pause = Pause()
    scripted.scenes.append([pause, *calls(("current_time", "{}"))])
    runtime.engine.wake(turn.pk)
    async with asyncio.timeout(60):
        await pause.reached.wait()
    closing = asyncio.create_task(close_engine_runtime(runtime, wait_seconds=60))
    await asyncio.sleep(0)
    pause.ended.set()
    await closing
    now = await in_database(Turn.objects.get, pk=turn.pk)
    assert (now.state, now.lease_owner, len(scripted.requests)) == (Turn.State.QUEUED, "", 1)


async def test_closing_while_a_lease_is_being_taken_leaves_none_behind(
    runtime: EngineRuntime, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    taking = Held(begin_turn)
    monkeypatch.setattr(engines, "begin_turn", taking)
    runtime.engine.wake(turn.pk)
    await wait_for_event(taking.reached)
    closing = asyncio.create_task(close_engine_runtime(runtime))
    await asyncio.wait([closing], timeout=0.2)
    taking.released.set()
    await closing
    now = await in_database(Turn.objects.get, pk=turn.pk)
    assert (now.state, now.lease_owner) == (Turn.State.QUEUED, "")
    assert await in_database(acquire, turn.pk) is not None


async def test_a_lease_that_is_not_to_be_had_is_not_given_back(
    runtime: EngineRuntime, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = await in_database(acquire, turn.pk)
    assert held is not None
    taking = Held(begin_turn)
    monkeypatch.setattr(engines, "begin_turn", taking)
    runtime.engine.wake(turn.pk)
    await wait_for_event(taking.reached)
    closing = asyncio.create_task(close_engine_runtime(runtime))
    await asyncio.wait([closing], timeout=0.2)
    taking.released.set()
    await closing
    now = await in_database(Turn.objects.get, pk=turn.pk)
    assert (now.state, now.lease_owner) == (Turn.State.RUNNING, held.owner)


async def test_a_closed_engine_takes_nothing_up_any_more(turn: Turn) -> None:
    engine = Engine(current_runtime())
    engine.start(sweeps=False)
    engine.wake(turn.pk)  # heard by the loop only once the engine is closed
    await engine.close()
    if engine._tasks:
        await asyncio.wait(engine._tasks, timeout=5)
    now = await in_database(Turn.objects.get, pk=turn.pk)
    assert (now.state, now.lease_owner) == (Turn.State.QUEUED, "")


async def test_a_turn_that_was_woken_while_it_ran_is_not_begun_by_a_closed_engine(
    runtime: EngineRuntime, turn: Turn
) -> None:
    await in_the_middle(runtime, turn)
    runtime.engine.wake(turn.pk)
    await asyncio.sleep(0)
    await close_engine_runtime(runtime)
    now = await in_database(Turn.objects.get, pk=turn.pk)
    assert (now.state, now.lease_owner) == (Turn.State.QUEUED, "")
    assert len(scripted.requests) == 1


async def test_words_stay_on_the_page_between_two_workers(
    runtime: EngineRuntime, turn: Turn
) -> None:
    await in_the_middle(runtime, turn)
    await close_engine_runtime(runtime)
    conversation = await in_database(Conversation.objects.get)
    view = await in_database(load_conversation_view, conversation)
    (part,) = view.messages[-1].parts
    assert "Half an ans" in f"{getattr(part, 'blocks', '')}{getattr(part, 'tail', '')}"


async def test_stop_of_a_turn_that_was_handed_on_keeps_its_words(
    runtime: EngineRuntime, turn: Turn
) -> None:
    await in_the_middle(runtime, turn)
    await close_engine_runtime(runtime)
    await in_database(intake.stop, turn.conversation)
    now = await in_database(Turn.objects.get, pk=turn.pk)
    assert now.state == Turn.State.STOPPED
    assert await in_database(read_text, turn) == "Half an ans"
    assert await in_database(read_notices, turn) == ["You stopped this answer."]
    step = await in_database(Step.objects.get)
    assert step.state == Step.State.INTERRUPTED


async def test_the_next_engine_finishes_what_was_handed_on(
    runtime: EngineRuntime, turn: Turn
) -> None:
    await in_the_middle(runtime, turn)
    await close_engine_runtime(runtime)
    scripted.scenes.append(text("The whole answer."))
    successor = await open_engine_runtime(sweeps=False)
    done = await wait_for_rest(successor, turn)
    await close_engine_runtime(successor)
    assert (done.state, await in_database(read_text, turn)) == (
        Turn.State.DONE,
        "The whole answer.",
    )
