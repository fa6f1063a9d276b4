"""The connection test: what it reports about resources, prompts, instructions and the log."""

from collections.abc import Awaitable, Callable, Iterator

import pytest

from mcpconfig.models import Service
from mcpconfig.operations.tools import list_tools
from mcpconfig.operations.tools import test_connection as connection_report
from mcpconfig.values.limits import LIMITS
from mcpconfig.values.results import ConnectionReport
from tests.peers.eras import Era, speaking
from tests.peers.hostile import Hostile
from tests.peers.library import of_server, talkative
from tests.peers.serving import Served

MakeService = Callable[..., Awaitable[Service]]

pytestmark = pytest.mark.timeout(30)


def details(report: ConnectionReport) -> dict[str, str]:
    return {step.name: step.detail for step in report.steps}


@pytest.fixture(params=["modern", "handshake"])
def talker(request: pytest.FixtureRequest) -> Iterator[Served]:
    era: Era = request.param
    with Served(speaking(era, of_server(talkative()))) as served:
        yield served


async def test_resources_prompts_and_instructions_are_reported(
    shelves: Served, service_at: MakeService
) -> None:
    report = await connection_report(await service_at(shelves.url))

    assert (report.resource_count, report.template_count, report.prompt_count) == (3, 1, 1)
    assert report.instructions == "Ask for books by name."
    assert details(report)["List resources"] == "3 listed, 1 template"
    assert details(report)["Read its instructions"] == "Ask for books by name."


async def test_the_cost_of_the_tools_is_estimated(modern: Served, service_at: MakeService) -> None:
    service = await service_at(modern.url)

    report = await connection_report(service)

    characters = sum(
        len(tool.name) + len(tool.description) + len(str(tool.input_schema))
        for tool in await list_tools(service)
    )
    assert characters / 4 < report.tool_tokens < characters / 2
    assert f"about {report.tool_tokens} tokens" in details(report)["List tools"]


async def test_what_is_not_declared_is_not_asked_for(
    hostile: Hostile, service_at: MakeService
) -> None:
    report = await connection_report(await service_at(hostile.url("html")))

    assert (report.resource_count, report.template_count, report.prompt_count) == (None,) * 3
    assert hostile.requests == ["server/discover", "tools/list"]
    assert "List resources" not in details(report)


async def test_broken_resources_do_not_hide_working_tools(
    hostile: Hostile, service_at: MakeService
) -> None:
    report = await connection_report(await service_at(hostile.url("reading_cycle")))

    assert (report.tool_count, report.resource_count) == (1, None)
    assert "is too long" in details(report)["List resources"]


async def test_the_log_of_the_service_is_reported_within_bounds(
    talker: Served, service_at: MakeService
) -> None:
    report = await connection_report(await service_at(talker.url))

    assert len(report.log) == LIMITS.log_messages
    first = report.log[0]
    assert (first.level, first.logger, first.text) == ("info", "shelf", '{"n": 0}')
    assert len(report.log[1].text) == LIMITS.log_characters
    assert report.resource_count is None
    assert report.steps[-1].name == "Log message (info)"


async def test_a_modern_service_is_asked_for_its_log_by_a_test_only(
    service_at: MakeService,
) -> None:
    with Served(speaking("modern", of_server(talkative()))) as talker:
        service = await service_at(talker.url)
        await list_tools(service)
        silent = [row.response_body async for row in service.exchanges.all()]

        await connection_report(service)

    told = [row.response_body async for row in service.exchanges.filter(operation__startswith="te")]
    assert not any("notifications/message" in body for body in silent)
    assert any("notifications/message" in body for body in told)


async def test_long_instructions_are_shortened(hostile: Hostile, service_at: MakeService) -> None:
    report = await connection_report(await service_at(hostile.url("reading_odd")))

    assert len(report.instructions) == LIMITS.instructions_characters
    assert report.instructions.endswith("…")
