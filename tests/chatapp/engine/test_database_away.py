"""A turn whose database goes away does not end by it: it is let go of, and goes on later."""

import asyncio
import logging
import uuid
from typing import Any

import pytest
from django.db import InterfaceError, OperationalError

from chatapp.calls import execution
from chatapp.conversations import intake
from chatapp.engine import engine as engines
from chatapp.engine import model_call
from chatapp.engine.ending import finish_turn
from chatapp.engine.engine import Engine
from chatapp.engine.next_action import TurnState
from chatapp.engine.runtime import EngineRuntime
from chatapp.engine.step_opening import BegunTurn, begin_turn
from chatapp.engine.steps import close_step
from chatapp.engine.turn_state import read_turn
from chatapp.journal import db_retry
from chatapp.journal.lease import Lease, acquire, drop
from chatapp.models import ToolCall, Turn
from chatapp.providers.events import Finished, TextDelta
from chatapp.server.database import in_database
from chatapp.server.runtime import current_runtime
from mcpconfig.models import Service
from tests import scripted
from tests.scripted import Pause, calls, text
from tests.turns.acts import (
    DELETE,
    READ,
    read_notices,
    read_text,
    wait_for_rest,
    wait_until,
    wait_until_released,
)
from tests.turns.faults import Away

pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True)]


def now(turn: Turn) -> Turn:
    return Turn.objects.get(pk=turn.pk)


def was_taken_before(turn: Turn) -> None:
    """A turn that a worker takes for the first time is read as it is taken."""
    Turn.objects.filter(pk=turn.pk).update(fence=1)


@pytest.mark.parametrize("work", ["settle_orphans", "read_turn", "begin_step"])
@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
async def test_a_turn_is_let_go_of_and_goes_on_when_it_is_taken_up_again(
    runtime: EngineRuntime,
    turn: Turn,
    monkeypatch: pytest.MonkeyPatch,
    work: str,
    error: type[Exception],
) -> None:
    real = getattr(engines, work)
    failures: list[int] = []

    def away(*args: object, **options: object) -> object:
        if not failures:
            failures.append(1)
            raise error("the server closed the connection unexpectedly")
        return real(*args, **options)

    monkeypatch.setattr(engines, work, away)
    await in_database(Turn.objects.update, fence=1)  # an earlier worker had the turn
    scripted.scenes.append(text("Here I am."))
    await runtime.engine.advance(turn.pk)
    let_go = await in_database(now, turn)
    assert (let_go.state, let_go.lease_owner) == (Turn.State.RUNNING, "")
    done = await wait_for_rest(runtime, turn)
    assert (done.state, await in_database(read_text, turn)) == (Turn.State.DONE, "Here I am.")
    assert await in_database(read_notices, turn) == []


@pytest.mark.parametrize("loses_answers", [False, True])
async def test_an_answer_and_the_end_of_its_turn_are_stored_together_and_once(
    runtime: EngineRuntime,
    turn: Turn,
    monkeypatch: pytest.MonkeyPatch,
    loses_answers: bool,
) -> None:
    away = Away(close_step, 1, loses_answers=loses_answers)
    monkeypatch.setattr(model_call, "close_step", away)
    scripted.scenes.append(text("Here ", "I ", "am."))
    done = await wait_for_rest(runtime, turn)
    assert (away.failures, done.state, done.reason) == (1, Turn.State.DONE, "complete")
    assert await in_database(read_text, turn) == "Here I am."
    assert await in_database(read_notices, turn) == []
    kinds = await in_database(list, turn.journal.order_by("seq").values_list("kind", flat=True))
    assert kinds.count("step") == 1
    assert kinds[-2:] == ["step", "turn"]


