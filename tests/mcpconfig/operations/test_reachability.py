"""The connection test: each step is reported, also if it fails, and a failed test forgets
nothing."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from mcp.server.mcpserver import MCPServer

from mcpconfig.models import Service
from mcpconfig.operations.tools import list_tools
from mcpconfig.operations.tools import test_connection as connection_report
from mcpconfig.secrets import credentials
from mcpconfig.values.errors import OperationError
from tests.peers.hostile import Hostile
from tests.peers.serving import Application, Served
from tests.peers.toolbox import BEARER

MakeService = Callable[..., Awaitable[Service]]

NO_SERVICE = "There is no service at this URL (HTTP 404). The service said: “no”."

pytestmark = pytest.mark.timeout(30)


async def passed(service: Service) -> dict[str, str]:
    report = await connection_report(service)
    return {step.name: step.detail for step in report.steps}


async def failed(service: Service) -> OperationError:
    with pytest.raises(OperationError) as caught:
        await connection_report(service)
    return caught.value


def guarded_at(*methods: str) -> Application:
    """A server that asks for a sign-in only for these methods."""
    server: MCPServer[None] = MCPServer("late", log_level="WARNING")

    @server.tool()
    def look() -> str:
        """Look."""
        return "seen"

    inner = server.streamable_http_app()

    async def gate(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers", []))
        method = headers.get(b"mcp-method", b"").decode()
        if method not in methods or headers.get(b"authorization") == b"Bearer right":
            return await inner(scope, receive, send)
        challenge = (b"www-authenticate", b'Bearer realm="late", scope="tools"')
        await send({"type": "http.response.start", "status": 401, "headers": [challenge]})
        await send({"type": "http.response.body", "body": b"no"})
        return None

    return gate


async def test_every_step_of_a_test_is_shown(modern: Served, service_at: MakeService) -> None:
    shown = await passed(await service_at(modern.url))

    assert list(shown) == [
        "Address",
        "Sign-in when connecting",
        "Sign-in at the first call",
        "Connect",
        "Agree on a protocol version",
        "Identify the service",
        "List its capabilities",
        "List tools",
        "List resources",
        "List prompts",
    ]
    assert shown["Address"] == f"127.0.0.1, port {modern.port}: 127.0.0.1, in your own network"
    assert shown["Sign-in when connecting"] == "not requested"
    assert shown["Sign-in at the first call"] == "not requested"
    assert shown["List its capabilities"].startswith("prompts")
    assert "tokens" in shown["List tools"]


async def test_what_a_stranger_is_asked_for_is_shown_beside_a_sign_in_that_works(
    guarded: Served, service_at: MakeService
) -> None:
    service = await service_at(guarded.url, authentication="bearer")
    await sync_to_async(credentials.set_bearer)(service, BEARER)

    shown = await passed(service)

    assert shown["Sign-in when connecting"].startswith("requested: Bearer")
    assert shown["Sign-in at the first call"] == "not reached"
    strangers = [one for one in guarded.arrivals.seen if "authorization" not in one.headers]
    assert len(strangers) == 1
    assert (await Service.objects.aget(pk=service.pk)).state == "connected"


async def test_a_service_that_asks_only_at_the_first_call_is_found_out(
    service_at: MakeService,
) -> None:
    with Served(guarded_at("tools/list")) as late:
        service = await service_at(late.url, authentication="bearer")
        await sync_to_async(credentials.set_bearer)(service, "right")
        shown = await passed(service)
    assert shown["Sign-in when connecting"] == "not requested"
    assert shown["Sign-in at the first call"] == 'requested: Bearer realm="late", scope="tools"'


async def test_a_service_that_lets_strangers_in_although_it_has_a_token_is_told(
    modern: Served, service_at: MakeService
) -> None:
    service = await service_at(modern.url, authentication="bearer")
    await sync_to_async(credentials.set_bearer)(service, "of-no-use")

    shown = await passed(service)

    assert shown["Sign-in at the first call"] == "not requested"


@pytest.mark.parametrize(
    ("method", "place"),
    [("server/discover", "Sign-in when connecting"), ("tools/list", "Sign-in at the first call")],
)
async def test_a_test_that_lacks_a_sign_in_shows_where_one_was_asked_for(
    service_at: MakeService, method: str, place: str
) -> None:
    with Served(guarded_at(method)) as late:
        error = await failed(await service_at(late.url))
    shown = dict(error.tried)
    assert error.kind == "sign_in_needed"
    assert shown[place] == 'requested: Bearer realm="late", scope="tools"'
    assert shown[f"Request {method}"] == "answered with HTTP 401"
    assert list(shown)[-1] == "Problem"


async def test_when_all_transports_fail_both_reasons_are_shown(
    hostile: Hostile, service_at: MakeService
) -> None:
    error = await failed(await service_at(hostile.url("h404", at_once=True)))

    shown = dict(error.tried)
    assert shown["Streamable HTTP"] == NO_SERVICE
    assert shown["HTTP+SSE"] == NO_SERVICE
    assert error.hint.startswith("HTTP+SSE was tried too: There is no service")


async def test_an_address_that_leads_nowhere_is_the_first_step(service_at: MakeService) -> None:
    error = await failed(await service_at("https://no-such-host.invalid/mcp"))

    assert error.tried[0] == (
        "Address",
        "no-such-host.invalid: The service’s host name was not found.",
    )


@pytest.mark.parametrize("misdeed", ["h500", "hang", "h401", "garbage", "h404"])
async def test_a_test_that_fails_loses_nothing_that_was_known(
    modern: Served,
    hostile: Hostile,
    service_at: MakeService,
    settings: Any,
    misdeed: str,
) -> None:
    settings.MCP_TOTAL_SECONDS = 1.0
    service = await service_at(modern.url)
    await list_tools(service)
    known = (service.known_transport, service.known_era, service.discovery)
    # Behind the back of `save`, so that what was learned stays: the server itself has fallen ill.
    await Service.objects.filter(pk=service.pk).aupdate(url=hostile.url(misdeed, at_once=True))
    ill = await Service.objects.aget(pk=service.pk)

    await failed(ill)

    after = await Service.objects.aget(pk=service.pk)
    assert (after.known_transport, after.known_era, after.discovery) == known
    assert after.last_error is not None


async def test_a_test_that_succeeds_replaces_a_wrong_memory(
    modern: Served, service_at: MakeService
) -> None:
    service = await service_at(modern.url, known_transport="sse", known_era="2024-11-05")

    await connection_report(service)

    after = await Service.objects.aget(pk=service.pk)
    assert (after.known_transport, after.known_era) == ("streamable-http", "2026-07-28")
    assert "GET" not in modern.arrivals.methods


def logging_server(levels: list[str]) -> Application:
    """A handshake-era server that declares a log and accepts a level for it."""
    answers = {
        "initialize": {
            "protocolVersion": "2025-11-25",
            "capabilities": {"logging": {}, "tools": {}},
            "serverInfo": {"name": "scribe", "version": "1"},
        },
        "logging/setLevel": {},
        "tools/list": {"tools": []},
    }

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        message = await _message(receive)
        method = message.get("method", "")
        if method == "logging/setLevel":
            levels.append(message["params"]["level"])
        if method.startswith("notifications/"):
            return await _send(send, 202, None)
        if method not in answers:
            return await _send(send, 400, {"error": "unknown"})
        body = {"jsonrpc": "2.0", "id": message["id"], "result": answers[method]}
        return await _send(send, 200, body)

    return serve


async def test_the_log_is_asked_for_by_a_test_and_by_nothing_else(service_at: MakeService) -> None:
    levels: list[str] = []
    with Served(logging_server(levels)) as scribe:
        service = await service_at(scribe.url)
        await list_tools(service)
        assert levels == []
        await connection_report(service)
    assert levels == ["info"]


async def _message(receive: Any) -> dict[str, Any]:
    body = (await receive())["body"]
    found: dict[str, Any] = json.loads(body or b"{}")
    return found


async def _send(send: Any, status: int, body: Any) -> None:
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    sent = json.dumps(body).encode() if body is not None else b""
    await send({"type": "http.response.body", "body": sent})
