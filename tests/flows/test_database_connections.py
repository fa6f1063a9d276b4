"""A process has a bounded number of connections to PostgreSQL, however many requests arrive in one
instant, and each request gets its answer."""

import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.migrated import POSTGRESQL

from .journey import Journey, installation
from .person import Person, find_card, find_conversation_id, states
from .server import Installation, Server, eventually
from .story import World, world

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

REQUESTS = 200
CONNECTIONS = 6
# Four threads of the engine, two of work in the background, messages, sockets, and some to spare.
OTHERS = 12
ANSWER_SECONDS = 120


@pytest.fixture(scope="module")
def parties(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("world")) as made:
        yield made


@pytest.fixture
def made(parties: World, tmp_path: Path) -> Iterator[Installation]:
    with installation("postgresql", tmp_path, parties) as found:
        yield found


def start(made: Installation, connections: int) -> tuple[Server, Person]:
    server = made.server("first", DATABASE_CONNECTIONS=str(connections))
    server.start()
    person = Person(made, "openai-chat:scripted")
    person.sign_in(server)
    return server, person


def count_connections(made: Installation) -> int:
    name = made.environment["DATABASE_URL"].rpartition("/")[2]
    with psycopg.connect(f"{POSTGRESQL}/postgres", autocommit=True) as outside:
        row = outside.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = %s", [name]
        ).fetchone()
    assert row is not None
    return int(row[0])


async def ask(server: Server, cookies: str, sent: asyncio.Barrier) -> int:
    """Ask for a chat that does not exist, at the same moment as all others; return the status."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    request = f"GET /c/{uuid.uuid4()}/ HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {cookies}\r\n\r\n"
    await sent.wait()
    writer.write(request.encode())
    await writer.drain()
    await sent.wait()
    status = (await reader.readline()).split()[1]
    writer.close()
    return int(status)


def test_requests_of_one_instant_share_the_connections_and_all_are_answered(
    made: Installation,
) -> None:
    """A lock holds all of them inside the database until they have been counted."""
    server, person = start(made, CONNECTIONS)

    async def ask_all() -> tuple[list[int], int]:
        sent = asyncio.Barrier(REQUESTS + 1)
        with psycopg.connect(made.environment["DATABASE_URL"]) as holder:
            holder.execute("LOCK TABLE chatapp_member IN ACCESS EXCLUSIVE MODE")
            cookies = person.cookie_header()
            asking = [asyncio.create_task(ask(server, cookies, sent)) for _ in range(REQUESTS)]
            await sent.wait()
            await sent.wait()
            counts = [0]
            # The server reads what was sent before these requests, which need no database. All
            # have to be over before the requests have waited too long for a connection.
            for _ in range(10):
                await asyncio.to_thread(person.browser.get, f"{server.address}/healthz")
                counts.append(await asyncio.to_thread(count_connections, made))
            holder.rollback()
        async with asyncio.timeout(ANSWER_SECONDS):
            return await asyncio.gather(*asking), max(counts)

    statuses, most = asyncio.run(ask_all())
    assert statuses == [404] * REQUESTS
    assert CONNECTIONS <= most <= CONNECTIONS + OTHERS


def test_a_single_connection_is_enough_for_a_whole_turn(made: Installation, parties: World) -> None:
    """Nothing that holds the connection waits for another one."""
    server, person = start(made, 1)
    journey = Journey(person=person, world=parties, verb="Change", server=server)
    sent = person.send(server, journey.text, journey.client_id)
    journey.conversation = find_conversation_id(sent)
    eventually(lambda: find_card(person.page(server, journey.conversation)) == "approval", "a card")
    assert states(journey.to_the_end()) == ["done"]
    assert journey.executions == 1
