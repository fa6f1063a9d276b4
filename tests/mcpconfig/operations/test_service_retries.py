"""Retries: at their time, a few, by one worker at once, and never a tool call."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from mcpconfig.models import Service, ToolDefinition
from mcpconfig.operations import tool_listing
from mcpconfig.operations.service_retries import find_due_services, retry, retry_due, retry_now
from mcpconfig.operations.tools import call_tool, list_tools
from mcpconfig.secrets import credentials
from mcpconfig.services import tool_definitions
from mcpconfig.values.acting import Acting
from mcpconfig.values.errors import OperationError
from mcpconfig.values.results import Listing
from tests.peers.hostile import Hostile
from tests.peers.serving import Served
from tests.peers.toolbox import Watch, application, toolbox

MakeService = Callable[..., Awaitable[Service]]

pytestmark = pytest.mark.timeout(300)

ADA = Acting(user_id=7, username="ada", email="ada@example.org")
SECOND = timedelta(seconds=1)


@contextmanager
def at(port: int) -> Iterator[Served]:
    with Served(application(toolbox(Watch())), port=port) as served:
        yield served


@pytest.fixture
def port() -> Iterator[int]:
    """A port where nothing answers until a test starts a server there."""
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", 0))
        number = int(taken.getsockname()[1])
    yield number


@pytest.fixture
async def gone(port: int, service_at: MakeService) -> Service:
    """A service whose tools were listed while its server was down."""
    service = await service_at(f"http://127.0.0.1:{port}/mcp")
    with pytest.raises(OperationError):
        await list_tools(service)
    return await stored(service)


async def stored(service: Service) -> Service:
    return await Service.objects.aget(pk=service.pk)


async def wait_until_due(service: Service, **fields: Any) -> Service:
    """Make the next retry due."""
    past = timezone.now() - SECOND
    await Service.objects.filter(pk=service.pk).aupdate(next_retry_at=past, **fields)
    return await stored(service)


async def is_due(now: datetime | None = None) -> list[str]:
    return [one.name for one in await sync_to_async(find_due_services)(now or timezone.now())]


def wait_of(service: Service) -> float:
    assert service.next_retry_at is not None
    return (service.next_retry_at - timezone.now()).total_seconds()


async def test_the_first_retry_comes_after_a_second(gone: Service) -> None:
    assert gone.state == "failing"
    assert gone.last_error is not None
    assert gone.last_error["kind"] == "refused"
    assert (gone.retries, 0 < wait_of(gone) <= 1) == (0, True)
    assert await is_due(timezone.now() - SECOND) == []
    assert await is_due(timezone.now() + 2 * SECOND) == [gone.name]


async def test_each_wait_is_twice_the_last_and_after_five_retries_a_person_is_asked(
    gone: Service,
) -> None:
    waits: list[int] = []
    for _ in range(4):
        await retry(await wait_until_due(gone))
        waits.append(round(wait_of(await stored(gone))))

    await retry(await wait_until_due(gone))

    assert waits == [2, 4, 8, 16]
    last = await stored(gone)
    assert (last.retries, last.next_retry_at, last.state) == (5, None, "failing")
    assert await is_due(timezone.now() + timedelta(days=1)) == []


async def test_a_further_failure_begins_no_new_series(gone: Service) -> None:
    await Service.objects.filter(pk=gone.pk).aupdate(retries=5, next_retry_at=None)
    with pytest.raises(OperationError):
        await list_tools(await stored(gone))
    assert (await stored(gone)).next_retry_at is None


async def test_failures_beside_a_retry_neither_hasten_nor_delay_it(gone: Service) -> None:
    await asyncio.gather(*(list_tools(gone) for _ in range(5)), return_exceptions=True)
    after = await stored(gone)
    assert (after.retries, after.next_retry_at) == (0, gone.next_retry_at)


async def test_a_retry_that_succeeds_resets_the_count_and_brings_the_tools(
    gone: Service, port: int
) -> None:
    await wait_until_due(gone, retries=3)
    with at(port):
        await retry_due()
    back = await stored(gone)
    assert (back.state, back.retries, back.next_retry_at) == ("connected", 0, None)
    assert len(await sync_to_async(tool_definitions.list_current_tools)(back)) == 7


async def test_any_success_resets_the_count(gone: Service, port: int) -> None:
    await wait_until_due(gone, retries=3)
    with at(port):
        await list_tools(await stored(gone))
    back = await stored(gone)
    assert (back.state, back.retries, back.next_retry_at) == ("connected", 0, None)


async def test_two_workers_never_retry_the_same_service_at_once(
    hostile: Hostile, service_at: MakeService
) -> None:
    service = await service_at(hostile.url("html"))
    await list_tools(service)
    await wait_until_due(service)
    hostile.clear()
    seen_by_each = [await stored(service) for _ in range(8)]

    await asyncio.gather(*(retry(one) for one in seen_by_each))

    assert hostile.requests == ["tools/list"]


async def test_a_retry_is_not_taken_before_its_time(gone: Service) -> None:
    await Service.objects.filter(pk=gone.pk).aupdate(next_retry_at=timezone.now() + 60 * SECOND)
    assert await retry(await stored(gone)) is None
    assert (await stored(gone)).retries == 0


async def test_the_retry_of_a_worker_that_died_is_taken_up_by_another(
    gone: Service, port: int
) -> None:
    """A dead worker leaves its claim: a later time, and one retry more."""
    await Service.objects.filter(pk=gone.pk).aupdate(
        next_retry_at=timezone.now() + 40 * SECOND, retries=1
    )
    assert await is_due(timezone.now() + 39 * SECOND) == []
    with at(port):
        await retry(await wait_until_due(gone))
    assert (await stored(gone)).state == "connected"


async def test_a_service_that_shall_not_reconnect_is_left_to_a_person(
    port: int, service_at: MakeService
) -> None:
    for settings in ({"reconnects": False}, {"most_retries": 0}):
        service = await service_at(f"http://127.0.0.1:{port}/mcp", **settings)
        with pytest.raises(OperationError):
            await list_tools(service)
        after = await stored(service)
        assert (after.state, after.next_retry_at) == ("failing", None)


async def test_the_service_says_how_often(port: int, service_at: MakeService) -> None:
    service = await service_at(f"http://127.0.0.1:{port}/mcp", most_retries=1)
    with pytest.raises(OperationError):
        await list_tools(service)
    await retry(await wait_until_due(service))
    after = await stored(service)
    assert (after.retries, after.next_retry_at) == (1, None)


async def test_a_service_that_was_switched_off_is_left_alone(gone: Service) -> None:
    await wait_until_due(gone, is_enabled=False)
    assert await is_due() == []
    assert await retry(await stored(gone)) is None
    assert (await stored(gone)).retries == 0


async def test_a_new_url_ends_the_series(gone: Service) -> None:
    waiting = await wait_until_due(gone, retries=2)
    gone.url = "https://elsewhere.example/mcp"
    await gone.asave()
    after = await stored(gone)
    assert (after.retries, after.next_retry_at, after.last_error) == (0, None, None)
    assert await retry(waiting) is None


async def test_a_failure_that_lasts_is_not_retried(
    hostile: Hostile, service_at: MakeService
) -> None:
    service = await service_at(hostile.url("h401", at_once=True))
    with pytest.raises(OperationError):
        await list_tools(service)
    after = await stored(service)
    assert (after.state, after.next_retry_at) == ("sign-in needed", None)


async def test_a_retry_that_meets_a_lasting_failure_is_the_last(
    gone: Service, hostile: Hostile
) -> None:
    await Service.objects.filter(pk=gone.pk).aupdate(url=hostile.url("h403", at_once=True))
    await retry(await wait_until_due(gone))
    after = await stored(gone)
    assert (after.retries, after.next_retry_at) == (1, None)


async def test_a_service_that_asks_for_time_gets_it(
    hostile: Hostile, service_at: MakeService
) -> None:
    service = await service_at(hostile.url("h429", at_once=True))
    with pytest.raises(OperationError):
        await list_tools(service)
    assert 6 < wait_of(await stored(service)) <= 7


async def test_a_call_that_was_sent_is_never_sent_again_and_the_service_is_looked_at(
    hostile: Hostile, service_at: MakeService
) -> None:
    service = await service_at(hostile.url("h500"))
    with pytest.raises(OperationError):
        await call_tool(service, ToolDefinition(name="act", input_schema={}), {})
    assert (await stored(service)).state == "configured"
    assert hostile.effects == 1
    hostile.clear()

    await retry_due()

    assert hostile.requests == ["tools/list"]
    after = await stored(service)
    assert (after.state, after.retries, after.next_retry_at) == ("connected", 0, None)


async def test_a_call_that_could_not_be_sent_shows_that_the_service_fails(gone: Service) -> None:
    await Service.objects.filter(pk=gone.pk).aupdate(**gone.forgotten_failure())
    service = await stored(gone)
    with pytest.raises(OperationError):
        await call_tool(service, ToolDefinition(name="act", input_schema={}), {})
    assert (await stored(service)).state == "failing"
    assert await is_due(timezone.now() + 2 * SECOND) == [service.name]


async def test_a_person_retries_by_hand_whatever_came_before(gone: Service, port: int) -> None:
    await Service.objects.filter(pk=gone.pk).aupdate(retries=5, next_retry_at=None)
    with at(port):
        assert await retry_now(await stored(gone)) is None
    assert (await stored(gone)).state == "connected"


async def test_a_retry_by_hand_that_fails_says_why_and_counting_begins_anew(gone: Service) -> None:
    await Service.objects.filter(pk=gone.pk).aupdate(retries=5, next_retry_at=None)
    error = await retry_now(await stored(gone))
    assert error is not None
    assert error.kind == "refused"
    after = await stored(gone)
    assert (after.retries, 1 < wait_of(after) <= 2) == (1, True)


async def test_one_service_that_breaks_the_sweep_keeps_no_other_from_its_turn(
    gone: Service, port: int, service_at: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = await service_at(gone.url)
    remember = tool_definitions.store_listing

    def faulty(service: Service, listing: Listing) -> list[ToolDefinition]:
        if service.pk == broken.pk:
            raise RuntimeError("planted")
        return remember(service, listing)

    monkeypatch.setattr(tool_listing, "store_listing", faulty)
    await wait_until_due(broken)
    await wait_until_due(gone)
    with at(port):
        await retry_due()
    assert (await stored(gone)).state == "connected"
    assert (await stored(broken)).next_retry_at is None


@pytest.fixture
async def told(port: int, service_at: MakeService) -> Service:
    """A failing service whose headers name a person."""
    service = await service_at(f"http://127.0.0.1:{port}/mcp", authentication="headers")
    await sync_to_async(credentials.set_headers)(service, {"X-Who": "{user.username}"})
    with pytest.raises(OperationError):
        await list_tools(service, acting=ADA)
    return await stored(service)


async def test_a_service_that_only_a_person_can_enter_waits_for_one(
    told: Service, port: int
) -> None:
    await wait_until_due(told)
    assert await is_due() == []
    with at(port) as served:
        await retry(await stored(told), ADA)
    assert {arrival.headers["x-who"] for arrival in served.arrivals.seen} == {"ada"}
    assert (await stored(told)).state == "connected"


async def test_headers_without_a_person_are_retried_by_the_sweep(told: Service) -> None:
    await sync_to_async(credentials.set_headers)(told, {"X-Key": "1"})
    await wait_until_due(told)
    assert await is_due() == [told.name]


async def test_new_credentials_end_the_failure(told: Service) -> None:
    assert told.state == "failing"
    await sync_to_async(credentials.set_headers)(told, {"X-Key": "1"})
    after = await stored(told)
    assert (after.state, after.next_retry_at) == ("configured", None)


async def test_a_person_without_a_sign_in_costs_the_service_no_retry(gone: Service) -> None:
    await Service.objects.filter(pk=gone.pk).aupdate(authentication="oauth_user")
    await wait_until_due(gone, retries=4)
    assert await is_due() == []
    error = await retry(await stored(gone), ADA)
    assert error is not None
    assert error.kind == "sign_in_needed"
    after = await stored(gone)
    assert after.retries == 4
    assert after.next_retry_at is not None
