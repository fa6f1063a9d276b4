"""Calls that run together: each keeps its own outcome, whatever goes wrong beside it or meanwhile.

The service is a real one, whose calls wait at a gate until a test opens it.
"""

import asyncio
import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import InterfaceError, OperationalError

from chatapp.calls import execution
from chatapp.calls.attempts import MAX_PARALLEL
from chatapp.calls.execution import ProgressReporter
from chatapp.calls.ledger import FROZEN, Sending, begin_sending, record_outcome
from chatapp.conversations import intake
from chatapp.engine.runtime import EngineRuntime, close_engine_runtime
from chatapp.journal import db_retry
from chatapp.journal.lease import Lease, LeaseLost, acquire
from chatapp.models import JournalEvent, ToolCall, Turn
from chatapp.server.database import close_threads, from_now, in_database
from chatapp.server.runtime import current_runtime
from mcpconfig.models import Service, ToolDefinition
from mcpconfig.values.results import Progress
from tests.peers.gate import Gate, application
from tests.peers.serving import Served
from tests.turns.acts import grant_call, wait_for_event, wait_for_rest, wait_until_released
from tests.turns.faults import Away, Failing, Held

pytestmark = pytest.mark.django_db(transaction=True)
State = ToolCall.State
GATE = Gate()


@pytest.fixture(scope="module")
def _served() -> Iterator[Served]:
    with Served(application(GATE)) as served:
        yield served


@pytest.fixture
def gate() -> Iterator[Gate]:
    GATE.clear()
    yield GATE
    close_threads()


@pytest.fixture
def service(_served: Served, gate: Gate, transactional_db: None) -> Service:
    made = Service.objects.create(
        name="gate", url=_served.url, allows_private_addresses=True, visibility="everyone"
    )
    for name in ("read_at_once", "read_held", "read_telling"):
        ToolDefinition.objects.create(
            service=made, name=name, hash=f"hash-of-{name}", input_schema={"type": "object"}
        )
    return made


class Asked:
    """A turn whose model asked for calls that are approved by now."""

    def __init__(self, turn: Turn, service: Service) -> None:
        self.turn = turn
        self.service = service

    def call(self, tool: str, name: str, **fields: object) -> ToolCall:
        made = ToolCall.objects.create(
            turn=self.turn,
            step=1,
            position=self.turn.tool_calls.count(),
            provider_call_id=name,
            tool_id=f"gate_{tool}",
            tool_name=tool,
            service=self.service,
            definition=ToolDefinition.objects.get(name=tool),
            arguments=json.dumps({"name": name}),
            **{"state": State.APPROVED} | fields,
        )
        return grant_call(made)

    def lease(self) -> Lease:
        lease = acquire(self.turn.pk)
        assert lease is not None
        return lease

    async def states(self) -> dict[str, str]:
        return await in_database(
            lambda: dict(self.turn.tool_calls.values_list("provider_call_id", "state"))
        )


async def execute(lease: Lease, call_ids: tuple[uuid.UUID, ...]) -> None:
    await execution.execute(lease, call_ids, was_stopped=lambda: False, may_begin=lambda: True)


@pytest.fixture
def asked(turn: Turn, service: Service) -> Asked:
    turn.steps.create(number=1, state="done", finish_reason="tool_calls")
    return Asked(turn, service)


# --- beside one another --------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("error", "raised"),
    [(LeaseLost(), LeaseLost), (ValueError("a bug"), ValueError)],
)
async def test_a_call_whose_outcome_cannot_be_stored_leaves_its_siblings_alone(
    asked: Asked,
    gate: Gate,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    raised: type[Exception],
) -> None:
    quick = await in_database(asked.call, "read_at_once", "quick")
    held = await in_database(asked.call, "read_held", "held")
    concerns = Failing(record_outcome, lambda _lease, s, *_, **__: s.call_id == quick.pk, error)
    monkeypatch.setattr(execution, "record_outcome", concerns)
    running = asyncio.create_task(execute(await in_database(asked.lease), (quick.pk, held.pk)))
    await wait_for_event(gate.arrived("held"))
    done, _ = await asyncio.wait([running], timeout=0.3)
    assert not done, "It did not wait for the sibling that still runs."
    gate.opened("held").set()
    with pytest.raises(raised):
        await running
    assert await asked.states() == {"quick": State.SENDING, "held": State.SUCCEEDED}


