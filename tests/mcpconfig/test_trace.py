"""The trace: every exchange is kept, nothing in it opens a service."""

from collections.abc import Awaitable, Callable

import pytest
from asgiref.sync import sync_to_async

from mcpconfig import credentials, trace
from mcpconfig.errors import OperationError
from mcpconfig.ledger import fresh_tools
from mcpconfig.limits import LIMITS
from mcpconfig.models import Exchange, Service
from mcpconfig.operations import call_tool, list_tools
from mcpconfig.wire import Wire
from tests.peers.hostile import Hostile
from tests.peers.serving import Served
from tests.peers.toolbox import BEARER

MakeService = Callable[..., Awaitable[Service]]

pytestmark = pytest.mark.timeout(30)


async def guarded_service(guarded: Served, service_at: MakeService, token: str) -> Service:
    service = await service_at(guarded.url, authentication="bearer")
    await sync_to_async(credentials.set_bearer)(service, token)
    return service


async def everything_kept() -> str:
    rows = [row async for row in Exchange.objects.values()]
    return repr(rows)


async def test_a_bearer_token_opens_a_guarded_service_and_is_in_no_trace(
    guarded: Served, service_at: MakeService
) -> None:
    service = await guarded_service(guarded, service_at, BEARER)

    tools = {tool.name: tool for tool in await fresh_tools(service)}
    outcome = await call_tool(service, tools["echo"], {"text": f"my token is {BEARER}"})

    assert BEARER in outcome.result.content[0]["text"]
    kept = await everything_kept()
    assert "tools/call" in kept
    assert BEARER not in kept


async def test_a_wrong_token_asks_for_a_sign_in_and_is_in_no_trace_either(
    guarded: Served, service_at: MakeService
) -> None:
    service = await guarded_service(guarded, service_at, "wrong-token-0123456789")

    with pytest.raises(OperationError) as caught:
        await list_tools(service)

    assert caught.value.kind == "sign_in_needed"
    assert caught.value.www_authenticate.startswith("Bearer")
    assert "wrong-token" not in await everything_kept()
    assert "wrong-token" not in repr((await Service.objects.aget(pk=service.pk)).last_error)


async def test_stored_headers_are_sent_and_masked(modern: Served, service_at: MakeService) -> None:
    service = await service_at(modern.url, authentication="headers")
    headers = {"X-Api-Key": "canary-key-0123456789", "X-Literal": "${SECRET_KEY}"}
    await sync_to_async(credentials.set_headers)(service, headers)

    await list_tools(service)

    sent = modern.arrivals.seen[0].headers
    assert sent["x-api-key"] == "canary-key-0123456789"
    assert sent["x-literal"] == "${SECRET_KEY}"
    assert "canary-key" not in await everything_kept()


async def test_a_failed_operation_is_traced_with_its_status(
    hostile: Hostile, service_at: MakeService
) -> None:
    service = await service_at(hostile.url("h500"))
    tools = await fresh_tools(service)

    with pytest.raises(OperationError):
        await call_tool(service, tools[0], {})

    newest = await Exchange.objects.afirst()
    assert newest is not None
    assert (newest.operation, newest.rpc_method, newest.status) == ("call_tool", "tools/call", 500)


async def test_session_ids_are_masked(handshake: Served, service_at: MakeService) -> None:
    await list_tools(await service_at(handshake.url))

    session = handshake.arrivals.seen[-1].headers["mcp-session-id"]
    assert session not in await everything_kept()


async def test_bodies_are_cut(modern: Served, service_at: MakeService) -> None:
    service = await service_at(modern.url)
    tools = {tool.name: tool for tool in await fresh_tools(service)}

    await call_tool(service, tools["long_text"], {"size": 100_000})

    newest = await Exchange.objects.afirst()
    assert newest is not None
    assert newest.response_bytes > 100_000
    assert len(newest.response_body) <= LIMITS.traced_body_bytes


def test_only_the_newest_exchanges_are_kept() -> None:
    service = Service.objects.create(name="busy", url="https://busy.example/mcp")
    Exchange.objects.bulk_create(
        Exchange(service=service, operation="old", operation_id="0" * 32, method="POST")
        for _ in range(LIMITS.traced_exchanges + 30)
    )

    trace.prune(service)

    assert Exchange.objects.filter(service=service).count() == LIMITS.traced_exchanges


async def test_an_operation_that_never_reached_the_wire_keeps_nothing() -> None:
    service = await Service.objects.acreate(name="none", url="https://none.example/mcp")

    await trace.keep(service, "list_tools", Wire(), [])

    assert not await Exchange.objects.aexists()
