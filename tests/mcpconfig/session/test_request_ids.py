"""Ids of requests that no two connections share, and answers that say nothing of their type."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
import pytest
from mcp.shared.message import SessionMessage

from mcpconfig.models import Service, ToolDefinition
from mcpconfig.operations.tools import fetch_listing
from mcpconfig.session.message_streams import RequestIdShift
from tests.peers.finished_calls import call_tool
from tests.peers.serving import Served

MakeService = Callable[..., Awaitable[Service]]

SAYS = ToolDefinition(name="says", input_schema={"type": "object"})
CALL = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "says"}}


def message(said: dict[str, Any]) -> SessionMessage:
    return SessionMessage(types.jsonrpc_message_adapter.validate_python(said))


def on_the_wire(item: SessionMessage) -> dict[str, Any]:
    said: dict[str, Any] = item.message.model_dump(by_alias=True, exclude_none=True)
    return said


async def test_the_same_call_on_another_connection_has_another_id(
    peer: Served, service_at: MakeService
) -> None:
    """Whoever asks something first would otherwise take the answered call for the first one."""
    service = await service_at(peer.url)
    tools = {tool.name: tool for tool in (await fetch_listing(service)).tools}
    echo = ToolDefinition(name="echo", input_schema=tools["echo"].input_schema)
    await call_tool(service, echo, {"text": "a"})
    await call_tool(service, echo, {"text": "a"})

    calls = [each async for each in service.exchanges.filter(rpc_method="tools/call")]
    first, second = (call.rpc_id for call in calls)
    assert first.isdecimal()
    assert second.isdecimal()
    assert first != second


@pytest.mark.parametrize("echoed", [int, str])
@pytest.mark.parametrize("answer", [{"result": {}}, {"error": {"code": -32603, "message": "no"}}])
def test_an_answer_finds_its_question(echoed: type, answer: dict[str, Any]) -> None:
    """Also where a service turns the number into a text, which the SDK lets pass."""
    id_shift = RequestIdShift()
    sent = on_the_wire(id_shift.shift_outgoing(message(CALL)))["id"]

    heard = id_shift.restore_incoming(message({"jsonrpc": "2.0", "id": echoed(sent), **answer}))

    assert sent != CALL["id"]
    assert on_the_wire(heard)["id"] == CALL["id"]


def test_a_cancellation_names_the_id_that_the_service_knows() -> None:
    id_shift = RequestIdShift()
    sent = on_the_wire(id_shift.shift_outgoing(message(CALL)))["id"]
    params = {"requestId": CALL["id"], "reason": "stopped"}
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}

    told = on_the_wire(id_shift.shift_outgoing(message(cancelled)))

    assert told["params"] == {"requestId": sent, "reason": "stopped"}


@pytest.mark.parametrize(
    "said",
    [
        {"jsonrpc": "2.0", "id": 3, "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}},
        {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info"}},
        {"jsonrpc": "2.0", "id": "listen-1", "result": {}},
    ],
)
def test_what_the_service_says_of_its_own_stays_as_it_is(said: dict[str, Any]) -> None:
    assert on_the_wire(RequestIdShift().restore_incoming(message(said))) == said


def test_the_answer_to_a_question_of_the_service_keeps_the_services_id() -> None:
    answer = {"jsonrpc": "2.0", "id": 3, "result": {}}
    assert on_the_wire(RequestIdShift().shift_outgoing(message(answer))) == answer


async def terse(scope: Any, receive: Any, send: Any) -> None:
    """A modern server that never says of what type a result is."""
    asked = json.loads((await receive())["body"])
    results: dict[str, dict[str, Any]] = {
        "server/discover": {
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}},
            "ttlMs": 0,
            "cacheScope": "private",
        },
        "tools/call": {"content": [{"type": "text", "text": "in a word"}]},
    }
    answer = {"jsonrpc": "2.0", "id": asked["id"], "result": results[asked["method"]]}
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(answer).encode()})


async def test_a_result_that_says_nothing_of_its_type_is_complete(service_at: MakeService) -> None:
    with Served(terse) as served:
        service = await service_at(served.url, transport="streamable-http")
        outcome = await call_tool(service, SAYS, {})

    assert service.known_era == "2026-07-28"
    assert outcome.result.content[0]["text"] == "in a word"
