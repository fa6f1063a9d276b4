"""Every known hostile behaviour: each ends in time, without blocking others, in little memory, with
the right outcome and at most one call at the server. `hostile_table.py` lists them."""

from collections.abc import Awaitable, Callable, Iterator

import pytest
from django.conf import LazySettings

from mcpconfig.models import Service, ToolDefinition
from mcpconfig.operations.tools import call_tool, list_tools
from mcpconfig.values.errors import OperationError
from tests.measuring import SLACK, Cost, measured
from tests.peers.eras import REMEMBERED_AS_MODERN
from tests.peers.hostile_process import HostileProcess

from .hostile_table import (
    DEFINITE,
    HANDSHAKE_DEFINITE,
    HANDSHAKE_UNKNOWN,
    HARMLESS,
    LISTINGS,
    MODEST_LISTINGS,
    SSE_DEFINITE,
    SSE_UNKNOWN,
    UNKNOWN,
    rows,
)

MakeService = Callable[..., Awaitable[Service]]
Act = Callable[[Service], Awaitable[object]]

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

# The SDK gives up a stream that ends again and again after two seconds, and a busy machine takes
# four to refuse a flood.
TOTAL_SECONDS = 10.0
MOST_LAG_SECONDS = 1.0
MOST_EXTRA_BYTES = 48 * 1024 * 1024
TRIES = 3
ACT = {"name": "act", "input_schema": {"type": "object"}}
# Answers that cannot be one. The SDK's transport waits for another until the deadline.
PROMPT_WHEN_REMEMBERED = {"notification_only": "protocol", "request_only": "protocol"}

new_and_remembered = pytest.mark.parametrize(
    "memory", [{}, REMEMBERED_AS_MODERN], ids=["new", "remembered"]
)


@pytest.fixture(scope="session")
def process() -> Iterator[HostileProcess]:
    with HostileProcess() as process:
        yield process


@pytest.fixture(autouse=True)
def _short_waits(settings: LazySettings) -> None:
    settings.MCP_TOTAL_SECONDS = TOTAL_SECONDS
    settings.MCP_IDLE_SECONDS = 0.5


async def call(service: Service) -> object:
    return await call_tool(service, ToolDefinition(**ACT), {})


async def attempt(act: Act, service: Service) -> tuple[OperationError | None, Cost]:
    error = None
    async with measured() as cost:
        try:
            await act(service)
        except OperationError as failure:
            error = failure
    return error, cost


async def measure_failure(
    process: HostileProcess, make: MakeService, act: Act, misdeed: str, **fields: object
) -> OperationError | None:
    """Return the failure of the operation, within the bounds. Time and lag are the best of a few
    tries: a busy machine is slow sometimes, a missing bound is slow always. An operation that
    `ends_early` does not need its deadline, which would change its outcome."""
    way, sends = str(fields.pop("way", "")), fields.pop("sends", None)
    most_seconds = TOTAL_SECONDS if fields.pop("ends_early", False) else TOTAL_SECONDS + 1
    fields |= {"transport": "sse"} if way == "sse" else {}
    for tries_left in reversed(range(TRIES)):
        service = await make(process.url(misdeed, way=way), **fields)
        process.counts()
        error, cost = await attempt(act, service)
        effects, requests = process.counts()
        assert effects == requests.count("tools/call") <= 1
        assert sends in (None, effects)
        assert cost.extra_bytes < MOST_EXTRA_BYTES
        is_prompt = cost.seconds < most_seconds
        if is_prompt and cost.lag_seconds < MOST_LAG_SECONDS * SLACK:
            break
        assert tries_left, f"{cost.seconds:.2f} s, others waited {cost.lag_seconds:.3f} s"
    return error


@new_and_remembered
@pytest.mark.parametrize(("misdeed", "kind", "threat"), rows(UNKNOWN))
async def test_a_call_without_a_proper_answer_is_unknown_and_costs_little(
    process: HostileProcess,
    service_at: MakeService,
    misdeed: str,
    kind: str,
    threat: str,
    memory: dict[str, object],
) -> None:
    error = await measure_failure(process, service_at, call, misdeed, **memory)

    assert error is not None
    kind = PROMPT_WHEN_REMEMBERED.get(misdeed, kind) if memory else kind
    assert (error.kind, error.was_sent, error.is_definite) == (kind, True, False)
    assert error.message.endswith(".")


