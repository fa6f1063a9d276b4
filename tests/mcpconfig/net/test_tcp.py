"""TCP streams: limits on time and memory, and no data from before TLS."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import httpcore2
import httpx2
import pytest

from mcpconfig.net import connections
from mcpconfig.net.connections import TcpStream
from mcpconfig.net.outbound import GuardedTransport
from mcpconfig.net.wire import Wire
from mcpconfig.values.limits import LIMITS

Act = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

MEGABYTE = 1024 * 1024
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


@asynccontextmanager
async def port_where(act: Act) -> AsyncIterator[int]:
    """A port of loopback that runs `act` for each connection and closes the connection after it."""

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await act(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    server = await asyncio.start_server(meet, "127.0.0.1", 0)
    async with server:
        yield int(server.sockets[0].getsockname()[1])


@asynccontextmanager
async def stream_to(act: Act) -> AsyncIterator[TcpStream]:
    async with port_where(act) as port:
        stream = await connections.connect("127.0.0.1", port, 5)
        yield stream
        await stream.aclose()


async def until(is_so: Callable[[], bool]) -> None:
    with anyio.fail_after(30):
        while not is_so():  # noqa: ASYNC110 - it is a state of the event loop's own parts
            await asyncio.sleep(0.01)


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Neither read nor write until the other side closes."""
    await until(reader.at_eof)


async def test_head_and_body_of_a_request_leave_together() -> None:
    pieces: list[bytes] = []

    async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pieces.append(await reader.read(1000))
        writer.write(b"answer")

    async with stream_to(note) as stream:
        await stream.write(b"head ")
        await stream.write(b"body")
        assert await stream.read(100, 5) == b"answer"
    assert pieces == [b"head body"]


async def test_nobody_answers() -> None:
    async with stream_to(silent) as stream:
        with pytest.raises(httpcore2.ReadTimeout):
            await stream.read(100, 0.1)


async def test_nobody_takes_what_is_sent() -> None:
    async with stream_to(silent) as stream:
        with pytest.raises(httpcore2.WriteTimeout):
            await stream.write(bytes(32 * MEGABYTE), 0.2)


async def test_nobody_listens() -> None:
    async with port_where(silent) as port:
        pass
    with pytest.raises(httpcore2.ConnectError):
        await connections.connect("127.0.0.1", port, 5)


async def test_a_flood_waits_at_the_other_side_until_it_is_read() -> None:
    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(bytes(8 * MEGABYTE))
        await writer.drain()

    async with stream_to(flood) as stream:
        await until(lambda: stream._is_paused)
        assert len(stream._received) < MEGABYTE
        read = 0
        while piece := await stream.read(LIMITS.read_bytes, 5):
            read += len(piece)
            assert len(stream._received) < MEGABYTE
    assert read == 8 * MEGABYTE


async def test_others_get_their_turn_while_much_is_read() -> None:
    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(bytes(16 * 1024))
        await until(reader.at_eof)

    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with stream_to(pour) as stream:
        await until(lambda: len(stream._received) == 16 * 1024)
        counting = asyncio.create_task(count())
        for _unused in range(16):
            assert len(await stream.read(1024, 5)) == 1024
        counting.cancel()
    assert turns >= 15


async def test_what_was_said_before_the_protection_is_not_taken_for_protected() -> None:
    """A man in the middle could insert an answer there."""

    async def speak_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(ANSWER)
        await until(reader.at_eof)

    async with stream_to(speak_first) as stream:
        await until(lambda: bool(stream._received))
        with pytest.raises(httpcore2.ConnectError):
            await stream.start_tls(ssl.create_default_context(), "service.test", 5)


async def test_a_handshake_that_is_given_up_leaves_no_connection() -> None:
    has_left = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.read(1000):
                continue
        finally:
            has_left.set()

    async with stream_to(wait) as stream:
        with anyio.move_on_after(0.1):
            await stream.start_tls(ssl.create_default_context(), "service.test", 60)
        with anyio.fail_after(30):
            await has_left.wait()


class Counted:
    """How many connections were made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made = 0
        self._connect = connections.connect
        monkeypatch.setattr(connections, "connect", self._note)

    async def _note(self, host: str, port: int, seconds: float | None) -> TcpStream:
        self.made += 1
        return await self._connect(host, port, seconds)


async def answer_always(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ANSWER)


async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(ANSWER)


@pytest.mark.parametrize(("act", "connections"), [(answer_always, 1), (answer_once, 2)])
async def test_a_connection_is_used_again_unless_the_service_has_closed_it(
    monkeypatch: pytest.MonkeyPatch, act: Act, connections: int
) -> None:
    counted = Counted(monkeypatch)
    transport = GuardedTransport(Wire(), allows_private=True, is_sse=False)
    async with (
        port_where(act) as port,
        httpx2.AsyncClient(transport=transport, trust_env=False, timeout=5) as client,
    ):
        for _unused in range(2):
            response = await client.get(f"http://127.0.0.1:{port}/", headers={"last-event-id": "1"})
            assert response.content == b"ok"
            [connection] = transport._inner._pool.connections
            if act is answer_once:
                await until(connection.has_expired)
    assert counted.made == connections


async def test_one_operation_does_not_open_ever_more_connections() -> None:
    transport = GuardedTransport(Wire(), allows_private=True, is_sse=False)
    async with (
        port_where(silent) as port,
        httpx2.AsyncClient(transport=transport, trust_env=False, timeout=5) as client,
        asyncio.TaskGroup() as group,
    ):
        url = f"http://127.0.0.1:{port}/"
        waiting = [group.create_task(client.post(url)) for _unused in range(LIMITS.connections)]
        pool = transport._inner._pool
        await until(lambda: len(pool.connections) == LIMITS.connections)
        with pytest.raises(httpx2.PoolTimeout):
            await client.post(url, timeout=httpx2.Timeout(5, pool=0.1))
        for task in waiting:
            task.cancel()
