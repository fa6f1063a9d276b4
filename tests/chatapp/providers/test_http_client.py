"""The HTTP client of the SDKs: what it sends, how it connects, and how it reads a stream."""

import asyncio
import gc
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, aclosing, asynccontextmanager

import httpcore2
import httpx2
import pytest

from chatapp.providers import http_client
from chatapp.providers.connections import get_tls_context
from chatapp.providers.http_client import create_http_client
from tests.wire.http import LAST_CHUNK, chunk, head
from tests.wire.script import Answer
from tests.wire.server import WireServer

from .accounts import BASE_URLS, SECRET
from .stories import OPENAI_FORMS, failure_of, finish_of, said_by

Act = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

HTTP_FORMS = (*OPENAI_FORMS, "anthropic", "google")


@pytest.fixture
def no_other_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object) -> None:
        raise AssertionError("the request went through the pool of httpx2")

    monkeypatch.setattr(httpcore2.AsyncConnectionPool, "handle_async_request", refuse)


@pytest.fixture
def free_port() -> Iterator[int]:
    """A port of 127.0.0.1 and 127.0.0.2 where nobody listens."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()[1]


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port of 127.0.0.1 that leaves attempts to connect without an answer: its queue is full."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


def lead(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> str:
    """A host with these addresses."""
    real = socket.getaddrinfo

    def find(host: str, *details: object, **more: object) -> object:
        if host != "models.test":
            return real(host, *details, **more)  # type: ignore[arg-type]  # passed on unchanged
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, details[0]))
            for address in addresses
        ]

    monkeypatch.setattr(socket, "getaddrinfo", find)
    return "models.test"


# --- connections -------------------------------------------------------------------------------
@pytest.mark.parametrize("form", HTTP_FORMS)
@pytest.mark.usefixtures("no_other_connections")
async def test_each_sdk_reads_through_aiohttp(wire: WireServer, form: str) -> None:
    assert finish_of(await said_by(form)) == "stop"
    # Static files are compressed with Brotli. A stream would cost more with it.
    assert wire.requests[0].headers["accept-encoding"] == "gzip, deflate"


@pytest.mark.usefixtures("no_other_connections")
async def test_a_proxy_of_the_environment_is_used(
    wire: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{wire.port}")
    async with create_http_client([]) as client:
        answer = await client.get("http://models.invalid/v1")
    assert "http://models.invalid/v1" in answer.text


def test_a_proxy_of_another_kind_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    with pytest.raises(ImportError, match="SOCKS"):
        create_http_client([])


@pytest.mark.parametrize("other", ["refuses", "is silent"])
async def test_another_address_is_tried_when_one(
    other: str, silent_port: int, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head(200, {}) + chunk(b"here") + LAST_CHUNK)
        writer.close()

    port = silent_port if other == "is silent" else free_port
    host = lead(monkeypatch, "127.0.0.1", "127.0.0.2")
    async with (
        await asyncio.start_server(answer, "127.0.0.2", port),
        create_http_client([]) as client,
    ):
        assert (await client.get(f"http://{host}:{port}")).text == "here"


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://name.invalid"])
async def test_what_cannot_be_reached_is_an_error_of_the_connection(url: str) -> None:
    async with create_http_client([]) as client:
        with pytest.raises(httpx2.ConnectError):
            await client.get(url)


async def test_connecting_has_a_limit(silent_port: int) -> None:
    async with create_http_client([]) as client:
        with pytest.raises(httpx2.ConnectTimeout):
            await client.get(
                f"http://127.0.0.1:{silent_port}", timeout=httpx2.Timeout(None, connect=0.05)
            )


@pytest.mark.parametrize("form", HTTP_FORMS)
async def test_more_streams_than_the_libraries_allow_run_at_once(
    wire: WireServer, form: str
) -> None:
    wire.play(*[Answer(cut="hang", cut_after=-1)] * 120)
    tasks = [asyncio.create_task(said_by(form)) for _ in range(120)]
    await wire.until(lambda: wire.streaming == 120)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_tls_has_the_context_of_the_process() -> None:
    async with create_http_client([]) as client:
        transport = client._transport
        assert isinstance(transport, http_client._Transport)
        async with transport.get_client() as session:
            assert session.connector._ssl is get_tls_context()  # type: ignore[union-attr]


def test_the_end_of_an_event_loop_is_no_error_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """A command that used a model would print it. The fault to plant: no `weakref.finalize`."""

    async def ask() -> None:
        async with http_server(head(200, {}) + LAST_CHUNK) as port:
            await create_http_client([]).get(f"http://127.0.0.1:{port}")

    with caplog.at_level(logging.DEBUG, "asyncio"):
        asyncio.run(ask())
        gc.collect()
    assert "Unclosed" not in caplog.text


# --- requests ----------------------------------------------------------------------------------
async def test_only_the_headers_of_the_request_are_sent(wire: WireServer) -> None:
    async def remove(request: httpx2.Request) -> None:
        for name in set(request.headers) - {"host", "content-length"}:
            del request.headers[name]

    async with create_http_client([remove]) as client:
        await client.post(f"{wire.url}/responses", json={})
    assert wire.requests[0].headers.keys() == {"host", "content-length"}


async def test_no_cookie_is_sent_back(wire: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name is needed: aiohttp keeps no cookies of a numeric address."""
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://localhost:{wire.port}/v1")
    wire.play(*[Answer(headers={"set-cookie": "person=1"})] * 2)
    for _ in range(2):
        assert finish_of(await said_by("openai")) == "stop"
    assert "cookie" not in wire.requests[1].headers


