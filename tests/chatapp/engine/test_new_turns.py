"""A new turn is taken in the transaction that stores its message."""

from collections.abc import Iterator

import pytest
from django.db import transaction

from chatapp.conversations import intake
from chatapp.engine import engine as engines
from chatapp.engine.runtime import EngineRuntime
from chatapp.engine.step_opening import BegunTurn
from chatapp.models import Member, Turn
from chatapp.server.database import in_database
from chatapp.server.runtime import current_runtime
from tests import scripted
from tests.scripted import text
from tests.turns.acts import read_text, wait_for_rest, wait_until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def _deaf_engine(runtime: EngineRuntime) -> Iterator[None]:
    """An engine that nobody can wake."""
    current_runtime().wake_listeners.clear()
    yield
    current_runtime().wake_listeners.append(runtime.engine.wake)


async def send(person: Member) -> Turn:
    return await in_database(
        lambda: intake.receive(person, None, text="Hello", model=scripted.MODEL)
    )


@pytest.mark.usefixtures("_deaf_engine")
async def test_a_new_turn_is_moved_without_a_wake(runtime: EngineRuntime, owner: Member) -> None:
    scripted.scenes.append(text("Good morning."))
    turn = await send(owner)
    await wait_until(lambda: turn.pk in runtime.engine._runs or bool(scripted.requests))
    assert (await wait_for_rest(runtime, turn)).fence == 1
    assert await in_database(read_text, turn) == "Good morning."


@pytest.mark.usefixtures("_deaf_engine")
async def test_a_message_that_is_rolled_back_asks_no_model(
    runtime: EngineRuntime, owner: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_entry: object) -> None:
        assert Turn.objects.get().lease_owner
        raise LookupError

    monkeypatch.setattr(intake, "reach", fail)
    await in_database(Turn.objects.all().delete)
    with pytest.raises(LookupError):
        await send(owner)
    assert not await in_database(Turn.objects.exists)
    assert (runtime.engine._runs, scripted.requests) == ({}, [])


async def test_a_turn_that_its_caller_still_changes_begins_after_the_commit(
    runtime: EngineRuntime, owner: Member
) -> None:
    """A program's turn gets its token and its instructions in the same transaction."""

    def send_and_change() -> Turn:
        with transaction.atomic():
            turn = intake.receive(owner, None, text="Hello", model=scripted.MODEL)
            assert not Turn.objects.get(pk=turn.pk).lease_owner
            Turn.objects.filter(pk=turn.pk).update(instructions="Speak like a sailor.")
        return turn

    scripted.scenes.append(text("Ahoy."))
    turn = await in_database(send_and_change)
    await wait_for_rest(runtime, turn)
    assert "Speak like a sailor." in scripted.requests[0].system


async def test_a_turn_that_is_committed_while_the_engine_shuts_down_is_free(
    runtime: EngineRuntime, owner: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shut_down(_point: object) -> None:
        assert Turn.objects.get(fence=1).lease_owner
        runtime.engine.begin_shutdown()

    monkeypatch.setattr(intake, "reach", shut_down)
    turn = await send(owner)
    now = await in_database(Turn.objects.get, pk=turn.pk)
    assert (now.state, now.lease_owner) == (Turn.State.QUEUED, "")


async def test_an_engine_that_shuts_down_takes_no_new_turn(
    runtime: EngineRuntime, owner: Member
) -> None:
    runtime.engine.begin_shutdown()
    turn = await send(owner)
    now = await in_database(Turn.objects.get, pk=turn.pk)
    assert (now.state, now.fence) == (Turn.State.QUEUED, 0)


async def test_an_error_after_the_commit_does_not_refuse_the_message(
    runtime: EngineRuntime, owner: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_begun: BegunTurn) -> BegunTurn:
        raise OSError

    monkeypatch.setattr(engines, "add_request", fail)
    turn = await send(owner)
    now = await in_database(Turn.objects.get, pk=turn.pk)
    assert (now.state, now.fence) == (Turn.State.RUNNING, 1)  # until its lease runs out
