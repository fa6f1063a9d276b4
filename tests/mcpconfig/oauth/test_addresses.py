"""No address that a service or an authorization server names leads to the internal network."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from mcpconfig.models import Exchange, OAuthAttempt, OAuthGrant, Service
from mcpconfig.oauth import removal
from mcpconfig.oauth.servers.http import AddressRules
from mcpconfig.oauth.sign_in import finish
from mcpconfig.oauth.tokens import get_access_token
from mcpconfig.values.acting import Acting
from mcpconfig.values.errors import OperationError
from tests.peers.outbound import Resolver, counted_connections

from .conftest import SESSION, Browser, MakeService, Peers, browse, start

pytestmark = [pytest.mark.gate, pytest.mark.timeout(300)]

# Forms of 127.0.0.2, which is this machine, and neither the service's own host nor one of the names
# by which a machine calls itself.
FORMS = [
    "http://127.0.0.2:{port}",
    "https://127.0.0.2:{port}",
    "http://2130706434:{port}",
    "https://0x7f000002:{port}",
    "https://0177.0.0.2:{port}",
    "https://127.2:{port}",
    "https://[::ffff:127.0.0.2]:{port}",
    "https://[::ffff:7f00:2]:{port}",
    "https://[64:ff9b::7f00:2]:{port}",
    "https://127。0。0。2:{port}",
    "https://user:password@127.0.0.2:{port}",
]


def canary() -> AbstractContextManager[tuple[int, Callable[[], int]]]:
    """A listener that must not be reached, at the address of the forms."""
    return counted_connections("127.0.0.2")


def name_resource_metadata(peers: Peers, url: str) -> None:
    peers.vault.challenge = f'Bearer resource_metadata="{url}/metadata"'


def name_issuer(peers: Peers, url: str) -> None:
    peers.vault.says["authorization_servers"] = [url]


def name_endpoint(field: str) -> Callable[[Peers, str], None]:
    def name(peers: Peers, url: str) -> None:
        peers.authority.says[field] = f"{url}/{field}"

    return name


FIELDS: dict[str, Callable[[Peers, str], None]] = {
    "resource_metadata": name_resource_metadata,
    "authorization_servers": name_issuer,
    **{
        field: name_endpoint(field)
        for field in (
            "authorization_endpoint",
            "token_endpoint",
            "registration_endpoint",
            "revocation_endpoint",
            "jwks_uri",
        )
    },
}


async def sign_in_renew_disconnect(service: Service, acting: Acting, peers: Peers) -> None:
    """Sign in, renew, disconnect: each address that a server named is used."""
    try:
        request = await start(service, acting)
        if "127.0.0.1" in request.host:
            await finish(service, acting, await browse(request), session_key=SESSION)
            await OAuthGrant.objects.aupdate(version=7, renew_at="2020-01-01T00:00Z")
            await get_access_token(service, acting)
            await sync_to_async(removal.disconnect)(service, acting)
    except OperationError as error:
        assert error.kind in ("configuration", "blocked_address", "not_found"), error


@pytest.mark.parametrize("field", FIELDS)
async def test_no_field_leads_inside_although_the_service_itself_may_be_there(
    service: Service, ada: Acting, peers: Peers, field: str
) -> None:
    with canary() as (port, offered):
        for form in FORMS:
            FIELDS[field](peers, form.format(port=port))
            await sign_in_renew_disconnect(service, ada, peers)
        assert offered() == 0


FETCHED = [
    "authorization_servers",
    "token_endpoint",
    "registration_endpoint",
    "revocation_endpoint",
]


@pytest.mark.long
@pytest.mark.gate
@pytest.mark.parametrize("field", FETCHED)
async def test_the_same_canary_is_reached_when_the_rule_is_off(
    service: Service,
    ada: Acting,
    peers: Peers,
    field: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hosts = frozenset(("127.0.0.1", "127.0.0.2"))
    monkeypatch.setattr(AddressRules, "private_hosts", property(lambda _: hosts))
    with canary() as (port, offered):
        FIELDS[field](peers, FORMS[0].format(port=port))
        try:
            request = await start(service, ada)
            await finish(service, ada, await browse(request), session_key=SESSION)
            await sync_to_async(removal.disconnect)(service, ada)
        except OperationError:
            pass
        assert offered() >= 1


async def test_a_description_is_not_even_asked_for_anywhere_but_at_the_service(
    service: Service, ada: Acting, peers: Peers
) -> None:
    """Another port of the service's own host is another origin."""
    name_resource_metadata(peers, peers.authority.url)

    await start(service, ada)

    assert "/metadata" not in peers.asked


