"""Requests whose headers do not all arrive cost a stranger's connection, not the server."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from chatapp.server import http_protocol, serving
from chatapp.server.http_protocol import (
    MAX_HEADER_BYTES,
    BoundedHttpProtocol,
    UnfinishedRequests,
    find_network,
    unfinished_requests,
)

PATIENCE_SECONDS = 30
LARGE_BYTES = 30_000_000
BUFFER_BYTES = 8_192
GET = b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
SLOW = b"GET /slow HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
UPGRADE = (
    b"GET /ws HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)

Connect = Callable[[], Awaitable["Connection"]]


class Connection:
    """A client that sends what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def read_answer(self, until: bytes = b"done") -> bytes:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self._reader.readuntil(until)

    async def read_to_end(self) -> bytes:
        """Return what the server sends until it closes the connection."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            try:
                return await self._reader.read()
            except ConnectionResetError:
                return b""

    def close(self) -> None:
        self._writer.close()


@pytest.fixture
def finish() -> asyncio.Event:
    """Lets the slow answer end."""
    return asyncio.Event()


@pytest.fixture
async def server(finish: asyncio.Event) -> AsyncIterator[uvicorn.Server]:
    """A server with our protocol, as `serve` configures it."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            await receive()
            return
        if scope["path"] == "/slow":
            await finish.wait()
        body = b"a" * LARGE_BYTES if scope["path"] == "/large" else b"done"
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

    config = serving.build_config(workers=1)
    config.app, config.lifespan, config.loaded = application, "off", False
    made = uvicorn.Server(config)
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    task = asyncio.create_task(made.serve([listener]))
    while not made.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    yield made
    finish.set()
    made.should_exit = True
    await task


@pytest.fixture
async def connect(server: uvicorn.Server) -> AsyncIterator[Connect]:
    """A way to reach the server."""
    opened: list[Connection] = []
    address = server.servers[0].sockets[0].getsockname()

    async def open_connection() -> Connection:
        made = Connection(*await asyncio.open_connection(*address, limit=BUFFER_BYTES))
        opened.append(made)
        return made

    yield open_connection
    for each in opened:
        each.close()


async def wait_for_unfinished(count: int) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(unfinished_requests) != count:  # noqa: ASYNC110 - a state of the server
            await asyncio.sleep(0.01)


@pytest.fixture
def soon(settings: Any) -> None:
    settings.HEADER_SECONDS = 0.3


@pytest.mark.usefixtures("soon")
async def test_a_connection_that_sends_nothing_is_closed(connect: Connect) -> None:
    assert await (await connect()).read_to_end() == b""


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("part", [b"G", GET[:20], GET[:-2]], ids=["letter", "header", "end"])
async def test_half_a_request_is_answered_and_closed(connect: Connect, part: bytes) -> None:
    connection = await connect()
    await connection.send(part)
    assert (await connection.read_to_end()).startswith(b"HTTP/1.1 408 ")


@pytest.mark.usefixtures("soon")
async def test_more_bytes_do_not_extend_the_time(connect: Connect) -> None:
    connection = await connect()

    async def trickle() -> None:
        await connection.send(b"GET / HTTP/1.1\r\nx: ")
        while True:
            await connection.send(b"a")
            await asyncio.sleep(0.02)

    trickling = asyncio.create_task(trickle())
    await connection.read_to_end()
    trickling.cancel()
    await asyncio.gather(trickling, return_exceptions=True)
    assert len(unfinished_requests) == 0


@pytest.mark.usefixtures("soon")
async def test_half_of_a_later_request_is_closed_too(connect: Connect) -> None:
    connection = await connect()
    await connection.send(GET)
    await connection.read_answer()
    await connection.send(GET[:10])
    assert b"HTTP/1.1 408 " in await connection.read_to_end()


@pytest.mark.usefixtures("soon")
async def test_an_answer_that_takes_longer_is_not_cut_off(
    connect: Connect, finish: asyncio.Event
) -> None:
    connection, other = await connect(), await connect()
    await connection.send(SLOW)
    # The beginning of a second request on the same connection, while the first is answered.
    await connection.send(GET[:10])
    await other.read_to_end()  # until the deadline has passed
    finish.set()
    assert (await connection.read_answer()).startswith(b"HTTP/1.1 200 ")


