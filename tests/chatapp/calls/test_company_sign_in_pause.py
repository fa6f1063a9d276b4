"""A call that needs a company sign-in waits, and every call that waits for the company goes on."""

from collections.abc import Iterator

import pytest

from chatapp.engine.runtime import EngineRuntime
from chatapp.models import Member, ToolCall, Turn
from chatapp.server.database import in_database
from mcpconfig.models import IdentityProvider
from mcpconfig.secrets import credentials, oauth_secrets
from tests import scripted
from tests.peers.authority import served_authority
from tests.peers.company import CLIENT, SECRET, Company, served_company
from tests.peers.vault import Vault, served_vault
from tests.scripted import calls, text
from tests.turns.acts import create_offered_service, wait_for_rest
from tests.turns.sign_ins import sign_in

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
State = ToolCall.State


@pytest.fixture
def peers(transactional_db: None) -> Iterator[tuple[Company, Vault]]:
    """Two services that trust the company of the person `owner`."""
    with (
        served_company() as company,
        served_authority() as (authority, _),
        served_vault(authority) as (vault, _),
    ):
        authority.company, company.person = company, "owner"
        authority.know(
            {
                "client_id": company.client_there,
                "client_secret": "the-secret-there",
                "redirect_uris": ["https://unused.example/"],
                "grant_types": ["urn:ietf:params:oauth:grant-type:jwt-bearer"],
                "token_endpoint_auth_method": "client_secret_basic",
            }
        )
        provider = IdentityProvider.objects.create(
            name="acme", issuer=company.url, client_id=CLIENT, allows_private_addresses=True
        )
        oauth_secrets.encrypt_provider_secret(provider, SECRET)
        provider.save()
        for name in ("vault", "archive"):
            service = create_offered_service(
                name,
                vault.url,
                "whoami",
                authentication="company",
                identity_provider=provider,
                client_id=company.client_there,
            )
            credentials.set_client_secret(service, "the-secret-there")
        yield company, vault


def all_calls(turn: Turn) -> list[ToolCall]:
    return list(ToolCall.objects.filter(turn=turn).select_related("service").order_by("pk"))


async def test_one_sign_in_lets_the_calls_of_two_services_go_on(
    runtime: EngineRuntime, peers: tuple[Company, Vault], turn: Turn, owner: Member
) -> None:
    scripted.scenes += [
        calls(("vault_whoami", "{}"), ("archive_whoami", "{}")),
        text("You are the owner."),
    ]
    await wait_for_rest(runtime, turn)
    waiting = await in_database(all_calls, turn)
    assert [call.state for call in waiting] == [State.AWAITING_SIGN_IN] * 2

    answer = await in_database(sign_in, owner, waiting[0])

    assert answer["Location"].startswith(f"/c/{turn.conversation_id}/#tool-call-")
    await wait_for_rest(runtime, turn)
    done = await in_database(all_calls, turn)
    assert [(call.state, call.content[0]["text"]) for call in done] == [
        (State.SUCCEEDED, "owner")
    ] * 2


async def test_a_company_that_says_no_is_a_failed_call_and_not_another_sign_in(
    runtime: EngineRuntime, peers: tuple[Company, Vault], turn: Turn, owner: Member
) -> None:
    company, vault = peers
    company.refuses[vault.url] = "access_denied"
    scripted.scenes += [calls(("vault_whoami", "{}")), text("It may not be.")]
    await wait_for_rest(runtime, turn)
    await in_database(sign_in, owner, (await in_database(all_calls, turn))[0])

    done = await wait_for_rest(runtime, turn)

    call = (await in_database(all_calls, turn))[0]
    assert (done.state, call.state, vault.runs) == (Turn.State.DONE, State.FAILED, 0)
    assert "Your company does not let you use" in str(call.error)
