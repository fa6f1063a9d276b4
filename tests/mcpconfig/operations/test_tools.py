"""Operations against real servers of every transport and era."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from mcpconfig.models import Service, ToolDefinition
from mcpconfig.operations.tool_listing import load_fresh_tools
from mcpconfig.operations.tools import list_tools
from mcpconfig.operations.tools import test_connection as connection_report
from mcpconfig.values.errors import OperationError
from mcpconfig.values.results import Progress
from tests.peers.finished_calls import call_tool
from tests.peers.serving import Served
from tests.peers.toolbox import Watch

MakeService = Callable[..., Awaitable[Service]]

pytestmark = pytest.mark.timeout(30)


@pytest.fixture
async def service(peer: Served, service_at: MakeService) -> Service:
    return await service_at(peer.url)


@pytest.fixture
async def modern_service(modern: Served, service_at: MakeService) -> Service:
    return await service_at(modern.url)


STEPS = ["Address", "Sign-in when connecting", "Sign-in at the first call", "Connect"]


async def definition(service: Service, name: str) -> ToolDefinition:
    tools = await load_fresh_tools(service)
    return next(tool for tool in tools if tool.name == name)


async def test_a_test_of_the_connection_says_what_it_found(service: Service) -> None:
    report = await connection_report(service)

    assert report.server_name == "toolbox"
    assert report.tool_count == 7
    assert "tools" in report.capabilities
    assert [step.name for step in report.steps][:4] == STEPS
    assert report.era in ("2026-07-28", "2025-11-25")


async def test_a_tool_answers_over_every_transport_and_era(service: Service) -> None:
    outcome = await call_tool(service, await definition(service, "echo"), {"text": "hello"})

    assert outcome.result.content == [{"type": "text", "text": "hello"}]
    assert not outcome.result.is_error


async def test_structured_results_arrive(service: Service) -> None:
    outcome = await call_tool(service, await definition(service, "add"), {"a": 2, "b": 3})

    assert outcome.result.structured == {"total": 5}


async def test_a_tool_that_fails_is_a_result(service: Service) -> None:
    outcome = await call_tool(service, await definition(service, "fail"), {})

    assert outcome.result.is_error
    assert "The drawer is stuck." in outcome.result.content[0]["text"]


async def test_progress_is_told_as_it_comes(service: Service) -> None:
    told: list[Progress] = []

    await call_tool(service, await definition(service, "count"), {"to": 3}, on_progress=told.append)

    assert told[-1] == Progress(done=3, total=3, message="counted 3")
    assert told[-1].words == "3 of 3: counted 3"


async def test_cancelling_the_task_cancels_the_tool_at_the_server(
    service: Service, watch: Watch
) -> None:
    watch.clear()
    tool = await definition(service, "wait_forever")
    call = asyncio.create_task(call_tool(service, tool, {}))
    assert await asyncio.to_thread(watch.started.wait, 5)

    call.cancel()

    with pytest.raises(asyncio.CancelledError):
        await call
    assert await asyncio.to_thread(watch.cancelled.wait, 5)


async def test_a_modern_call_costs_one_http_request(
    modern: Served, modern_service: Service
) -> None:
    tool = await definition(modern_service, "add")
    modern.arrivals.clear()

    outcome = await call_tool(modern_service, tool, {"a": 1, "b": 1})

    assert modern.arrivals.methods == ["tools/call"]
    assert modern.arrivals.seen[0].headers["accept-encoding"] == "identity"
    assert outcome.requests == 1


async def test_another_process_knows_what_was_learned(
    modern: Served, modern_service: Service
) -> None:
    await list_tools(modern_service)
    modern.arrivals.clear()

    await list_tools(await Service.objects.aget(pk=modern_service.pk))

    assert modern.arrivals.methods == ["tools/list"]


async def test_a_handshake_call_never_lists_tools_and_opens_no_idle_stream(
    handshake: Served, service_at: MakeService
) -> None:
    service = await service_at(handshake.url)
    tool = await definition(service, "add")
    handshake.arrivals.clear()

    await call_tool(service, tool, {"a": 1, "b": 1})

    assert handshake.arrivals.methods == [
        "initialize",
        "notifications/initialized",
        "tools/call",
        "DELETE",
    ]


async def test_an_argument_that_belongs_in_a_header_travels_there_without_a_listing(
    modern: Served, modern_service: Service
) -> None:
    tool = await definition(modern_service, "by_region")
    modern.arrivals.clear()

    outcome = await call_tool(modern_service, tool, {"region": "north"})

    assert outcome.result.content[0]["text"] == "region north"
    assert modern.arrivals.methods == ["tools/call"]
    assert modern.arrivals.seen[0].headers["mcp-param-region"] == "north"


async def test_a_call_without_anything_remembered_negotiates_before_it_sends(
    modern: Served, modern_service: Service
) -> None:
    tool = ToolDefinition(name="echo", input_schema={"type": "object"})

    await call_tool(modern_service, tool, {"text": "x"})

    assert modern.arrivals.methods == ["server/discover", "tools/call"]


async def test_meta_reaches_the_server(modern: Served, modern_service: Service) -> None:
    tool = await definition(modern_service, "echo")

    outcome = await call_tool(
        modern_service, tool, {"text": "x"}, meta={"io.countersign/call": "1"}
    )

    assert not outcome.result.is_error


async def test_a_long_result_is_cut_and_says_so(modern_service: Service) -> None:
    tool = await definition(modern_service, "long_text")

    outcome = await call_tool(modern_service, tool, {"size": 1_500_000})

    assert outcome.result.was_cut
    assert "too large" in outcome.result.content[-1]["text"]
    assert len(outcome.result.content[0]["text"]) > 100_000


async def test_a_server_that_speaks_sse_only_is_found_and_remembered(
    sse: Served, service_at: MakeService
) -> None:
    service = await service_at(sse.url)
    await list_tools(service)
    sse.arrivals.clear()

    await list_tools(service)

    assert service.known_transport == "sse"
    assert sse.arrivals.methods[0] == "GET"


async def test_a_listing_finds_out_anew_when_the_server_has_changed_its_era(
    handshake: Served, modern: Served, service_at: MakeService
) -> None:
    service = await service_at(modern.url)
    await list_tools(service)
    discovery = service.discovery
    await Service.objects.filter(pk=service.pk).aupdate(url=handshake.url)
    service = await Service.objects.aget(pk=service.pk)
    assert service.discovery == discovery

    tools = await list_tools(service)

    assert len(tools) == 7
    assert service.known_era == "2025-11-25"


async def test_a_test_of_the_connection_does_not_pass_for_a_stored_list(
    modern_service: Service,
) -> None:
    await connection_report(modern_service)

    assert len(await load_fresh_tools(modern_service)) == 7


async def test_stored_tools_are_used_while_they_are_fresh(
    modern: Served, modern_service: Service
) -> None:
    await load_fresh_tools(modern_service)
    modern.arrivals.clear()

    tools = await load_fresh_tools(modern_service)

    assert len(tools) == 7
    assert modern.arrivals.methods == []


async def test_a_tool_whose_arguments_cannot_travel_in_headers_is_not_called(
    modern: Served, modern_service: Service
) -> None:
    """The protocol requires clients to ignore such a tool; the stored definition contains it."""
    await definition(modern_service, "echo")
    misplaced = {"text": {"type": "object", "x-mcp-header": "Text"}}
    tool = ToolDefinition(name="echo", input_schema={"type": "object", "properties": misplaced})
    modern.arrivals.clear()

    with pytest.raises(OperationError) as caught:
        await call_tool(modern_service, tool, {"text": {}})

    assert "x-mcp-header" in caught.value.hint
    assert modern.arrivals.methods == []
