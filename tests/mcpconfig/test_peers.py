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