async def test_a_socket_is_no_unfinished_request(connect: Connect) -> None:
    connection = await connect()
    await wait_for_unfinished(1)
    await connection.send(UPGRADE)
    assert (await connection.read_answer(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
    assert len(unfinished_requests) == 0


@pytest.mark.parametrize(
    "headers",
    [
        b"x: " + b"a" * MAX_HEADER_BYTES,
        b"x: " + b"a" * MAX_HEADER_BYTES + b"\r\n\r\n",
        b"x: a\r\n" * MAX_HEADER_BYTES,
        b"a" * (MAX_HEADER_BYTES + 1),
    ],
    ids=["unfinished value", "long value", "many", "unfinished name"],
)
async def test_headers_have_a_size(connect: Connect, headers: bytes, settings: Any) -> None:
    settings.HEADER_SECONDS = 3_600  # only the size can end it
    connection = await connect()
    await connection.send(b"GET / HTTP/1.1\r\n" + headers)
    await connection.read_to_end()
    assert len(unfinished_requests) == 0


async def test_long_headers_say_so(connect: Connect) -> None:
    connection = await connect()
    await connection.send(b"GET / HTTP/1.1\r\nx: " + b"a" * MAX_HEADER_BYTES + b"\r\n\r\n")
    assert b"headers of this request are too large" in await connection.read_to_end()


async def test_a_large_body_is_no_large_header(connect: Connect) -> None:
    connection = await connect()
    size = 4 * MAX_HEADER_BYTES
    head = b"POST / HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: %d\r\n\r\n" % size
    await connection.send(head + b"a" * size)
    assert (await connection.read_answer()).startswith(b"HTTP/1.1 200 ")


async def test_the_oldest_of_too_many_unfinished_requests_is_closed(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "unfinished_requests", UnfinishedRequests(2, 9))
    first, second, third = await connect(), await connect(), await connect()
    assert await first.read_to_end() == b""
    for each in (second, third):
        await each.send(GET)
        assert (await each.read_answer()).startswith(b"HTTP/1.1 200 ")


async def test_a_burst_of_requests_from_one_address_is_answered(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "unfinished_requests", UnfinishedRequests(1, 9, 600))
    for each in [await connect() for _ in range(3)]:
        await each.send(GET)
        assert (await each.read_answer()).startswith(b"HTTP/1.1 200 ")


async def test_a_burst_from_one_address_stays_within_the_limit_of_all(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "unfinished_requests", UnfinishedRequests(1, 2, 600))
    first, *_others = [await connect() for _ in range(3)]
    assert await first.read_to_end() == b""


async def test_all_addresses_together_have_a_limit(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.PUBLIC_URL = "https://chat.example"  # all come from the proxy's address
    monkeypatch.setattr(http_protocol, "unfinished_requests", UnfinishedRequests(1, 2))
    first, second, third = await connect(), await connect(), await connect()
    assert await first.read_to_end() == b""
    for each in (second, third):
        await each.send(GET)
        assert (await each.read_answer()).startswith(b"HTTP/1.1 200 ")


async def test_a_request_whose_body_has_not_arrived_is_unfinished(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "unfinished_requests", UnfinishedRequests(1, 9))
    first = await connect()
    await first.send(b"POST /slow HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 9\r\n\r\nhalf")
    second = await connect()
    assert await first.read_to_end() == b""
    await second.send(GET)
    assert (await second.read_answer()).startswith(b"HTTP/1.1 200 ")


async def test_who_reads_nothing_of_an_answer_is_cut_off(
    connect: Connect, server: uvicorn.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "READ_SECONDS", 0.2)
    connection = await connect()
    # The client's buffer is small, and nobody takes anything out of it.
    await connection.send(b"GET /large HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not server.server_state.total_requests:  # noqa: ASYNC110 - a state of uvicorn
            await asyncio.sleep(0.01)
        while server.server_state.connections:  # noqa: ASYNC110 - the same
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("testclient", "testclient"),
    ],
)
def test_an_ipv6_network_counts_as_one_address(host: str, network: str) -> None:
    assert find_network(host) == network


async def test_nothing_is_kept_of_connections_that_ended(connect: Connect) -> None:
    connections = [await connect() for _ in range(5)]
    await wait_for_unfinished(5)
    for each in connections:
        each.close()
    await wait_for_unfinished(0)


def test_serve_uses_this_protocol(settings: Any) -> None:
    config = serving.build_config(workers=2)
    assert config.http is BoundedHttpProtocol
    assert config.limit_concurrency == settings.CONNECTIONS_MAX
