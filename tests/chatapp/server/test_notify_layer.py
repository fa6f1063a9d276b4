"""The channel layer over LISTEN and NOTIFY, on a real PostgreSQL."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import environ
import psycopg
import pytest
import pytest_asyncio
from psycopg.rows import scalar_row

from chatapp.server.postgresql import channel_layer
from chatapp.server.postgresql.channel_layer import (
    PAYLOAD_BYTES,
    QUEUE_MESSAGES,
    NotifyChannelLayer,
    build_parameters,
    pack,
)
from tests.migrated import POSTGRESQL, drop_postgresql, make_database_name, run_on_postgresql
from tests.turns.acts import wait_until

pytestmark = pytest.mark.gate
GROUP = "conversation.1"
LISTENERS = (
    "SELECT pid FROM pg_stat_activity "
    "WHERE datname = current_database() AND application_name = 'countersign messages'"
)


@pytest.fixture
def database() -> Iterator[dict[str, Any]]:
    """A database of its own, as an entry of DATABASES."""
    name = make_database_name()
    run_on_postgresql(f"CREATE DATABASE {name}")
    yield environ.Env.db_url_config(f"{POSTGRESQL}/{name}")
    drop_postgresql(f"/{name}")


@pytest_asyncio.fixture
async def layers(database: dict[str, Any]) -> AsyncIterator[list[NotifyChannelLayer]]:
    """The layers of two processes."""
    yield [NotifyChannelLayer(database=database) for _ in range(2)]


def find_listeners(database: dict[str, Any]) -> list[int]:
    with psycopg.connect(**build_parameters(database) | {"application_name": "test"}) as connection:
        return connection.cursor(row_factory=scalar_row).execute(LISTENERS).fetchall()


def break_connections(database: dict[str, Any]) -> None:
    with psycopg.connect(**build_parameters(database) | {"application_name": "test"}) as connection:
        connection.execute(LISTENERS.replace("pid", "pg_terminate_backend(pid)", 1))


async def join(layer: NotifyChannelLayer, *groups: str) -> str:
    channel = await layer.new_channel()
    for group in groups:
        await layer.group_add(group, channel)
    return channel


async def receive(layer: NotifyChannelLayer, channel: str) -> dict[str, Any]:
    async with asyncio.timeout(30):
        return await layer.receive(channel)


async def listening(layers: list[NotifyChannelLayer]) -> None:
    """Return once each layer hears what it sends."""
    for layer in layers:
        channel = await join(layer, "warm-up")
        await layer.group_send("warm-up", {"type": "warm-up"})
        await receive(layer, channel)
        await layer.group_discard("warm-up", channel)


async def send_when_connected(layer: NotifyChannelLayer, message: dict[str, Any]) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                return await layer.group_send(GROUP, message)
            except ConnectionError:
                await asyncio.sleep(0.02)


async def test_a_message_reaches_the_groups_channels_in_another_process_and_no_others(
    layers: list[NotifyChannelLayer],
) -> None:
    here, there = layers
    await listening(layers)
    joined = await join(there, GROUP)
    apart = await join(there, "conversation.2")
    await here.group_send("conversation.2", {"type": "first"})
    await here.group_send(GROUP, {"type": "second", "seq": 7})
    assert await receive(there, joined) == {"type": "second", "seq": 7}
    assert await receive(there, apart) == {"type": "first"}
    await there.group_discard(GROUP, joined)
    await here.group_send(GROUP, {"type": "third"})
    await here.group_send("conversation.2", {"type": "fourth"})
    assert await receive(there, apart) == {"type": "fourth"}
    assert there._line()._channels[joined].empty()


async def test_many_messages_arrive_in_their_order(layers: list[NotifyChannelLayer]) -> None:
    here, there = layers
    await listening(layers)
    joined = await join(there, GROUP)
    for number in range(QUEUE_MESSAGES):
        await here.group_send(GROUP, {"type": "journal.hint", "seq": number, "text": "ü" * 50})
    found = [(await receive(there, joined))["seq"] for _ in range(QUEUE_MESSAGES)]
    assert found == list(range(QUEUE_MESSAGES))


async def test_a_connection_that_was_broken_comes_back_with_its_groups(
    layers: list[NotifyChannelLayer], database: dict[str, Any]
) -> None:
    here, there = layers
    await listening(layers)
    joined = await join(there, GROUP)
    broken = set(find_listeners(database))
    assert len(broken) == 2
    await asyncio.to_thread(break_connections, database)
    await wait_until(
        lambda: len(set(find_listeners(database)) - broken) == 2 and there._line()._is_connected
    )
    await send_when_connected(here, {"type": "after"})
    assert await receive(there, joined) == {"type": "after"}


async def test_while_the_database_is_away_sending_fails_at_once_and_the_process_tries_again(
    database: dict[str, Any], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_layer, "FIRST_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(channel_layer, "LAST_RETRY_SECONDS", 0.05)
    layer = NotifyChannelLayer(database={**database, "PORT": 1})
    for _ in range(2):
        with pytest.raises(ConnectionError):
            await layer.group_send(GROUP, {"type": "lost"})
    await wait_until(lambda: len(caplog.records) >= 3)
    assert {record.levelname for record in caplog.records} == {"WARNING"}
    layer._line()._parameters = build_parameters(database)
    joined = await join(layer, GROUP)
    await send_when_connected(layer, {"type": "found"})
    assert await receive(layer, joined) == {"type": "found"}


async def test_notifications_that_cannot_be_read_are_skipped(
    layers: list[NotifyChannelLayer], database: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    here, there = layers
    await listening(layers)
    joined = await join(there, GROUP)
    junk = ["", "{", "7", "[7]", '["a", {}]', '[["a", 7]]', '[["a"]]', "null"]
    with psycopg.connect(**build_parameters(database)) as connection:
        for payload in junk:
            connection.execute("SELECT pg_notify(%s, %s)", [channel_layer.NOTIFICATION, payload])
    await here.group_send(GROUP, {"type": "readable"})
    assert await receive(there, joined) == {"type": "readable"}


async def test_a_reader_that_is_slow_loses_the_oldest_messages(
    layers: list[NotifyChannelLayer],
) -> None:
    here, there = layers
    await listening(layers)
    slow, quick = await join(there, GROUP), await join(there, GROUP, "end")
    for part in range(2):
        for number in range(QUEUE_MESSAGES):
            await here.group_send(GROUP, {"seq": part * QUEUE_MESSAGES + number})
        for _ in range(QUEUE_MESSAGES):
            await receive(there, quick)
    first = await receive(there, slow)
    assert first["seq"] == QUEUE_MESSAGES
    assert there._line()._channels[slow].qsize() == QUEUE_MESSAGES - 1


async def test_a_message_that_is_too_long_is_refused(layers: list[NotifyChannelLayer]) -> None:
    with pytest.raises(ValueError, match="length"):
        await layers[0].group_send(GROUP, {"text": "x" * PAYLOAD_BYTES})


def test_payloads_stay_below_the_limit_of_postgresql() -> None:
    for length in (10, 150, 3_000, 3_948, 3_949, PAYLOAD_BYTES):
        messages = [json.dumps("x" * (length - 2)) for _ in range(40)]
        payloads = pack(messages)
        assert max(map(len, payloads)) < 8_000
        assert [json.dumps(each) for text in payloads for each in json.loads(text)] == messages
    assert pack([]) == []
