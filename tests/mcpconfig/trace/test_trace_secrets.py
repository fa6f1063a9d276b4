"""The trace contains no credentials, whatever a server sends back."""

import contextlib
from collections.abc import Awaitable, Callable, Iterator

import pytest
from channels.db import database_sync_to_async
from django.db import connection

from mcpconfig.models import Exchange, Service, ToolDefinition
from mcpconfig.operations.tool_listing import load_fresh_tools
from mcpconfig.operations.tools import list_tools
from mcpconfig.secrets import credentials
from mcpconfig.trace import recording
from mcpconfig.values.errors import OperationError
from mcpconfig.values.masking import MASK
from tests.peers.finished_calls import call_tool
from tests.peers.parrot import parrot
from tests.peers.serving import Served
from tests.peers.toolbox import BEARER

MakeService = Callable[..., Awaitable[Service]]

pytestmark = pytest.mark.timeout(30)

CANARY = "planted-canary-secret-0123456789"
ACT = {"name": "act", "input_schema": {"type": "object"}}


async def guarded_service(guarded: Served, service_at: MakeService, token: str) -> Service:
    service = await service_at(guarded.url, authentication="bearer")
    await database_sync_to_async(credentials.set_bearer)(service, token)
    return service


async def everything_kept() -> str:
    rows = [row async for row in Exchange.objects.values()]
    return repr(rows)


def all_columns() -> Iterator[tuple[str, str]]:
    """Yield every value of every table as text, with the name of its column."""
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")  # noqa: S608
            names = [f"{table}.{column[0]}" for column in cursor.description or ()]
            for row in cursor.fetchall():
                for name, value in zip(names, row, strict=True):
                    yield name, bytes(value).decode("latin-1") if _is_bytes(value) else str(value)


def _is_bytes(value: object) -> bool:
    return isinstance(value, bytes | memoryview)


def columns_with(canary: str) -> set[str]:
    return {name for name, text in all_columns() if canary in text}


async def test_a_bearer_token_opens_a_guarded_service_and_is_in_no_trace(
    guarded: Served, service_at: MakeService
) -> None:
    service = await guarded_service(guarded, service_at, BEARER)

    tools = {tool.name: tool for tool in await load_fresh_tools(service)}
    outcome = await call_tool(service, tools["echo"], {"text": f"my token is {BEARER}"})

    assert BEARER in outcome.result.content[0]["text"]
    kept = await everything_kept()
    assert "tools/call" in kept
    assert BEARER not in kept


async def test_a_wrong_token_asks_for_a_sign_in_and_is_in_no_trace_either(
    guarded: Served, service_at: MakeService
) -> None:
    service = await guarded_service(guarded, service_at, "wrong-token-0123456789")

    with pytest.raises(OperationError) as caught:
        await list_tools(service)

    assert caught.value.kind == "sign_in_needed"
    assert caught.value.www_authenticate.startswith("Bearer")
    assert "wrong-token" not in await everything_kept()
    assert "wrong-token" not in repr((await Service.objects.aget(pk=service.pk)).last_error)


async def test_stored_headers_are_sent_and_masked(modern: Served, service_at: MakeService) -> None:
    service = await service_at(modern.url, authentication="headers")
    headers = {"X-Api-Key": "canary-key-0123456789", "X-Literal": "$SECRET_KEY"}
    await database_sync_to_async(credentials.set_headers)(service, headers)

    await list_tools(service)

    sent = modern.arrivals.seen[0].headers
    assert sent["x-api-key"] == "canary-key-0123456789"
    assert sent["x-literal"] == "$SECRET_KEY"
    assert "canary-key" not in await everything_kept()


async def test_session_ids_are_masked(handshake: Served, service_at: MakeService) -> None:
    await list_tools(await service_at(handshake.url))

    session = handshake.arrivals.seen[-1].headers["mcp-session-id"]
    assert session not in await everything_kept()


@pytest.fixture(scope="module")
def talkative() -> Iterator[Served]:
    with Served(parrot, path="") as served:
        yield served


async def call_act(service: Service, **arguments: object) -> None:
    """Call the tool, and ignore a failure."""
    try:
        await call_tool(service, ToolDefinition(**ACT), dict(arguments))
    except OperationError as error:
        assert error.message


@pytest.mark.parametrize("way", ["answering", "refusing", "failing", "redirecting"])
@pytest.mark.parametrize("authentication", ["bearer", "headers"])
async def test_a_server_that_says_a_secret_back_cannot_bring_it_into_the_database(
    talkative: Served, service_at: MakeService, way: str, authentication: str
) -> None:
    service = await service_at(f"{talkative.url}/{way}", authentication=authentication)
    if authentication == "bearer":
        await database_sync_to_async(credentials.set_bearer)(service, CANARY)
    else:
        await database_sync_to_async(credentials.set_headers)(service, {"X-Key": CANARY})

    await call_act(service)

    assert talkative.arrivals.seen
    assert await database_sync_to_async(columns_with)(CANARY) == set()
    assert MASK in await everything_kept()


@pytest.mark.parametrize(
    "arguments",
    [
        {"password": CANARY},
        {"token": CANARY},
        {"deep": [{"client_secret": CANARY}]},
        {"credentials": {"user": CANARY}},
        {"url": f"https://x.example/callback?code={CANARY}&state={CANARY}"},
        {"inner": f'{{"api_key": "{CANARY}"}}'},
        {"text": f"Authorization: Bearer {CANARY}"},
    ],
)
async def test_a_secret_among_the_arguments_is_not_in_the_database(
    talkative: Served, service_at: MakeService, arguments: dict[str, object]
) -> None:
    await call_act(await service_at(f"{talkative.url}/answering"), **arguments)

    assert await database_sync_to_async(columns_with)(CANARY) == set()


async def test_a_secret_in_the_services_own_url_is_kept_where_it_was_typed_only(
    talkative: Served, service_at: MakeService
) -> None:
    await call_act(await service_at(f"{talkative.url}/answering?api_key={CANARY}"))

    assert await database_sync_to_async(columns_with)(CANARY) == {"mcpconfig_service.url"}
    newest = await Exchange.objects.afirst()
    assert newest is not None
    assert newest.url == f"{talkative.url}/answering?api_key={MASK}"


async def test_without_masking_the_same_search_finds_the_secret(
    talkative: Served, service_at: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plant the fault of the tests above."""
    monkeypatch.setattr(recording, "mask_secrets", lambda text, secrets, **_: text)

    await call_act(await service_at(f"{talkative.url}/answering"), password=CANARY)

    assert "mcpconfig_exchange.request_body" in await database_sync_to_async(columns_with)(CANARY)


@pytest.mark.parametrize("before", range(16_384 - 110, 16_384 - 60, 5))
async def test_a_body_that_is_cut_within_a_secret_keeps_no_part_of_it(
    guarded: Served, service_at: MakeService, before: int
) -> None:
    service = await guarded_service(guarded, service_at, BEARER)

    with contextlib.suppress(OperationError):
        await call_tool(
            service,
            ToolDefinition(name="echo", input_schema={"type": "object"}),
            {"text": "x" * before + BEARER + "y" * 20_000},
        )

    assert await database_sync_to_async(columns_with)(BEARER[:10]) == set()
