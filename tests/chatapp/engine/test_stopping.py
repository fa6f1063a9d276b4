"""Stop: whatever it meets, the turn ends once, and what was said before it is on the page in its
order."""

import asyncio

import pytest

from chatapp.models import JournalEvent, Turn
from chatapp.providers.events import ReasoningDelta, TextDelta
from chatapp.storage import in_database
from chatapp.turns import engine as engines
from chatapp.turns import group_commit, intake, model_call
from chatapp.turns.ending import finish
from chatapp.turns.steps import close_step
from chatapp.turns.workplace import Workplace
from tests import scripted
from tests.scripted import Pause, Scene, text

from .acts import notices, reached, rest, said, until
from .faults import Away, Held

pytestmark = pytest.mark.django_db(transaction=True)
Kind = JournalEvent.Kind


async def pausing(workplace: Workplace, turn: Turn, *words: str) -> None:
    """The model has said these words and pauses."""
    pause = Pause()
    scripted.scenes.append([*(TextDelta(text=word) for word in words), pause, *text("never")])
    workplace.engine.wake(turn.pk)
    async with asyncio.timeout(10):
        await pause.reached.wait()


async def stopped(workplace: Workplace, turn: Turn) -> Turn:
    """Press Stop, and wait for the end."""
    await in_database(intake.stop, turn.conversation)
    return await rest(workplace, turn)


def kinds(turn: Turn) -> list[str]:
    return [event.kind for event in JournalEvent.objects.filter(turn=turn)]


async def test_words_that_were_not_stored_yet_come_before_the_end_of_their_step(
    workplace: Workplace, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "TICK_SECONDS", 60.0)  # only Stop itself flushes
    commit = workplace.engine.commit
    first, second = Pause(), Pause()
    words: Scene = [TextDelta(text="Half"), first, TextDelta(text=" an ans"), second]
    scripted.scenes.append(words)
    workplace.engine.wake(turn.pk)
    async with asyncio.timeout(10):
        await first.reached.wait()
        await until(lambda: not commit._waiting and not commit._committing.locked())
        first.ended.set()
        await second.reached.wait()
    assert commit._waiting
    done = await stopped(workplace, turn)
    assert done.state == Turn.State.STOPPED
    events = await in_database(kinds, turn)
    assert events.index(Kind.TEXT) < events.index(Kind.STEP)
    assert Kind.TEXT not in events[events.index(Kind.STEP) :]
    texts = await in_database(lambda: list(JournalEvent.objects.filter(kind=Kind.TEXT)))
    assert "".join(event.data["text"] for event in texts) == "Half an ans"
    assert await in_database(said, turn) == "Half an ans"


async def test_two_clicks_on_stop_end_the_turn_once(
    workplace: Workplace, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one comes between the look at the turn and its end."""
    ending = Held(finish)
    monkeypatch.setattr(engines, "finish", ending)
    await pausing(workplace, turn, "Half an ans")
    await in_database(intake.stop, turn.conversation)
    await reached(ending.reached)
    await in_database(intake.stop, turn.conversation)
    ending.released.set()
    async with asyncio.timeout(8):  # well before the lease would run out
        done = await rest(workplace, turn)
    assert (done.state, done.signals) == (Turn.State.STOPPED, 2)
    assert await in_database(notices, turn) == ["Stopped by you."]
    ends = [kind for kind in await in_database(kinds, turn) if kind == Kind.NOTICE]
    assert len(ends) == 1


async def test_stop_in_the_moment_in_which_the_answer_is_stored_keeps_it_whole(
    workplace: Workplace, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    closing = Held(close_step)
    monkeypatch.setattr(model_call, "close_step", closing)
    scripted.scenes.append(text("All of ", "it."))
    workplace.engine.wake(turn.pk)
    await reached(closing.reached)
    await in_database(intake.stop, turn.conversation)
    over = asyncio.create_task(workplace.engine.finished(turn.pk))
    done, _ = await asyncio.wait([over], timeout=1.0)
    assert not done, "It did not wait until the answer was stored."
    closing.released.set()
    await over
    after = await rest(workplace, turn)
    step = await in_database(turn.steps.get)
    assert (after.state, step.state) == (Turn.State.STOPPED, "done")
    assert await in_database(said, turn) == "All of it."


async def test_stop_while_the_database_is_away_for_a_moment_keeps_the_words(
    workplace: Workplace, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = Away(close_step, 2)
    monkeypatch.setattr(model_call, "close_step", away)
    await pausing(workplace, turn, "Half an ans")
    done = await stopped(workplace, turn)
    assert (done.state, away.failures) == (Turn.State.STOPPED, 2)
    assert await in_database(said, turn) == "Half an ans"


async def test_an_answer_whose_commit_lost_its_answer_is_stored_once(
    workplace: Workplace, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = Away(close_step, 1, loses_answers=True)
    monkeypatch.setattr(model_call, "close_step", away)
    scripted.scenes.append([ReasoningDelta(text="Hm."), *text("Once.")])
    done = await rest(workplace, turn)
    assert (done.state, await in_database(said, turn)) == (Turn.State.DONE, "Once.")
    assert (await in_database(kinds, turn)).count(Kind.STEP) == 1
    assert len(scripted.requests) == 1


async def test_stop_before_the_first_word_leaves_an_answer_without_words(
    workplace: Workplace, turn: Turn
) -> None:
    await pausing(workplace, turn)
    done = await stopped(workplace, turn)
    assert done.state == Turn.State.STOPPED
    assert await in_database(said, turn) == ""
    assert await in_database(notices, turn) == ["Stopped by you."]


async def test_a_draft_is_forgotten_however_its_model_call_ends(
    workplace: Workplace, turn: Turn
) -> None:
    scripted.scenes.append([TextDelta(text="So"), TextDelta(text=" far"), RuntimeError("a bug")])
    done = await rest(workplace, turn)
    assert done.state == Turn.State.FAILED
    assert not workplace.engine.commit._waiting
    assert await in_database(said, turn) == "So far"


async def test_a_character_that_no_database_keeps_is_replaced_in_the_words(
    workplace: Workplace, turn: Turn
) -> None:
    """PostgreSQL refuses NUL; one turn's model must not be able to stop a group commit with it."""
    scripted.scenes.append(text("a\x00b", "\x00", "c\ud800d"))
    done = await rest(workplace, turn)
    assert done.state == Turn.State.DONE
    assert await in_database(said, turn) == "a\ufffdb\ufffdc?d"