@pytest.mark.parametrize(
    "row", ["attempt", "grant", "revocation"], ids=["finishing", "renewing", "revoking"]
)
async def test_an_address_that_was_stored_is_checked_again_when_it_is_used(
    service: Service, ada: Acting, browser: Browser, peers: Peers, row: str
) -> None:
    with canary() as (port, offered):
        url = f"http://127.0.0.2:{port}/token"
        returned = await browse(await start(service, ada))
        if row == "attempt":
            await OAuthAttempt.objects.aupdate(token_endpoint=url)
            with pytest.raises(OperationError):
                await finish(service, ada, returned, session_key=SESSION)
        else:
            await finish(service, ada, returned, session_key=SESSION)
            await OAuthGrant.objects.aupdate(
                token_endpoint=url, revocation_endpoint=url, expires_at="2020-01-01T00:00Z"
            )
            await OAuthGrant.objects.aupdate(renew_at="2020-01-01T00:00Z")
            if row == "grant":
                with pytest.raises(OperationError):
                    await get_access_token(service, ada)
            await sync_to_async(removal.disconnect)(service, ada)
        assert offered() == 0


async def test_a_name_that_leads_inside_is_no_way_around(
    service: Service, ada: Acting, peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anyio.getaddrinfo", Resolver(["127.0.0.1"]))
    name_issuer(peers, f"https://auth.example:{peers.authority_served.port}")

    with pytest.raises(OperationError) as caught:
        await start(service, ada)

    assert caught.value.kind == "blocked_address"
    assert "auth.example" in caught.value.message
    assert peers.asked == []


@pytest.mark.parametrize(
    "host", ["169.254.169.254", "[fd00:ec2::254]", "metadata.google.internal", "100.100.100.200"]
)
async def test_cloud_metadata_is_never_asked(
    service: Service, ada: Acting, peers: Peers, host: str
) -> None:
    name_issuer(peers, f"http://{host}")

    with pytest.raises(OperationError) as caught:
        await start(service, ada)

    assert caught.value.kind == "configuration"


async def test_a_service_of_a_person_may_not_sign_in_inside_either(
    peers: Peers, ada: Acting, service_at: MakeService
) -> None:
    own = await service_at(
        peers.vault.url, authentication="oauth_user", owner_id=ada.user_id, visibility="private"
    )

    with pytest.raises(OperationError) as caught:
        await start(own, ada)

    assert caught.value.kind == "configuration"
    assert peers.vault_served.arrivals.seen == []


@pytest.mark.parametrize(
    ("own", "named", "is_open"),
    [
        ("http://127.0.0.1:1/mcp", "http://127.0.0.1:2/x", True),
        ("http://localhost:1/mcp", "http://127.0.0.1:2/x", True),
        ("http://[::1]:1/mcp", "http://localhost/x", True),
        ("http://10.0.0.5/mcp", "http://10.0.0.5:8080/x", True),
        ("http://10.0.0.5/mcp", "http://10.0.0.6/x", False),
        ("http://10.0.0.5/mcp", "http://127.0.0.1/x", False),
        ("http://mcp.corp.example/mcp", "http://MCP.corp.example/x", True),
        ("http://mcp.corp.example/mcp", "http://sso.corp.example/x", False),
        ("http://127.0.0.1/mcp", "http://127.0.0.2/x", False),
        ("http://127.0.0.1/mcp", "http://localhost.evil.example/x", False),
    ],
)
def test_only_the_services_own_host_may_be_inside(own: str, named: str, is_open: bool) -> None:
    around = AddressRules(url=own, allows_private=True)
    if is_open:
        assert str(around.check(named))
    else:
        with pytest.raises(OperationError):
            around.check(named)
    with pytest.raises(OperationError):
        AddressRules(url=own, allows_private=False).check(named)


@pytest.mark.parametrize("url", ["", "https://", "http://[", "javascript:x", "//x"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(OperationError) as caught:
        AddressRules(url="https://service.example/mcp", allows_private=False).check(url)

    assert caught.value.kind == "configuration"


async def test_a_redirect_of_a_token_request_is_not_followed(
    service: Service, ada: Acting, browser: Browser, peers: Peers
) -> None:
    async def elsewhere(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"location", b"/stolen")]
        await send({"type": "http.response.start", "status": 307, "headers": headers})
        await send({"type": "http.response.body"})

    await browser.sign_in(service, ada)
    peers.authority.answers.append(elsewhere)
    await OAuthGrant.objects.aupdate(renew_at="2020-01-01T00:00Z", expires_at="2020-01-01T00:00Z")

    with pytest.raises(OperationError) as caught:
        await get_access_token(service, ada)

    assert caught.value.kind == "server_error"
    assert "/stolen" not in peers.asked


async def test_nothing_of_a_failed_fetch_is_shown_or_kept(
    service: Service, ada: Acting, peers: Peers
) -> None:
    async def inside(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-type", b"application/json")]
        body = b'{"error": "x", "inside": "CANARY-0815"}'
        await send({"type": "http.response.start", "status": 403, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    peers.authority.descriptions.append(inside)

    with pytest.raises(OperationError) as caught:
        await start(service, ada)

    kept = [row async for row in Exchange.objects.values()]
    assert any(row["status"] == 403 for row in kept)
    assert "CANARY" not in repr(kept) + caught.value.message + caught.value.hint
