"""The trace: every exchange is stored with its contents, for a limited time."""

import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from channels.db import database_sync_to_async
from django.conf import LazySettings, settings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from mcpconfig.models import Exchange, Service, ToolDefinition
from mcpconfig.net.wire import Wire
from mcpconfig.operations.tool_listing import load_fresh_tools
from mcpconfig.operations.tools import call_tool, list_tools
from mcpconfig.trace import recording, retention
from mcpconfig.values.errors import OperationError
from mcpconfig.values.results import Progress
from tests.migrated import make_sqlite
from tests.peers.hostile import Hostile
from tests.peers.serving import Served

MakeService = Callable[..., Awaitable[Service]]

pytestmark = pytest.mark.timeout(30)

ROOT = Path(__file__).parents[3]
ACT = {"name": "act", "input_schema": {"type": "object"}}


async def test_a_failed_operation_is_traced_with_its_status(
    hostile: Hostile, service_at: MakeService
) -> None:
    service = await service_at(hostile.url("h500"))
    tools = await load_fresh_tools(service)

    with pytest.raises(OperationError):
        await call_tool(service, tools[0], {})

    newest = await Exchange.objects.afirst()
    assert newest is not None
    assert (newest.operation, newest.rpc_method, newest.status) == ("call_tool", "tools/call", 500)


async def test_bodies_are_cut(modern: Served, service_at: MakeService) -> None:
    service = await service_at(modern.url)
    tools = {tool.name: tool for tool in await load_fresh_tools(service)}

    await call_tool(service, tools["long_text"], {"size": 100_000})

    newest = await Exchange.objects.afirst()
    assert newest is not None
    assert newest.response_bytes > 100_000
    assert len(newest.response_body) <= settings.TRACE_BODY_BYTES


def test_only_the_newest_exchanges_are_kept() -> None:
    service = Service.objects.create(name="busy", url="https://busy.example/mcp")
    Exchange.objects.bulk_create(
        Exchange(service=service, operation="old", operation_id="0" * 32, method="POST")
        for _ in range(settings.TRACE_EXCHANGES + 30)
    )

    retention.prune(service)

    assert Exchange.objects.filter(service=service).count() == settings.TRACE_EXCHANGES


async def test_an_operation_that_never_reached_the_wire_keeps_nothing() -> None:
    service = await Service.objects.acreate(name="none", url="https://none.example/mcp")

    await recording.record_exchanges(service, "list_tools", Wire(), [])

    assert not await Exchange.objects.aexists()


async def test_an_exchange_knows_its_message_its_era_and_what_came_back(
    modern: Served, service_at: MakeService
) -> None:
    service = await service_at(modern.url)
    tools = {tool.name: tool for tool in await load_fresh_tools(service)}
    counted: list[Progress] = []

    await call_tool(service, tools["count"], {"to": 3}, on_progress=counted.append)

    exchange = await Exchange.objects.afirst()
    assert exchange is not None
    assert (exchange.kind, exchange.rpc_method, exchange.era) == (
        "request",
        "tools/call",
        "2026-07-28",
    )
    assert (exchange.attempt, exchange.url) == (1, modern.url)
    heard = [(message["kind"], message["method"]) for message in exchange.heard]
    assert heard == [("notification", "notifications/progress")] * 3 + [("response", "")]
    assert exchange.heard[-1]["id"] == exchange.rpc_id
    assert exchange.started_at is not None
    assert exchange.started_at <= exchange.created_at


async def test_the_exchanges_of_one_operation_belong_together(
    handshake: Served, service_at: MakeService
) -> None:
    await list_tools(await service_at(handshake.url, transport="streamable-http"))

    rows = [row async for row in Exchange.objects.order_by("pk")]
    assert len({row.operation_id for row in rows}) == 1
    kinds = {row.rpc_method: row.kind for row in rows if row.rpc_method}
    assert kinds["initialize"] == "request"
    assert kinds["notifications/initialized"] == "notification"
    assert [row.attempt for row in rows] == [1] * len(rows)


async def test_operations_of_one_tool_call_share_a_round(
    modern: Served, service_at: MakeService
) -> None:
    service = await service_at(modern.url)
    tools = {tool.name: tool for tool in await load_fresh_tools(service)}

    with recording.use_round("call-7"):
        await call_tool(service, tools["echo"], {"text": "once"})
        await call_tool(service, tools["echo"], {"text": "again"})
    await call_tool(service, tools["echo"], {"text": "apart"})

    calls = Exchange.objects.filter(operation="call_tool").order_by("pk")
    assert [row.round_id async for row in calls] == ["call-7", "call-7", ""]
    assert await calls.values("operation_id").distinct().acount() == 3


async def test_a_repeated_request_says_how_often_it_was_made(
    hostile: Hostile, service_at: MakeService
) -> None:
    service = await service_at(hostile.url("stream_storm"))

    with pytest.raises(OperationError):
        await call_tool(service, ToolDefinition(**ACT), {})

    again = Exchange.objects.filter(method="GET").order_by("pk")
    assert [row.attempt async for row in again] == [1, 2, 3, 4, 5]
    assert all([row.request_headers["last-event-id"] async for row in again])


async def test_more_messages_than_are_kept_are_still_counted(
    hostile: Hostile, service_at: MakeService
) -> None:
    service = await service_at(hostile.url("stream_progress"))

    with pytest.raises(OperationError):
        await call_tool(service, ToolDefinition(**ACT), {})

    newest = await Exchange.objects.afirst()
    assert newest is not None
    assert newest.heard_count > len(newest.heard) == 50


