"""Policy is read when a call is decided, not when the model was asked: an admin who tightens it
while the model answers is heeded."""

import asyncio
from collections.abc import Callable

import pytest

from chatapp.models import Permit, ToolCall, Turn
from chatapp.storage import in_database
from chatapp.turns.workplace import Workplace
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from tests import scripted
from tests.scripted import Pause, calls, text

from .acts import READ, only_call, rest

pytestmark = pytest.mark.django_db(transaction=True)
State = ToolCall.State


def level_raised() -> None:
    ToolSetting.objects.filter(name="read_note").update(level="high")


def confirmation_withdrawn() -> None:
    ToolSetting.objects.filter(name="read_note").update(confirmed_hash="")


def tool_switched_off() -> None:
    ToolSetting.objects.filter(name="read_note").update(is_enabled=False)


def tool_changed() -> None:
    """The service lists another definition of it, which nobody has confirmed."""
    old = ToolDefinition.objects.get(name="read_note", is_current=True)
    ToolDefinition.objects.filter(pk=old.pk).update(is_current=False)
    ToolDefinition.objects.create(
        service=old.service, name=old.name, hash="another", input_schema=old.input_schema
    )


def service_switched_off() -> None:
    Service.objects.update(is_enabled=False)


@pytest.mark.parametrize(
    ("tighten", "state"),
    [
        (level_raised, State.AWAITING_APPROVAL),
        (confirmation_withdrawn, State.AWAITING_APPROVAL),
        (tool_changed, State.AWAITING_APPROVAL),
        (tool_switched_off, State.FAILED),
        (service_switched_off, State.FAILED),
    ],
)
async def test_policy_that_is_tightened_while_the_model_answers_counts(
    workplace: Workplace,
    notebook: Service,
    turn: Turn,
    tighten: Callable[[], None],
    state: str,
) -> None:
    pause = Pause()
    scripted.scenes += [[pause, *calls(READ)], text("Then not.")]
    workplace.engine.wake(turn.pk)
    async with asyncio.timeout(10):
        await pause.reached.wait()
    await in_database(tighten)
    pause.ended.set()
    await rest(workplace, turn)
    call = await only_call(turn)
    assert (call.state, call.attempt) == (state, 0)
    assert not await in_database(Permit.objects.exists)


async def test_without_a_change_the_same_call_runs(
    workplace: Workplace, notebook: Service, turn: Turn
) -> None:
    """What the test above would show if nothing were tightened."""
    scripted.scenes += [calls(READ), text("There.")]
    await rest(workplace, turn)
    call = await only_call(turn)
    assert (call.state, call.attempt) == (State.SUCCEEDED, 1)
