"""Cancelling one call: its service hears of it, the model is told, and the turn goes on. And the
bar of a call that says how far it has come."""

import asyncio
from collections.abc import Iterator

import pytest

from chatapp.approvals import decisions
from chatapp.engine.runtime import EngineRuntime, close_engine_runtime, open_engine_runtime
from chatapp.models import Member, ToolCall, Turn
from chatapp.people.refused import Refused
from chatapp.server.database import close_threads, in_database
from mcpconfig.models import Service, ToolSetting
from tests import scripted
from tests.conftest import signed_in
from tests.dom_tree import Element, parse
from tests.peers.gate import Gate, application
from tests.peers.serving import Served
from tests.scripted import calls, text
from tests.turns.acts import (
    create_offered_service,
    read_last_outcome,
    wait_for_event,
    wait_for_rest,
)

pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
State = ToolCall.State
HELD = ("gate_read_held", '{"name": "held"}')
OTHER = ("gate_read_held", '{"name": "other"}')
TELLING = ("gate_read_telling", '{"name": "held"}')


@pytest.fixture
def gate(transactional_db: None) -> Iterator[Gate]:
    gate = Gate()
    with Served(application(gate)) as served:
        create_offered_service("gate", served.url, "read_held", "read_telling")
        yield gate
    close_threads()


async def running(runtime: EngineRuntime, turn: Turn, gate: Gate, *asked: tuple[str, str]) -> None:
    scripted.scenes += [calls(*asked), text("So be it.")]
    runtime.engine.wake(turn.pk)
    await wait_for_event(gate.arrived("held"))


async def call_of(turn: Turn, name: str = "held") -> ToolCall:
    found = ToolCall.objects.select_related("service", "turn__conversation__owner")
    return await in_database(found.get, turn=turn, arguments__contains=name)


def card(call: ToolCall) -> Element:
    turn = call.turn
    answer = signed_in(turn.conversation.owner).get(f"/c/{turn.conversation_id}/")
    return parse(answer.content.decode()).one(id=f"tool-call-{call.pk}")


async def test_a_cancelled_call_has_an_unknown_outcome_and_its_sibling_goes_on(
    runtime: EngineRuntime, turn: Turn, gate: Gate
) -> None:
    await running(runtime, turn, gate, HELD, OTHER)
    await wait_for_event(gate.arrived("other"))
    call = await call_of(turn)
    await in_database(decisions.cancel_call, call)
    gate.opened("other").set()
    waiting = await wait_for_rest(runtime, turn)
    await call.arefresh_from_db()
    other = await call_of(turn, "other")
    assert call.error is not None
    assert (call.state, call.error["kind"]) == (State.UNKNOWN, "cancelled")
    assert (other.state, waiting.state) == (State.SUCCEEDED, Turn.State.WAITING)


async def test_the_button_on_the_card_cancels_a_running_call(
    runtime: EngineRuntime, turn: Turn, gate: Gate
) -> None:
    await running(runtime, turn, gate, HELD)
    call = await call_of(turn)

    def press() -> str:
        shown = card(call)
        (button,) = [each for each in shown.all("button") if each.text.startswith("Cancel")]
        form = next(each for each in button.ancestors() if each.tag == "form")
        answer = signed_in(call.turn.conversation.owner).post(
            form["action"], headers={"HX-Request": "true"}
        )
        return parse(answer.content.decode()).text

    # The call may have ended before the answer was rendered.
    said = await in_database(press)
    assert "Cancelling…" in said or "Outcome unknown" in said
    async with asyncio.timeout(60):
        await wait_for_rest(runtime, turn)
    await call.arefresh_from_db()
    assert call.state == State.UNKNOWN


