"""Servers that change under us at the same address: a wrong memory repairs itself, and no tool call
is ever sent twice."""

import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from mcp.server.mcpserver import MCPServer

from mcpconfig.models import Service, ToolDefinition
from mcpconfig.operations.tools import list_tools
from mcpconfig.values.errors import OperationError
from tests.peers.eras import Era, speaking
from tests.peers.finished_calls import call_tool
from tests.peers.serving import Application, Message, Served

MakeService = Callable[..., Awaitable[Service]]

pytestmark = [pytest.mark.gate, pytest.mark.timeout(300)]

COUNT = ToolDefinition(name="count", input_schema={"type": "object"})


class Counter:
    """A server whose one tool has an effect, whatever it speaks."""

    def __init__(self) -> None:
        self.effects = 0

    def _server(self) -> MCPServer[None]:
        server: MCPServer[None] = MCPServer("counter", log_level="WARNING")

        @server.tool()
        def count() -> str:
            """Count one more."""
            self.effects += 1
            return str(self.effects)

        return server

    def streamable(self, era: Era) -> Application:
        return speaking(era, self._server().streamable_http_app())

    def sse(self) -> Application:
        return speaking("both", self._server().sse_app(sse_path="/mcp"))


@contextmanager
def running(application: Application, port: int = 0) -> Iterator[Served]:
    with Served(application, port=port) as served:
        yield served


async def meet(application: Application, service_at: MakeService) -> tuple[Served, Service]:
    """Let a server run until its tools were listed. Return it, ended, and the service that
    remembers it."""
    with running(application) as served:
        service = await service_at(served.url)
        await list_tools(service)
    return served, service


@pytest.fixture
def counter() -> Counter:
    return Counter()


async def call_until_it_works(service: Service) -> list[str]:
    """What came of each call, until one succeeds: a person who presses again."""
    outcomes: list[str] = []
    for _ in range(3):
        try:
            outcome = await call_tool(service, COUNT, {})
        except OperationError as error:
            assert error.is_definite or error.status in (404, 405)
            outcomes.append(error.kind)
            continue
        return [*outcomes, str(outcome.result.content[0]["text"])]
    return outcomes


CHANGES: list[tuple[Era | str, Era | str]] = [
    ("handshake", "modern"),
    ("modern", "handshake"),
    ("handshake", "both"),
    ("modern", "sse"),
    ("handshake", "sse"),
    ("sse", "modern"),
    ("sse", "handshake"),
]


def application(counter: Counter, kind: Era | str) -> Application:
    if kind in ("both", "modern", "handshake"):
        return counter.streamable(kind)
    return counter.sse()


@pytest.mark.parametrize(("before", "after"), CHANGES)
async def test_a_listing_finds_out_by_itself_that_the_server_has_changed(
    counter: Counter, service_at: MakeService, before: str, after: str
) -> None:
    with running(application(counter, before)) as old:
        service = await service_at(old.url)
        await list_tools(service)
        learned = (service.known_transport, service.known_era)
    with running(application(counter, after), old.port) as new:
        tools = await list_tools(await Service.objects.aget(pk=service.pk))
        assert [tool.name for tool in tools] == ["count"]
        new.arrivals.clear()
        remembered = await Service.objects.aget(pk=service.pk)
        await list_tools(remembered)
    assert "server/discover" not in new.arrivals.methods
    assert (remembered.known_transport, remembered.known_era) != learned or after == "both"
    assert remembered.state == "connected"


@pytest.mark.parametrize(("before", "after"), CHANGES)
async def test_a_call_that_meets_a_changed_server_has_its_effect_once(
    counter: Counter, service_at: MakeService, before: str, after: str
) -> None:
    with running(application(counter, before)) as old:
        service = await service_at(old.url)
        assert await call_until_it_works(service) == ["1"]
    with running(application(counter, after), old.port) as new:
        outcomes = await call_until_it_works(await Service.objects.aget(pk=service.pk))
    assert outcomes[-1] == "2"
    assert counter.effects == 2
    assert new.arrivals.methods.count("tools/call") == len(outcomes)
    assert len(outcomes) <= 2


async def age(service: Service, **ages: timedelta) -> Service:
    """Store that these moments are so long ago, and return the service as it is stored."""
    moments = {name: timezone.now() - ago for name, ago in ages.items()}
    await Service.objects.filter(pk=service.pk).aupdate(**moments)
    return await Service.objects.aget(pk=service.pk)


@pytest.mark.parametrize("after", ["handshake", "sse"])
async def test_a_rollback_during_silence_fails_no_call(
    counter: Counter, service_at: MakeService, after: str
) -> None:
    old, service = await meet(application(counter, "modern"), service_at)
    service = await age(service, last_success_at=timedelta(seconds=31))
    with running(application(counter, after), old.port) as new:
        assert (await call_tool(service, COUNT, {})).result.content[0]["text"] == "1"
    assert counter.effects == 1
    assert new.arrivals.methods.count("tools/call") == 1
    service = await Service.objects.aget(pk=service.pk)
    assert service.known_era == "2025-11-25"
    assert "tools" in (service.capabilities or [])  # without a discovery that could be stored


