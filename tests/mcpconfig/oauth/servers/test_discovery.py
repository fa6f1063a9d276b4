"""Discovery of the authorization server, in the protocol's order, and where it stops."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.responses import JSONResponse

from mcpconfig.models import Exchange, Service
from mcpconfig.oauth.servers.discovery import Authority, discover
from mcpconfig.oauth.servers.http import open_oauth_http
from mcpconfig.values.acting import Acting
from mcpconfig.values.challenge import Challenge
from mcpconfig.values.errors import OperationError
from tests.mcpconfig.oauth.conftest import Browser, MakeService, Peers, start
from tests.peers.serving import Served

pytestmark = [pytest.mark.gate, pytest.mark.timeout(30)]

RESOURCE = "/.well-known/oauth-protected-resource"
SERVER = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"


class DocumentServer:
    """A web server of documents; any other path is a 404."""

    def __init__(self) -> None:
        self.documents: dict[str, Any] = {}
        self.statuses: dict[str, int] = {}
        self.served = Served(self, path="/base/mcp")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        found = self.documents.get(scope["path"])
        status = self.statuses.get(scope["path"], 404 if found is None else 200)
        body = found if isinstance(found, bytes) else json.dumps(found or {}).encode()
        headers = [(b"content-type", b"application/json"), (b"location", b"/moved")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.served.port}"

    @property
    def asked(self) -> list[str]:
        return [arrival.path for arrival in self.served.arrivals.seen]

    def describe(self, issuer: str, place: str, **different: Any) -> None:
        self.documents[place] = {
            "issuer": issuer,
            "authorization_endpoint": f"{self.origin}/authorize",
            "token_endpoint": f"{self.origin}/token",
            "code_challenge_methods_supported": ["S256"],
            **different,
        }

    def point_to(self, issuer: str, place: str = f"{RESOURCE}/base/mcp", **different: Any) -> None:
        self.documents[place] = {
            "resource": self.served.url,
            "authorization_servers": [issuer],
            **different,
        }


@pytest.fixture
def shelf() -> Iterator[DocumentServer]:
    shelf = DocumentServer()
    with shelf.served:
        yield shelf


@pytest.fixture
async def here(shelf: DocumentServer, service_at: MakeService) -> Service:
    return await service_at(shelf.served.url, name="shelf", authentication="oauth_user")


async def found(service: Service, told: Challenge | None = None, *known: str) -> Authority:
    async with open_oauth_http(service, "test") as door:
        return await discover(door, told or Challenge(), set(known))


@pytest.mark.parametrize(
    ("place", "steps"),
    [
        (f"{RESOURCE}/base/mcp", [f"{RESOURCE}/base/mcp"]),
        (RESOURCE, [f"{RESOURCE}/base/mcp", RESOURCE]),
    ],
)
async def test_the_service_is_described_at_its_path_or_at_its_root(
    here: Service, shelf: DocumentServer, place: str, steps: list[str]
) -> None:
    shelf.point_to(shelf.origin, place)
    shelf.describe(shelf.origin, SERVER)

    authority = await found(here)

    assert authority.issuer == shelf.origin
    assert shelf.asked == [*steps, SERVER]


async def test_a_challenge_points_to_the_description_first(
    here: Service, shelf: DocumentServer
) -> None:
    shelf.point_to(shelf.origin, "/described/here")
    shelf.describe(shelf.origin, SERVER)

    await found(here, Challenge(resource_metadata=f"{shelf.origin}/described/here"))

    assert shelf.asked == ["/described/here", SERVER]


@pytest.mark.parametrize(
    ("issuer", "place", "steps"),
    [
        ("", SERVER, [SERVER]),
        ("", OPENID, [SERVER, OPENID]),
        ("/tenant", f"{SERVER}/tenant", [f"{SERVER}/tenant"]),
        ("/tenant", f"{OPENID}/tenant", [f"{SERVER}/tenant", f"{OPENID}/tenant"]),
        (
            "/tenant",
            f"/tenant{OPENID}",
            [f"{SERVER}/tenant", f"{OPENID}/tenant", f"/tenant{OPENID}"],
        ),
    ],
)
async def test_the_authorization_server_is_looked_for_in_the_protocols_order(
    here: Service, shelf: DocumentServer, issuer: str, place: str, steps: list[str]
) -> None:
    shelf.point_to(f"{shelf.origin}{issuer}")
    shelf.describe(f"{shelf.origin}{issuer}", place)

    assert (await found(here)).issuer == f"{shelf.origin}{issuer}"

    assert shelf.asked[1:] == steps


async def test_of_several_servers_a_known_one_is_taken(
    here: Service, shelf: DocumentServer
) -> None:
    first, second = f"{shelf.origin}/first", f"{shelf.origin}/second"
    shelf.point_to(first, authorization_servers=[first, second])
    shelf.describe(first, f"{SERVER}/first")
    shelf.describe(second, f"{SERVER}/second")

    assert (await found(here)).issuer == first
    assert (await found(here, None, second)).issuer == second


@pytest.mark.parametrize(
    ("resource", "is_ours"),
    [
        ("{origin}/base/mcp", True),
        ("{origin}/base/mcp/", True),
        ("{origin}/base", True),
        ("{origin}", True),
        ("{origin}/bas", False),
        ("{origin}/base/mcp/more", False),
        ("{origin}/other", False),
        ("https://service.example/base/mcp", False),
    ],
)
async def test_the_description_must_be_of_this_service_or_of_what_it_is_part_of(
    here: Service, shelf: DocumentServer, resource: str, is_ours: bool
) -> None:
    named = resource.format(origin=shelf.origin)
    shelf.point_to(shelf.origin, resource=named)
    shelf.describe(shelf.origin, SERVER)
    if is_ours:
        assert (await found(here)).resource == named
        return
    with pytest.raises(OperationError) as caught:
        await found(here)
    assert "another service" in caught.value.message


async def test_a_root_without_a_stroke_is_not_the_same_issuer_as_one_with(
    here: Service, shelf: DocumentServer
) -> None:
    shelf.point_to(f"{shelf.origin}/")
    shelf.describe(shelf.origin, SERVER)

    with pytest.raises(OperationError) as caught:
        await found(here)

    assert "a different name" in caught.value.message


async def test_trouble_at_the_service_is_not_taken_for_silence(
    here: Service, shelf: DocumentServer
) -> None:
    shelf.statuses[RESOURCE] = 503
    shelf.describe(shelf.origin, SERVER)

    with pytest.raises(OperationError) as caught:
        await found(here)

    assert (caught.value.kind, "503" in caught.value.message) == ("server_error", True)


async def test_trouble_at_the_authorization_server_is_told(
    here: Service, shelf: DocumentServer
) -> None:
    shelf.point_to(shelf.origin)
    shelf.statuses[SERVER] = 500

    with pytest.raises(OperationError) as caught:
        await found(here)

    assert (caught.value.kind, caught.value.was_sent) == ("server_error", False)


@pytest.mark.parametrize("status", [301, 302, 400, 401, 403, 404, 405, 410])
async def test_any_other_answer_means_that_nothing_is_there(
    here: Service, shelf: DocumentServer, status: int
) -> None:
    shelf.statuses[f"{RESOURCE}/base/mcp"] = status
    shelf.point_to(shelf.origin, RESOURCE)
    shelf.statuses[SERVER] = status
    shelf.describe(shelf.origin, OPENID)

    assert (await found(here)).issuer == shelf.origin
    assert "/moved" not in shelf.asked


@pytest.mark.parametrize(
    "junk",
    [b"", b"<html>", b"[]", b"null", b"1e999999", b"[" * 50_000, b'{"resource": 5}', b"\xff\xfe"],
)
async def test_what_is_no_description_counts_as_none(
    here: Service, shelf: DocumentServer, junk: bytes
) -> None:
    shelf.documents[f"{RESOURCE}/base/mcp"] = junk
    shelf.point_to(shelf.origin, RESOURCE)
    shelf.describe(shelf.origin, SERVER)

    try:
        assert (await found(here)).issuer == shelf.origin
    except OperationError as error:
        assert error.kind in ("too_large", "protocol")


async def test_a_description_of_megabytes_is_refused(here: Service, shelf: DocumentServer) -> None:
    shelf.documents[f"{RESOURCE}/base/mcp"] = b'{"resource": "' + b"x" * 100_000 + b'"}'

    with pytest.raises(OperationError) as caught:
        await found(here)

    assert caught.value.kind == "too_large"


async def test_a_server_that_describes_itself_nowhere_is_told(
    here: Service, shelf: DocumentServer
) -> None:
    shelf.point_to(shelf.origin)

    with pytest.raises(OperationError) as caught:
        await found(here)

    assert "does not say how" in caught.value.message


async def test_a_service_of_the_oldest_kind_is_its_own_authorization_server(
    here: Service, shelf: DocumentServer
) -> None:
    shelf.describe(shelf.origin, SERVER, scopes_supported=["x"])

    authority = await found(here)

    assert (authority.issuer, authority.is_announced) == (shelf.origin, True)
    assert authority.resource == shelf.served.url


async def test_a_service_of_the_oldest_kind_may_not_pose_as_another(
    here: Service, shelf: DocumentServer
) -> None:
    shelf.describe("https://accounts.example.org", SERVER)

    with pytest.raises(OperationError) as caught:
        await found(here)

    assert "a different name" in caught.value.message


async def test_a_service_that_says_nothing_has_the_usual_addresses_at_its_root(
    here: Service, shelf: DocumentServer
) -> None:
    authority = await found(here)

    assert not authority.is_announced
    assert str(authority.metadata.token_endpoint) == f"{shelf.origin}/token"


async def test_a_service_that_says_nothing_and_registers_nobody_is_told_as_such(
    here: Service, ada: Acting
) -> None:
    with pytest.raises(OperationError) as caught:
        await start(here, ada)

    assert "does not say where" in caught.value.message


async def test_the_steps_are_in_the_trace_without_a_secret(
    service: Service, ada: Acting, browser: Browser, peers: Peers
) -> None:
    await browser.sign_in(service, ada)

    kept = [row async for row in Exchange.objects.order_by("pk").values()]
    steps = [(row["operation"], row["rpc_method"]) for row in kept]
    assert steps == [
        ("begin_sign_in", "oauth/knock"),
        ("begin_sign_in", "oauth/resource"),
        ("begin_sign_in", "oauth/server"),
        ("begin_sign_in", "oauth/register"),
        ("finish_sign_in", "oauth/token"),
    ]
    sent = peers.authority.requests[0]
    client = next(iter(peers.authority.clients.values()))
    token = next(iter(peers.authority.tokens))
    refresh = next(iter(peers.authority.refreshers))
    for secret in (sent["code"], sent["code_verifier"], client.client_secret, token, refresh):
        assert secret and secret not in repr(kept)
    assert '"grant_type": "authorization_code"' in kept[-1]["request_body"]
    assert "expires_in" in kept[-1]["response_body"]


async def test_only_what_is_known_to_be_harmless_is_kept_of_a_token_answer(
    service: Service, ada: Acting, browser: Browser, peers: Peers
) -> None:
    """A server may put a secret under any name."""
    answer = {"access_token": "first", "token_type": "Bearer", "scope": "tools", "spare": "0815-X"}
    peers.authority.answers.append(JSONResponse(answer))
    await browser.sign_in(service, ada)

    kept = await Exchange.objects.aget(rpc_method="oauth/token")
    assert "0815-X" not in kept.response_body
    assert '"scope": "tools"' in kept.response_body