@pytest.mark.parametrize(
    ("is_safe", "state", "executions"),
    [(True, State.SUCCEEDED, 2), (False, State.UNKNOWN, 1)],
    ids=["safe to repeat", "not"],
)
async def test_a_call_that_a_closing_process_cuts_off_is_as_if_the_process_had_died(
    runtime: EngineRuntime, turn: Turn, gate: Gate, is_safe: bool, state: str, executions: int
) -> None:
    await in_database(ToolSetting.objects.update, is_safe_to_repeat=is_safe)
    await running(runtime, turn, gate, HELD)
    await close_engine_runtime(runtime)
    gate.opened("held").set()
    successor = await open_engine_runtime(sweeps=False)
    await wait_for_rest(successor, turn)
    await close_engine_runtime(successor)
    call = await call_of(turn)
    assert (call.state, gate.calls) == (state, {"held": executions})
    assert (call.error or {}).get("kind") == (None if is_safe else "worker_died")


async def test_what_is_over_cannot_be_cancelled(
    runtime: EngineRuntime, turn: Turn, gate: Gate
) -> None:
    await running(runtime, turn, gate, HELD)
    gate.opened("held").set()
    await wait_for_rest(runtime, turn)
    call = await call_of(turn)
    with pytest.raises(Refused):
        await in_database(decisions.cancel_call, call)
    await call.arefresh_from_db()
    assert (call.state, call.cancel_requested) == (State.SUCCEEDED, False)


async def test_a_call_that_was_not_sent_yet_is_simply_cancelled(
    turn: Turn, gate: Gate, runtime: EngineRuntime
) -> None:
    call = await in_database(
        lambda: ToolCall.objects.create(
            turn=turn,
            step=1,
            position=0,
            provider_call_id="call_0",
            tool_id="gate_read_held",
            service=Service.objects.get(),
            arguments="{}",
            state=State.APPROVED,
        )
    )
    await in_database(decisions.cancel_call, call)
    await call.arefresh_from_db()
    assert (call.state, call.attempt) == (State.CANCELLED, 0)


async def test_a_stranger_cannot_cancel(runtime: EngineRuntime, turn: Turn, gate: Gate) -> None:
    await running(runtime, turn, gate, HELD)
    call = await call_of(turn)

    def attempt() -> int:
        stranger = Member.objects.create_user("stranger", password="a-long-password")
        return int(signed_in(stranger).post(f"/calls/{call.pk}/cancel").status_code)

    assert await in_database(attempt) == 404
    gate.opened("held").set()
    await wait_for_rest(runtime, turn)
    await call.arefresh_from_db()
    assert call.state == State.SUCCEEDED


async def test_a_cancelled_call_is_told_to_the_model_once_somebody_has_looked(
    runtime: EngineRuntime, turn: Turn, gate: Gate
) -> None:
    await running(runtime, turn, gate, HELD)
    call = await call_of(turn)
    await in_database(decisions.cancel_call, call)
    await wait_for_rest(runtime, turn)
    await in_database(_look, call)
    await wait_for_rest(runtime, turn)
    assert "A person checked: it did not take effect." in read_last_outcome()


def _look(call: ToolCall) -> None:
    signed_in(call.turn.conversation.owner).post(
        f"/approvals/{call.pk}/resolve", {"verdict": "did-not"}
    )


async def test_a_bar_shows_how_far_a_call_has_come_and_goes_with_its_end(
    runtime: EngineRuntime, turn: Turn, gate: Gate
) -> None:
    await running(runtime, turn, gate, TELLING)
    call = await call_of(turn)
    async with asyncio.timeout(60):
        while not call.progress_total:
            await call.arefresh_from_db()
            await asyncio.sleep(0.01)
    call = await call_of(turn)
    shown = await in_database(card, call)
    bar = shown.one("progress")
    assert (bar["value"], bar["max"]) == ("1", "2")
    assert "1 of 2: held is half read" in shown.text
    gate.opened("held").set()
    await wait_for_rest(runtime, turn)
    over = await in_database(card, call)
    assert not over.all("progress") and not over.all("button")
