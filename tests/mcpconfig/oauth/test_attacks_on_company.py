"""Attacks on company sign-ins: identities and assertions of another person, for another service, or
expired, are passed on to no server."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from mcpconfig.models import (
    CompanySignIn,
    IdentityProvider,
    OAuthAttempt,
    OAuthGrant,
    OAuthRevocation,
)
from mcpconfig.oauth import sign_in
from mcpconfig.oauth.grants.attempts import CallbackParameters
from mcpconfig.oauth.tokens import get_access_token
from mcpconfig.secrets import oauth_secrets
from mcpconfig.values.acting import Acting
from mcpconfig.values.errors import OperationError
from tests.peers.authority import served_authority
from tests.peers.company import Company

from .conftest import SESSION, AtCompany, browse, start

pytestmark = [pytest.mark.gate, pytest.mark.timeout(300)]

HOUR = 3600


async def refused(
    acme: AtCompany, acting: Acting, returned: CallbackParameters, session: str = SESSION
) -> OperationError:
    """Return the failure, and check that nobody is signed in."""
    with pytest.raises(OperationError) as caught:
        await acme.finish(acting, returned, session)
    assert not await CompanySignIn.objects.aexists()
    return caught.value


async def came_back(acme: AtCompany, acting: Acting) -> CallbackParameters:
    return await browse(await start(acme.vault, acting))


@pytest.mark.parametrize("how", ["person", "browser", "state", "late", "error", "issuer"])
async def test_what_comes_back_counts_for_who_began_it(
    acme: AtCompany, ada: Acting, bob: Acting, how: str
) -> None:
    returned = await came_back(acme, ada)
    who, session = (bob if how == "person" else ada), SESSION
    match how:
        case "browser":
            session = "another-session"
        case "state":
            returned = CallbackParameters(state="guessed", code=returned.code)
        case "late":
            await OAuthAttempt.objects.aupdate(expires_at=timezone.now() - timedelta(seconds=1))
        case "error":
            returned = CallbackParameters(state=returned.state, error="access_denied")
        case "issuer":
            returned = CallbackParameters(
                state=returned.state, code=returned.code, iss="https://evil.example"
            )

    assert (await refused(acme, who, returned, session)).kind == "sign_in_needed"
    assert acme.company.requests == [], "the code was shown to nobody"


async def test_what_comes_back_counts_once_and_at_its_own_address(
    acme: AtCompany, ada: Acting
) -> None:
    returned = await came_back(acme, ada)
    with pytest.raises(OperationError):
        await sign_in.finish(acme.vault, ada, returned, session_key=SESSION)
    other = await IdentityProvider.objects.acreate(
        name="other", issuer=acme.company.url, client_id="countersign"
    )
    mine, acme.provider = acme.provider, other
    await refused(acme, ada, returned)
    acme.provider = mine

    await acme.finish(ada, returned)
    await CompanySignIn.objects.all().adelete()

    await refused(acme, ada, returned)
    assert acme.company.grants("authorization_code") == 1


async def test_the_code_of_another_sign_in_is_not_taken(
    acme: AtCompany, ada: Acting, bob: Acting
) -> None:
    """An attacker sends their own state with the code of another person."""
    caught = await came_back(acme, ada)
    own = await came_back(acme, bob)

    await refused(acme, bob, CallbackParameters(state=own.state, code=caught.code))


FOREIGN: dict[str, dict[str, Any]] = {
    "for another application": {"aud": "another"},
    "for several, and another asked": {"aud": ["countersign", "another"], "azp": "another"},
    "of another issuer": {"iss": "https://evil.example"},
    "from another sign-in": {"nonce": "another"},
    "about nobody": {"sub": ""},
    "about what is no name": {"sub": 5},
    "over": {"exp": 1_000_000_000},
    "without an end": {"exp": "soon"},
}


@pytest.mark.parametrize("said", FOREIGN.values(), ids=FOREIGN)
async def test_an_identity_that_is_not_for_this_sign_in_is_not_kept(
    acme: AtCompany, ada: Acting, said: dict[str, Any]
) -> None:
    acme.company.identity_says = said
    returned = await came_back(acme, ada)

    assert "acme sent" in (await refused(acme, ada, returned)).message


async def test_a_renewed_identity_must_be_the_same_persons(acme: AtCompany, ada: Acting) -> None:
    await acme.sign_in(ada)
    await CompanySignIn.objects.aupdate(renew_at=timezone.now(), expires_at=timezone.now())
    acme.company.identity_says = {"sub": "bob"}

    with pytest.raises(OperationError) as caught:
        await get_access_token(acme.vault, ada)

    assert "another person’s identity" in caught.value.message
    assert acme.company.grants("exchange") == 0


def _another_audience(company: Company) -> None:
    company.assertion_says = {"aud": "https://evil.example"}


def _several_audiences(company: Company) -> None:
    company.assertion_says = {"aud": [company.url, "https://evil.example"]}


def _another_issuer(company: Company) -> None:
    company.assertion_says = {"iss": "https://evil.example"}


def _another_service(company: Company) -> None:
    company.assertion_says = {"resource": "https://evil.example/mcp"}


def _another_client(company: Company) -> None:
    company.assertion_says = {"client_id": "another"}


def _over(company: Company) -> None:
    company.assertion_says = {"exp": 1_000_000_000}


def _another_kind(company: Company) -> None:
    company.assertion_type = "JWT"


def _another_token(company: Company) -> None:
    company.exchange_says = {"issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}


def _no_token(company: Company) -> None:
    company.exchange_says = {"access_token": None}


@pytest.mark.parametrize(
    "mix_up",
    [
        *(_another_audience, _several_audiences, _another_issuer, _another_service),
        *(_another_client, _over, _another_kind, _another_token, _no_token),
    ],
)
async def test_an_assertion_for_something_else_is_shown_to_nobody(
    acme: AtCompany, ada: Acting, mix_up: Callable[[Company], None]
) -> None:
    await acme.sign_in(ada)
    mix_up(acme.company)

    with pytest.raises(OperationError) as caught:
        await get_access_token(acme.vault, ada)

    assert (caught.value.kind, caught.value.was_sent) == ("configuration", False)
    assert acme.peers.authority.requests == []


async def test_an_assertion_that_the_service_does_not_accept_is_a_refusal_in_words(
    acme: AtCompany, ada: Acting
) -> None:
    await acme.sign_in(ada)
    acme.peers.authority.company = Company(url=acme.company.url)  # trusts another key

    with pytest.raises(OperationError) as caught:
        await get_access_token(acme.vault, ada)

    assert caught.value.kind == "forbidden"
    assert caught.value.message.startswith("vault does not accept your company sign-in.")
    assert not (await CompanySignIn.objects.aget()).is_dead


async def test_a_service_that_names_another_server_gets_neither_secret_nor_assertion(
    acme: AtCompany, ada: Acting
) -> None:
    await acme.sign_in(ada)
    await get_access_token(acme.vault, ada)
    await OAuthGrant.objects.aupdate(renew_at=timezone.now(), expires_at=timezone.now())
    asked = acme.company.grants("exchange")
    with served_authority() as (evil, _):
        acme.peers.vault.says = {"authorization_servers": [evil.url]}

        with pytest.raises(OperationError) as caught:
            await get_access_token(acme.vault, ada)

        assert (caught.value.kind, evil.requests) == ("configuration", [])
    assert acme.company.grants("exchange") == asked


async def test_another_identity_of_the_same_person_keeps_no_token_of_the_first(
    acme: AtCompany, ada: Acting
) -> None:
    await acme.sign_in(ada)
    first = await get_access_token(acme.vault, ada)
    acme.company.identity_says = {"sub": "ada's other account"}

    await acme.sign_in(ada)

    assert first in acme.peers.authority.revoked
    token = await get_access_token(acme.vault, ada)
    assert acme.peers.authority.tokens[token].subject == "ada's other account"


async def test_a_provider_is_held_to_the_rules_for_addresses(acme: AtCompany, ada: Acting) -> None:
    await IdentityProvider.objects.aupdate(allows_private_addresses=False)

    with pytest.raises(OperationError) as caught:
        await start(acme.vault, ada)

    assert caught.value.kind == "configuration"
    assert not await OAuthAttempt.objects.aexists()


@pytest.mark.parametrize("field", ["id_token", "refresh"])
async def test_a_stored_identity_opens_nothing_in_another_row(
    acme: AtCompany, ada: Acting, bob: Acting, field: str
) -> None:
    for person in (ada, bob):
        await acme.sign_in(person)
    stolen = await CompanySignIn.objects.aget(person_id=ada.user_id)
    own = await CompanySignIn.objects.aget(person_id=bob.user_id)
    setattr(own, field, getattr(stolen, field))
    assert b"ada" not in bytes(stolen.id_token)

    with pytest.raises(OperationError) as caught:
        oauth_secrets.decrypt_identity(own, "id_token" if field == "id_token" else "refresh")

    assert caught.value.kind == "configuration"


async def test_a_provider_that_goes_takes_its_sign_ins_along(acme: AtCompany, ada: Acting) -> None:
    await acme.sign_in(ada)
    await get_access_token(acme.vault, ada)
    for service in acme.services:
        await sync_to_async(service.delete)()

    await sync_to_async(acme.provider.delete)()

    assert not await CompanySignIn.objects.aexists()
    assert not await OAuthRevocation.objects.aexists()
    assert len(acme.company.revoked) == 1
