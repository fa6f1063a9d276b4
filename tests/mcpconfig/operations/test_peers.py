"""Third-party servers, and the effect counter."""

import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from mcpconfig.models import Service, ToolDefinition
from mcpconfig.operations.resources import (
    complete,
    get_prompt,
    list_prompts,
    list_resource_templates,
    list_resources,
    read_resource,
)
from mcpconfig.operations.tool_listing import load_fresh_tools
from mcpconfig.operations.tools import test_connection as connection_report
from mcpconfig.values.results import Answer, CallOutcome, InputRequest
from mcpconfig.values.uri_templates import expand
from tests.peers.finished_calls import call_tool
from tests.peers.installing import Unavailable
from tests.peers.programs import Program, app, bridged, everything, fast, running

MakeService = Callable[..., Awaitable[Service]]

MODERN, HANDSHAKE = "2026-07-28", "2025-11-25"
HTTP, SSE = Service.Transport.STREAMABLE_HTTP, Service.Transport.SSE

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]


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


@pytest.mark.parametrize(("era", "spoken"), [("modern", MODERN), ("handshake", HANDSHAKE)])
async def test_the_effect_counter_counts_each_execution_once(
    tmp_path: Path, service_at: MakeService, era: str, spoken: str
) -> None:
    path = tmp_path / "effects"
    with effects_server(path, era) as url:
        service = await service_at(url)
        tools = {tool.name: tool for tool in await load_fresh_tools(service)}
        await call_tool(service, tools["delete_thing"], {"name": "lamp"})
        await call_tool(service, tools["read_thing"], {"name": "lamp"})

    assert service.known_era == spoken
    assert path.read_text() == "delete_thing lamp\nread_thing lamp\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A third-party server: how it is reached, what it offers, and the answer to one call.
    `requests`: the cost of a call, with the DELETE of its session. `resource` and `prompt`: one
    of each, with a word of it."""

    program: Program
    era: str = HANDSHAKE
    transport: str = HTTP
    tools: int
    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)
    says: str
    requests: int = 4
    resource: tuple[str, str] | None = None
    prompt: tuple[str, dict[str, str], str] | None = None


# Of its 15 tools, one runs only as a task of the older form and is left out.
EVERYTHING_TOOLS = 14
DOCUMENT = ("demo://resource/static/document/architecture.md", "Architecture")
IN_OSLO = ("args-prompt", {"city": "Oslo"}, "Oslo")
PEERS = [
    Peer(
        program=everything("streamableHttp"),
        tools=EVERYTHING_TOOLS,
        tool="echo",
        arguments={"message": "hello"},
        says="Echo: hello",
        resource=DOCUMENT,
        prompt=IN_OSLO,
    ),
    Peer(
        program=everything("sse"),
        transport=SSE,
        tools=EVERYTHING_TOOLS,
        tool="echo",
        arguments={"message": "hello"},
        says="Echo: hello",
        requests=4,
        resource=DOCUMENT,
        prompt=IN_OSLO,
    ),
    Peer(
        program=app("basic-vanillajs"),
        tools=1,
        tool="get-time",
        says="T",
        requests=3,  # it has no session to delete
        resource=("ui://get-time/mcp-app.html", "<html"),
    ),
    Peer(
        program=app("budget-allocator"),
        tools=1,
        tool="get-budget-data",
        says="Default Budget",
        requests=3,
        resource=("ui://budget-allocator/mcp-app.html", "<html"),
    ),
    Peer(
        program=fast(),
        era=MODERN,
        tools=1,
        tool="add",
        arguments={"a": 2, "b": 3},
        says="5",
        requests=1,
        resource=("note://first", "milk"),
        prompt=("greet", {"name": "Ada"}, "Greet Ada."),
    ),
    Peer(
        program=bridged("mcp-server-git", needs_repository=True),
        tools=12,
        tool="git_log",
        arguments={"repo_path": "{folder}"},
        says="Author: Ada",
    ),
    Peer(
        program=bridged("mcp-server-time"),
        tools=2,
        tool="get_current_time",
        arguments={"timezone": "Europe/Oslo"},
        says="Europe/Oslo",
    ),
    Peer(
        program=bridged("mcp-server-time", is_sse=True),
        transport=SSE,
        tools=2,
        tool="get_current_time",
        arguments={"timezone": "Europe/Oslo"},
        says="Europe/Oslo",
        requests=4,
    ),
]


@contextmanager
def started(program: Program, folder: Path) -> Iterator[str]:
    try:
        with running(program, folder) as url:
            yield url
    except Unavailable as error:
        pytest.skip(f"{program.name} cannot be had: {error}")


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: f"{peer.program.name} {peer.transport}")
async def test_a_server_of_other_people_is_tested_listed_called_and_read(
    peer: Peer, service_at: MakeService, tmp_path: Path
) -> None:
    with started(peer.program, tmp_path) as url:
        service = await service_at(url)

        report = await connection_report(service)
        tools = {tool.name: tool for tool in await load_fresh_tools(service)}
        await _calls(service, tools[peer.tool], peer, tmp_path)
        await _reads(service, peer)

    assert (report.era, report.transport) == (peer.era, peer.transport)
    assert report.tool_count == len(tools) == peer.tools
    assert bool(report.resource_count) == (peer.resource is not None)
    assert bool(report.prompt_count) == (peer.prompt is not None)
    assert await sync_to_async(service.exchanges.exists)()


async def _calls(service: Service, tool: ToolDefinition, peer: Peer, folder: Path) -> None:
    arguments = {
        name: str(folder) if value == "{folder}" else value
        for name, value in peer.arguments.items()
    }
    outcome = await call_tool(service, tool, arguments)
    assert isinstance(outcome, CallOutcome)
    assert not outcome.result.is_error
    assert peer.says in outcome.result.content[0]["text"]
    assert outcome.requests == peer.requests


async def _reads(service: Service, peer: Peer) -> None:
    if peer.resource is not None:
        uri, word = peer.resource
        assert uri in [resource.uri for resource in await list_resources(service)]
        contents = await read_resource(service, uri)
        assert word in str(contents.parts[0].text)
    if peer.prompt is not None:
        name, arguments, words = peer.prompt
        assert name in [prompt.name for prompt in await list_prompts(service)]
        filled = await get_prompt(service, name, arguments)
        assert words in filled.messages[0].content["text"]


async def test_the_reference_servers_templates_are_read_and_its_values_proposed(
    service_at: MakeService, tmp_path: Path
) -> None:
    with started(everything("streamableHttp"), tmp_path) as url:
        service = await service_at(url)
        templates = await list_resource_templates(service)
        blob = next(one for one in templates if "blob" in one.uri_template)
        made = await read_resource(service, expand(blob.uri_template, {"resourceId": "2"}))
        prompts = {prompt.name: prompt for prompt in await list_prompts(service)}
        proposed = await complete(service, "completable-prompt", "department", "E")

    assert made.parts[0].blob
    assert [argument.name for argument in prompts["args-prompt"].arguments] == ["city", "state"]
    assert proposed.values == ("Engineering",)


@pytest.mark.parametrize("transport", ["streamableHttp", "sse"])
async def test_the_reference_servers_question_is_answered_while_it_waits(
    service_at: MakeService, tmp_path: Path, transport: str
) -> None:
    asked: list[InputRequest] = []

    async def agrees(request: InputRequest) -> Answer:
        asked.append(request)
        return Answer(action="accept", content={"name": "Ada", "check": True})

    with started(everything(transport), tmp_path) as url:
        service = await service_at(url)
        tools = {tool.name: tool for tool in await load_fresh_tools(service)}
        tool = tools["trigger-elicitation-request"]
        outcome = await call_tool(service, tool, {}, on_question=agrees)

    assert isinstance(outcome, CallOutcome)
    assert [request.mode for request in asked] == ["form"]
    assert "Name: Ada" in outcome.result.content[1]["text"]
