"""Stop: whatever it meets, the turn ends once, and what was said before it is on the page in its
order."""

import asyncio
from typing import Any

import pytest

from chatapp.conversations import intake
from chatapp.engine import engine as engines
from chatapp.engine import model_call
from chatapp.engine.ending import finish_turn
from chatapp.engine.runtime import EngineRuntime
from chatapp.engine.steps import close_step
from chatapp.journal import group_commit
from chatapp.models import JournalEvent, Turn
from chatapp.providers.events import ReasoningDelta, TextDelta
from chatapp.server.database import in_database
from tests import scripted
from tests.scripted import Pause, Scene, text
from tests.turns.acts import (
    read_notices,
    read_text,
    wait_for_event,
    wait_for_rest,
    wait_until,
    wait_until_released,
)
from tests.turns.faults import Away, Held

pytestmark = pytest.mark.django_db(transaction=True)
Kind = JournalEvent.Kind


async def pausing(runtime: EngineRuntime, turn: Turn, *words: str) -> None:
    """The model has said these words and pauses."""
    pause = Pause()
    scripted.scenes.append([*(TextDelta(text=word) for word in words), pause, *text("never")])
    runtime.engine.wake(turn.pk)
    async with asyncio.timeout(60):
        await pause.reached.wait()


async def stopped(runtime: EngineRuntime, turn: Turn) -> Turn:
    """Press Stop, and wait for the end."""
    await in_database(intake.stop, turn.conversation)
    return await wait_for_rest(runtime, turn)


def kinds(turn: Turn) -> list[str]:
    return [event.kind for event in JournalEvent.objects.filter(turn=turn)]


async def test_words_that_were_not_stored_yet_come_before_the_end_of_their_step(
    runtime: EngineRuntime, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "TICK_SECONDS", 60.0)  # only Stop itself flushes
    commit = runtime.engine.commit
    first, second = Pause(), Pause()
    words: Scene = [TextDelta(text="Half"), first, TextDelta(text=" an ans"), second]
    scripted.scenes.append(words)
    runtime.engine.wake(turn.pk)
    async with asyncio.timeout(60):
        await first.reached.wait()
        await wait_until(lambda: not commit._waiting and not commit._committing.locked())
        first.ended.set()
        await second.reached.wait()
    assert commit._waiting
    done = await stopped(runtime, turn)
    assert done.state == Turn.State.STOPPED
    events = await in_database(kinds, turn)
    assert events.index(Kind.TEXT) < events.index(Kind.STEP)
    assert Kind.TEXT not in events[events.index(Kind.STEP) :]
    texts = await in_database(lambda: list(JournalEvent.objects.filter(kind=Kind.TEXT)))
    assert "".join(event.data["text"] for event in texts) == "Half an ans"
    assert await in_database(read_text, turn) == "Half an ans"


async def test_two_clicks_on_stop_end_the_turn_once(
    runtime: EngineRuntime, turn: Turn, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    """The second one comes between the look at the turn and its end."""
    settings.LEASE_SECONDS = 3600  # it is not the end of the lease that ends the turn
    ending = Held(finish_turn)
    monkeypatch.setattr(engines, "finish_turn", ending)
    await pausing(runtime, turn, "Half an ans")
    await in_database(intake.stop, turn.conversation)
    await wait_for_event(ending.reached)
    await in_database(intake.stop, turn.conversation)
    ending.released.set()
    async with asyncio.timeout(60):
        done = await wait_for_rest(runtime, turn)
    assert (done.state, done.signals) == (Turn.State.STOPPED, 2)
    assert await in_database(read_notices, turn) == ["You stopped this answer."]
    ends = [kind for kind in await in_database(kinds, turn) if kind == Kind.NOTICE]
    assert len(ends) == 1


async def test_stop_in_the_moment_in_which_the_answer_is_stored_keeps_it_whole(
    runtime: EngineRuntime, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    closing = Held(close_step)
    monkeypatch.setattr(model_call, "close_step", closing)
    scripted.scenes.append(text("All of ", "it."))
    runtime.engine.wake(turn.pk)
    await wait_for_event(closing.reached)
    await in_database(intake.stop, turn.conversation)
    over = asyncio.create_task(wait_until_released(runtime.engine, turn.pk))
    done, _ = await asyncio.wait([over], timeout=1.0)
    assert not done, "It did not wait until the answer was stored."
    closing.released.set()
    await over
    after = await wait_for_rest(runtime, turn)
    step = await in_database(turn.steps.get)
    assert (after.state, step.state) == (Turn.State.STOPPED, "done")
    assert await in_database(read_text, turn) == "All of it."


async def test_stop_while_the_database_is_away_for_a_moment_keeps_the_words(
    runtime: EngineRuntime, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = Away(close_step, 2)
    monkeypatch.setattr(model_call, "close_step", away)
    await pausing(runtime, turn, "Half an ans")
    done = await stopped(runtime, turn)
    assert (done.state, away.failures) == (Turn.State.STOPPED, 2)
    assert await in_database(read_text, turn) == "Half an ans"


async def test_an_answer_whose_commit_lost_its_answer_is_stored_once(
    runtime: EngineRuntime, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = Away(close_step, 1, loses_answers=True)
    monkeypatch.setattr(model_call, "close_step", away)
    scripted.scenes.append([ReasoningDelta(text="Hm."), *text("Once.")])
    done = await wait_for_rest(runtime, turn)
    assert (done.state, await in_database(read_text, turn)) == (Turn.State.DONE, "Once.")
    assert (await in_database(kinds, turn)).count(Kind.STEP) == 1
    assert len(scripted.requests) == 1


async def test_stop_before_the_first_word_leaves_an_answer_without_words(
    runtime: EngineRuntime, turn: Turn
) -> None:
    await pausing(runtime, turn)
    done = await stopped(runtime, turn)
    assert done.state == Turn.State.STOPPED
    assert await in_database(read_text, turn) == ""
    assert await in_database(read_notices, turn) == ["You stopped this answer."]


async def test_a_draft_is_forgotten_however_its_model_call_ends(
    runtime: EngineRuntime, turn: Turn
) -> None:
    scripted.scenes.append([TextDelta(text="So"), TextDelta(text=" far"), RuntimeError("a bug")])
    done = await wait_for_rest(runtime, turn)
    assert done.state == Turn.State.FAILED
    assert not runtime.engine.commit._waiting
    assert await in_database(read_text, turn) == "So far"


async def test_a_character_that_no_database_keeps_is_replaced_in_the_words(
    runtime: EngineRuntime, turn: Turn
) -> None:
    """PostgreSQL refuses NUL; one turn's model must not be able to stop a group commit with it."""
    scripted.scenes.append(text("a\x00b", "\x00", "c\ud800d"))
    done = await wait_for_rest(runtime, turn)
    assert done.state == Turn.State.DONE
    assert await in_database(read_text, turn) == "a\ufffdb\ufffdc?d"