def test_exchanges_that_are_old_go(settings: LazySettings) -> None:
    settings.TRACE_DAYS = 7
    service = Service.objects.create(name="quiet", url="https://quiet.example/mcp")
    values = {"service": service, "operation": "x", "operation_id": "0" * 32, "method": "POST"}
    old = Exchange.objects.create(**values)
    young = Exchange.objects.create(**values)
    Exchange.objects.filter(pk=old.pk).update(created_at=timezone.now() - timedelta(days=8))

    retention.prune(service)

    assert list(Exchange.objects.all()) == [young]


def test_all_services_are_pruned_from_the_oldest_exchange_on(
    settings: LazySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.TRACE_EXCHANGES = 4
    monkeypatch.setattr(retention, "PRUNE_AT_ONCE", 2)
    for name in ("quiet", "busy"):
        service = Service.objects.create(name=name, url=f"https://{name}.example/mcp")
        values = {"service": service, "operation": "x", "operation_id": "0" * 32, "method": "POST"}
        old = [Exchange.objects.create(**values).pk for _unused in range(3)]
        Exchange.objects.filter(pk__in=old).update(created_at=timezone.now() - timedelta(days=15))
    young = [Exchange.objects.create(**values).pk for _unused in range(6)]

    retention.prune_all()

    assert set(Exchange.objects.values_list("pk", flat=True)) == set(young[2:])


async def test_pruning_happens_by_itself(
    modern: Served, service_at: MakeService, settings: LazySettings
) -> None:
    settings.TRACE_EXCHANGES = 3
    service = await service_at(modern.url)

    for _unused in range(2 * recording.PRUNE_EVERY):
        await list_tools(service)

    # Operations of other tests count, too, so it may have happened some time ago.
    assert await Exchange.objects.acount() < recording.PRUNE_EVERY + 3


async def test_the_settings_say_how_much_of_a_body_is_kept(
    modern: Served, service_at: MakeService, settings: LazySettings
) -> None:
    settings.TRACE_BODY_BYTES = 100

    await list_tools(await service_at(modern.url))

    lengths = [len(row.response_body) async for row in Exchange.objects.all()]
    assert max(lengths) == 100


@pytest.fixture(autouse=True)
def _nothing_waits() -> Iterator[None]:
    yield
    recording._queue.take()


def is_kept(service: Service) -> bool:
    """Whether a trace of the service is stored within a few seconds."""
    for _unused in range(100):
        if Exchange.objects.filter(service=service).exists():
            return True
        threading.Event().wait(0.05)
    return False


async def test_the_trace_is_stored_a_moment_later_and_nobody_waits_for_it(
    modern: Served, service_at: MakeService, settings: LazySettings
) -> None:
    settings.TRACE_DELAY_SECONDS = 0.2
    service = await service_at(modern.url)

    await list_tools(service)

    assert not await Exchange.objects.aexists()
    assert await database_sync_to_async(is_kept)(service)


async def test_operations_of_a_moment_are_stored_together(
    modern: Served, service_at: MakeService, settings: LazySettings
) -> None:
    settings.TRACE_DELAY_SECONDS = 30
    service = await service_at(modern.url)
    for _unused in range(5):
        await list_tools(service)

    def flushed() -> list[str]:
        with CaptureQueriesContext(connection) as queries:
            recording.flush()
        return [query["sql"] for query in queries]

    statements = await database_sync_to_async(flushed)()
    assert len([each for each in statements if "INSERT" in each]) == 1
    assert await Exchange.objects.filter(rpc_method="tools/list").acount() == 5


async def test_a_service_that_is_gone_does_not_cost_the_trace_of_another(
    modern: Served, service_at: MakeService, settings: LazySettings
) -> None:
    settings.TRACE_DELAY_SECONDS = 30
    gone, there = await service_at(modern.url), await service_at(modern.url)
    await list_tools(gone)
    await list_tools(there)
    await Service.objects.filter(pk=gone.pk).adelete()

    await database_sync_to_async(recording.flush)()

    assert {row.service_id async for row in Exchange.objects.all()} == {there.pk}


async def test_what_waits_is_bounded(
    modern: Served, service_at: MakeService, settings: LazySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.TRACE_DELAY_SECONDS = 30
    monkeypatch.setattr(recording, "MAX_QUEUED", 2)
    service = await service_at(modern.url)

    for _unused in range(3):
        await list_tools(service)

    assert await Exchange.objects.filter(rpc_method="tools/list").acount() == 3


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_command_that_ends_at_once_leaves_its_trace(modern: Served, tmp_path: Path) -> None:
    environment = {**os.environ, "VAR_DIR": str(tmp_path), "TRACE_DELAY_SECONDS": "30"}
    environment["DATABASE_URL"] = make_sqlite(tmp_path / "trace.sqlite3")
    environment["DJANGO_SETTINGS_MODULE"] = "chatapp.settings"

    def manage(*arguments: str) -> str:
        command = [sys.executable, "manage.py", *arguments]
        done = subprocess.run(
            command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    manage("mcp", "add", "box", modern.url, "--allow-private")
    manage("mcp", "tools", "box")

    assert "tools/list" in manage("mcp", "trace", "box")
