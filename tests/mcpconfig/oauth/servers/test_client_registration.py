"""The client at an authorization server: entered, by document, registered; bound to the issuer."""

from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.test import override_settings
from django.utils import timezone
from starlette.responses import JSONResponse

from mcpconfig.models import OAuthClient, Service
from mcpconfig.oauth.servers.client_metadata import build_document, get_document_url
from mcpconfig.oauth.sign_in import begin
from mcpconfig.secrets import credentials
from mcpconfig.values.acting import Acting
from mcpconfig.values.errors import OperationError
from tests.mcpconfig.oauth.conftest import BASE_URL, SESSION, Browser, MakeService, Peers, start
from tests.peers.authority import served_authority

pytestmark = [pytest.mark.gate, pytest.mark.timeout(30)]

PUBLIC = override_settings(PUBLIC_URL="https://chat.example.org")


def entered(**different: Any) -> dict[str, Any]:
    """A client that an admin registered at the authorization server by hand."""
    return {
        "client_id": "entered",
        "redirect_uris": [f"{BASE_URL}/oauth/mcp/vault/callback"],
        "token_endpoint_auth_method": "none",
        "scope": "tools admin",
        **different,
    }


async def test_the_first_sign_in_registers_and_the_next_ones_use_that(
    service: Service, ada: Acting, bob: Acting, browser: Browser, peers: Peers
) -> None:
    await browser.sign_in(service, ada)
    await browser.sign_in(service, bob)

    assert peers.authority.registrations == 1
    client = await OAuthClient.objects.aget()
    assert (client.kind, client.issuer) == ("registered", peers.authority.url)


async def test_the_registration_says_what_this_application_is(
    service: Service, ada: Acting, peers: Peers
) -> None:
    await start(service, ada)

    (made,) = peers.authority.clients.values()
    assert made.client_name == "Countersign"
    assert [str(uri) for uri in made.redirect_uris or []] == [
        f"{BASE_URL}/oauth/mcp/vault/callback"
    ]
    assert made.grant_types == ["authorization_code", "refresh_token"]
    assert made.application_type == "native", "its address is on this machine"
    assert made.token_endpoint_auth_method == "client_secret_basic"


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (None, "client_secret_basic"),
        (["client_secret_post"], "client_secret_post"),
        (["none", "client_secret_basic"], "none"),
    ],
)
async def test_the_registration_takes_a_way_that_the_server_offers(
    service: Service, ada: Acting, browser: Browser, peers: Peers, offered: Any, chosen: str
) -> None:
    peers.authority.says["token_endpoint_auth_methods_supported"] = offered

    await browser.sign_in(service, ada)

    assert (await OAuthClient.objects.aget()).method == chosen


async def test_another_address_to_come_back_to_is_another_registration(
    service: Service, ada: Acting, peers: Peers
) -> None:
    await start(service, ada)
    await begin(service, ada, session_key=SESSION, base_url="http://localhost:6740")

    assert peers.authority.registrations == 2
    await start(service, ada)
    assert peers.authority.registrations == 2


async def test_a_registration_whose_secret_has_ended_is_made_anew(
    service: Service, ada: Acting, peers: Peers
) -> None:
    await start(service, ada)
    await OAuthClient.objects.aupdate(secret_expires_at=timezone.now() - timedelta(seconds=1))

    await start(service, ada)

    assert peers.authority.registrations == 2


async def test_the_secret_of_a_registration_is_sealed(
    service: Service, ada: Acting, peers: Peers
) -> None:
    await start(service, ada)

    (made,) = peers.authority.clients.values()
    assert made.client_secret
    assert made.client_secret not in repr([row async for row in OAuthClient.objects.values()])


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (201, {}),
        (201, {"client_id": "x", "token_endpoint_auth_method": "private_key_jwt"}),
        (201, {"client_id": "x", "token_endpoint_auth_method": "client_secret_basic"}),
        (201, {"client_id": "x", "token_endpoint_auth_method": "tls_client_auth"}),
        (400, {"error": "invalid_redirect_uri", "error_description": "EVIL WORDS"}),
        (403, {}),
        (500, {}),
        (302, {}),
    ],
)
async def test_a_registration_that_cannot_be_used_is_a_clear_error(
    service: Service, ada: Acting, peers: Peers, status: int, body: dict[str, Any]
) -> None:
    peers.authority.registering.append(JSONResponse(body, status_code=status))

    with pytest.raises(OperationError) as caught:
        await start(service, ada)

    assert "could not be registered" in caught.value.message
    assert "EVIL" not in caught.value.message + caught.value.hint
    assert not await OAuthClient.objects.aexists()


