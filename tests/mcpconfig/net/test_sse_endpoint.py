"""The endpoint of an HTTP+SSE server is at its own origin, or the operation ends at once."""

from collections.abc import AsyncIterator, Awaitable, Callable

import httpx2
import pytest

from mcpconfig.models import Service
from mcpconfig.net.sse_endpoint import EndpointCheckStream
from mcpconfig.net.wire import Wire
from mcpconfig.operations.tools import list_tools
from mcpconfig.values.errors import OperationError
from tests.peers.hostile import Hostile

URL = "https://tools.example/sse"


class Pieces(httpx2.AsyncByteStream):
    """A body that comes in these pieces."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece

    async def aclose(self) -> None:
        pass


async def verdict(*pieces: bytes) -> OperationError | None:
    """Read these pieces to the end or to the first failure, and return the failure."""
    wire = Wire()
    try:
        passed = [piece async for piece in EndpointCheckStream(Pieces(*pieces), wire, URL)]
    except httpx2.TransportError:
        assert wire.failure is not None
    else:
        assert passed == list(pieces)
    return wire.failure


@pytest.mark.parametrize(
    "endpoint",
    ["/messages?session_id=1", "messages", "https://tools.example/x", "//tools.example/y", ""],
)
async def test_a_place_at_the_same_origin_is_let_through(endpoint: str) -> None:
    assert await verdict(f"event: endpoint\ndata: {endpoint}\n\n".encode()) is None


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://tools.example/x",
        "https://tools.example:8443/x",
        "https://evil.example/x",
        "//evil.example/x",
        "https://tools.example@evil.example/x",
        "file:///etc/passwd",
        "https://[broken",
    ],
)
async def test_a_place_at_another_origin_ends_it_with_a_sentence(endpoint: str) -> None:
    error = await verdict(f"event: endpoint\ndata: {endpoint}\n\n".encode())

    assert error is not None
    assert error.kind == "protocol"
    assert "another address" in error.message


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("size", [1, 7, 1_000])
async def test_it_is_read_however_the_lines_end_and_the_pieces_are_cut(end: str, size: int) -> None:
    lines = [": hello", "", "event: other", "data: x", "", "data:https://evil.example/"]
    stream = end.join([*lines, "event:endpoint", "", "data: more"]).encode()
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]

    assert await verdict(*pieces) is not None


async def test_what_comes_after_the_endpoint_or_is_no_address_is_not_read() -> None:
    first = b"event: endpoint\ndata: /messages\n\n"
    elsewhere = b"event: endpoint\ndata: https://evil.example/\n\n"

    assert await verdict(first, elsewhere) is None
    assert await verdict(b"event: message\ndata: https://evil.example/\n\n") is None
    assert await verdict(*[b"x" * 1_000] * 20, b"\n", elsewhere) is None


async def test_a_server_that_names_another_origin_is_not_waited_for(
    service_at: Callable[..., Awaitable[Service]],
) -> None:
    with Hostile() as hostile:
        service = await service_at(hostile.url("sse_elsewhere", at_once=True), transport="sse")

        with pytest.raises(OperationError) as caught:
            await list_tools(service)

        assert (caught.value.kind, caught.value.was_sent) == ("protocol", False)
        assert hostile.requests == ["GET"]
