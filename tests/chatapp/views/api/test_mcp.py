"""Our tools as an MCP server, in both eras: the same calls, decisions and bounds as in the chat,
and nothing of another person."""

import asyncio
import json
from typing import Any, Literal

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from chatapp.api import calls, mcp_server
from chatapp.engine.runtime import EngineRuntime
from chatapp.models import Conversation, Member, PolicyRule, ToolCall, Turn
from chatapp.server.database import in_database
from chatapp.tools.core import core_tools
from mcpconfig.values.version import VERSION

from .mcp_program import PING, Program, allow_last, get_text, last_call

pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
ERAS = ["auto", "legacy"]
TOKYO = {"zone": "Asia/Tokyo"}
FACT = {"text": "Reports go out on Mondays."}


@pytest.mark.parametrize("mode", ERAS)
async def test_it_lists_the_tools_with_all_that_a_program_needs(
    runtime: EngineRuntime, program: Program, mode: str
) -> None:
    async with program.client(mode=mode) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
    offered = {tool.name for tool in core_tools() if "mcp_act" in tool.modes}
    assert set(listed) == offered - {"add-service"}
    time = listed["current-time"]
    assert time.input_schema["required"] == ["zone"]
    assert time.output_schema is not None and time.output_schema["properties"]["weekday"]
    assert time.annotations is not None and time.annotations.read_only_hint
    assert "Limits:" in (time.description or "")
    remember = listed["remember"].annotations
    assert remember is not None and not remember.read_only_hint


@pytest.mark.parametrize("mode", ERAS)
async def test_a_call_brings_text_and_structure(
    runtime: EngineRuntime, program: Program, mode: str
) -> None:
    result = await program.call("current-time", TOKYO, mode=mode)
    assert not result.is_error
    assert result.structured_content["zone"] == "Asia/Tokyo"
    assert "Asia/Tokyo" in get_text(result)


async def test_the_newest_revision_is_spoken_and_the_handshake_too(
    runtime: EngineRuntime, program: Program
) -> None:
    async with program.client() as client:
        assert client.protocol_version == "2026-07-28"
        assert client.server_info is not None and client.server_info.version == VERSION
    async with program.client(mode="legacy") as client:
        assert client.protocol_version == "2025-11-25"
        assert client.server_info is not None and client.server_info.version == VERSION


