"""Tool calls of programs: decided, asked about, logged and bounded like the model's, and told to
nobody but the program that asked."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from chatapp.api import access_tokens
from chatapp.api import calls as program_calls
from chatapp.api.outcomes import describe_outcome
from chatapp.approvals import decisions
from chatapp.context.history import build_history
from chatapp.conversations import intake
from chatapp.engine.runtime import EngineRuntime
from chatapp.live.page_view import load_conversation_view
from chatapp.models import (
    AccessToken,
    Approval,
    Conversation,
    HousePolicy,
    LogEntry,
    Member,
    PolicyRule,
    ToolCall,
    Turn,
)
from chatapp.people.refused import Refused
from chatapp.rendering.call_values import describe_service
from chatapp.server.database import in_database
from chatapp.tools.blueprint import CoreTool, Mode
from chatapp.tools.context import ToolError
from chatapp.tools.core import core_tool
from tests import scripted
from tests.turns.acts import read_notices

pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
TOKYO = {"zone": "Asia/Tokyo"}
FACT = {"text": "Reports go out on the first Monday of a month."}


@pytest.fixture
def token(owner: Member) -> AccessToken:
    return access_tokens.create(owner, name="Night job", scopes=["mcp", "tools"], days=7)[0]


def tool(name: str) -> CoreTool:
    found = core_tool(name)
    assert found is not None
    return found


async def asked(
    token: AccessToken, name: str, arguments: dict[str, Any], mode: Mode = "rest", key: str = ""
) -> ToolCall:
    """The call as far as it came."""
    call = await in_database(
        program_calls.receive, token, tool(name), arguments, mode=mode, key=key
    )
    return await program_calls.wait_until_settled(call, 10)


def still_open(token: AccessToken, name: str, arguments: dict[str, Any]) -> ToolCall | None:
    return program_calls.find_undelivered(
        program_calls.filter_same_calls(token, tool(name), arguments)
    )


def allow(call: ToolCall, by: Member) -> None:
    approval = Approval.objects.get(tool_call=call)
    decisions.grant(call, by=by, binding=approval.binding, shown_at=None)


async def test_a_call_that_only_reads_runs_at_once_and_asks_no_model(
    runtime: EngineRuntime, token: AccessToken
) -> None:
    call = await asked(token, "current-time", TOKYO)
    outcome = describe_outcome(call)
    assert (call.state, call.turn.state) == (ToolCall.State.SUCCEEDED, Turn.State.DONE)
    assert outcome.status == "done"
    assert outcome.structured["zone"] == "Asia/Tokyo"
    assert scripted.requests == []
    assert await in_database(read_notices, call.turn) == []


async def test_its_person_sees_in_a_chat_what_it_did(
    runtime: EngineRuntime, token: AccessToken, owner: Member
) -> None:
    call = await asked(token, "current-time", TOKYO)
    chat = call.turn.conversation
    assert (chat.owner_id, chat.title, chat.token_id) == (owner.pk, "Night job (program)", token.pk)
    view = await in_database(load_conversation_view, chat)
    assert [message.is_of_program for message in view.messages] == [True, False]
    assert "“Night job” asks for current-time" in view.messages[0].text


async def test_its_card_says_that_a_program_wants_it(
    runtime: EngineRuntime, token: AccessToken
) -> None:
    call = await asked(token, "remember", FACT)
    assert await in_database(describe_service, call) == "A program"


async def test_it_is_logged_as_every_call_is(runtime: EngineRuntime, token: AccessToken) -> None:
    call = await asked(token, "current-time", TOKYO)
    kinds = await in_database(
        lambda: list(LogEntry.objects.filter(call_id=call.pk).values_list("kind", flat=True))
    )
    assert {"call.decided", "call.ended"} <= set(kinds)


async def test_what_must_be_approved_waits_and_runs_once_allowed(
    runtime: EngineRuntime, token: AccessToken, owner: Member
) -> None:
    call = await asked(token, "remember", FACT)
    outcome = describe_outcome(call)
    assert (outcome.status, outcome.waits_for) == ("waits", "approval")
    assert outcome.url.endswith(f"/approvals/{call.pk}/")
    assert not await in_database(owner.memories.exists)
    await in_database(allow, call, owner)
    done = await program_calls.wait_until_settled(call, 10)
    assert describe_outcome(done).status == "done"
    assert await in_database(owner.memories.count) == 1


async def test_a_stranger_can_neither_allow_nor_find_it(
    runtime: EngineRuntime, token: AccessToken, stranger: Member
) -> None:
    call = await asked(token, "remember", FACT)
    with pytest.raises(Refused):
        await in_database(allow, call, stranger)
    theirs = await in_database(
        lambda: access_tokens.create(stranger, name="x", scopes=["tools"], days=1)[0]
    )
    assert not await in_database(program_calls.filter_calls(theirs).exists)
    assert await in_database(program_calls.filter_calls(token).get) == call


async def test_another_token_of_the_same_person_does_not_see_it(
    runtime: EngineRuntime, token: AccessToken, owner: Member
) -> None:
    await asked(token, "current-time", TOKYO)
    other = await in_database(
        lambda: access_tokens.create(owner, name="x", scopes=["tools"], days=1)[0]
    )
    assert not await in_database(program_calls.filter_calls(other).exists)


async def test_a_denial_is_told_with_its_reason(
    runtime: EngineRuntime, token: AccessToken, owner: Member
) -> None:
    call = await asked(token, "remember", FACT)
    binding = await in_database(lambda: Approval.objects.get(tool_call=call).binding)
    await in_database(decisions.deny, call, by=owner, binding=binding, reason="Not in March.")
    outcome = describe_outcome(await program_calls.wait_until_settled(call, 10))
    assert outcome.status == "failed"
    assert "Not in March." in outcome.text


async def test_an_admins_deny_and_ask_for_everything_count_here_too(
    runtime: EngineRuntime, token: AccessToken
) -> None:
    rule = await in_database(
        PolicyRule.objects.create, name="No clocks", effect="deny", tool="current-time"
    )
    refused = await asked(token, "current-time", TOKYO)
    assert refused.state == ToolCall.State.REFUSED
    await in_database(rule.delete)
    await in_database(HousePolicy.objects.update_or_create, defaults={"asks_everything": True})
    assert (await asked(token, "current-time", TOKYO)).state == ToolCall.State.AWAITING_APPROVAL


async def test_the_plan_face_runs_in_a_chat_that_plans(
    runtime: EngineRuntime, token: AccessToken
) -> None:
    read = await asked(token, "current-time", TOKYO, "mcp_plan")
    assert read.state == ToolCall.State.SUCCEEDED
    assert read.turn.conversation.mode == Conversation.Mode.PLAN
    # Even where a face failed to check the tool's modes, policy refuses what writes.
    written = await asked(token, "remember", FACT, "mcp_plan")
    assert written.state == ToolCall.State.REFUSED
    told = await in_database(lambda: list(LogEntry.objects.filter(kind="chat.mode")))
    assert [each.conversation_id for each in told] == [read.turn.conversation_id]


async def test_calls_beside_one_that_waits_go_on_in_another_chat(
    runtime: EngineRuntime, token: AccessToken
) -> None:
    waiting = await asked(token, "remember", FACT)
    first = await asked(token, "current-time", TOKYO)
    second = await asked(token, "current-time", TOKYO)
    assert first.state == second.state == ToolCall.State.SUCCEEDED
    assert first.turn.conversation_id == second.turn.conversation_id
    assert first.turn.conversation_id != waiting.turn.conversation_id


async def test_calls_at_the_same_moment_all_run(runtime: EngineRuntime, token: AccessToken) -> None:
    calls = await asyncio.gather(*(asked(token, "current-time", TOKYO) for _ in range(8)))
    assert {call.state for call in calls} == {ToolCall.State.SUCCEEDED}
    assert len({call.pk for call in calls}) == 8


async def test_a_chat_that_its_person_went_on_with_is_theirs(
    runtime: EngineRuntime, token: AccessToken, owner: Member
) -> None:
    chat = (await asked(token, "current-time", TOKYO)).turn.conversation
    scripted.scenes.append(scripted.text("Half past nine."))
    await in_database(intake.receive, owner, chat, text="And in Rome?", model=scripted.MODEL)
    call = await asked(token, "current-time", TOKYO)
    assert call.turn.conversation_id != chat.pk


async def test_the_model_reads_what_a_program_did_before(
    runtime: EngineRuntime, token: AccessToken, owner: Member
) -> None:
    call = await asked(token, "current-time", TOKYO)
    history = await in_database(build_history, call.turn)
    assert "asks for current-time" in str(history[0])
    assert "Asia/Tokyo" in str(history[-1])


async def test_a_key_runs_its_call_once_however_often_it_comes(
    runtime: EngineRuntime, token: AccessToken
) -> None:
    again = await asyncio.gather(
        *(asked(token, "current-time", TOKYO, key="one") for _ in range(6))
    )
    assert len({call.pk for call in again}) == 1
    assert await in_database(ToolCall.objects.filter(turn__token=token).count) == 1


async def test_a_key_with_another_request_is_refused(
    runtime: EngineRuntime, token: AccessToken
) -> None:
    await asked(token, "current-time", TOKYO, key="one")
    for name, arguments in (("current-time", {"zone": "Europe/Rome"}), ("list-services", {})):
        with pytest.raises(Refused, match="another request"):
            await asked(token, name, arguments, key="one")


async def test_a_key_is_one_tokens_own(
    runtime: EngineRuntime, token: AccessToken, owner: Member
) -> None:
    first = await asked(token, "current-time", TOKYO, key="one")
    other = await in_database(
        lambda: access_tokens.create(owner, name="x", scopes=["tools"], days=1)[0]
    )
    assert (await asked(other, "current-time", TOKYO, key="one")).pk != first.pk


async def test_what_does_not_fit_makes_no_turn(runtime: EngineRuntime, token: AccessToken) -> None:
    with pytest.raises(ToolError) as caught:
        await asked(token, "current-time", {"zone": 7})
    assert caught.value.field == "zone"
    with pytest.raises(ToolError):
        await asked(token, "remember", {"text": "a lone surrogate \ud800"})
    assert not await in_database(Turn.objects.filter(token=token).exists)


async def test_a_token_has_only_so_many_calls_that_wait(
    runtime: EngineRuntime, token: AccessToken, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_calls, "MAX_LIVE", 1)
    await asked(token, "remember", FACT)
    with pytest.raises(Refused) as caught:
        await asked(token, "current-time", TOKYO)
    assert caught.value.status == 429


async def test_a_token_has_only_so_many_calls_a_minute(
    runtime: EngineRuntime, token: AccessToken, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_calls, "MAX_A_MINUTE", 1)
    first = await asked(token, "current-time", TOKYO)
    with pytest.raises(Refused):
        await asked(token, "current-time", TOKYO)
    earlier = timezone.now() - timedelta(seconds=61)
    await in_database(Turn.objects.filter(pk=first.turn_id).update, created_at=earlier)
    assert (await asked(token, "current-time", TOKYO)).state == ToolCall.State.SUCCEEDED


async def test_a_chat_holds_only_so_many_calls(
    runtime: EngineRuntime, token: AccessToken, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_calls, "MAX_IN_A_CHAT", 2)
    chats = [(await asked(token, "current-time", TOKYO)).turn.conversation_id for _ in range(3)]
    assert len(set(chats)) == 2


async def test_asking_again_means_the_call_that_waits_until_it_was_told(
    runtime: EngineRuntime, token: AccessToken, owner: Member
) -> None:
    call = await asked(token, "remember", FACT)
    assert await in_database(still_open, token, "remember", FACT) == call
    assert not await in_database(still_open, token, "remember", {"text": "Another fact."})
    assert not await in_database(still_open, token, "forget", FACT)
    assert await in_database(program_calls.mark_delivered, call)
    assert not await in_database(program_calls.mark_delivered, call)
    assert not await in_database(still_open, token, "remember", FACT)


async def test_an_outcome_that_nobody_fetched_is_not_kept_for_ever(
    runtime: EngineRuntime, token: AccessToken, owner: Member, settings: Any
) -> None:
    call = await asked(token, "remember", FACT)
    turn = Turn.objects.filter(pk=call.turn_id)
    long_ago = timezone.now() - timedelta(days=settings.APPROVAL_DAYS, seconds=1)
    await in_database(turn.update, created_at=long_ago)
    assert await in_database(still_open, token, "remember", FACT) == call, "It waits."
    await in_database(allow, call, owner)
    await program_calls.wait_until_settled(call, 10)
    assert await in_database(still_open, token, "remember", FACT) == call
    await in_database(turn.update, finished_at=long_ago)
    assert await in_database(still_open, token, "remember", FACT) is None


async def test_what_ran_at_once_is_not_taken_for_a_new_question(
    runtime: EngineRuntime, token: AccessToken
) -> None:
    await asked(token, "current-time", TOKYO)
    assert await in_database(still_open, token, "current-time", TOKYO) is None


async def test_what_ran_for_so_long_that_the_program_was_sent_away_is_the_same_call(
    runtime: EngineRuntime, token: AccessToken
) -> None:
    call = await in_database(program_calls.receive, token, tool("current-time"), TOKYO, mode="rest")
    live = Turn.objects.filter(pk=call.turn_id)
    await program_calls.wait_until_settled(call, 10)
    await in_database(live.update, state=Turn.State.RUNNING)
    assert await in_database(still_open, token, "current-time", TOKYO) is None
    await in_database(live.update, created_at=timezone.now() - timedelta(seconds=30))
    assert await in_database(still_open, token, "current-time", TOKYO) == call


def test_tools_for_admins_and_for_chats_are_not_offered(token: AccessToken, admin: Member) -> None:
    names = {each.name for each in program_calls.list_usable_tools(token, "mcp_act")}
    assert {"current-time", "remember"} <= names
    assert not {"add-service", "ask-person", "find-tools", "make-plan"} & names
    reading = {each.name for each in program_calls.list_usable_tools(token, "mcp_plan")}
    assert "current-time" in reading and "remember" not in reading
    theirs = access_tokens.create(admin, name="x", scopes=["mcp"], days=1)[0]
    assert "add-service" in {each.name for each in program_calls.list_usable_tools(theirs, "rest")}
    assert program_calls.find_usable_tool(token, "add-service", "rest") is None


async def test_waiting_for_an_outcome_is_bounded(
    runtime: EngineRuntime, token: AccessToken
) -> None:
    call = await in_database(program_calls.receive, token, tool("current-time"), TOKYO, mode="rest")
    await in_database(Turn.objects.filter(pk=call.turn_id).update, state=Turn.State.RUNNING)
    started = asyncio.get_running_loop().time()
    await program_calls.wait_until_settled(call, 0.2)
    assert asyncio.get_running_loop().time() - started < 5
