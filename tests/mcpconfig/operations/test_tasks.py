"""Long tasks of services: a call becomes a task, and any process can poll it at any time."""

import json
from collections.abc import Awaitable, Callable, Iterator

import pytest

from mcpconfig.models import Service, ToolDefinition
from mcpconfig.operations.tasks import answer_task, cancel_task, get_task
from mcpconfig.operations.tools import call_tool, fetch_listing
from mcpconfig.values.errors import OperationError
from mcpconfig.values.limits import LIMITS
from mcpconfig.values.results import Answer, InputRequest, TaskReport, TaskStarted
from tests.peers.errands import FORM, Errands, application
from tests.peers.hostile import Hostile
from tests.peers.serving import Served

MakeService = Callable[..., Awaitable[Service]]

pytestmark = pytest.mark.timeout(30)

ERRAND = ToolDefinition(name="errand", input_schema={"type": "object"})
ACT = ToolDefinition(name="act", input_schema={"type": "object"})


@pytest.fixture
def errands() -> Errands:
    return Errands()


@pytest.fixture
def peer(errands: Errands) -> Iterator[Served]:
    with Served(application(errands)) as served:
        yield served


@pytest.fixture
async def service(peer: Served, service_at: MakeService) -> Service:
    made = await service_at(peer.url)
    await fetch_listing(made)
    peer.arrivals.clear()
    return made


async def started(service: Service) -> TaskStarted:
    task = await call_tool(service, ERRAND, {})
    assert isinstance(task, TaskStarted)
    return task


async def test_a_call_becomes_a_task(service: Service) -> None:
    task = await started(service)

    assert (task.task_id, task.status, task.message) == ("errand 1", "working", "On the way.")
    assert (task.poll_seconds, task.ttl_seconds) == (2.5, 3600)
    assert TaskStarted.from_json(json.loads(json.dumps(task.to_json()))) == task


async def test_each_step_costs_one_request(service: Service, peer: Served) -> None:
    task = await started(service)
    await get_task(service, task.task_id)
    await answer_task(service, task.task_id, {"name": Answer(action="decline")})
    await cancel_task(service, task.task_id)

    assert peer.arrivals.methods == ["tools/call", "tasks/get", "tasks/update", "tasks/cancel"]


async def test_a_task_that_works_says_how_far_it_is(service: Service, errands: Errands) -> None:
    task = await started(service)
    errands.goes_on(task.task_id, statusMessage="Half way.", pollIntervalMs=9_000, ttlMs=None)

    report = await get_task(service, task.task_id)

    assert report == TaskReport(status="working", message="Half way.", poll_seconds=9)
    assert not report.is_over


@pytest.mark.parametrize("is_error", [True, False])
async def test_a_task_that_is_done_brings_the_result_of_the_call(
    service: Service, errands: Errands, is_error: bool
) -> None:
    task = await started(service)
    errands.done(task.task_id, "brought", is_error=is_error)

    report = await get_task(service, task.task_id)

    assert report.is_over
    assert report.result is not None
    assert report.result.content == [{"type": "text", "text": "brought"}]
    assert report.result.structured == {"text": "brought"}
    assert report.result.is_error == is_error


async def test_a_task_that_failed_says_why(service: Service, errands: Errands) -> None:
    task = await started(service)
    errands.goes_on(task.task_id, status="failed", error={"code": -32603, "message": "Rain.\n"})

    report = await get_task(service, task.task_id)

    assert (report.status, report.error) == ("failed", "The service refused: Rain.")
    assert report.is_over
    assert report.result is None


async def test_a_task_that_was_cancelled_is_over(service: Service, errands: Errands) -> None:
    task = await started(service)
    assert await cancel_task(service, task.task_id)
    assert errands.cancelled == [task.task_id]
    errands.goes_on(task.task_id, status="cancelled")

    report = await get_task(service, task.task_id)

    assert report.status == "cancelled"
    assert report.is_over


