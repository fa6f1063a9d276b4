"""A turn is offered what its message mentions, else what its person switched on, as it is now."""

import asyncio

import pytest

from chatapp.api import access_tokens
from chatapp.api import calls as program_calls
from chatapp.conversations import intake
from chatapp.engine.runtime import EngineRuntime
from chatapp.models import Conversation, Member, Memory, PolicyRule, ToolCall, Turn
from chatapp.providers.request import ToolOutcome
from chatapp.server.database import in_database
from chatapp.tool_menu.switches import reset_switches, switch, switch_all
from chatapp.tools.core import core_tool
from mcpconfig.models import Service, ToolSetting
from tests import scripted
from tests.scripted import Pause, calls, text
from tests.turns.acts import (
    DELETE,
    READ,
    create_offered_service,
    get_only_call,
    read_notices,
    wait_for_rest,
)

pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
OTHER = "https://nowhere.invalid/mcp"
NOTES = {
    "notebook_create_note",
    "notebook_delete_note",
    "notebook_list_notes",
    "notebook_read_note",
}


@pytest.fixture
def memos(transactional_db: None) -> Service:
    return create_offered_service("memos", OTHER, "list", "send")


def told(request: int = -1) -> set[str]:
    """The tools of services that the model was told of."""
    return {tool.name for tool in scripted.requests[request].tools if "_" in tool.name}


async def asked(runtime: EngineRuntime, person: Member, words: str, **more: object) -> Turn:
    """A new conversation with one answered message."""
    scripted.scenes.append(text("Well."))
    turn = await in_database(
        lambda: intake.receive(person, None, text=words, model=scripted.MODEL, **more)  # type: ignore[arg-type]
    )
    done = await wait_for_rest(runtime, turn)
    return await in_database(Turn.objects.select_related("conversation").get, pk=done.pk)


async def test_what_an_admin_has_off_at_first_waits_for_the_person(
    runtime: EngineRuntime, owner: Member, notebook: Service, memos: Service
) -> None:
    await in_database(lambda: Service.objects.filter(pk=memos.pk).update(starts_on=False))
    await asked(runtime, owner, "Hello")
    notes = told()
    assert notes >= NOTES and not any("memos" in name for name in notes)
    await asked(runtime, owner, "Look at @memos/list")
    assert told() == {"memos_list"}
    await in_database(lambda: switch(owner, None, memos, "send", True))
    await asked(runtime, owner, "Hello")
    assert told() - notes == {"memos_send"}
    await in_database(lambda: switch(owner, None, memos, "", True))
    await asked(runtime, owner, "Hello")
    assert told() - notes == {"memos_list", "memos_send"}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("Look at @memos", {"memos_list", "memos_send"}),
        ("Look at @memos/list.", {"memos_list"}),
        ("@notebook/read_note or @memos/send", {"notebook_read_note", "memos_send"}),
        ("@nobody", set()),
        ("@nobody and @memos/list", {"memos_list"}),
    ],
)
async def test_the_model_is_told_exactly_what_a_message_mentions(
    runtime: EngineRuntime,
    owner: Member,
    notebook: Service,
    memos: Service,
    words: str,
    expected: set[str],
) -> None:
    await in_database(switch, owner, None, memos, "", False)
    await asked(runtime, owner, words)
    assert told() == expected
    assert {tool.name for tool in scripted.requests[-1].tools} == expected


async def test_mentions_count_for_the_turn_that_they_start_alone(
    runtime: EngineRuntime, owner: Member, notebook: Service, memos: Service
) -> None:
    turn = await asked(runtime, owner, "@memos/list")
    scripted.scenes.append(text("Well."))
    after = await in_database(
        lambda: intake.receive(owner, turn.conversation, text="And?", model=scripted.MODEL)
    )
    await wait_for_rest(runtime, after)
    assert {"memos_list", "memos_send"} | NOTES <= told()


async def test_a_mention_of_nothing_is_said_and_gives_no_tools(
    runtime: EngineRuntime, owner: Member, notebook: Service
) -> None:
    turn = await asked(runtime, owner, "Ask @nobody/at_all")
    (said,) = await in_database(read_notices, turn)
    assert said == ("You have no such service or tool: @nobody/at_all. No tools were used.")
    assert said in scripted.requests[-1].system
    assert scripted.requests[-1].tools == ()


