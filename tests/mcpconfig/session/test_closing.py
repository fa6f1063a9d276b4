"""What happens while a connection closes cannot cost a result, and our own bugs stay visible."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mcpconfig.models import Exchange, Service
from mcpconfig.operations.tool_listing import load_fresh_tools
from mcpconfig.operations.tools import list_tools
from mcpconfig.session.client import connect
from tests.peers.finished_calls import call_tool
from tests.peers.hostile import Hostile
from tests.peers.serving import Application, Served
from tests.peers.toolbox import Watch, application, toolbox

MakeService = Callable[..., Awaitable[Service]]

pytestmark = [pytest.mark.gate, pytest.mark.timeout(30)]


def never_says_goodbye(app: Application) -> Application:
    """A server of the handshake era that lets the end of a session hang."""

    async def hanging(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["method"] == "DELETE":
            await asyncio.sleep(3_600)
        await app(scope, receive, send)

    return hanging


async def test_a_session_whose_end_hangs_costs_two_seconds_and_not_the_result(
    watch: Watch, service_at: MakeService
) -> None:
    app = never_says_goodbye(application(toolbox(watch), era="handshake"))
    with Served(app) as served:
        service = await service_at(served.url)
        tool = next(tool for tool in await load_fresh_tools(service) if tool.name == "echo")

        outcome = await call_tool(service, tool, {"text": "kept"})

        assert outcome.result.content[0]["text"] == "kept"


async def test_a_deadline_that_passes_while_closing_does_not_cost_the_result(
    watch: Watch, service_at: MakeService
) -> None:
    app = never_says_goodbye(application(toolbox(watch), era="handshake"))
    with Served(app) as served:
        service = await service_at(served.url)
        tool = next(tool for tool in await load_fresh_tools(service) if tool.name == "echo")

        outcome = await call_tool(service, tool, {"text": "kept"}, total_seconds=1)

        assert outcome.result.content[0]["text"] == "kept"


async def test_a_bug_of_ours_inside_an_operation_is_not_blamed_on_the_service(
    hostile: Hostile, service_at: MakeService
) -> None:
    service = await service_at(hostile.url("html"))

    with pytest.raises(ExceptionGroup) as caught:
        async with connect(service, None, "broken"):
            raise KeyError("our own mistake")

    assert caught.group_contains(KeyError)
    assert (await Service.objects.aget(pk=service.pk)).last_error is None


async def test_the_trace_of_a_cancelled_operation_is_kept(
    hostile: Hostile, service_at: MakeService
) -> None:
    service = await service_at(hostile.url("hang", at_once=True))
    listing = asyncio.create_task(list_tools(service))
    assert await asyncio.to_thread(hostile.asked.wait, 5)

    listing.cancel()

    with pytest.raises(asyncio.CancelledError):
        await listing
    exchange = await Exchange.objects.aget()
    assert (exchange.rpc_method, exchange.status) == ("server/discover", None)


async def test_many_operations_at_once_do_not_disturb_each_other(
    modern: Served, service_at: MakeService
) -> None:
    service = await service_at(modern.url)
    tool = next(tool for tool in await load_fresh_tools(service) if tool.name == "echo")

    outcomes = await asyncio.gather(
        *(call_tool(service, tool, {"text": str(number)}) for number in range(20))
    )

    texts = [outcome.result.content[0]["text"] for outcome in outcomes]
    assert texts == [str(number) for number in range(20)]
