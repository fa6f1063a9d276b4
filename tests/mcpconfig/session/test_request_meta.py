"""What every request says beside its contents: who asks, and the trace it belongs to."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mcpconfig.models import Service, ToolDefinition
from mcpconfig.operations.tools import list_tools
from mcpconfig.values.hooks import Hooks, using_hooks
from mcpconfig.values.version import VERSION
from tests.peers.finished_calls import call_tool
from tests.peers.serving import Served

MakeService = Callable[..., Awaitable[Service]]

pytestmark = [pytest.mark.gate, pytest.mark.timeout(60)]

CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
TRACE = {
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "tracestate": "vendor=1",
}
ECHO = ToolDefinition(
    name="echo", input_schema={"type": "object", "properties": {"text": {"type": "string"}}}
)


def params_by_method(served: Served) -> dict[str, dict[str, Any]]:
    bodies = [json.loads(arrival.body) for arrival in served.arrivals.seen if arrival.body]
    return {body["method"]: body.get("params") or {} for body in bodies}


async def test_a_modern_request_names_this_version_and_carries_the_trace(
    modern: Served, service_at: MakeService
) -> None:
    service = await service_at(modern.url)
    with using_hooks(Hooks(trace_context=lambda: TRACE)):
        await list_tools(service)
        outcome = await call_tool(service, ECHO, {"text": "hi"}, meta={"of": "mine"})
    assert outcome.result.content[0]["text"] == "hi"
    sent = params_by_method(modern)
    assert set(sent) == {"server/discover", "tools/list", "tools/call"}
    for params in sent.values():
        assert params["_meta"][CLIENT_INFO]["version"] == VERSION
        assert TRACE.items() <= params["_meta"].items()
    assert sent["tools/call"]["arguments"] == {"text": "hi"}
    assert sent["tools/call"]["_meta"]["of"] == "mine"


async def test_what_a_request_says_already_stays(modern: Served, service_at: MakeService) -> None:
    service = await service_at(modern.url)
    theirs = {**TRACE, CLIENT_INFO: "forged", "of": "theirs"}
    with using_hooks(Hooks(trace_context=lambda: theirs)):
        await call_tool(service, ECHO, {"text": "hi"}, meta={"of": "mine"})
    said = params_by_method(modern)["tools/call"]["_meta"]
    assert (said["of"], said[CLIENT_INFO]["version"]) == ("mine", VERSION)
    assert said["traceparent"] == TRACE["traceparent"]


async def test_a_handshake_server_gets_the_version_and_no_trace(
    handshake: Served, service_at: MakeService
) -> None:
    service = await service_at(handshake.url)
    with using_hooks(Hooks(trace_context=lambda: TRACE)):
        await call_tool(service, ECHO, {"text": "hi"})
    sent = params_by_method(handshake)
    assert sent["initialize"]["clientInfo"]["version"] == VERSION
    assert not TRACE.keys() & sent["initialize"].get("_meta", {}).keys()
    assert not TRACE.keys() & sent["tools/call"].get("_meta", {}).keys()


async def test_without_a_trace_nothing_is_added(modern: Served, service_at: MakeService) -> None:
    service = await service_at(modern.url)
    await call_tool(service, ECHO, {"text": "hi"})
    assert not TRACE.keys() & params_by_method(modern)["tools/call"]["_meta"].keys()