@pytest.mark.parametrize("mode", ERAS)
async def test_progress_tells_each_state(
    runtime: EngineRuntime, program: Program, mode: str
) -> None:
    told: list[tuple[float, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        assert total is None
        told.append((progress, message))

    async with program.client(mode=mode) as client:
        await client.call_tool("current-time", TOKYO, progress_callback=hear)
    assert told, "nothing was told"
    assert told[-1][1] == "done"
    assert [number for number, _ in told] == list(range(1, len(told) + 1))


@pytest.mark.parametrize("mode", ERAS)
async def test_what_the_tool_cannot_do_is_a_result(
    runtime: EngineRuntime, program: Program, mode: str
) -> None:
    failed = await program.call("current-time", {"zone": "Asia/Tokio"}, mode=mode)
    assert failed.is_error and "Asia/Tokyo" in get_text(failed)
    unfit = await program.call("current-time", {"zone": 7}, mode=mode)
    assert unfit.is_error and get_text(unfit).startswith("zone:")


@pytest.mark.parametrize("name", ["nothing", "ask-person", "find-tools", "add-service"])
async def test_what_is_not_offered_cannot_be_called(
    runtime: EngineRuntime, program: Program, name: str
) -> None:
    async with program.client() as client:
        with pytest.raises(MCPError, match="no tool"):
            await client.call_tool(name, {})
    assert not await in_database(Turn.objects.exists)


async def test_the_face_that_plans_lists_and_runs_only_what_reads(
    runtime: EngineRuntime, owner: Member
) -> None:
    planner = await in_database(Program, owner, "mcp:plan")
    async with planner.client("/mcp/plan") as client:
        listed = {tool.name for tool in (await client.list_tools()).tools}
        assert "current-time" in listed and "remember" not in listed
        assert not (await client.call_tool("current-time", TOKYO)).is_error
        with pytest.raises(MCPError):
            await client.call_tool("remember", FACT)
    call = await last_call()
    assert call.turn.conversation.mode == Conversation.Mode.PLAN


async def test_a_program_that_can_show_an_address_is_given_one_and_comes_back(
    runtime: EngineRuntime, program: Program, owner: Member
) -> None:
    shown: list[types.ElicitRequestURLParams] = []

    async def open_page(_session: Any, params: Any) -> types.ElicitResult:
        shown.append(params)
        await allow_last(owner)
        return types.ElicitResult(action="accept")

    result = await program.call("remember", FACT, elicitation_callback=open_page)
    assert not result.is_error, get_text(result)
    call = await last_call()
    assert [params.mode for params in shown] == ["url"]
    assert shown[0].url.endswith(f"/approvals/{call.pk}/")
    assert "Nothing runs before that" in shown[0].message
    assert await in_database(owner.memories.count) == 1
    assert await in_database(ToolCall.objects.count) == 1


@pytest.mark.parametrize("mode", ERAS)
async def test_a_program_that_cannot_is_told_where_to_go_and_calls_again(
    runtime: EngineRuntime, program: Program, owner: Member, mode: str
) -> None:
    waits = await program.call("remember", FACT, mode=mode)
    call = await last_call()
    assert waits.is_error and f"/approvals/{call.pk}/" in get_text(waits)
    assert (await program.call("remember", FACT, mode=mode)).is_error
    assert await in_database(ToolCall.objects.count) == 1
    await allow_last(owner)
    await calls.wait_until_settled(call, 10)
    done = await program.call("remember", FACT, mode=mode)
    assert not done.is_error
    assert await in_database(owner.memories.count) == 1
    # What was told is over: the same words from now on mean another call.
    assert (await program.call("remember", FACT, mode=mode)).is_error
    assert await in_database(ToolCall.objects.count) == 2


async def test_a_request_that_was_accepted_without_a_decision_is_not_made_again(
    runtime: EngineRuntime, program: Program, owner: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_server, "WAIT_SECONDS", 3)
    asked = 0

    async def look_later(_session: Any, _params: Any) -> types.ElicitResult:
        nonlocal asked
        asked += 1
        return types.ElicitResult(action="accept")

    result = await program.call("remember", FACT, elicitation_callback=look_later)
    call = await last_call()
    assert (result.is_error, asked, call.state) == (True, 1, ToolCall.State.AWAITING_APPROVAL)
    assert f"/approvals/{call.pk}/" in get_text(result)
    await allow_last(owner)
    await calls.wait_until_settled(await last_call(), 10)
    done = await program.call("remember", FACT, elicitation_callback=_never)
    assert not done.is_error, get_text(done)
    assert await in_database(ToolCall.objects.count) == 1
    assert await in_database(owner.memories.count) == 1


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_request_that_was_declined_ends_the_call(
    runtime: EngineRuntime, program: Program, owner: Member, action: Literal["decline", "cancel"]
) -> None:
    async def refuse(_session: Any, _params: Any) -> types.ElicitResult:
        return types.ElicitResult(action=action)

    result = await program.call("remember", FACT, elicitation_callback=refuse)
    call = await last_call()
    assert (result.is_error, call.state) == (True, ToolCall.State.WITHDRAWN)
    assert not await in_database(Turn.objects.filter(state__in=Turn.LIVE).exists)
    assert await in_database(owner.memories.count) == 0


async def test_a_request_that_was_declined_after_the_approval_undoes_nothing(
    runtime: EngineRuntime, program: Program, owner: Member
) -> None:
    async def allow_and_decline(_session: Any, _params: Any) -> types.ElicitResult:
        await allow_last(owner)
        await calls.wait_until_settled(await last_call(), 10)
        return types.ElicitResult(action="decline")

    result = await program.call("remember", FACT, elicitation_callback=allow_and_decline)
    assert not result.is_error, get_text(result)
    assert await in_database(owner.memories.count) == 1


async def state_of_a_waiting_call(program: Program) -> str:
    async with program.client(elicitation_callback=_never) as client:
        raw = await client.session.call_tool("remember", FACT, allow_input_required=True)
    assert isinstance(raw, types.InputRequiredResult) and raw.request_state
    return raw.request_state


async def _never(_session: Any, _params: Any) -> types.ElicitResult:
    raise AssertionError("nobody is to be asked")


@pytest.mark.parametrize("wrong", ["arguments", "tool", "state", "stranger", "other token"])
async def test_a_state_counts_for_its_token_tool_and_arguments_only(
    runtime: EngineRuntime, program: Program, owner: Member, stranger: Member, wrong: str
) -> None:
    state = await state_of_a_waiting_call(program)
    tool, arguments, asking = "remember", FACT, program
    match wrong:
        case "arguments":
            arguments = {"text": "Something else."}
        case "tool":
            tool, arguments = "current-time", TOKYO
        case "state":
            state = "not an id"
        case "stranger":
            asking = await in_database(Program, stranger)
        case _:
            asking = await in_database(Program, owner)
    async with asking.client(elicitation_callback=_never) as client:
        with pytest.raises(MCPError, match="requestState"):
            await client.session.call_tool(tool, arguments, request_state=state)
    assert await in_database(ToolCall.objects.count) == 1


@pytest.mark.parametrize("mode", ERAS)
async def test_an_admins_rule_counts_here_too(
    runtime: EngineRuntime, program: Program, mode: str
) -> None:
    await in_database(PolicyRule.objects.create, name="No", effect="deny", tool="current-time")
    async with program.client(mode=mode) as client:
        listed = {tool.name for tool in (await client.list_tools()).tools}
    assert "list-services" in listed and "current-time" not in listed
    refused = await program.call("current-time", TOKYO, mode=mode)
    assert refused.is_error and "policy" in get_text(refused)


async def test_parallel_calls_all_come_back(runtime: EngineRuntime, program: Program) -> None:
    async with program.client() as client:
        zones = ["Asia/Tokyo", "Europe/Rome", "UTC", "Africa/Cairo"]
        results = await asyncio.gather(
            *(client.call_tool("current-time", {"zone": zone}) for zone in zones)
        )
    assert [result.structured_content["zone"] for result in results] == zones


@pytest.mark.parametrize("path", ["/mcp", "/mcp/plan"])
async def test_nobody_is_served_without_a_token_of_that_scope(
    runtime: EngineRuntime, program: Program, owner: Member, path: str
) -> None:
    program.text = "cs_00000000_wrong"
    refused = await program.post(path)
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"].startswith("Bearer")
    other = await in_database(Program, owner, "tools", "chat")
    assert (await other.post(path)).status_code == 403


async def test_a_token_that_plans_does_not_open_the_face_that_acts(
    runtime: EngineRuntime, owner: Member
) -> None:
    planner = await in_database(Program, owner, "mcp:plan")
    assert (await planner.post("/mcp")).status_code == 403
    assert (await planner.post("/mcp/plan")).status_code != 403


async def test_a_token_in_the_address_is_refused(runtime: EngineRuntime, program: Program) -> None:
    refused = await program.post(f"/mcp?access_token={program.text}")
    assert refused.status_code == 400
    assert refused.json()["error"]["kind"] == "token_in_address"


async def test_a_page_of_another_origin_or_host_is_refused_even_with_the_token(
    runtime: EngineRuntime, program: Program, settings: Any
) -> None:
    assert (await program.post(Origin="https://evil.example")).status_code == 403
    assert (await program.post(Origin="null")).status_code == 403
    assert (await program.post(Host="evil.example")).status_code == 421
    assert (await program.post(Origin="http://127.0.0.1:6740")).status_code == 200
    settings.ALLOWED_ORIGINS = ["https://desk.example"]
    assert (await program.post(Origin="https://desk.example")).status_code == 200


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
async def test_a_stateless_face_has_nothing_but_post(
    runtime: EngineRuntime, program: Program, method: str
) -> None:
    refused = await program.ask(method, "/mcp")
    assert (refused.status_code, refused.headers["allow"]) == (405, "POST")


async def test_too_large_a_request_is_refused(runtime: EngineRuntime, program: Program) -> None:
    large = PING | {"params": {"filler": "x" * 300_000}}
    assert (await program.post(body=large)).status_code == 413


@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff", b"[" * 5_000, b'{"jsonrpc": "2.0"}'])
async def test_what_cannot_be_read_is_a_clear_refusal(
    runtime: EngineRuntime, program: Program, body: bytes
) -> None:
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    refused = await program.ask("POST", "/mcp", content=body, headers=headers)
    assert 400 <= refused.status_code < 500
    assert json.loads(refused.content)


async def test_a_strangers_program_reads_nothing_of_the_owners(
    runtime: EngineRuntime, program: Program, owner: Member, stranger: Member
) -> None:
    await in_database(owner.memories.create, text="The owner's secret plan")
    await program.call("current-time", TOKYO)
    chat = str((await last_call()).turn.conversation_id)
    theirs = await in_database(Program, stranger)
    read = await theirs.call("read-conversation", {"conversation": chat})
    assert read.is_error
    assert "secret" not in get_text(await theirs.call("recall", {"words": "secret plan"}))
    found = await theirs.call("search-conversations", {"words": "current-time"})
    assert chat not in get_text(found)


async def test_a_request_that_takes_too_long_is_broken_off_and_its_call_goes_on(
    runtime: EngineRuntime, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chatapp.views.api.mcp.MAX_SECONDS", 0.0)
    answered = await program.post()
    assert answered.status_code == 504
    assert answered.json()["error"]["kind"] == "too_slow"
