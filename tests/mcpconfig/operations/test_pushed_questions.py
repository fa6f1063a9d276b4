"""Questions that handshake-era services send on a stream of their own, beside the call."""

from collections.abc import Awaitable, Callable

import pytest

from mcpconfig.models import Service, ToolDefinition
from mcpconfig.values.limits import LIMITS
from mcpconfig.values.results import Answer, InputRequest
from tests.peers.finished_calls import call_tool
from tests.peers.pusher import Pusher
from tests.peers.serving import Served

MakeService = Callable[..., Awaitable[Service]]

pytestmark = pytest.mark.timeout(30)


def tool(name: str) -> ToolDefinition:
    return ToolDefinition(name=name, input_schema={"type": "object"})


async def agrees(request: InputRequest) -> Answer:
    return Answer(action="accept", content={"name": request.message})


async def test_a_question_beside_the_call_is_heard_and_answered(service_at: MakeService) -> None:
    with Served(Pusher().application()) as served:
        service = await service_at(served.url)
        outcome = await call_tool(service, tool("greet"), {}, on_question=agrees)

    assert outcome.result.content[0]["text"] == "accept: {'name': 'Whom?'}"


@pytest.mark.parametrize("status", [302, 401, 403, 404, 405, 429, 500])
async def test_a_service_without_such_a_stream_is_called_all_the_same(
    service_at: MakeService, status: int
) -> None:
    pusher = Pusher(turns_away=status)
    with Served(pusher.application()) as served:
        service = await service_at(served.url)
        outcome = await call_tool(service, tool("nod"), {}, on_question=agrees)

    assert outcome.result.content[0]["text"] == "nodded"
    assert 1 <= pusher.streams <= LIMITS.push_streams


async def test_a_call_that_nobody_can_be_asked_about_opens_no_stream(
    service_at: MakeService,
) -> None:
    pusher = Pusher()
    pusher.is_heard.set()
    with Served(pusher.application()) as served:
        service = await service_at(served.url)
        await call_tool(service, tool("nod"), {})

    assert pusher.streams == 0
