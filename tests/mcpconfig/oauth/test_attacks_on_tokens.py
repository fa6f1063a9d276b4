"""Attacks on the result of a sign-in, from the OAuth section of docs/threats.md: tokens and secrets
are valid only where they were issued for."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from mcpconfig.models import OAuthClient, OAuthGrant, Service, ToolDefinition
from mcpconfig.oauth.sign_in import finish
from mcpconfig.oauth.tokens import get_access_token
from mcpconfig.operations.tools import call_tool
from mcpconfig.secrets import credentials
from mcpconfig.values.acting import Acting
from mcpconfig.values.errors import OperationError
from tests.peers.authority import served_authority

from .conftest import SESSION, Browser, MakeService, Peers, browse, start

pytestmark = pytest.mark.timeout(30)

Finish = Callable[..., Awaitable[OAuthGrant]]
CALL = ToolDefinition(name="whoami", input_schema={})


async def test_a_service_with_a_new_address_has_no_token(
    service: Service, ada: Acting, browser: Browser, peers: Peers
) -> None:
    await browser.sign_in(service, ada)
    service.url = service.url.replace("127.0.0.1", "localhost")
    await sync_to_async(service.save)()

    with pytest.raises(OperationError) as caught:
        await get_access_token(service, ada)

    assert caught.value.kind == "sign_in_needed"
    assert not await OAuthGrant.objects.aexists()


async def test_a_grant_of_another_address_opens_nothing_even_where_it_stays(
    service: Service, ada: Acting, browser: Browser
) -> None:
    await browser.sign_in(service, ada)
    moved = "http://localhost:1/mcp"
    await Service.objects.filter(pk=service.pk).aupdate(url=moved)
    await service.arefresh_from_db()

    with pytest.raises(OperationError) as caught:
        await get_access_token(service, ada)
    assert caught.value.kind == "sign_in_needed"

    await OAuthGrant.objects.aupdate(endpoint=moved)
    with pytest.raises(OperationError) as caught:
        await get_access_token(service, ada)
    assert "can’t be decrypted" in caught.value.message


async def test_two_services_of_one_issuer_do_not_share_a_token(
    service: Service, ada: Acting, browser: Browser, peers: Peers, service_at: MakeService
) -> None:
    other = await service_at(peers.vault.url, name="other", authentication="oauth_user")
    await browser.sign_in(service, ada)

    with pytest.raises(OperationError) as caught:
        await get_access_token(other, ada)

    assert caught.value.kind == "sign_in_needed"


async def test_a_token_moved_to_another_persons_row_opens_nothing(
    service: Service, ada: Acting, bob: Acting, browser: Browser
) -> None:
    await browser.sign_in(service, ada)
    await OAuthGrant.objects.aupdate(person_id=bob.user_id)

    with pytest.raises(OperationError) as caught:
        await get_access_token(service, bob)

    assert caught.value.kind == "configuration"


async def test_a_description_of_another_resource_is_refused(
    service: Service, ada: Acting, peers: Peers
) -> None:
    peers.vault.says["resource"] = "http://127.0.0.1:1/mcp"

    with pytest.raises(OperationError) as caught:
        await start(service, ada)

    assert "another service" in caught.value.message
    assert peers.asked == []


async def test_another_authorization_server_does_not_get_the_registration_of_the_first(
    service: Service, ada: Acting, browser: Browser, peers: Peers
) -> None:
    await browser.sign_in(service, ada)
    first = await OAuthClient.objects.aget()
    with served_authority() as (second, _):
        peers.vault.says["authorization_servers"] = [second.url]
        await finish(service, ada, await browse(await start(service, ada)), session_key=SESSION)

        assert second.registrations == 1
        assert first.client_id not in repr(second.requests)
    assert (await OAuthGrant.objects.aget()).issuer == second.url


async def test_another_authorization_server_does_not_get_the_secret_that_an_admin_entered(
    service: Service, ada: Acting, browser: Browser, peers: Peers
) -> None:
    await entered_client(service, peers, "the-entered-secret")
    await browser.sign_in(service, ada)
    with served_authority() as (second, served):
        peers.vault.says["authorization_servers"] = [second.url]

        with pytest.raises(OperationError) as caught:
            await start(service, ada)

        assert "a different sign-in server" in caught.value.message
        assert second.requests == [] and second.registrations == 0
        assert "/authorize" not in [arrival.path for arrival in served.arrivals.seen]


async def entered_client(service: Service, peers: Peers, secret: str) -> None:
    """A client that an admin registered at the server and entered here."""
    service.client_id = "entered"
    await sync_to_async(service.save)()
    await sync_to_async(credentials.set_client_secret)(service, secret)
    await start_registration(peers, secret)


async def start_registration(peers: Peers, secret: str) -> None:
    known: Any = {
        "client_id": "entered",
        "client_secret": secret,
        "redirect_uris": ["http://127.0.0.1:6740/oauth/mcp/vault/callback"],
        "token_endpoint_auth_method": "client_secret_basic",
        "scope": "tools admin",
    }
    peers.authority.know(known)


async def test_a_service_that_always_wants_more_gets_one_more_sign_in_and_then_a_no(
    service: Service, ada: Acting, browser: Browser, peers: Peers
) -> None:
    """It names the same scope again, although it was requested and not granted."""
    await browser.sign_in(service, ada)
    seal = ToolDefinition(name="seal", input_schema={})
    kinds = []
    for _ in range(3):
        with pytest.raises(OperationError) as caught:
            await call_tool(service, seal, {}, acting=ada)
        kinds.append(caught.value.kind)
        if caught.value.kind == "sign_in_needed":
            await browser.sign_in(service, ada)
            for token in peers.authority.tokens.values():
                token.scopes = ["tools"]

    assert kinds == ["sign_in_needed", "forbidden", "forbidden"]


async def test_a_service_that_names_ever_new_rights_gets_two_step_ups(
    service: Service, ada: Acting, browser: Browser, peers: Peers
) -> None:
    await browser.sign_in(service, ada)
    seal = ToolDefinition(name="seal", input_schema={})
    kinds = []
    for number in range(4):
        peers.vault.wants = f"right-{number}"
        with pytest.raises(OperationError) as caught:
            await call_tool(service, seal, {}, acting=ada)
        kinds.append(caught.value.kind)
        if caught.value.kind == "sign_in_needed":
            await browser.sign_in(service, ada)

    assert kinds == ["sign_in_needed", "sign_in_needed", "forbidden", "forbidden"]


@pytest.mark.parametrize("status", [401, 403])
async def test_a_call_that_ran_and_was_then_turned_away_is_not_sent_again(
    service: Service, ada: Acting, browser: Browser, peers: Peers, status: int
) -> None:
    await browser.sign_in(service, ada)
    peers.vault.afterwards = status

    with pytest.raises(OperationError) as caught:
        await call_tool(service, CALL, {}, acting=ada)

    assert peers.vault.runs == 1
    assert caught.value.was_sent and not caught.value.is_definite, "its outcome is unknown"
    assert peers.authority.grants("refresh_token") == 0
