"""Programs that others build on: the effect counter, and the protocol's own reference server."""

import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from mcpconfig.ledger import fresh_tools
from mcpconfig.models import Service
from mcpconfig.operations import call_tool
from mcpconfig.operations import test_connection as connection_report
from mcpconfig.reading import (
    complete,
    get_prompt,
    list_prompts,
    list_resource_templates,
    list_resources,
    read_resource,
)
from mcpconfig.uri_templates import expand
from tests.peers.everything import Unavailable, everything

MakeService = Callable[..., Awaitable[Service]]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@contextmanager
def effects_server(path: Path, era: str) -> Iterator[str]:
    """The effect counter as a process of its own; yields its URL."""
    command = [sys.executable, "-m", "tests.peers.effects", "--file", str(path), "--era", era]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().removeprefix("Serving on ").strip()
    finally:
        process.kill()
        process.wait(timeout=10)


@pytest.mark.parametrize(("era", "spoken"), [("modern", "2026-07-28"), ("handshake", "2025-11-25")])
async def test_the_effect_counter_counts_each_execution_once(
    tmp_path: Path, service_at: MakeService, era: str, spoken: str
) -> None:
    path = tmp_path / "effects"
    with effects_server(path, era) as url:
        service = await service_at(url)
        tools = {tool.name: tool for tool in await fresh_tools(service)}
        await call_tool(service, tools["delete_thing"], {"name": "lamp"})
        await call_tool(service, tools["read_thing"], {"name": "lamp"})

    assert service.known_era == spoken
    assert path.read_text() == "delete_thing lamp\nread_thing lamp\n"


@pytest.fixture(params=["streamableHttp", "sse"])
def everything_url(request: pytest.FixtureRequest) -> Iterator[str]:
    try:
        with everything(request.param) as url:
            yield url
    except Unavailable as error:
        pytest.skip(f"server-everything cannot be had: {error}")


async def test_the_reference_server_is_found_tested_and_used(
    everything_url: str, service_at: MakeService
) -> None:
    service = await service_at(everything_url)

    report = await connection_report(service)
    tools: dict[str, Any] = {tool.name: tool for tool in await fresh_tools(service)}
    outcome = await call_tool(service, tools["echo"], {"message": "hello"})

    assert report.tool_count == len(tools) >= 10
    assert report.era == "2025-11-25"
    assert "hello" in outcome.result.content[0]["text"]
    assert await sync_to_async(service.exchanges.exists)()


async def test_the_reference_servers_resources_are_read(
    everything_url: str, service_at: MakeService
) -> None:
    service = await service_at(everything_url)

    report = await connection_report(service)
    resources = await list_resources(service)
    templates = {template.name: template for template in await list_resource_templates(service)}
    listed = await read_resource(service, resources[0].uri)
    blob = next(one for one in templates.values() if "blob" in one.uri_template)
    made = await read_resource(service, expand(blob.uri_template, {"resourceId": "2"}))

    assert report.resource_count == len(resources) >= 1
    assert report.template_count == len(templates) >= 1
    assert report.instructions
    assert listed.parts[0].text
    assert made.parts[0].blob


async def test_the_reference_servers_prompts_are_filled_in_and_their_values_proposed(
    everything_url: str, service_at: MakeService
) -> None:
    service = await service_at(everything_url)

    prompts = {prompt.name: prompt for prompt in await list_prompts(service)}
    filled = await get_prompt(service, "args-prompt", {"city": "Oslo"})
    proposed = await complete(service, "completable-prompt", "department", "E")

    assert [argument.name for argument in prompts["args-prompt"].arguments] == ["city", "state"]
    assert "Oslo" in filled.messages[0].content["text"]
    assert proposed.values == ("Engineering",)