async def test_a_signal_while_the_model_answers_is_read_before_the_turn_ends(
    runtime: EngineRuntime, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    pause = Pause()
    scripted.scenes.append([TextDelta(text="Here I am."), pause, Finished(reason="stop")])
    reads: list[int] = []

    def read(lease: Lease) -> tuple[Turn, TurnState]:
        found = read_turn(lease)
        reads.append(found[0].signals)
        return found

    def begin(turn_id: uuid.UUID) -> BegunTurn | None:
        begun = begin_turn(turn_id)
        reads.extend([begun.taken.turn.signals] if begun else [])
        return begun

    monkeypatch.setattr(engines, "begin_turn", begin)
    monkeypatch.setattr(engines, "read_turn", read)
    moving = asyncio.create_task(runtime.engine.advance(turn.pk))
    async with asyncio.timeout(60):
        await pause.reached.wait()
    await in_database(Turn.objects.update, signals=7)
    pause.ended.set()
    await moving
    assert (await in_database(now, turn)).state == Turn.State.DONE
    assert reads == [0, 7]


async def test_a_turn_whose_lease_cannot_be_given_back_is_free_when_it_runs_out(
    runtime: EngineRuntime, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    await in_database(was_taken_before, turn)
    monkeypatch.setattr(engines, "read_turn", Away(read_turn, 1))

    def never(lease: Lease) -> None:
        lease.renewed -= 3600
        raise OperationalError("gone")

    monkeypatch.setattr(engines, "drop", never)
    await runtime.engine.advance(turn.pk)
    held = await in_database(now, turn)
    assert held.lease_owner != ""
    assert not runtime.engine._runs
    await in_database(Turn.objects.update, lease_until="2020-01-01T00:00Z")
    done = await wait_for_rest(runtime, turn)
    assert done.state == Turn.State.DONE


async def test_a_turn_that_was_let_go_of_is_not_begun_again_at_once(
    runtime: EngineRuntime, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the sweep takes it up, so a database that stays away is not asked in a hot loop."""
    await in_database(was_taken_before, turn)
    away = Away(read_turn, 1000)
    monkeypatch.setattr(engines, "read_turn", away)
    runtime.engine.wake(turn.pk)
    await wait_until(lambda: away.failures > 0 and not runtime.engine._runs)
    await asyncio.sleep(0.3)
    assert away.failures == 1


async def test_the_sweep_takes_it_up_again(
    turn: Turn, monkeypatch: pytest.MonkeyPatch, settings: pytest.FixtureRequest
) -> None:
    settings.SWEEP_SECONDS = 0.1  # type: ignore[attr-defined]
    monkeypatch.setattr(engines, "read_turn", Away(read_turn, 3))
    scripted.scenes.append(text("Back again."))
    engine = Engine(current_runtime())
    engine.start()
    try:
        await wait_until(lambda: bool(scripted.closed))
        await wait_until_released(engine, turn.pk)
    finally:
        await engine.close()
    assert await in_database(read_text, turn) == "Back again."


async def test_stop_is_not_forgotten_while_a_turn_is_let_go_of(
    runtime: EngineRuntime, turn: Turn, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.LEASE_SECONDS = 3600  # it is not the end of the lease that ends the turn
    pause = Pause()
    scripted.scenes.append([TextDelta(text="Half an ans"), pause, OperationalError("gone")])
    dropping = Away(drop, 3)
    monkeypatch.setattr(engines, "drop", dropping)
    runtime.engine.wake(turn.pk)
    async with asyncio.timeout(60):
        await pause.reached.wait()
    pause.ended.set()
    await wait_until(lambda: dropping.failures > 0)
    await in_database(intake.stop, turn.conversation)
    async with asyncio.timeout(60):
        done = await wait_for_rest(runtime, turn)
    assert dropping.failures == 3
    assert (done.state, done.reason) == (Turn.State.STOPPED, "stopped")
    assert await in_database(read_text, turn) == "Half an ans"


async def test_stop_that_cannot_be_stored_is_done_by_whoever_comes_next(
    runtime: EngineRuntime, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    pause = Pause()
    scripted.scenes.append([TextDelta(text="Half an ans"), pause])
    moving = asyncio.create_task(runtime.engine.advance(turn.pk))
    async with asyncio.timeout(60):
        await pause.reached.wait()
    monkeypatch.setattr(engines, "finish_turn", Away(finish_turn, 1))
    await in_database(intake.stop, turn.conversation)
    await moving
    assert (await in_database(now, turn)).state == Turn.State.RUNNING
    await in_database(Turn.objects.update, lease_until="2020-01-01T00:00Z")
    done = await wait_for_rest(runtime, turn)
    assert done.state == Turn.State.STOPPED
    assert await in_database(read_text, turn) == "Half an ans"


@pytest.mark.parametrize(
    "work", ["settle_orphans", "read_turn", "reopen_decisions", "decide_calls"]
)
async def test_a_turn_that_the_database_refuses_each_time_ends_with_a_plain_word(
    runtime: EngineRuntime,
    notebook: Service,
    turn: Turn,
    monkeypatch: pytest.MonkeyPatch,
    work: str,
) -> None:
    """Else the sweep would take it up for ever."""
    await in_database(Turn.objects.update, fence=1)  # an earlier worker had the turn
    refused = Away(getattr(engines, work), engines.MAX_DROPS)
    monkeypatch.setattr(engines, work, refused)
    monkeypatch.setattr(engines, "decide_and_begin", lambda *_: None)
    scripted.scenes.append(calls(READ))
    done = await wait_for_rest(runtime, turn)
    assert (done.state, done.reason, done.drops) == (Turn.State.FAILED, "failed", 5)
    (notice,) = await in_database(read_notices, turn)
    assert "refused this answer several times" in notice


async def test_a_rest_forgets_what_the_database_refused_before(
    runtime: EngineRuntime, notebook: Service, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "read_turn", Away(read_turn, engines.MAX_DROPS - 1))
    scripted.scenes.append(calls(DELETE))
    waiting = await wait_for_rest(runtime, turn)
    assert (waiting.state, waiting.drops) == (Turn.State.WAITING, 0)


async def test_a_call_whose_result_cannot_be_stored_at_all_waits_for_a_persons_word(
    runtime: EngineRuntime,
    notebook: Service,
    turn: Turn,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The turn does not fail: the next worker finds the call `sending` and asks."""

    def refuse(*_: object, **__: object) -> None:
        raise OperationalError("disk full")

    scripted.scenes += [calls(READ), text("Never asked.")]
    with monkeypatch.context() as away:
        away.setattr(execution, "record_outcome", refuse)
        away.setattr(db_retry, "is_long_ago", lambda _began: True)
        await runtime.engine.advance(turn.pk)
    await in_database(Turn.objects.update, lease_until=None)
    done = await wait_for_rest(runtime, turn)
    call = await in_database(ToolCall.objects.get)
    assert (done.state, call.state) == (Turn.State.WAITING, ToolCall.State.UNKNOWN)


async def test_what_was_the_matter_is_in_the_log(
    runtime: EngineRuntime,
    turn: Turn,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await in_database(was_taken_before, turn)
    monkeypatch.setattr(engines, "read_turn", Away(read_turn, 1))
    with caplog.at_level(logging.WARNING):
        await runtime.engine.advance(turn.pk)
    assert "goes on when the database is back" in caplog.text
    assert await in_database(acquire, turn.pk) is not None
