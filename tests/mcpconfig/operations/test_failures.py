"""Servers that fail or lie: each call ends with a message, in time, with at most one effect."""

import json
from collections.abc import Awaitable, Callable

import pytest
from django.conf import LazySettings

from mcpconfig.models import Service, ToolDefinition
from mcpconfig.operations.tool_listing import fetch_tools
from mcpconfig.operations.tools import list_tools
from mcpconfig.operations.tools import test_connection as connection_report
from mcpconfig.values.errors import OperationError
from mcpconfig.values.results import Answer, InputRequest
from tests.peers.finished_calls import call_tool
from tests.peers.hostile import Hostile

MakeService = Callable[..., Awaitable[Service]]

pytestmark = [pytest.mark.gate, pytest.mark.timeout(30)]

ACT = {"name": "act", "input_schema": {"type": "object"}}


@pytest.fixture(autouse=True)
def _short_waits(settings: LazySettings) -> None:
    settings.MCP_TOTAL_SECONDS = 10  # a busy machine takes four to refuse a flood
    settings.MCP_IDLE_SECONDS = 0.5


async def failure(service: Service) -> OperationError:
    """Return the failure of a call of the server's one tool."""
    with pytest.raises(OperationError) as caught:
        await call_tool(service, ToolDefinition(**ACT), {})
    return caught.value


UNKNOWN_OUTCOMES = {
    "html": "not_mcp",
    "garbage": "protocol",
    "h400": "not_mcp",
    "h401_bare": "sign_in_needed",
    "h403": "forbidden",
    "h404": "not_mcp",
    "h405": "not_mcp",
    "h429_bare": "rate_limited",
    "h503": "server_error",
    "h500": "server_error",
    "h502": "server_error",
    "h204": "not_mcp",
    "redirect": "configuration",
    "redirect_here": "configuration",
    "accepted": "protocol",
    "hang": "timeout",
    "drip": "timeout",
    "drop_at_once": "server_error",
    "drop_in_body": "server_error",
    "drop_in_stream": "server_error",
    "giant": "too_large",
    "giant_announced": "too_large",
    "bomb": "protocol",
    "wrong_id": "protocol",
    "notifications": "too_large",
    "deep": "too_large",
}


@pytest.mark.parametrize(("misdeed", "kind"), UNKNOWN_OUTCOMES.items())
async def test_a_call_without_a_proper_answer_has_an_unknown_outcome_and_is_sent_once(
    hostile: Hostile, service_at: MakeService, misdeed: str, kind: str
) -> None:
    error = await failure(await service_at(hostile.url(misdeed)))

    assert error.kind == kind
    assert error.was_sent
    assert not error.is_definite
    assert error.message.endswith((".", "?"))
    assert hostile.effects == 1
    assert hostile.requests.count("tools/call") == 1


DEFINITE = {
    "h401": "sign_in_needed",
    "h403_challenge": "forbidden",
    "h429": "rate_limited",
    "h503_wait": "server_error",
    "header_mismatch": "rpc_error",
    "no_such_tool": "rpc_error",
    "version": "protocol",
    "asks_sampling": "protocol",
}


@pytest.mark.parametrize(("misdeed", "kind"), DEFINITE.items())
async def test_a_well_formed_refusal_is_definite_and_is_not_tried_again(
    hostile: Hostile, service_at: MakeService, misdeed: str, kind: str
) -> None:
    error = await failure(await service_at(hostile.url(misdeed)))

    assert error.kind == kind
    assert error.was_sent
    assert error.is_definite
    assert hostile.effects == 1


async def test_half_a_character_in_an_answer_is_replaced(
    hostile: Hostile, service_at: MakeService
) -> None:
    outcome = await call_tool(await service_at(hostile.url("surrogate")), ToolDefinition(**ACT), {})
    assert "\ufffd" in json.dumps(
        [outcome.result.content, outcome.result.structured], ensure_ascii=False
    )


@pytest.mark.parametrize(
    ("misdeed", "is_error", "sentence"),
    [
        (
            "blocks_thousands",
            False,
            "The call succeeded, so do not repeat it",
        ),
        ("blocks_thousands_failed", True, "The call failed. Its result is not kept"),
    ],
)
async def test_a_whole_answer_that_is_too_large_is_withheld_and_the_call_is_over(
    hostile: Hostile, service_at: MakeService, misdeed: str, is_error: bool, sentence: str
) -> None:
    outcome = await call_tool(await service_at(hostile.url(misdeed)), ToolDefinition(**ACT), {})
    (block,) = outcome.result.content
    assert sentence in block["text"]
    assert outcome.result.is_error == is_error
    assert hostile.effects == 1