async def test_a_server_that_answers_discovery_with_an_rpc_error_is_detected_again(
    counter: Counter, service_at: MakeService
) -> None:
    """Some handshake servers answer any unknown method with HTTP 200 and an error."""
    old, service = await meet(counter.streamable("modern"), service_at)
    service = await age(service, last_success_at=timedelta(hours=1))
    with running(unknowing(counter.streamable("handshake")), old.port) as new:
        assert (await call_tool(service, COUNT, {})).result.content[0]["text"] == "1"
    assert new.arrivals.methods.count("tools/call") == counter.effects == 1


async def test_a_service_that_has_just_responded_is_not_checked(
    counter: Counter, service_at: MakeService
) -> None:
    with running(counter.streamable("modern")) as served:
        service = await service_at(served.url)
        await list_tools(service)
        for seconds, expected in ((25, ["tools/call"]), (31, ["server/discover", "tools/call"])):
            served.arrivals.clear()
            service = await age(service, last_success_at=timedelta(seconds=seconds))
            await call_tool(service, COUNT, {})
            assert served.arrivals.methods == expected


async def test_a_service_that_is_down_gets_no_call_and_stays_remembered(
    counter: Counter, service_at: MakeService
) -> None:
    _, service = await meet(counter.streamable("modern"), service_at)
    service = await age(service, last_success_at=timedelta(hours=1))
    with pytest.raises(OperationError) as caught:
        await call_tool(service, COUNT, {})
    assert (caught.value.kind, caught.value.is_definite) == ("refused", True)
    assert (await Service.objects.aget(pk=service.pk)).known_era == "2026-07-28"


async def test_a_move_to_the_newer_era_is_noticed_within_a_day(
    counter: Counter, service_at: MakeService
) -> None:
    old, service = await meet(counter.streamable("handshake"), service_at)
    with running(counter.streamable("both"), old.port):
        service = await age(service, detected_at=timedelta(hours=23))
        await list_tools(service)
        assert (await Service.objects.aget(pk=service.pk)).known_era == "2025-11-25"
        service = await age(service, detected_at=timedelta(hours=25))
        await list_tools(service)
    service = await Service.objects.aget(pk=service.pk)
    assert (service.known_era, service.discovery is not None) == ("2026-07-28", True)


async def test_a_service_that_cannot_bear_detection_is_used_as_before(
    counter: Counter, service_at: MakeService
) -> None:
    old, service = await meet(counter.streamable("handshake"), service_at)
    service = await age(service, detected_at=timedelta(hours=25))
    with running(dropping(counter.streamable("handshake")), old.port) as new:
        assert [tool.name for tool in await list_tools(service)] == ["count"]
        service = await Service.objects.aget(pk=service.pk)
        await list_tools(service)
    assert new.arrivals.methods.count("server/discover") == 1
    assert service.known_era == "2025-11-25"


def unknowing(handshake: Application) -> Application:
    """Answers discovery with HTTP 200 and the error for an unknown method."""

    async def gate(scope: Message, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or not is_discovery(scope):
            return await handshake(scope, receive, send)
        error = {"code": -32601, "message": "Method not found"}
        said = json.loads((await receive())["body"])
        body = json.dumps({"jsonrpc": "2.0", "id": said["id"], "error": error}).encode()
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return gate


def dropping(handshake: Application) -> Application:
    """Breaks discovery off with an answer that is too short."""

    async def gate(scope: Message, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or not is_discovery(scope):
            return await handshake(scope, receive, send)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"100")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"{"})

    return gate


def is_discovery(scope: Message) -> bool:
    return dict(scope["headers"]).get(b"mcp-method") == b"server/discover"


async def test_a_server_that_goes_back_and_forth_is_followed(
    counter: Counter, service_at: MakeService
) -> None:
    first, service = await meet(application(counter, "modern"), service_at)
    for kind in ("handshake", "modern", "handshake"):
        with running(application(counter, kind), first.port):
            fresh = await Service.objects.aget(pk=service.pk)
            assert (await call_until_it_works(fresh))[-1] == str(counter.effects)
    assert counter.effects == 3


async def test_a_pinned_transport_is_never_left(counter: Counter, service_at: MakeService) -> None:
    with running(application(counter, "sse")) as served:
        service = await service_at(served.url, transport="streamable-http")
        with pytest.raises(OperationError):
            await list_tools(service)
    assert "GET" not in served.arrivals.methods


async def test_a_memory_that_nobody_can_read_is_none(
    counter: Counter, service_at: MakeService
) -> None:
    with running(application(counter, "modern")) as served:
        service = await service_at(
            served.url,
            known_transport="streamable-http",
            known_era="2026-07-28",
            discovery={"written": "by another version"},
        )
        assert await call_until_it_works(service) == ["1"]
    assert served.arrivals.methods == ["server/discover", "tools/call"]


@pytest.mark.parametrize(
    ("kind", "requests"),
    [
        ("modern", ["tools/call"]),
        ("handshake", ["initialize", "notifications/initialized", "tools/call", "DELETE"]),
    ],
)
async def test_a_call_costs_one_request_or_four(
    counter: Counter, service_at: MakeService, kind: str, requests: list[str]
) -> None:
    with running(application(counter, kind)) as served:
        service = await service_at(served.url)
        await list_tools(service)
        served.arrivals.clear()
        outcome = await call_tool(await Service.objects.aget(pk=service.pk), COUNT, {})
    assert served.arrivals.methods == requests
    assert outcome.requests == len(requests)