async def test_a_task_asks_and_is_answered(service: Service, errands: Errands) -> None:
    task = await started(service)
    errands.goes_on(task.task_id, status="input_required", inputRequests={"who": FORM})

    report = await get_task(service, task.task_id)
    assert report.status == "input_required"
    (request,) = report.requests
    assert isinstance(request, InputRequest)
    assert (request.key, request.message) == ("who", "What is your name?")

    answer = Answer(action="accept", content={"name": "Ada"})
    assert await answer_task(service, task.task_id, {"who": answer})
    assert errands.answers == [{"who": {"action": "accept", "content": {"name": "Ada"}}}]


async def test_a_task_that_asks_what_cannot_be_answered_is_still_there(
    service: Service, errands: Errands
) -> None:
    task = await started(service)
    sampling = {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}}
    errands.goes_on(task.task_id, status="input_required", inputRequests={"model": sampling})

    report = await get_task(service, task.task_id)

    assert (report.status, report.requests) == ("input_required", ())
    assert "Services can only ask questions to people" in report.error
    assert not report.is_over


async def test_what_became_of_a_task_that_is_gone_nobody_knows(
    service: Service, errands: Errands
) -> None:
    task = await started(service)
    errands.tasks.clear()

    report = await get_task(service, task.task_id)

    assert report.status == "unknown"
    assert report.is_over
    assert not await cancel_task(service, task.task_id)
    assert not await answer_task(service, task.task_id, {})
    await service.arefresh_from_db()
    assert service.last_error is None


async def test_a_service_that_is_away_for_a_moment_ends_no_task(
    peer: Served, service: Service, errands: Errands
) -> None:
    task = await started(service)
    service.url = service.url.replace(str(peer.port), "9")

    with pytest.raises(OperationError) as caught:
        await get_task(service, task.task_id)

    assert caught.value.kind == "refused"


@pytest.mark.parametrize("is_error", [False, True])
async def test_a_result_with_too_many_entries_ends_the_task_and_is_withheld(
    service: Service, errands: Errands, is_error: bool
) -> None:
    task = await started(service)
    content = [{"type": "text", "text": "x"}] * (LIMITS.entries_at_once + 1)
    errands.goes_on(
        task.task_id, status="completed", result={"content": content, "isError": is_error}
    )

    report = await get_task(service, task.task_id)

    assert report.result is not None
    assert (report.result.is_error, report.result.was_cut) == (is_error, True)
    assert "Its result is not kept" in report.result.content[0]["text"]


@pytest.mark.parametrize("result", [None, {"content": "brought"}, {"content": [{"type": "text"}]}])
async def test_a_result_that_is_none_is_a_clean_error(
    service: Service, errands: Errands, result: object
) -> None:
    task = await started(service)
    errands.goes_on(task.task_id, status="completed", result=result)

    with pytest.raises(OperationError) as caught:
        await get_task(service, task.task_id)

    assert caught.value.kind == "protocol"


@pytest.mark.parametrize("deed", ["task_without_an_id", "task_with_a_long_id", "task_in_no_state"])
async def test_a_task_that_cannot_be_asked_after_leaves_the_outcome_open(
    hostile: Hostile, service_at: MakeService, deed: str
) -> None:
    with pytest.raises(OperationError) as caught:
        await call_tool(await service_at(hostile.url(deed)), ACT, {})

    assert caught.value.kind == "protocol"
    assert not caught.value.is_definite
    assert hostile.effects == 1


@pytest.mark.parametrize(
    ("deed", "seconds"),
    [
        ("task_in_a_hurry", LIMITS.poll_seconds_least),
        ("task_for_ever", LIMITS.poll_seconds_most),
    ],
)
async def test_the_pace_is_the_services_within_reason(
    hostile: Hostile, service_at: MakeService, deed: str, seconds: float
) -> None:
    task = await call_tool(await service_at(hostile.url(deed)), ACT, {})

    assert isinstance(task, TaskStarted)
    assert task.poll_seconds == seconds
    assert len(task.message) <= 200