@pytest.mark.parametrize(
    ("misdeed", "is_error", "bound"),
    [
        ("large_text", False, "more than 4 MB"),
        ("large_escapes", False, "more than 4 MB"),
        ("large_rows", False, "more than 80000 values"),
        ("large_failed", True, "more than 4 MB"),
        ("large_event", False, "more than 1 MB"),
        ("large_event_between", False, "more than 1 MB"),
        ("large_notes", True, "more than 1000 messages"),
        ("dust_objects", False, "more than 80000 values"),
        ("blocks_many", False, "more than 80000 values"),
    ],
)
@pytest.mark.parametrize("way", ["", "/handshake"])
async def test_an_answer_beyond_a_limit_whose_end_arrives_ends_the_call(
    hostile: Hostile,
    service_at: MakeService,
    settings: LazySettings,
    misdeed: str,
    is_error: bool,
    bound: str,
    way: str,
) -> None:
    settings.MCP_TOTAL_SECONDS, settings.MCP_IDLE_SECONDS = 20, 10
    service = await service_at(hostile.url(misdeed) + way)
    outcome = await call_tool(service, ToolDefinition(**ACT), {})
    (block,) = outcome.result.content
    assert f"Its result is not kept: it has {bound}. Ask for less at once." in block["text"]
    assert ("do not repeat it" in block["text"]) != is_error
    assert outcome.result.is_error == is_error
    assert hostile.effects == 1


@pytest.mark.parametrize(
    "misdeed",
    [
        *("large_cut", "large_open", "large_two", "large_other", "large_asks", "large_beyond"),
        "large_event_open",
    ],
)
async def test_an_answer_beyond_a_limit_without_its_end_leaves_the_outcome_unknown(
    hostile: Hostile, service_at: MakeService, settings: LazySettings, misdeed: str
) -> None:
    settings.MCP_TOTAL_SECONDS, settings.MCP_IDLE_SECONDS = 20, 10
    error = await failure(await service_at(hostile.url(misdeed)))
    assert (error.kind, error.was_sent, error.is_definite) == ("too_large", True, False)


async def test_an_answer_beyond_a_limit_that_takes_too_long_leaves_the_outcome_unknown(
    hostile: Hostile, service_at: MakeService
) -> None:
    """The reason is still the limit, and not the time that was spent to find the end."""
    error = await failure(await service_at(hostile.url("stream_progress")))
    assert (error.kind, error.is_definite) == ("too_large", False)


async def test_a_refusal_beyond_a_limit_is_definite(
    hostile: Hostile, service_at: MakeService, settings: LazySettings
) -> None:
    settings.MCP_TOTAL_SECONDS, settings.MCP_IDLE_SECONDS = 20, 10
    error = await failure(await service_at(hostile.url("large_refused")))
    assert (error.kind, error.code, error.is_definite) == ("rpc_error", -32602, True)
    assert "more than 4 MB" in error.message


async def test_a_refusal_of_another_message_than_the_call_is_not_definite(
    hostile: Hostile, service_at: MakeService
) -> None:
    """The tool runs already when the answer to its question is turned away."""

    async def answer(_request: InputRequest) -> Answer:
        return Answer(action="accept", content={"name": "Ada"})

    service = await service_at(hostile.url("refuses_the_answer") + "/handshake")
    with pytest.raises(OperationError) as caught:
        await call_tool(service, ToolDefinition(**ACT), {}, on_question=answer)
    assert (caught.value.status, caught.value.retry_after) == (429, 7)
    assert not caught.value.is_definite


@pytest.mark.parametrize("misdeed", ["h404", "version"])
async def test_a_memory_that_proves_wrong_at_a_call_is_dropped_and_the_call_not_repeated(
    hostile: Hostile, service_at: MakeService, misdeed: str
) -> None:
    service = await service_at(hostile.url(misdeed))
    await list_tools(service)
    assert service.known_era == "2026-07-28"

    error = await failure(service)

    assert error.contradicts_memory
    assert error.is_definite == (misdeed == "version")
    assert hostile.effects == 1
    assert (await Service.objects.aget(pk=service.pk)).known_era == ""


async def test_a_failed_listing_after_the_call_cannot_lose_the_result(
    hostile: Hostile, service_at: MakeService
) -> None:
    service = await service_at(hostile.url("listing_h500"))

    outcome = await call_tool(service, ToolDefinition(**ACT), {})

    assert outcome.result.content == [{"type": "text", "text": "done"}]
    assert "tools/list" not in hostile.requests


@pytest.mark.parametrize("misdeed", ["html", "garbage", "h401", "h500", "hang", "drop_at_once"])
async def test_nothing_is_sent_to_a_server_that_fails_at_once(
    hostile: Hostile, service_at: MakeService, misdeed: str
) -> None:
    error = await failure(await service_at(hostile.url(misdeed, at_once=True)))

    assert not error.was_sent
    assert error.is_definite
    assert hostile.effects == 0