async def test_what_one_may_not_use_is_as_unknown_as_what_is_not_there(
    runtime: EngineRuntime, stranger: Member, owner: Member, memos: Service
) -> None:
    """A mention of another person's private service does not reveal that it exists."""
    await in_database(Service.objects.filter(pk=memos.pk).update, visibility="private", owner=owner)
    turn = await asked(runtime, stranger, "@memos/list")
    other = await asked(runtime, stranger, "@nobody/list")
    assert told(-1) == told(-2) == set()
    one, two = await in_database(read_notices, turn), await in_database(read_notices, other)
    assert [each.replace("memos", "nobody") for each in one] == two
    await asked(runtime, owner, "@memos/list")
    assert told() == {"memos_list"}


async def test_a_tool_that_a_rule_forbids_is_not_told_of_and_is_refused_if_called(
    runtime: EngineRuntime, owner: Member, memos: Service
) -> None:
    await in_database(
        lambda: PolicyRule.objects.create(
            name="No", effect="deny", service=memos, tool="send", note="Ask the office."
        )
    )
    scripted.scenes.append(calls(("memos_send", "{}")))
    turn = await asked(runtime, owner, "Hello")
    assert told(0) >= {"memos_list"} and "memos_send" not in told(0)
    call = await in_database(ToolCall.objects.get, turn=turn)
    assert (call.state, call.note) == (ToolCall.State.REFUSED, "Ask the office.")


async def test_a_tool_that_an_admin_switched_off_comes_by_no_mention_and_no_switch(
    runtime: EngineRuntime, owner: Member, memos: Service
) -> None:
    await in_database(
        ToolSetting.objects.update_or_create,
        service=memos, name="send", defaults={"is_enabled": False},
    )  # fmt: skip
    await in_database(switch, owner, None, memos, "send", True)
    await asked(runtime, owner, "@memos/send")
    assert told() == set()
    await asked(runtime, owner, "@memos")
    assert told() == {"memos_list"}
    await asked(runtime, owner, "Well?")
    assert "memos_send" not in told()


async def test_without_mentions_the_switches_count(
    runtime: EngineRuntime, owner: Member, stranger: Member, notebook: Service, memos: Service
) -> None:
    await in_database(switch, owner, None, notebook, "", False)
    await in_database(switch, owner, None, memos, "send", False)
    turn = await asked(runtime, owner, "Well?")
    assert told() == {"memos_list"}
    await in_database(switch, owner, turn.conversation, notebook, "read_note", True)
    await in_database(switch, owner, turn.conversation, memos, "", False)
    scripted.scenes.append(text("Well."))
    again = await in_database(
        lambda: intake.receive(owner, turn.conversation, text="And?", model=scripted.MODEL)
    )
    await wait_for_rest(runtime, again)
    assert told() == {"notebook_read_note"}
    await asked(runtime, stranger, "What of me?")
    assert {"memos_list", "memos_send"} | NOTES <= told()


async def test_nothing_switched_on_means_no_tools_of_services_but_our_own(
    runtime: EngineRuntime, owner: Member, notebook: Service, memos: Service
) -> None:
    for service in (notebook, memos):
        await in_database(switch, owner, None, service, "", False)
    await asked(runtime, owner, "Well?")
    assert told() == set()
    assert {tool.name for tool in scripted.requests[-1].tools} >= {"current-time"}


async def test_a_tool_of_our_own_that_is_switched_off_is_neither_told_nor_run(
    runtime: EngineRuntime, owner: Member, stranger: Member
) -> None:
    await in_database(lambda: Memory.keep(owner, "I like tea."))
    await in_database(lambda: switch(owner, None, None, "recall", False))
    scripted.scenes.append(calls(("recall", "{}")))
    turn = await asked(runtime, owner, "Hello", services=[])
    assert "recall" not in {tool.name for tool in scripted.requests[0].tools}
    assert "current-time" in {tool.name for tool in scripted.requests[0].tools}
    assert "recall them" not in scripted.requests[0].system
    call = await get_only_call(turn)
    assert (call.state, call.result) == (ToolCall.State.FAILED, None)
    await asked(runtime, stranger, "Hello")
    assert "recall" in {tool.name for tool in scripted.requests[-1].tools}


async def test_a_switch_is_about_chats_and_not_about_programs(
    runtime: EngineRuntime, owner: Member
) -> None:
    def receive() -> ToolCall:
        switch(owner, None, None, "current-time", False)
        token = access_tokens.create(owner, name="Night job", scopes=["tools"], days=7)[0]
        tool = core_tool("current-time")
        assert tool is not None
        return program_calls.receive(token, tool, {"zone": "UTC"}, mode="rest", key="")

    call = await program_calls.wait_until_settled(await in_database(receive), 10)
    assert call.state == ToolCall.State.SUCCEEDED