async def test_a_lost_lease_is_the_worst_that_can_be_said(
    asked: Asked, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await in_database(asked.call, "read_at_once", "first")
    second = await in_database(asked.call, "read_held", "second")

    def fail(_lease: Lease, sending: Sending, *_: object, **__: object) -> None:
        gate.opened("second").set()
        raise ValueError("a bug") if sending.call_id == first.pk else LeaseLost

    monkeypatch.setattr(execution, "record_outcome", fail)
    with pytest.raises(LeaseLost):
        await execute(await in_database(asked.lease), (first.pk, second.pk))


async def test_more_calls_than_run_at_once_all_run(asked: Asked, gate: Gate) -> None:
    names = [f"thing-{n}" for n in range(10)]
    calls = [await in_database(asked.call, "read_at_once", name) for name in names]
    await execute(await in_database(asked.lease), tuple(call.pk for call in calls))
    assert await asked.states() == dict.fromkeys(names, State.SUCCEEDED)
    assert gate.calls == dict.fromkeys(names, 1)


async def test_a_tool_that_fails_is_a_failed_call_with_its_words(asked: Asked) -> None:
    call = await in_database(asked.call, "read_at_once", "broken")
    await execute(await in_database(asked.lease), (call.pk,))
    await call.arefresh_from_db()
    assert call.state == State.FAILED
    assert "it is broken" in call.content[0]["text"]


# --- a database that is away ---------------------------------------------------------------------
async def test_a_result_is_stored_although_the_database_is_away_for_a_moment(
    asked: Asked, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = Away(record_outcome, 3)
    monkeypatch.setattr(execution, "record_outcome", away)
    call = await in_database(asked.call, "read_at_once", "thing")
    await execute(await in_database(asked.lease), (call.pk,))
    await call.arefresh_from_db()
    assert (call.state, away.failures, gate.calls["thing"]) == (State.SUCCEEDED, 3, 1)
    assert call.content[0]["text"] == "thing was read"


@pytest.mark.parametrize("error", [OperationalError("gone"), InterfaceError("closed")])
async def test_a_result_is_kept_although_nothing_can_be_noted_about_its_service(
    asked: Asked, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    failing = Failing(lambda: None, lambda *_, **__: True, error)
    monkeypatch.setattr("mcpconfig.services.status.database_sync_to_async", lambda _work: failing)
    call = await in_database(asked.call, "read_at_once", "thing")
    await execute(await in_database(asked.lease), (call.pk,))
    await call.arefresh_from_db()
    assert (call.state, call.error) == (State.SUCCEEDED, None)


async def test_a_result_whose_commit_lost_its_answer_is_stored_once(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = Away(record_outcome, 1, loses_answers=True)
    monkeypatch.setattr(execution, "record_outcome", away)
    call = await in_database(asked.call, "read_at_once", "thing")
    await execute(await in_database(asked.lease), (call.pk,))
    told = await in_database(
        lambda: [
            event.data["state"]
            for event in JournalEvent.objects.filter(kind=JournalEvent.Kind.TOOL_CALL)
        ]
    )
    assert told == [State.SENDING, State.SUCCEEDED]


class LongAway(Away):
    """The database comes back only after the lease of the turn ran out."""

    def __init__(self, times: int, lease: Lease) -> None:
        super().__init__(record_outcome, times)
        self.lease = lease

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.lease.renewed -= 3600
        return super().__call__(*args, **kwargs)


async def test_an_outcome_is_kept_until_the_database_is_back_after_the_lease_ran_out(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = await in_database(asked.lease)
    monkeypatch.setattr(execution, "record_outcome", LongAway(3, lease))
    call = await in_database(asked.call, "read_at_once", "thing")
    await in_database(Turn.objects.update, lease_until=from_now(seconds=-60))
    await execute(lease, (call.pk,))
    await call.arefresh_from_db()
    assert (call.state, call.content[0]["text"]) == (State.SUCCEEDED, "thing was read")


async def test_a_database_that_fails_once_more_after_an_outage_loses_no_outcome(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease was renewed already, so that this last failure looks like one that stays."""
    lease = await in_database(asked.lease)
    outage = LongAway(2, lease)
    tried_at: list[float] = []

    def fail_once_more(*args: Any, **kwargs: Any) -> Any:
        tried_at.append(time.monotonic())
        if len(tried_at) == 3:
            lease.renewed = time.monotonic()
            raise OperationalError("starting up")
        return outage(*args, **kwargs)

    monkeypatch.setattr(execution, "record_outcome", fail_once_more)
    monkeypatch.setattr(db_retry, "is_long_ago", lambda began: began < tried_at[1])
    call = await in_database(asked.call, "read_at_once", "thing")
    await execute(lease, (call.pk,))
    assert await asked.states() == {"thing": State.SUCCEEDED}


async def test_an_outcome_is_not_stored_when_another_worker_has_taken_the_turn(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = await in_database(asked.lease)
    away = LongAway(2, lease)

    def take_over(*args: Any, **kwargs: Any) -> Any:
        if away.failures == 1:
            Turn.objects.update(lease_until=from_now(seconds=-60))
            assert acquire(asked.turn.pk) is not None
        return away(*args, **kwargs)

    monkeypatch.setattr(execution, "record_outcome", take_over)
    call = await in_database(asked.call, "read_at_once", "thing")
    with pytest.raises(LeaseLost):
        await execute(lease, (call.pk,))
    assert await asked.states() == {"thing": State.SENDING}


async def test_a_process_that_ends_does_not_wait_for_the_database(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = await in_database(asked.lease)
    monkeypatch.setattr(execution, "record_outcome", LongAway(1_000, lease))
    monkeypatch.setattr(current_runtime(), "is_closing", True)
    call = await in_database(asked.call, "read_at_once", "thing")
    with pytest.raises(OperationalError):
        await execute(lease, (call.pk,))
    assert await asked.states() == {"thing": State.SENDING}


async def test_a_database_that_works_and_refuses_an_outcome_is_not_asked_for_ever(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = await in_database(asked.lease)
    monkeypatch.setattr(db_retry, "is_long_ago", lambda _began: True)
    monkeypatch.setattr(execution, "record_outcome", Away(record_outcome, 1_000))
    call = await in_database(asked.call, "read_at_once", "thing")
    with pytest.raises(OperationalError):
        await execute(lease, (call.pk,))


# --- the end of the process ----------------------------------------------------------------------
async def test_a_call_that_ends_within_the_wait_of_a_shutdown_keeps_its_outcome(
    runtime: EngineRuntime, asked: Asked, gate: Gate
) -> None:
    names = [f"held-{n}" for n in range(MAX_PARALLEL + 2)]
    for name in names:
        await in_database(asked.call, "read_held", name)
    runtime.engine.wake(asked.turn.pk)
    for name in names[:MAX_PARALLEL]:
        await wait_for_event(gate.arrived(name))
    runtime.engine.begin_shutdown()
    closing = asyncio.create_task(close_engine_runtime(runtime, wait_seconds=60))
    done, _ = await asyncio.wait([closing], timeout=0.3)
    assert not done, "It did not wait for the calls that run."
    for name in names[:MAX_PARALLEL]:
        gate.opened(name).set()
    await closing
    states = list((await asked.states()).values())
    assert states == [State.SUCCEEDED] * MAX_PARALLEL + [State.APPROVED] * 2
    assert sum(gate.calls.values()) == MAX_PARALLEL
    now = await in_database(Turn.objects.get, pk=asked.turn.pk)
    assert (now.state, now.lease_owner) == (Turn.State.QUEUED, "")


async def test_a_call_that_runs_longer_than_the_wait_of_a_shutdown_is_unknown(
    runtime: EngineRuntime, asked: Asked, gate: Gate
) -> None:
    await in_database(asked.call, "read_held", "held")
    runtime.engine.wake(asked.turn.pk)
    await wait_for_event(gate.arrived("held"))
    await close_engine_runtime(runtime, wait_seconds=0.2)
    assert await asked.states() == {"held": State.UNKNOWN}


async def test_a_second_interrupt_ends_the_wait(
    runtime: EngineRuntime, asked: Asked, gate: Gate
) -> None:
    await in_database(asked.call, "read_held", "held")
    runtime.engine.wake(asked.turn.pk)
    await wait_for_event(gate.arrived("held"))
    closing = asyncio.create_task(close_engine_runtime(runtime, wait_seconds=3600))
    done, _ = await asyncio.wait([closing], timeout=0.3)
    assert not done
    runtime.engine.begin_shutdown(at_once=True)
    async with asyncio.timeout(60):
        await closing
    assert await asked.states() == {"held": State.UNKNOWN}


async def test_stop_still_works_while_a_server_waits_for_its_calls(
    runtime: EngineRuntime, asked: Asked, gate: Gate
) -> None:
    await in_database(asked.call, "read_held", "held")
    runtime.engine.wake(asked.turn.pk)
    await wait_for_event(gate.arrived("held"))
    runtime.engine.begin_shutdown()
    closing = asyncio.create_task(close_engine_runtime(runtime, wait_seconds=3600))
    await in_database(intake.stop, asked.turn.conversation)
    async with asyncio.timeout(60):
        await closing
    now = await in_database(Turn.objects.get, pk=asked.turn.pk)
    assert now.state == Turn.State.STOPPED


# --- Stop ----------------------------------------------------------------------------------------
async def test_a_result_that_came_is_stored_although_stop_comes_during_the_storing(
    runtime: EngineRuntime, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    await in_database(asked.call, "read_at_once", "thing")
    storing = Held(record_outcome)
    monkeypatch.setattr(execution, "record_outcome", storing)
    runtime.engine.wake(asked.turn.pk)
    await wait_for_event(storing.reached)
    await in_database(intake.stop, asked.turn.conversation)
    over = asyncio.create_task(wait_until_released(runtime.engine, asked.turn.pk))
    done, _ = await asyncio.wait([over], timeout=1.0)
    assert not done, "It did not wait until the result was stored."
    storing.released.set()
    await over
    after = await wait_for_rest(runtime, asked.turn)
    assert after.state == Turn.State.STOPPED
    assert await asked.states() == {"thing": State.SUCCEEDED}


async def test_a_call_that_runs_when_stop_comes_has_an_unknown_outcome(
    runtime: EngineRuntime, asked: Asked, gate: Gate
) -> None:
    call = await in_database(asked.call, "read_held", "held")
    runtime.engine.wake(asked.turn.pk)
    await wait_for_event(gate.arrived("held"))
    await in_database(intake.stop, asked.turn.conversation)
    done = await wait_for_rest(runtime, asked.turn)
    assert done.state == Turn.State.STOPPED
    await call.arefresh_from_db()
    assert call.error is not None
    assert (call.state, call.error["kind"]) == (State.UNKNOWN, "stopped")
    assert gate.calls == {"held": 1}


async def test_calls_that_wait_for_their_place_when_stop_comes_are_never_sent(
    runtime: EngineRuntime, asked: Asked, gate: Gate
) -> None:
    names = [f"held-{n}" for n in range(MAX_PARALLEL + 2)]
    for name in names:
        await in_database(asked.call, "read_held", name)
    runtime.engine.wake(asked.turn.pk)
    for name in names[:MAX_PARALLEL]:
        await wait_for_event(gate.arrived(name))
    await in_database(intake.stop, asked.turn.conversation)
    await wait_for_rest(runtime, asked.turn)
    states = list((await asked.states()).values())
    assert states == [State.UNKNOWN] * MAX_PARALLEL + [State.CANCELLED] * 2
    assert sum(gate.calls.values()) == MAX_PARALLEL


# --- a worker that was frozen --------------------------------------------------------------------
async def test_a_call_is_sent_after_a_freeze_when_nobody_took_the_turn(
    asked: Asked, gate: Gate
) -> None:
    call = await in_database(asked.call, "read_at_once", "thing")
    lease = await in_database(asked.lease)
    lease.renewed -= 3600
    await execute(lease, (call.pk,))
    await call.arefresh_from_db()
    assert (call.state, gate.calls) == (State.SUCCEEDED, {"thing": 1})


@pytest.mark.parametrize(("attempt", "state"), [(0, State.FAILED), (1, State.UNKNOWN)])
async def test_a_call_that_was_not_sent_after_a_freeze_is_unknown_if_it_was_sent_before(
    asked: Asked, gate: Gate, settings: object, attempt: int, state: str
) -> None:
    call = await in_database(asked.call, "read_at_once", "thing", attempt=attempt)
    lease = await in_database(asked.lease)
    settings.LEASE_SECONDS = -1  # type: ignore[attr-defined]  # no renewal is quick enough
    await execute(lease, (call.pk,))
    await call.arefresh_from_db()
    assert (call.state, call.error, call.attempt) == (state, FROZEN, attempt + 1)
    assert not gate.calls


@pytest.mark.parametrize(("attempt", "state"), [(0, State.WITHDRAWN), (1, State.UNKNOWN)])
async def test_a_call_that_may_not_run_any_more_is_unknown_if_it_was_sent_before(
    asked: Asked, gate: Gate, attempt: int, state: str
) -> None:
    call = await in_database(asked.call, "read_at_once", "thing", attempt=attempt)
    await in_database(ToolDefinition.objects.update, is_current=False)
    await execute(await in_database(asked.lease), (call.pk,))
    await call.arefresh_from_db()
    assert call.error is not None
    assert (call.state, call.error["kind"]) == (state, "withdrawn")
    assert (call.attempt, len(gate.calls)) == (attempt, 0)


# --- progress ------------------------------------------------------------------------------------
async def test_progress_is_kept_while_the_call_runs_and_gone_when_it_is_over(
    asked: Asked, gate: Gate
) -> None:
    call = await in_database(asked.call, "read_telling", "book")
    running = asyncio.create_task(execute(await in_database(asked.lease), (call.pk,)))
    await wait_for_event(gate.arrived("book"))
    async with asyncio.timeout(60):
        while not call.progress:
            await asyncio.sleep(0.02)
            await call.arefresh_from_db()
    assert call.progress == "1 of 2: book is half read"
    gate.opened("book").set()
    await running
    await call.arefresh_from_db()
    assert (call.state, call.progress) == (State.SUCCEEDED, "")


@pytest.mark.parametrize("error", [OperationalError("gone"), LeaseLost()])
async def test_progress_that_cannot_be_kept_does_not_touch_the_call(
    asked: Asked, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    failing = Failing(lambda: None, lambda *_: True, error)
    monkeypatch.setattr(execution, "record_progress", failing)
    call = await in_database(asked.call, "read_at_once", "thing")
    lease = await in_database(asked.lease)
    sending = await in_database(begin_sending, lease, call.pk)
    assert sending is not None
    await ProgressReporter(lease, sending).report(Progress(done=1, total=2))
    assert await asked.states() == {"thing": State.SENDING}


async def test_progress_is_passed_on_at_most_twice_a_second(asked: Asked) -> None:
    call = await in_database(asked.call, "read_at_once", "thing")
    lease = await in_database(asked.lease)
    sending = await in_database(begin_sending, lease, call.pk)
    assert sending is not None
    progress = ProgressReporter(lease, sending)
    for words in ("one", "two", "three"):
        await progress.report(Progress(done=1, message=words))
    await call.arefresh_from_db()
    assert call.progress == "1: one"


# --- after the lease was lost --------------------------------------------------------------------
async def test_a_result_that_comes_after_the_turn_was_taken_over_is_not_stored(
    asked: Asked, gate: Gate
) -> None:
    call = await in_database(asked.call, "read_held", "held")
    running = asyncio.create_task(execute(await in_database(asked.lease), (call.pk,)))
    await wait_for_event(gate.arrived("held"))
    await in_database(Turn.objects.update, lease_until="2020-01-01T00:00Z")
    await in_database(asked.lease)
    gate.opened("held").set()
    with pytest.raises(LeaseLost):
        await running
    assert await asked.states() == {"held": State.SENDING}