@pytest.mark.parametrize("form", HTTP_FORMS)
async def test_credentials_in_the_address_do_not_replace_the_key(
    wire: WireServer, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    url = wire.base_url(form).replace("http://", "http://somebody:word@")
    monkeypatch.setenv(BASE_URLS[form], url)
    assert finish_of(await said_by(form)) == "stop"
    headers = wire.requests[0].headers
    assert SECRET in repr(headers)
    assert "Basic" not in repr(headers)


async def test_a_long_header_of_an_answer_is_read(wire: WireServer) -> None:
    wire.play(Answer(headers={"x-policy": "a" * 20_000}))
    assert finish_of(await said_by("openai")) == "stop"


# --- reading -----------------------------------------------------------------------------------
@asynccontextmanager
async def listen(answer: Act) -> AsyncIterator[int]:
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


def http_server(*parts: bytes) -> AbstractAsyncContextManager[int]:
    """A port that answers each request with these bytes, and closes the connection."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.writelines(parts)
        writer.close()

    return listen(answer)


@asynccontextmanager
async def read_from(server: AbstractAsyncContextManager[int]) -> AsyncIterator[httpx2.Response]:
    async with (
        server as port,
        create_http_client([]) as client,
        client.stream("GET", f"http://127.0.0.1:{port}") as response,
    ):
        yield response


class Pauses:
    """Takes the place of the pauses between reads: each lasts until the test ends it."""

    def __init__(self) -> None:
        self.begun, self.ended = asyncio.Event(), asyncio.Event()

    async def sleep(self, _seconds: float) -> None:
        self.begun.set()
        await self.ended.wait()


@pytest.fixture
async def pauses(monkeypatch: pytest.MonkeyPatch) -> Pauses:
    """Pauses from the first read on."""
    pauses = Pauses()
    monkeypatch.setattr(http_client, "sleep", pauses.sleep)
    monkeypatch.setattr(http_client, "EAGER_SECONDS", 0.0)
    return pauses


async def test_a_burst_is_read_at_once(pauses: Pauses) -> None:
    """A reader of single chunks would pause after each of them."""
    words = [f"{number} ".encode() for number in range(200)]
    parts = (head(200, {}), *map(chunk, words), LAST_CHUNK)
    async with read_from(http_server(b"".join(parts))) as response:
        pieces = [piece async for piece in response.aiter_raw()]
    assert b"".join(pieces) == b"".join(words)
    assert len(pieces) <= 3


async def test_a_large_answer_is_read_without_pauses(pauses: Pauses) -> None:
    size = 4 * 1024 * 1024
    parts = (head(200, {}), chunk(b"x" * size), LAST_CHUNK)
    async with read_from(http_server(*parts)) as response, asyncio.timeout(60):
        assert sum([len(piece) async for piece in response.aiter_raw()]) == size


@asynccontextmanager
async def slow_answer() -> AsyncIterator[tuple[asyncio.StreamWriter, AsyncIterator[bytes]]]:
    """An answer whose bytes the test writes, and the pieces in which they are read."""
    asked: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head(200, {}))
        await asked.put(writer)
        await reader.read()
        writer.close()

    async with (
        read_from(listen(answer)) as response,
        aclosing(response.aiter_raw()) as pieces,
    ):
        yield await asked.get(), pieces


async def test_pieces_that_come_within_a_pause_are_read_together(pauses: Pauses) -> None:
    async with slow_answer() as (writer, pieces):
        writer.write(chunk(b"a"))
        assert await anext(pieces) == b"a"
        following = asyncio.ensure_future(anext(pieces))
        await pauses.begun.wait()
        for letter in (b"b", b"c", b"d"):
            writer.write(chunk(letter))
            await asyncio.sleep(0.01)
        assert not following.done()
        pauses.ended.set()
        assert await following == b"bcd"


async def test_the_first_pieces_are_read_without_a_pause(
    pauses: Pauses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "EAGER_SECONDS", 600.0)
    async with slow_answer() as (writer, pieces):
        for letter in (b"a", b"b", b"c"):
            writer.write(chunk(letter))
            async with asyncio.timeout(60):
                assert await anext(pieces) == letter


@pytest.mark.parametrize("how", ["closed", "broken"])
async def test_what_arrived_before_a_failure_is_read(pauses: Pauses, how: str) -> None:
    async with slow_answer() as (writer, pieces):
        writer.write(chunk(b"a"))
        assert await anext(pieces) == b"a"
        following = asyncio.ensure_future(anext(pieces))
        await pauses.begun.wait()
        writer.write(chunk(b"the end") + (b"no size\r\n" if how == "broken" else b""))
        writer.close()
        await asyncio.sleep(0.1)  # the failure arrives
        pauses.ended.set()
        assert await following == b"the end"
        with pytest.raises(httpx2.NetworkError):
            await anext(pieces)


async def test_a_malformed_answer_is_a_failure_of_the_connection(
    wire: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for form in HTTP_FORMS:
        async with http_server(b"no HTTP at all\r\n\r\n") as port:
            monkeypatch.setenv(BASE_URLS[form], f"http://127.0.0.1:{port}/v1")
            assert (await failure_of(form)).kind == "network"
