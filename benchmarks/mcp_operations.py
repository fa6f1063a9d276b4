"""What one tool call over a new connection costs, compared with the same bytes posted to the same
server with the same HTTP library and nothing around it.

Run `python -m benchmarks.mcp_operations [--calls 400]`. CPU is the time of this process for all of
a call: connection, protocol, limits, masking, the trace, and what is stored about the service in
the database. The server runs in a process of its own. Blocks of both kinds alternate, and each is
compared with its neighbour, so that a busy machine slows both.
"""

import argparse
import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import httpx2
import uvloop
from django.conf import settings

from mcpconfig.models import Exchange, Service, ToolDefinition
from mcpconfig.net.outbound import tls_context
from mcpconfig.operations.tool_listing import fetch_tools
from mcpconfig.operations.tools import call_tool
from mcpconfig.trace import recording
from mcpconfig.values.results import CallOutcome

from .own_database import own_database
from .report import Figure, print_figures, read_options

ROOT = Path(__file__).parents[1]
SERVER = """
import sys
from tests.peers.serving import Served
from tests.peers.toolbox import Watch, application, toolbox
with Served(application(toolbox(Watch()), era=sys.argv[1])) as served:
    print(served.url, flush=True)
    sys.stdin.read()
"""

Act = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Cost:
    """Milliseconds of one call."""

    cpu: float
    wall: float


async def measure_block(act: Act, calls: int, after: Callable[[], None] = lambda: None) -> Cost:
    """So many calls one after another, and the work that is left after them."""
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(calls):
        await act()
    await asyncio.to_thread(after)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return Cost(cpu=cpu / calls * 1000, wall=wall / calls * 1000)


async def post_request(url: str, body: bytes, headers: dict[str, str]) -> None:
    async with httpx2.AsyncClient(verify=tls_context(), trust_env=False) as client:
        response = await client.post(url, content=body, headers=headers)
        assert response.status_code == 200
        assert b"hello" in response.content


def read_request(exchange: Exchange) -> tuple[bytes, dict[str, str]]:
    """Body and headers of the request that a call sent, to send them again without the call."""
    headers = dict(exchange.request_headers)
    for name in ("host", "content-length", "connection"):
        headers.pop(name, None)
    return exchange.request_body.encode(), headers


async def compare(url: str, calls: int, blocks: int) -> tuple[list[Cost], list[Cost], int]:
    """The costs of calls and of bare requests, in blocks, and the number of requests of a call."""
    service = await Service.objects.acreate(name="bench", url=url, allows_private_addresses=True)
    tools = {tool.name: tool for tool in await fetch_tools(service)}
    echo: ToolDefinition = tools["echo"]

    async def call() -> int:
        outcome = await call_tool(service, echo, {"text": "hello"})
        assert isinstance(outcome, CallOutcome)
        return outcome.requests

    requests = await call()
    await asyncio.to_thread(recording.flush)
    sent = await Exchange.objects.filter(rpc_method="tools/call").afirst()
    assert sent is not None
    body, headers = read_request(sent)

    async def request() -> None:
        await post_request(url, body, headers)

    warm_up = min(20, calls)
    await measure_block(call, warm_up)
    await measure_block(request, warm_up)
    costs: list[Cost] = []
    floors: list[Cost] = []
    for _ in range(blocks):
        floors.append(await measure_block(request, calls // blocks))
        costs.append(await measure_block(call, calls // blocks, after=recording.flush))
    await asyncio.to_thread(recording.flush)
    await service.adelete()
    return costs, floors, requests


@contextmanager
def serve_tools() -> Iterator[str]:
    """Within, a modern server runs in a process of its own; this is its URL."""
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, "modern"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
    finally:
        server.kill()
        server.wait()


def list_figures(costs: list[Cost], floors: list[Cost], requests: int) -> Iterator[Figure]:
    ratios = [cost.cpu / floor.cpu for cost, floor in zip(costs, floors, strict=True)]
    yield "requests of a call", requests, "requests"
    yield "CPU of a call", median(cost.cpu for cost in costs), "ms"
    yield "CPU of a bare request", median(floor.cpu for floor in floors), "ms"
    yield "ratio of the two", median(ratios), "×"
    yield "duration of a call", median(cost.wall for cost in costs), "ms"
    yield "duration of a bare request", median(floor.wall for floor in floors), "ms"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.mcp_operations", description=__doc__
    )
    parser.add_argument("--calls", type=int, default=400)
    parser.add_argument("--blocks", type=int, default=8)
    options = read_options(parser, calls=4, blocks=2)
    settings.TRACE_DELAY_SECONDS = 0.25
    with own_database(), serve_tools() as url:
        measured = uvloop.run(compare(url, options.calls, options.blocks))
        print_figures(f"{options.calls} calls", list_figures(*measured))


if __name__ == "__main__":
    main()
