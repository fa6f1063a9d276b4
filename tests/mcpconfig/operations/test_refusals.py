"""A server that refuses with an HTTP status: what a person reads about it."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings

from mcpconfig.models import Service
from mcpconfig.operations.tools import list_tools
from mcpconfig.secrets import credentials
from mcpconfig.values.errors import HOST_CHECK_HINT, OperationError
from tests.peers.serving import Application, Served

MakeService = Callable[..., Awaitable[Service]]

pytestmark = [pytest.mark.gate, pytest.mark.timeout(60)]

SECRET = "tok-0123456789-secret"


def refusing(status: int, *chunks: bytes, kind: str = "text/plain") -> Application:
    """Answer every request with this status. The last chunk is not followed by an end."""

    async def refuse(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        headers = [(b"content-type", kind.encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for chunk in chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass

    return refuse


def ended(status: int, body: bytes, kind: str = "text/plain") -> Application:
    async def refuse(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        headers = [(b"content-type", kind.encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return refuse


async def failure(service: Service) -> OperationError:
    with pytest.raises(OperationError) as caught:
        await list_tools(service)
    return caught.value


@pytest.mark.parametrize("transport", ["auto", "streamable-http", "sse"])
@pytest.mark.parametrize(
    ("allowed", "status", "words"),
    [
        ({"allowed_hosts": ["chat.example"]}, 421, "Invalid Host header"),
        ({"allowed_hosts": ["127.0.0.1:*"], "allowed_origins": []}, None, ""),
    ],
)
async def test_a_check_of_the_host_is_named(
    service_at: MakeService, transport: str, allowed: Any, status: int | None, words: str
) -> None:
    server: MCPServer[None] = MCPServer("strict", log_level="WARNING")
    security = TransportSecuritySettings(**allowed)
    make: Any = server.sse_app if transport == "sse" else server.streamable_http_app
    path = {"sse_path": "/mcp"} if transport == "sse" else {}
    application: Any = make(**path, transport_security=security)
    with Served(application) as served:
        service = await service_at(served.url, transport=transport)
        if status is None:
            assert await list_tools(service) == []
            return
        error = await failure(service)
    assert error.kind == "forbidden"
    assert error.hint == str(HOST_CHECK_HINT)
    assert f"HTTP {status}" in error.message
    assert f"The service said: “{words}”" in error.message
    assert "credentials" not in error.message + error.hint


@pytest.mark.parametrize("status", [400, 401, 403, 405, 421, 429, 500, 503])
@pytest.mark.parametrize("kind", ["text/plain", "application/json", "text/html"])
async def test_the_words_of_the_server_are_shown(
    service_at: MakeService, status: int, kind: str
) -> None:
    body = {
        "application/json": b'{"error": "Closed on Mondays"}',
        "text/html": b"<script>x</script><h1>Closed on <i>Mondays</i></h1>",
    }.get(kind, b"Closed on Mondays")
    with Served(ended(status, body, kind)) as served:
        error = await failure(await service_at(served.url, transport="streamable-http"))
    assert "The service said: “Closed on Mondays”." in error.message
    assert "stored credentials" not in error.message


async def test_an_rpc_error_about_the_host_has_the_hint(service_at: MakeService) -> None:
    body = b'{"jsonrpc":"2.0","error":{"code":-32000,"message":"Invalid Host: x"},"id":null}'
    with Served(ended(403, body, "application/json")) as served:
        error = await failure(await service_at(served.url))
    assert error.message == "The service refused: Invalid Host: x"
    assert error.hint == str(HOST_CHECK_HINT)


async def test_a_secret_that_the_server_repeats_is_hidden(service_at: MakeService) -> None:
    body = b"x" * 290 + f" {SECRET} is not enough".encode()
    with Served(ended(403, body)) as served:
        service = await service_at(served.url, authentication="bearer")
        await sync_to_async(credentials.set_bearer)(service, SECRET)
        error = await failure(service)
    assert "stored credentials" in error.message
    assert "xxx •••" in error.message
    assert "tok-" not in error.message


@pytest.mark.parametrize("chunk", [b"x" * 100_000, b"The end is missing"])
async def test_a_refusal_without_end_delays_nothing_for_long(
    service_at: MakeService, chunk: bytes
) -> None:
    """Only its beginning is read, within two seconds."""
    with Served(refusing(403, *[chunk])) as served:
        error = await failure(await service_at(served.url, transport="streamable-http"))
    assert error.kind == "forbidden"
    assert len(error.message) < 400
    assert chunk[:10].decode() in error.message


async def test_a_connection_is_not_used_again_after_a_refusal(service_at: MakeService) -> None:
    """Many servers close it without saying so."""
    ports: list[int] = []

    async def refuse(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        ports.append(scope["client"][1])
        headers = [(b"content-type", b"text/plain"), (b"content-length", b"2")]
        await send({"type": "http.response.start", "status": 404, "headers": headers})
        await send({"type": "http.response.body", "body": b"no"})

    with Served(refuse) as served:
        service = await service_at(served.url)
        with pytest.raises(OperationError):
            await list_tools(service)
    assert len(set(ports)) == len(ports) > 1