@new_and_remembered
@pytest.mark.parametrize(("misdeed", "kind", "threat"), rows(DEFINITE))
async def test_a_call_that_was_turned_down_in_order_is_definite_and_costs_little(
    process: HostileProcess,
    service_at: MakeService,
    misdeed: str,
    kind: str,
    threat: str,
    memory: dict[str, object],
) -> None:
    error = await measure_failure(process, service_at, call, misdeed, ends_early=True, **memory)

    assert error is not None
    assert (error.kind, error.is_definite) == (kind, True)
    assert len(error.message) < 500


@new_and_remembered
@pytest.mark.parametrize(("misdeed", "threat"), rows(HARMLESS))
async def test_what_is_only_odd_does_not_cost_the_result(
    process: HostileProcess,
    service_at: MakeService,
    misdeed: str,
    threat: str,
    memory: dict[str, object],
) -> None:
    error = await measure_failure(process, service_at, call, misdeed, ends_early=True, **memory)

    assert error is None


@new_and_remembered
@pytest.mark.parametrize(("misdeed", "kind", "threat"), rows(LISTINGS))
async def test_a_listing_that_breaks_a_bound_ends_and_costs_little(
    process: HostileProcess,
    service_at: MakeService,
    misdeed: str,
    kind: str,
    threat: str,
    memory: dict[str, object],
) -> None:
    error = await measure_failure(process, service_at, list_tools, misdeed, **memory)

    assert error is not None
    assert error.kind == kind
    assert not error.was_sent


async def test_a_cursor_that_is_too_long_is_not_sent_back(
    process: HostileProcess, service_at: MakeService
) -> None:
    service = await service_at(process.url("listing_cursor"))
    process.counts()

    await attempt(list_tools, service)

    assert process.counts()[1].count("tools/list") == 1


@new_and_remembered
@pytest.mark.parametrize(("misdeed", "threat"), rows(MODEST_LISTINGS))
async def test_a_listing_of_evil_schemas_costs_little(
    process: HostileProcess,
    service_at: MakeService,
    misdeed: str,
    threat: str,
    memory: dict[str, object],
) -> None:
    error = await measure_failure(
        process, service_at, list_tools, misdeed, ends_early=True, **memory
    )

    assert error is None


@pytest.mark.parametrize(
    ("misdeed", "kind"),
    [
        ("sse_mute", "timeout"),
        ("sse_elsewhere", "protocol"),
        ("sse_to_h500", "server_error"),
        ("sse_to_drop", "server_error"),
        ("stream_comments", "too_large"),
        ("stream_line_endless", "protocol"),
        ("headers_endless", "protocol"),
    ],
)
async def test_an_sse_server_that_misbehaves_at_once_costs_little(
    process: HostileProcess, service_at: MakeService, misdeed: str, kind: str
) -> None:
    error = await measure_failure(
        process, service_at, call, misdeed, way="at_once", transport="sse"
    )

    assert error is not None
    assert (error.kind, error.was_sent) == (kind, False)


WAYS = {
    "handshake": (HANDSHAKE_UNKNOWN, HANDSHAKE_DEFINITE),
    "sse": (SSE_UNKNOWN, SSE_DEFINITE),
}


@pytest.mark.parametrize("way", WAYS)
async def test_a_server_of_the_handshake_era_that_behaves_is_understood(
    process: HostileProcess, service_at: MakeService, way: str
) -> None:
    assert (
        await measure_failure(process, service_at, call, "well_behaved", way=way, sends=1) is None
    )


@pytest.mark.parametrize(
    ("way", "misdeed", "kind", "threat", "is_definite"),
    [
        (way, *row, is_definite)
        for way, tables in WAYS.items()
        for is_definite, table in enumerate(tables)
        for row in rows(table)
    ],
)
async def test_a_call_under_way_at_a_server_of_the_handshake_era_is_sent_once_and_judged_rightly(
    process: HostileProcess,
    service_at: MakeService,
    way: str,
    misdeed: str,
    kind: str,
    threat: str,
    is_definite: int,
) -> None:
    error = await measure_failure(process, service_at, call, misdeed, way=way, sends=1)

    assert error is not None
    assert (error.kind, error.was_sent, error.is_definite) == (kind, True, bool(is_definite))
    assert 0 < len(error.message) < 500


async def test_a_server_that_does_not_read_what_is_sent_ends_in_time(
    process: HostileProcess, service_at: MakeService
) -> None:
    async def call_at_length(service: Service) -> object:
        return await call_tool(service, ToolDefinition(**ACT), {"text": "x" * 12_000_000})

    service = await service_at(process.url("well_behaved", way="deaf"))
    process.counts()

    error, cost = await attempt(call_at_length, service)

    assert error is not None
    assert (error.kind, error.was_sent, error.is_definite) == ("timeout", True, False)
    assert cost.seconds < TOTAL_SECONDS + 1
    assert process.counts()[0] == 1
