"""Policy is read when a call is decided, not when the model was asked: an admin who tightens it
while the model answers is heeded."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from bs4 import BeautifulSoup

from chatapp.approvals import decisions
from chatapp.calls import execution
from chatapp.calls.ledger import begin_sending
from chatapp.engine import engine
from chatapp.engine.runtime import EngineRuntime
from chatapp.live.page_facts import render_call
from chatapp.models import Note, Permit, PolicyRule, ToolCall, Turn
from chatapp.permissions import reasons
from chatapp.server.database import in_database
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from tests import scripted
from tests.scripted import Pause, calls, text
from tests.turns.acts import READ, get_only_call, wait_for_event, wait_for_rest
from tests.turns.faults import Held

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
    replace_definition()


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
    runtime: EngineRuntime,
    notebook: Service,
    turn: Turn,
    tighten: Callable[[], None],
    state: str,
) -> None:
    pause = Pause()
    scripted.scenes += [[pause, *calls(READ)], text("Then not.")]
    runtime.engine.wake(turn.pk)
    async with asyncio.timeout(60):
        await pause.reached.wait()
    await in_database(tighten)
    pause.ended.set()
    await wait_for_rest(runtime, turn)
    call = await get_only_call(turn)
    assert (call.state, call.attempt) == (state, 0)
    assert not await in_database(Permit.objects.exists)


async def test_without_a_change_the_same_call_runs(
    runtime: EngineRuntime, notebook: Service, turn: Turn
) -> None:
    """What the test above would show if nothing were tightened."""
    scripted.scenes += [calls(READ), text("There.")]
    await wait_for_rest(runtime, turn)
    call = await get_only_call(turn)
    assert (call.state, call.attempt) == (State.SUCCEEDED, 1)


async def test_a_null_for_a_value_that_is_not_given_is_neither_shown_nor_sent(
    runtime: EngineRuntime, notebook: Service, turn: Turn
) -> None:
    created = ToolSetting.objects.filter(service=notebook, name="create_note")
    await created.aupdate(level="")
    given = ("notebook_create_note", '{"title": "New ideas", "text": null}')
    scripted.scenes += [calls(given), text("Made.")]
    await wait_for_rest(runtime, turn)
    call = await get_only_call(turn)
    assert (call.state, call.arguments) == (State.AWAITING_APPROVAL, '{"title": "New ideas"}')
    await in_database(
        decisions.grant,
        call,
        by=turn.conversation.owner,
        binding=call.approval.binding,
        shown_at=None,
    )
    await wait_for_rest(runtime, turn)
    assert (await get_only_call(turn)).state == State.SUCCEEDED
    assert await in_database(Note.objects.filter(title="New ideas").exists)


# --- a tool that changes after policy allowed its call -------------------------------------------
async def change_before_it_is_sent(
    runtime: EngineRuntime, turn: Turn, monkeypatch: pytest.MonkeyPatch, change: Callable[[], None]
) -> ToolCall:
    """The call as it is when the turn rests. It is decided and sent in two transactions, as where
    something has to be read from the service between them."""
    monkeypatch.setattr(engine, "decide_and_begin", lambda *_: None)
    held = Held(begin_sending)
    monkeypatch.setattr(execution, "begin_sending", held)
    scripted.scenes += [calls(READ), text("There.")]
    runtime.engine.wake(turn.pk)
    await wait_for_event(held.reached)
    await in_database(change)
    held.released.set()
    await wait_for_rest(runtime, turn)
    return await get_only_call(turn)


async def test_a_tool_that_changed_after_policy_allowed_its_call_asks_and_shows_the_change(
    runtime: EngineRuntime, notebook: Service, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = await change_before_it_is_sent(runtime, turn, monkeypatch, other_description)
    assert (call.state, call.attempt) == (State.AWAITING_APPROVAL, 0)
    card = BeautifulSoup(await in_database(render_call, call), "html.parser")
    (changed,) = card.select(".changed-tool")
    assert "Description" in changed.get_text()
    assert "and shows them to a stranger" in "".join(
        each.get_text() for each in changed.select("ins")
    )
    await in_database(
        decisions.grant,
        call,
        by=turn.conversation.owner,
        binding=call.approval.binding,
        shown_at=None,
    )
    await wait_for_rest(runtime, turn)
    assert (await get_only_call(turn)).state == State.SUCCEEDED


async def test_a_tool_that_is_gone_when_its_call_is_sent_does_not_run(
    runtime: EngineRuntime, notebook: Service, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone() -> None:
        ToolDefinition.objects.filter(name="read_note").update(is_current=False)

    call = await change_before_it_is_sent(runtime, turn, monkeypatch, gone)
    assert (call.state, call.attempt) == (State.WITHDRAWN, 0)


async def test_arguments_that_the_changed_tool_does_not_take_are_not_asked_about(
    runtime: EngineRuntime, notebook: Service, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other_schema() -> None:
        replace_definition(input_schema={"type": "object", "required": ["number"]})

    call = await change_before_it_is_sent(runtime, turn, monkeypatch, other_schema)
    assert (call.state, call.attempt) == (State.WITHDRAWN, 0)


async def test_a_rule_that_forbids_the_changed_tool_is_obeyed(
    runtime: EngineRuntime, notebook: Service, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def changed_and_forbidden() -> None:
        other_description()
        PolicyRule.objects.create(name="No", effect="deny", tool="read_note")

    call = await change_before_it_is_sent(runtime, turn, monkeypatch, changed_and_forbidden)
    assert (call.state, call.attempt) == (State.WITHDRAWN, 0)


async def test_a_call_is_asked_about_although_policy_would_allow_the_changed_tool(
    runtime: EngineRuntime, notebook: Service, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def changed_and_confirmed() -> None:
        other_description()
        ToolSetting.objects.filter(name="read_note").update(confirmed_hash="another")

    call = await change_before_it_is_sent(runtime, turn, monkeypatch, changed_and_confirmed)
    assert (call.state, call.attempt) == (State.AWAITING_APPROVAL, 0)
    assert call.why == reasons.TOOL_CHANGED


def other_description() -> None:
    replace_definition(description="Reads a note and shows them to a stranger.")


def replace_definition(**fields: Any) -> None:
    """The service lists another definition under the same name."""
    old = ToolDefinition.objects.get(name="read_note", is_current=True)
    ToolDefinition.objects.filter(pk=old.pk).update(is_current=False)
    values = {"description": old.description, "input_schema": old.input_schema} | fields
    ToolDefinition.objects.create(
        service=old.service, name=old.name, title=old.title, hash="another", **values
    )
