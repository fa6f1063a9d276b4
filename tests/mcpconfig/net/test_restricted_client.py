"""URLs that a server names: private addresses for listed hosts, small answers, no redirects."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from mcpconfig.net.outbound import create_restricted_client
from mcpconfig.net.wire import Wire
from mcpconfig.values.errors import Refusal
from mcpconfig.values.limits import LIMITS
from tests.peers.outbound import counted_connections
from tests.peers.serving import Served

pytestmark = pytest.mark.timeout(30)


async def metadata(scope: Any, receive: Any, send: Any) -> None:
    """Answers as its path says."""
    if scope["type"] != "http":
        return
    status, headers, body = 200, [(b"content-type", b"application/json")], b"{}"
    match scope["path"]:
        case "/status":
            status, body = 401, b'{"error":"invalid_client"}'
        case "/redirect":
            status = 302
            headers.append((b"location", b"/ok"))
        case "/long":
            body = json.dumps({"x": "x" * LIMITS.named_bytes}).encode()
        case "/packed":
            headers.append((b"content-encoding", b"gzip"))
        case "/slow":
            await asyncio.sleep(20)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served(metadata, path="") as served:
        yield served


async def fetch(url: str, *, allows_private: bool = True, hosts: tuple[str, ...] = ()) -> Any:
    wire = Wire()
    async with create_restricted_client(
        wire, allows_private=allows_private, private_hosts=hosts
    ) as client:
        response = await client.get(url)
    return response


async def refusal(url: str, **rules: Any) -> str:
    with pytest.raises(Refusal) as caught:
        await fetch(url, **rules)
    return caught.value.error.kind


async def test_a_listed_host_may_be_private(served: Served) -> None:
    answer = await fetch(f"{served.url}/ok", hosts=("127.0.0.1",))

    assert answer.json() == {}


async def test_another_host_may_not_be_private_although_the_service_may() -> None:
    with counted_connections() as (port, offered):
        url = f"https://127.0.0.1:{port}/metadata"
        assert await refusal(url, hosts=("service.example",)) == "blocked_address"
        assert offered() == 0


async def test_a_listed_host_may_not_be_private_if_the_admin_does_not_allow_it() -> None:
    with counted_connections() as (port, offered):
        url = f"https://127.0.0.1:{port}/metadata"
        rules = {"hosts": ("127.0.0.1",), "allows_private": False}
        assert await refusal(url, **rules) == "blocked_address"
        assert offered() == 0


async def test_a_host_that_is_not_listed_needs_https() -> None:
    assert await refusal("http://example.org/", hosts=("127.0.0.1",)) == "configuration"


async def test_every_status_is_handed_back(served: Served) -> None:
    answer = await fetch(f"{served.url}/status", hosts=("127.0.0.1",))

    assert (answer.status_code, answer.json()) == (401, {"error": "invalid_client"})


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/redirect", "configuration"), ("/long", "too_large"), ("/packed", "protocol")],
)
async def test_what_breaks_a_rule_is_refused(served: Served, path: str, kind: str) -> None:
    served.arrivals.clear()

    assert await refusal(f"{served.url}{path}", hosts=("127.0.0.1",)) == kind
    assert [arrival.path for arrival in served.arrivals.seen] == [path]


async def test_a_server_that_keeps_silent_costs_five_seconds_at_most(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert LIMITS.named_seconds <= 5
    wire = Wire()
    async with create_restricted_client(
        wire, allows_private=True, private_hosts=("127.0.0.1",)
    ) as client:
        client.timeout = 0.2
        with pytest.raises(httpx2.ReadTimeout):
            await client.get(f"{served.url}/slow")
    assert wire.exchanges[0].status is None
