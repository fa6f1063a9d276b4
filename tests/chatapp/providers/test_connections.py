"""The connections that the SDKs open."""

import asyncio

import anyio
import httpcore2
import httpx2
import pytest

from chatapp.providers.connections import connect_to_first, use_own_streams
from mcpconfig.net.connections import TcpStream
from tests.wire.server import WireServer

from .stories import finish_of, said_by


@pytest.fixture(autouse=True)
def no_other_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the library opened a connection of its own")

    monkeypatch.setattr(anyio, "connect_tcp", refuse)


async def test_each_sdk_opens_the_cheap_connections(wire: WireServer, form: str) -> None:
    assert finish_of(await said_by(form)) == "stop"


async def test_so_does_a_proxy_of_the_environment(
    wire: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{wire.port}")
    async with use_own_streams(httpx2.AsyncClient()) as client:
        answer = await client.get("http://models.invalid/v1")
    assert "http://models.invalid/v1" in answer.text
    assert isinstance(answer.extensions["network_stream"], TcpStream)


async def test_the_next_address_is_tried_when_one_refuses() -> None:
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.2", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        stream = await connect_to_first(["127.0.0.1", "127.0.0.2"], port)
        assert stream.get_extra_info("server_addr") == ("127.0.0.2", port)
        await stream.aclose()


async def test_when_all_refuse_it_is_an_error() -> None:
    with pytest.raises(httpcore2.ConnectError):
        await connect_to_first(["127.0.0.1", "127.0.0.2"], 1)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://name.invalid"])
async def test_what_cannot_be_reached_is_an_error_of_the_connection(url: str) -> None:
    async with use_own_streams(httpx2.AsyncClient(trust_env=False)) as client:
        with pytest.raises(httpx2.ConnectError):
            await client.get(url)


async def test_connecting_has_a_limit() -> None:
    """The limit is over before the first address is asked for."""
    async with use_own_streams(httpx2.AsyncClient(trust_env=False)) as client:
        with pytest.raises(httpx2.ConnectTimeout):
            await client.get("http://127.0.0.1:1", timeout=httpx2.Timeout(5, connect=0))
