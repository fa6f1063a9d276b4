"""Long tasks at a third-party server."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from mcpconfig.models import Service
from mcpconfig.operations.tasks import cancel_task, get_task
from mcpconfig.operations.tool_listing import load_fresh_tools
from mcpconfig.operations.tools import call_tool
from mcpconfig.values.results import TaskReport, TaskStarted
from tests.peers.installing import Unavailable
from tests.peers.programs import fast_tasks, running

MakeService = Callable[..., Awaitable[Service]]

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("slowly")
    try:
        with running(fast_tasks(), folder) as found:
            yield found
    except Unavailable as reason:
        pytest.skip(str(reason))


async def started(service: Service, seconds: float) -> TaskStarted:
    tools = {tool.name: tool for tool in await load_fresh_tools(service)}
    task = await call_tool(service, tools["brew"], {"seconds": seconds})
    assert isinstance(task, TaskStarted)
    return task


async def ended(service: Service, task: TaskStarted) -> TaskReport:
    for _look in range(60):
        report = await get_task(service, task.task_id)
        if report.is_over:
            return report
        await asyncio.sleep(0.5)
    raise AssertionError("it does not end")


async def test_a_long_task_is_followed_to_its_result(url: str, service_at: MakeService) -> None:
    service = await service_at(url)

    report = await ended(service, await started(service, 1))

    assert report.status == "completed"
    assert report.result is not None
    assert report.result.content[0]["text"] == "brewed for 1 seconds"


async def test_a_long_task_is_cancelled_there(url: str, service_at: MakeService) -> None:
    service = await service_at(url)
    task = await started(service, 300)

    assert await cancel_task(service, task.task_id)

    assert (await ended(service, task)).status == "cancelled"


async def test_a_task_that_it_never_had_is_unknown(url: str, service_at: MakeService) -> None:
    service = await service_at(url)

    assert (await get_task(service, "never")).status == "unknown"
    assert not await cancel_task(service, "never")
