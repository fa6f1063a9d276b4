"""Client credentials: the application itself signs in, with a secret or a key."""

import asyncio
from datetime import timedelta
from typing import Any

import jwt
import pytest
from asgiref.sync import sync_to_async
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from django.utils import timezone
from starlette.responses import JSONResponse

from mcpconfig.models import OAuthGrant, Service, ToolDefinition
from mcpconfig.oauth.tokens import get_access_token
from mcpconfig.secrets import credentials
from mcpconfig.values.acting import Acting
from mcpconfig.values.errors import OperationError
from tests.peers.finished_calls import call_tool

from .conftest import MakeService, Peers

pytestmark = pytest.mark.timeout(300)

CALL = ToolDefinition(name="whoami", input_schema={})


@pytest.fixture
async def machine(peers: Peers, service_at: MakeService) -> Service:
    """A service that the application itself signs in to."""
    service = await service_at(
        peers.vault.url, authentication="client_credentials", client_id="machine"
    )
    await sync_to_async(credentials.set_client_secret)(service, "the-machine's-secret:%")
    return service


async def test_client_credentials_need_nobody_and_serve_everybody(
    machine: Service, ada: Acting, peers: Peers
) -> None:
    outcomes = [await call_tool(machine, CALL, {}, acting=who) for who in (ada, None)]

    assert {outcome.result.content[0]["text"] for outcome in outcomes} == {"the application"}
    assert peers.authority.grants("client_credentials") == 1
    assert peers.authority.registrations == 0
    sent = peers.authority.requests[0]
    assert (sent["resource"], sent["scope"]) == (peers.vault.url, "tools")


async def test_client_credentials_are_asked_for_once_by_many_at_once(
    machine: Service, peers: Peers
) -> None:
    await asyncio.gather(*(get_access_token(machine, None) for _ in range(10)))

    assert peers.authority.grants("client_credentials") == 1


async def test_client_credentials_are_asked_for_anew_when_the_token_is_over(
    machine: Service, peers: Peers
) -> None:
    before = await get_access_token(machine, None)
    past = timezone.now() - timedelta(seconds=1)
    await OAuthGrant.objects.aupdate(renew_at=past, expires_at=past)

    assert await get_access_token(machine, None) != before


@pytest.mark.parametrize(
    ("offered", "shown"),
    [
        (None, "authorization"),
        (["client_secret_basic", "client_secret_post"], "authorization"),
        (["client_secret_post"], "client_secret"),
    ],
)
async def test_an_entered_secret_is_shown_as_the_server_wants_it(
    machine: Service, peers: Peers, offered: list[str] | None, shown: str
) -> None:
    peers.authority.says["token_endpoint_auth_methods_supported"] = offered

    await get_access_token(machine, None)

    sent = peers.authority.requests[0]
    assert bool(sent["authorization"]) == (shown == "authorization")
    assert ("client_secret" in sent) == (shown == "client_secret")


KEYS: dict[str, Any] = {
    "RS256": rsa.generate_private_key(public_exponent=65537, key_size=2048),
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
}


@pytest.mark.parametrize("algorithm", KEYS)
async def test_a_private_key_signs_instead_of_a_secret_that_travels(
    machine: Service, peers: Peers, algorithm: str
) -> None:
    key = KEYS[algorithm]
    encodings = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    pem = key.private_bytes(*encodings, serialization.NoEncryption()).decode()
    await sync_to_async(credentials.set_client_secret)(machine, pem)

    await get_access_token(machine, None)

    sent = peers.authority.requests[0]
    assert "client_secret" not in sent and not sent["authorization"]
    claims = jwt.decode(
        sent["client_assertion"],
        key.public_key(),
        algorithms=[algorithm],
        audience=peers.authority.url,
    )
    assert (claims["iss"], claims["sub"]) == ("machine", "machine")
    assert "PRIVATE" not in repr(sent)


async def test_a_key_that_cannot_sign_is_a_clear_error(machine: Service) -> None:
    broken = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"
    await sync_to_async(credentials.set_client_secret)(machine, broken)

    with pytest.raises(OperationError) as caught:
        await get_access_token(machine, None)

    assert "private key" in caught.value.message


async def test_a_client_that_is_turned_down_is_an_error_for_admins_not_a_sign_in(
    machine: Service, peers: Peers
) -> None:
    peers.authority.answers.append(JSONResponse({"error": "invalid_client"}, status_code=401))

    with pytest.raises(OperationError) as caught:
        await get_access_token(machine, None)

    assert caught.value.kind == "configuration"
    assert await get_access_token(machine, None), "and the next try is a new one"


async def test_client_credentials_without_a_client_are_a_clear_error(
    peers: Peers, service_at: MakeService
) -> None:
    nobody = await service_at(peers.vault.url, authentication="client_credentials")

    with pytest.raises(OperationError) as caught:
        await get_access_token(nobody, None)

    assert "client ID" in caught.value.message