async def test_a_closed_port_is_refused_before_anything_is_sent(service_at: MakeService) -> None:
    error = await failure(await service_at("http://127.0.0.1:9/mcp"))

    assert (error.kind, error.was_sent, error.is_definite) == ("refused", False, True)


async def test_a_closed_port_at_a_remembered_modern_server_proves_that_nothing_was_sent(
    hostile: Hostile, service_at: MakeService
) -> None:
    service = await service_at(hostile.url("html"))
    await list_tools(service)
    service.url = "http://127.0.0.1:9/mcp"

    error = await failure(service)

    assert (error.kind, error.was_sent, error.is_definite) == ("refused", False, True)


async def test_an_unknown_host_is_not_found(service_at: MakeService) -> None:
    error = await failure(await service_at("http://no-such-host.invalid/mcp"))

    assert (error.kind, error.was_sent) == ("not_found", False)


async def test_a_server_that_never_completes_the_tls_handshake_ends_in_time(
    hostile: Hostile, service_at: MakeService
) -> None:
    url = hostile.url("html").replace("http:", "https:")

    error = await failure(await service_at(url))

    assert (error.kind, error.was_sent) == ("timeout", False)


async def test_a_rate_limit_says_how_long_to_wait(
    hostile: Hostile, service_at: MakeService
) -> None:
    error = await failure(await service_at(hostile.url("h429")))

    assert error.retry_after == 7


async def test_a_sign_in_demand_keeps_its_challenge(
    hostile: Hostile, service_at: MakeService
) -> None:
    error = await failure(await service_at(hostile.url("h401", at_once=True)))

    assert error.www_authenticate == 'Bearer realm="x"'
    assert hostile.requests == ["server/discover"]


async def test_a_redirect_is_named_without_its_query_and_not_followed(
    hostile: Hostile, service_at: MakeService
) -> None:
    error = await failure(await service_at(hostile.url("redirect")))

    assert "http://127.0.0.1:1/elsewhere," in error.message
    assert "token" not in error.message


@pytest.mark.parametrize("misdeed", ["listing_endless", "listing_cycle"])
async def test_a_listing_without_end_is_refused(
    hostile: Hostile, service_at: MakeService, misdeed: str
) -> None:
    service = await service_at(hostile.url(misdeed))

    with pytest.raises(OperationError) as caught:
        await list_tools(service)
    assert caught.value.kind == "too_large"
    assert hostile.requests.count("tools/list") <= 51


async def test_tools_beyond_the_limits_are_left_out_with_a_reason(
    hostile: Hostile, service_at: MakeService
) -> None:
    service = await service_at(hostile.url("listing_bombs"))

    report = await connection_report(service)

    assert report.tool_count == 1
    reasons = {tool.name: tool.reason for tool in report.left_out}
    assert set(reasons) == {"act", "deep", "wide", "wordy", "tasked"}
    assert reasons["wordy"] == "Its description is too long."
    assert "only as a task" in reasons["tasked"]


async def test_more_tools_than_the_limit_are_left_out_and_shown_as_such(
    hostile: Hostile, service_at: MakeService
) -> None:
    service = await service_at(hostile.url("listing_flood"))

    assert len(await fetch_tools(service)) == 1_000
    assert len((await Service.objects.aget(pk=service.pk)).left_out) == 200


@pytest.mark.parametrize("misdeed", ["stream_blank", "stream_comments"])
async def test_a_stream_of_lines_that_say_nothing_ends_before_it_costs_much(
    hostile: Hostile, service_at: MakeService, misdeed: str
) -> None:
    service = await service_at(hostile.url(misdeed))

    with pytest.raises(OperationError) as caught:
        await call_tool(service, ToolDefinition(**ACT), {})

    assert "more than 20000 lines" in caught.value.message


async def test_an_sse_server_without_an_endpoint_ends_in_time(
    hostile: Hostile, service_at: MakeService
) -> None:
    service = await service_at(hostile.url("sse_mute", at_once=True), transport="sse")

    error = await failure(service)

    assert (error.kind, error.was_sent) == ("timeout", False)


@pytest.mark.parametrize(
    ("misdeed", "kind"),
    [
        ("sse_to_drop", "server_error"),
        ("sse_to_h500", "server_error"),
        ("sse_to_h401", "sign_in_needed"),
    ],
)
async def test_a_message_that_an_sse_server_turns_down_fails_at_once_with_its_reason(
    hostile: Hostile, service_at: MakeService, misdeed: str, kind: str
) -> None:
    service = await service_at(hostile.url(misdeed, at_once=True), transport="sse")

    assert (await failure(service)).kind == kind