async def test_a_chat_without_tools_has_none_at_all(
    runtime: EngineRuntime, owner: Member, notebook: Service
) -> None:
    turn = await asked(runtime, owner, "Hello")
    await in_database(switch_all, turn.conversation, False)
    scripted.scenes += [calls(("find-tools", '{"query": "notes"}')), text("I see.")]
    again = await in_database(
        lambda: intake.receive(owner, turn.conversation, text="@notebook", model=scripted.MODEL)
    )
    await wait_for_rest(runtime, again)
    assert scripted.requests[-1].tools == scripted.requests[-2].tools == ()
    assert "Tools are switched off for this chat." in scripted.requests[-1].system
    (said,) = await in_database(read_notices, again)
    assert said == "Tools are switched off for this chat, so this was not used: @notebook."
    call = await get_only_call(again)
    assert (call.state, call.attempt) == (ToolCall.State.FAILED, 0)


async def test_a_named_service_is_offered_whatever_the_switches_say(
    runtime: EngineRuntime, owner: Member, notebook: Service, memos: Service
) -> None:
    await in_database(switch, owner, None, memos, "", False)
    await asked(runtime, owner, "Well?", services=["memos"])
    assert told() == {"memos_list", "memos_send"}


async def test_a_switch_counts_from_the_next_model_call_of_a_running_turn(
    runtime: EngineRuntime, turn: Turn, owner: Member, notebook: Service
) -> None:
    pause = Pause()
    scripted.scenes += [[pause, *calls(READ)], text("Without it, then.")]
    moving = asyncio.create_task(wait_for_rest(runtime, turn))
    await asyncio.wait_for(pause.reached.wait(), 15)
    assert "notebook_read_note" in told()
    await in_database(switch, owner, turn.conversation, notebook, "read_note", False)
    pause.ended.set()
    await moving
    assert NOTES - told() == {"notebook_read_note"}
    call = await get_only_call(turn)
    assert (call.state, call.attempt) == (ToolCall.State.FAILED, 0)
    outcome = scripted.requests[-1].history[-1]
    assert isinstance(outcome, ToolOutcome)
    assert "This tool was switched off before the call ran." in outcome.text


async def test_a_question_that_is_open_stays_the_persons_to_answer(
    runtime: EngineRuntime, turn: Turn, owner: Member, notebook: Service
) -> None:
    """Their later word is about this call; the switch is about what the model may ask for."""
    scripted.scenes.append(calls(DELETE))
    await wait_for_rest(runtime, turn)
    await in_database(switch, owner, None, notebook, "", False)
    call = await get_only_call(turn)
    assert call.state == ToolCall.State.AWAITING_APPROVAL


async def test_what_is_missing_of_a_service_that_is_off_is_not_said(
    runtime: EngineRuntime, owner: Member, notebook: Service, memos: Service
) -> None:
    error = {"kind": "refused", "message": "Nothing answers there.", "hint": "", "at": "now"}
    await in_database(Service.objects.filter(pk=memos.pk).update, last_error=error)
    turn = await asked(runtime, owner, "@notebook, please")
    assert await in_database(read_notices, turn) == []
    turn = await asked(runtime, owner, "@memos/list, please")
    assert [said[:14] for said in await in_database(read_notices, turn)] == ["The tools of “"]
    await in_database(switch, owner, None, memos, "", False)
    turn = await asked(runtime, owner, "Well?")
    assert await in_database(read_notices, turn) == []
    assert "memos" not in scripted.requests[-1].system


def test_a_switch_of_a_service_takes_back_those_of_its_tools(
    owner: Member, stranger: Member, memos: Service, conversation: Conversation
) -> None:
    switch(owner, None, memos, "list", False)
    switch(owner, conversation, memos, "send", False)
    switch(owner, None, memos, "", True)
    switch(stranger, None, memos, "list", False)
    rows = owner.tool_switches.values_list("conversation", "tool", "is_on")
    assert set(rows) == {(None, "", True), (conversation.pk, "send", False)}
    reset_switches(conversation)
    assert [*map(str, owner.tool_switches.all())] == ["all tools: on"]
    assert stranger.tool_switches.count() == 1
