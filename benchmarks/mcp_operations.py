"""What one tool call over a fresh connection costs, against the floor: the same bytes posted to the
same server with the same HTTP library and nothing around it.

Run `python -m benchmarks.mcp_operations [--calls 400]`. CPU is this process's own time, everything
included: connection, protocol, limits, masking, the trace and what is remembered of the service in
the database. The server runs in a process of its own. Blocks of both kinds alternate, and each is
compared with its neighbour, so that a busy machine slows both alike.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

import django
import httpx2
import uvloop

django.setup()

from django.conf import settings  # noqa: E402 - Django must be set up first
from django.test.utils import setup_databases, teardown_databases  # noqa: E402

from mcpconfig import trace  # noqa: E402
from mcpconfig.ledger import fetch_tools  # noqa: E402
from mcpconfig.models import Exchange, Service, ToolDefinition  # noqa: E402
from mcpconfig.network import tls_context  # noqa: E402
from mcpconfig.operations import call_tool  # noqa: E402
from mcpconfig.results import CallOutcome  # noqa: E402

ROOT = Path(__file__).parents[1]
BLOCKS = 8
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


async def block(act: Act, calls: int, after: Callable[[], None] = lambda: None) -> Cost:
    """So many calls one after another, and what is left to do after them."""
    cpu, wall = time.process_time(), time.perf_counter()
    for _unused in range(calls):
        await act()
    await asyncio.to_thread(after)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return Cost(cpu=cpu / calls * 1000, wall=wall / calls * 1000)


async def raw_post(url: str, body: bytes, headers: dict[str, str]) -> None:
    async with httpx2.AsyncClient(verify=tls_context(), trust_env=False) as client:
        response = await client.post(url, content=body, headers=headers)
        assert response.status_code == 200
        assert b"hello" in response.content


def as_sent(exchange: Exchange) -> tuple[bytes, dict[str, str]]:
    """The request that a call made, to be made again by hand."""
    headers = dict(exchange.request_headers)
    for name in ("host", "content-length", "connection"):
        headers.pop(name, None)
    return exchange.request_body.encode(), headers


async def compare(url: str, calls: int) -> tuple[list[Cost], list[Cost], int]:
    """The costs of both in blocks, and the requests of one call."""
    service = await Service.objects.acreate(name="bench", url=url, allows_private_addresses=True)
    tools = {tool.name: tool for tool in await fetch_tools(service)}
    echo: ToolDefinition = tools["echo"]

    async def ours() -> int:
        outcome = await call_tool(service, echo, {"text": "hello"})
        assert isinstance(outcome, CallOutcome)
        return outcome.requests

    requests = await ours()
    await asyncio.to_thread(trace.flush)
    sent = await Exchange.objects.filter(rpc_method="tools/call").afirst()
    assert sent is not None
    body, headers = as_sent(sent)

    async def floor() -> None:
        await raw_post(url, body, headers)

    await block(ours, 20)
    await block(floor, 20)
    costs: list[Cost] = []
    floors: list[Cost] = []
    for _unused in range(BLOCKS):
        floors.append(await block(floor, calls // BLOCKS))
        costs.append(await block(ours, calls // BLOCKS, after=trace.flush))
    await asyncio.to_thread(trace.flush)
    await service.adelete()
    return costs, floors, requests


@contextmanager
def served() -> Iterator[str]:
    """The URL of a modern server in a process of its own."""
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


def figures(costs: list[Cost], floors: list[Cost], requests: int) -> dict[str, float]:
    ratios = [cost.cpu / floor.cpu for cost, floor in zip(costs, floors, strict=True)]
    return {
        "requests": requests,
        "cpu_ms": round(median(cost.cpu for cost in costs), 2),
        "floor_cpu_ms": round(median(floor.cpu for floor in floors), 2),
        "cpu_ratio": round(median(ratios), 2),
        "wall_ms": round(median(cost.wall for cost in costs), 2),
        "floor_wall_ms": round(median(floor.wall for floor in floors), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=400)
    options = parser.parse_args()
    databases = setup_databases(verbosity=0, interactive=False)
    settings.TRACE_DELAY_SECONDS = 0.25
    try:
        with served() as url:
            measured = uvloop.run(compare(url, options.calls))
        print(json.dumps(figures(*measured), indent=2))
    finally:
        teardown_databases(databases, verbosity=0)


if __name__ == "__main__":
    main()