async def test_a_server_that_registers_nobody_needs_what_an_admin_enters(
    service: Service, ada: Acting, browser: Browser, peers: Peers
) -> None:
    peers.authority.says["registration_endpoint"] = None
    with pytest.raises(OperationError) as caught:
        await start(service, ada)
    assert "enter the client ID" in caught.value.hint

    peers.authority.know(entered())
    service.client_id = "entered"
    await service.asave()
    grant = await browser.sign_in(service, ada)

    assert grant.client is not None
    assert (grant.client.client_id, grant.client.method) == ("entered", "none")
    assert peers.authority.requests[0]["client_id"] == "entered"


async def test_what_an_admin_entered_comes_first_and_its_secret_is_shown(
    service: Service, ada: Acting, browser: Browser, peers: Peers
) -> None:
    peers.authority.know(
        entered(client_secret="s3cret+/%", token_endpoint_auth_method="client_secret_basic")
    )
    service.client_id = "entered"
    await service.asave()
    await sync_to_async(credentials.set_client_secret)(service, "s3cret+/%")

    await browser.sign_in(service, ada)

    assert peers.authority.registrations == 0


async def test_a_secret_that_was_entered_anew_may_belong_to_another_server(
    service: Service, ada: Acting, peers: Peers
) -> None:
    service.client_id = "entered"
    await service.asave()
    await sync_to_async(credentials.set_client_secret)(service, "of the first")
    await start(service, ada)
    with served_authority() as (second, _):
        peers.vault.says["authorization_servers"] = [second.url]
        with pytest.raises(OperationError):
            await start(service, ada)

        await sync_to_async(credentials.set_client_secret)(service, "of the second")

        assert second.url in (await start(service, ada)).url


@PUBLIC
async def test_a_server_that_reads_documents_is_shown_ours_and_nothing_is_registered(
    service: Service, ada: Acting, peers: Peers
) -> None:
    peers.authority.says["client_id_metadata_document_supported"] = True

    request = await start(service, ada)

    assert "client_id=https%3A%2F%2Fchat.example.org%2Foauth%2Fclient.json" in request.url
    assert peers.authority.registrations == 0


async def test_a_server_that_reads_documents_could_not_reach_ours_without_a_public_address(
    service: Service, ada: Acting, peers: Peers
) -> None:
    peers.authority.says["client_id_metadata_document_supported"] = True

    await start(service, ada)

    assert peers.authority.registrations == 1


@PUBLIC
async def test_the_document_names_itself_and_only_services_where_people_sign_in(
    service: Service, service_at: MakeService
) -> None:
    await Service.objects.filter(pk=service.pk).aupdate(visibility=Service.Visibility.EVERYONE)
    await service_at("https://one.example", name="secret-plain")
    await service_at("https://two.example", name="machine", authentication="client_credentials")
    await service_at(
        "https://three.example", name="off", authentication="oauth_user", is_enabled=False
    )

    told = await sync_to_async(build_document)()

    assert told is not None
    assert told["client_id"] == get_document_url() == "https://chat.example.org/oauth/client.json"
    assert told["redirect_uris"] == ["https://chat.example.org/oauth/mcp/vault/callback"]
    assert told["token_endpoint_auth_method"] == "none"


@pytest.mark.parametrize("url", ["", "http://chat.example.org"])
def test_there_is_no_document_without_a_public_https_address(url: str) -> None:
    with override_settings(PUBLIC_URL=url):
        assert (build_document(), get_document_url()) == (None, "")
