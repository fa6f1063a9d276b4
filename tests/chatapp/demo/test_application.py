"""Who may speak to the demo service, and that it needs neither a lifespan nor one event loop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from pytest_django import Settings

from chatapp.demo.address import PATH, compute_token
from chatapp.demo.application import application, close, refuse
from chatapp.demo.listener import Listener

ORIGIN = "http://127.0.0.1:6740"
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


def ask(method: str = "POST", path: str = PATH, **headers: str) -> httpx2.Response:
    """One request in an event loop of its own."""

    async def send() -> httpx2.Response:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=application)) as http:
            accepted = {"Accept": "application/json, text/event-stream"}
            body = PING if method == "POST" else None
            response = await http.request(
                method, ORIGIN + path, json=body, headers=accepted | headers
            )
        await close()
        return response

    return asyncio.run(asyncio.wait_for(send(), timeout=10))


def bearer(value: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {value}"}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        bearer(""),
        bearer("wrong"),
        {"Authorization": compute_token()},
        {"Authorization": f"Basic {compute_token()}"},
        bearer(compute_token() + "x"),
    ],
)
def test_nobody_is_served_without_the_token(headers: dict[str, str]) -> None:
    response = ask(**headers)
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"


def test_the_token_opens_the_service() -> None:
    assert ask(**bearer(compute_token())).status_code == 200


def test_the_token_depends_on_the_installation(settings: Settings) -> None:
    ours = compute_token()
    settings.SECRET_KEY = "another installation"
    assert compute_token() != ours
    assert ask(**bearer(ours)).status_code == 401


def test_a_page_of_another_origin_or_host_is_refused_even_with_the_token() -> None:
    assert ask(**bearer(compute_token()), Origin="https://evil.example").status_code == 403
    assert ask(**bearer(compute_token()), Host="evil.example").status_code == 421


@pytest.mark.parametrize("path", ["/", "/demo/", "/demo/mcp/", "/mcp"])
def test_other_paths_are_not_found(path: str) -> None:
    assert ask(path=path, **bearer(compute_token())).status_code == 404


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_a_stateless_service_has_nothing_but_post(method: str) -> None:
    response = ask(method=method, **bearer(compute_token()))
    assert response.status_code == 405
    assert response.headers["allow"] == "POST"


def test_the_service_is_gone_when_the_demo_is_off(settings: Settings) -> None:
    settings.DEMO = False
    assert ask(**bearer(compute_token())).status_code == 404


async def test_it_starts_again_after_it_was_closed() -> None:
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app=application), headers=bearer(compute_token())
    ) as http:
        for _ in range(2):
            transport = streamable_http_client(ORIGIN + PATH, http_client=http)
            async with asyncio.timeout(60), Client(transport) as client:
                assert (await client.list_tools()).tools
            await close()
    await close()


async def test_a_start_that_fails_is_told_at_once_and_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @asynccontextmanager
    async def fail(manager: StreamableHTTPSessionManager) -> AsyncIterator[None]:
        raise OSError("no room")
        yield

    accepted = {"Accept": "application/json, text/event-stream"}
    async with (
        asyncio.timeout(60),
        httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=application),
            headers=bearer(compute_token()) | accepted,
        ) as http,
    ):
        with monkeypatch.context() as broken, pytest.raises(OSError, match="no room"):
            broken.setattr(StreamableHTTPSessionManager, "run", fail)
            await http.post(ORIGIN + PATH, json=PING)
        assert (await http.post(ORIGIN + PATH, json=PING)).status_code == 200
    await close()


def test_two_authorization_headers_are_as_good_as_none() -> None:
    right = (b"authorization", f"Bearer {compute_token()}".encode())
    scope = {"method": "POST", "path": PATH, "headers": [right]}
    assert refuse(scope) is None
    refusal = refuse(scope | {"headers": [right, right]})
    assert refusal is not None and refusal.status_code == 401


async def test_first_requests_that_come_together_share_one_start() -> None:
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app=application),
        headers=bearer(compute_token()) | {"Accept": "application/json, text/event-stream"},
    ) as http:
        asked = [http.post(ORIGIN + PATH, json=PING) for _ in range(5)]
        async with asyncio.timeout(60):
            responses = await asyncio.gather(*asked)
    await close()
    assert {response.status_code for response in responses} == {200}


async def test_the_listener_serves_real_http_and_stops() -> None:
    listener = Listener()
    async with httpx2.AsyncClient(trust_env=False, timeout=10) as http:
        assert (await http.post(listener.url, json=PING)).status_code == 401
        await asyncio.to_thread(listener.stop)
        with pytest.raises(httpx2.ConnectError):
            await http.post(listener.url, json=PING)
