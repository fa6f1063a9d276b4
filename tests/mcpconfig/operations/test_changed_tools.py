"""A service that says, while it is used, that its list of tools has changed."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import mcp_types as types
import pytest
from django.utils import timezone
from mcp.server.mcpserver import Context, MCPServer

from mcpconfig.models import Service
from mcpconfig.operations.tool_listing import fetch_tools, load_fresh_tools
from mcpconfig.values.limits import LIMITS
from tests.peers.eras import Era, speaking
from tests.peers.finished_calls import call_tool
from tests.peers.hostile import Hostile
from tests.peers.serving import Application, Served

MakeService = Callable[..., Awaitable[Service]]

pytestmark = [pytest.mark.gate, pytest.mark.timeout(60)]


def growing(era: Era) -> Application:
    """A server whose tool adds another tool and says so on the stream of the call."""
    server: MCPServer[None] = MCPServer("growing", log_level="WARNING")

    def added() -> str:
        """Was added."""
        return "added"

    @server.tool()
    async def grow(context: Context) -> str:
        """Adds a tool."""
        server.add_tool(added)
        changed = types.ToolListChangedNotification()
        await context.session.send_notification(
            changed, related_request_id=context.request_context.request_id
        )
        return "grown"

    return speaking(era, server.streamable_http_app())


@pytest.mark.parametrize("era", ["modern", "handshake"])
async def test_the_tools_are_listed_again_before_their_next_use(
    service_at: MakeService, era: Era
) -> None:
    with Served(growing(era)) as served:
        service = await service_at(served.url)
        [grow] = await fetch_tools(service)
        assert [tool.name for tool in await load_fresh_tools(service)] == ["grow"]
        served.arrivals.clear()

        outcome = await call_tool(service, grow, {})
        assert outcome.result.content[0]["text"] == "grown"
        again = await Service.objects.aget(pk=service.pk)
        assert {tool.name for tool in await load_fresh_tools(again)} == {"grow", "added"}
    assert served.arrivals.methods.count("tools/call") == 1
    assert served.arrivals.methods.count("tools/list") == 1


async def test_a_list_that_changed_while_it_was_read_is_fresh_for_a_short_time(
    hostile: Hostile, service_at: MakeService
) -> None:
    service = await service_at(hostile.url("listing_changes"))
    await fetch_tools(service)
    assert service.tools_fresh_until is not None
    left = service.tools_fresh_until - timezone.now()
    assert left <= timedelta(seconds=LIMITS.fresh_seconds_least)
