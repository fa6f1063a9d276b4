"""Company sign-in: once at the identity provider, and every service that trusts it is open."""

import asyncio
from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone
from starlette.responses import JSONResponse

from mcpconfig.models import CompanySignIn, Exchange, OAuthGrant, Service, ToolDefinition
from mcpconfig.oauth import removal, sign_in_admin
from mcpconfig.oauth.sign_in_admin import SignInCount
from mcpconfig.oauth.sign_in_status import ConnectionState, get_sign_in_status
from mcpconfig.oauth.tokens import get_access_token
from mcpconfig.secrets import oauth_secrets
from mcpconfig.values.acting import Acting
from mcpconfig.values.errors import OperationError
from mcpconfig.values.hooks import Hooks, using_hooks
from tests.mcpconfig.oauth.conftest import AtCompany, start
from tests.peers.finished_calls import call_tool

pytestmark = [pytest.mark.gate, pytest.mark.timeout(300)]

CALL = ToolDefinition(name="whoami", input_schema={})
SEAL = ToolDefinition(name="seal", input_schema={})


async def says(service: Service, acting: Acting) -> str:
    outcome = await call_tool(service, CALL, {}, acting=acting)
    return str(outcome.result.content[0]["text"])


async def failure(service: Service, acting: Acting | None) -> OperationError:
    with pytest.raises(OperationError) as caught:
        await get_access_token(service, acting)
    assert not caught.value.was_sent and caught.value.is_definite
    return caught.value


async def where(service: Service, acting: Acting) -> ConnectionState:
    return (await sync_to_async(get_sign_in_status)(service, acting)).state


async def make_identity_due(*, is_over: bool = True) -> None:
    now = timezone.now()
    ends = now - timedelta(seconds=1) if is_over else now + timedelta(seconds=30)
    await CompanySignIn.objects.aupdate(renew_at=now, expires_at=ends)


async def make_tokens_due() -> None:
    now = timezone.now()
    await OAuthGrant.objects.aupdate(renew_at=now, expires_at=now)


async def test_one_sign_in_opens_every_service_of_the_company(
    acme: AtCompany, ada: Acting, bob: Acting
) -> None:
    assert [await where(each, ada) for each in acme.services] == [ConnectionState.NOT_CONNECTED] * 2
    assert (await failure(acme.vault, ada)).kind == "sign_in_needed"

    assert await acme.sign_in(ada) == acme.vault

    assert [await where(each, ada) for each in acme.services] == [ConnectionState.CONNECTED] * 2
    assert [await says(each, ada) for each in acme.services] == ["ada", "ada"]
    assert (acme.company.grants("authorization_code"), acme.company.grants("exchange")) == (1, 2)
    assert await where(acme.vault, bob) == ConnectionState.NOT_CONNECTED
    assert (await failure(acme.vault, bob)).kind == "sign_in_needed"


async def test_two_people_have_two_tokens(acme: AtCompany, ada: Acting, bob: Acting) -> None:
    for person in (ada, bob):
        await acme.sign_in(person)

    assert [await says(acme.vault, who) for who in (ada, bob, ada)] == ["ada", "bob", "ada"]
    assert await get_access_token(acme.vault, ada) != await get_access_token(acme.vault, bob)


async def test_the_exchange_names_server_service_and_rights(acme: AtCompany, ada: Acting) -> None:
    await acme.sign_in(ada)
    await get_access_token(acme.vault, ada)

    asked = acme.company.requests[-1]
    assert asked["audience"] == acme.peers.authority.url
    assert (asked["resource"], asked["scope"]) == (acme.peers.vault.url, "tools")
    shown = acme.peers.authority.requests[-1]
    assert shown["grant_type"].endswith(":jwt-bearer")
    assert shown["authorization"].startswith("Basic ")


async def test_nobody_acts_without_a_person(acme: AtCompany) -> None:
    assert (await failure(acme.vault, None)).kind == "configuration"


async def test_the_identity_is_renewed_and_the_sign_in_goes_on(
    acme: AtCompany, ada: Acting
) -> None:
    await acme.sign_in(ada)
    for _ in range(2):
        await make_identity_due()
        await make_tokens_due()
        assert await says(acme.vault, ada) == "ada"

    shown = [each["refresh_token"] for each in acme.company.requests if "refresh_token" in each]
    assert len(set(shown)) == 2, "each refresh token is used once"


async def test_twenty_calls_at_once_renew_the_identity_once(acme: AtCompany, ada: Acting) -> None:
    await acme.sign_in(ada)
    await make_identity_due()

    found = await asyncio.gather(
        *(get_access_token(each, ada) for each in acme.services for _ in range(10))
    )

    assert acme.company.grants("refresh_token") == 1
    assert (acme.company.grants("exchange"), len(set(found))) == (2, 2)


async def test_an_identity_that_is_over_and_not_renewed_is_a_sign_in(
    acme: AtCompany, ada: Acting
) -> None:
    acme.company.gives_refresh_tokens = False
    await acme.sign_in(ada)
    await make_identity_due()
    assert await where(acme.vault, ada) == ConnectionState.CONNECT_AGAIN

    assert (await failure(acme.vault, ada)).kind == "sign_in_needed"

    await acme.sign_in(ada)
    assert await says(acme.vault, ada) == "ada"


@pytest.mark.parametrize(("is_over", "opens"), [(False, True), (True, False)])
async def test_a_renewal_without_an_identity_serves_until_the_end_of_the_old_one(
    acme: AtCompany, ada: Acting, is_over: bool, opens: bool
) -> None:
    acme.company.renews_identity = False
    await acme.sign_in(ada)
    await make_identity_due(is_over=is_over)

    if opens:
        assert await get_access_token(acme.vault, ada)
        return
    assert (await failure(acme.vault, ada)).kind == "sign_in_needed"
    assert (await CompanySignIn.objects.aget()).is_dead


async def test_the_company_is_asked_again_also_where_a_token_names_no_end(
    acme: AtCompany, ada: Acting
) -> None:
    acme.peers.authority.lifetime = None
    await acme.sign_in(ada)
    await get_access_token(acme.vault, ada)

    ends = (await OAuthGrant.objects.aget()).expires_at
    assert ends is not None and ends < timezone.now() + timedelta(hours=1, seconds=1)


async def test_trouble_at_the_company_ends_nothing(acme: AtCompany, ada: Acting) -> None:
    await acme.sign_in(ada)
    await make_identity_due()
    acme.company.answers.append(JSONResponse({"error": "server_error"}, status_code=503))

    assert (await failure(acme.vault, ada)).kind == "server_error"

    assert await says(acme.vault, ada) == "ada"


@pytest.mark.parametrize("code", ["access_denied", "invalid_target", "unauthorized_client"])
async def test_a_company_that_refuses_a_service_says_so_and_keeps_the_others(
    acme: AtCompany, ada: Acting, code: str
) -> None:
    await acme.sign_in(ada)
    acme.company.refuses[acme.peers.vault.url] = code

    refused = await failure(acme.vault, ada)

    assert refused.kind == "forbidden"
    assert refused.message.startswith("Your company does not let you use vault.")
    acme.company.refuses.clear()
    assert await says(acme.vault, ada) == "ada", "asked anew once it is allowed"
    assert acme.company.grants("authorization_code") == 1


async def test_a_company_that_refuses_does_not_leave_the_last_minute_of_the_old_token(
    acme: AtCompany, ada: Acting
) -> None:
    await acme.sign_in(ada)
    await get_access_token(acme.vault, ada)
    soon = timezone.now() + timedelta(seconds=30)
    await OAuthGrant.objects.aupdate(renew_at=timezone.now(), expires_at=soon)
    acme.company.refuses[acme.peers.vault.url] = "access_denied"

    assert (await failure(acme.vault, ada)).kind == "forbidden"


@pytest.mark.parametrize("code", ["invalid_grant", "login_required"])
async def test_an_identity_that_the_company_does_not_take_any_more_is_a_sign_in(
    acme: AtCompany, ada: Acting, code: str
) -> None:
    await acme.sign_in(ada)
    acme.company.refuses[acme.peers.vault.url] = code

    assert (await failure(acme.vault, ada)).kind == "sign_in_needed"
    assert await where(acme.vault, ada) == ConnectionState.CONNECT_AGAIN

    acme.company.refuses.clear()
    await acme.sign_in(ada)
    assert await says(acme.vault, ada) == "ada"


async def test_further_rights_are_exchanged_for_after_one_more_visit(
    acme: AtCompany, ada: Acting
) -> None:
    await acme.sign_in(ada)
    assert await says(acme.vault, ada) == "ada"
    with pytest.raises(OperationError) as caught:
        await call_tool(acme.vault, SEAL, {}, acting=ada)
    assert caught.value.kind == "sign_in_needed"
    stands = await sync_to_async(get_sign_in_status)(acme.vault, ada)
    assert (stands.state, stands.wanted) == (ConnectionState.CONNECT_AGAIN, ("admin",))

    await acme.sign_in(ada)

    outcome = await call_tool(acme.vault, SEAL, {}, acting=ada)
    assert outcome.result.content[0]["text"] == "sealed"
    assert await where(acme.vault, ada) == ConnectionState.CONNECTED


async def test_a_token_that_the_service_turns_away_is_exchanged_for_anew(
    acme: AtCompany, ada: Acting
) -> None:
    await acme.sign_in(ada)
    assert await says(acme.vault, ada) == "ada"
    acme.peers.authority.tokens.clear()
    with pytest.raises(OperationError):
        await says(acme.vault, ada)

    assert await says(acme.vault, ada) == "ada"
    assert acme.company.grants("authorization_code") == 1


async def test_a_sign_in_goes_from_everywhere_at_once(
    acme: AtCompany, ada: Acting, bob: Acting
) -> None:
    for person in (ada, bob):
        await acme.sign_in(person)
        for service in acme.services:
            await get_access_token(service, person)
    row = await CompanySignIn.objects.aget(person_id=ada.user_id)
    refresh = oauth_secrets.decrypt_identity(row, "refresh")
    tokens = {await get_access_token(service, ada) for service in acme.services}

    await sync_to_async(removal.disconnect)(acme.services[1], ada)

    assert [await where(each, ada) for each in acme.services] == [ConnectionState.NOT_CONNECTED] * 2
    assert acme.company.revoked == [refresh]
    assert set(acme.peers.authority.revoked) == tokens
    assert await says(acme.vault, bob) == "bob"


async def test_an_admin_sees_and_ends_a_sign_in_on_any_of_its_services(
    acme: AtCompany, ada: Acting
) -> None:
    await acme.sign_in(ada)
    for service in acme.services:
        listed = await sync_to_async(sign_in_admin.list_sign_ins)(service)
        assert [(str(each.person), each.state) for each in listed] == [("ada", "connected")]

    await sync_to_async(sign_in_admin.revoke)(acme.services[1], listed[0].id)

    assert (await failure(acme.vault, ada)).kind == "sign_in_needed"


@pytest.mark.parametrize(
    ("hours", "refresh", "is_dead", "ended"),
    [(1, b"", False, 0), (-1, b"x", False, 0), (-1, b"", False, 1), (1, b"x", True, 1)],
)
async def test_company_sign_ins_are_counted_for_each_of_the_services(
    acme: AtCompany, ada: Acting, hours: int, refresh: bytes, is_dead: bool, ended: int
) -> None:
    await acme.sign_in(ada)
    expires_at = timezone.now() + timedelta(hours=hours)
    await CompanySignIn.objects.aupdate(expires_at=expires_at, refresh=refresh, is_dead=is_dead)
    counted = await sync_to_async(sign_in_admin.count_sign_ins)(acme.services)
    assert counted == {each.pk: SignInCount(total=1, ended=ended) for each in acme.services}
    (listed,) = await sync_to_async(sign_in_admin.list_sign_ins)(acme.vault)
    assert listed.is_over == bool(ended)


async def test_all_that_waits_for_the_company_goes_on(acme: AtCompany, ada: Acting) -> None:
    heard: list[tuple[str, int | None]] = []

    async def listen(service: Service, person_id: int | None) -> None:
        heard.append((service.name, person_id))

    with using_hooks(Hooks(sign_in_listeners=(listen,))):
        await acme.sign_in(ada)

    assert sorted(heard) == [("archive", ada.user_id), ("vault", ada.user_id)]


async def test_the_trace_shows_every_step_and_no_secret(acme: AtCompany, ada: Acting) -> None:
    await acme.sign_in(ada)
    token = await get_access_token(acme.vault, ada)
    row = await CompanySignIn.objects.aget()
    kept = [each async for each in Exchange.objects.filter(service=acme.vault)]

    assert {"oauth/server", "oauth/token", "oauth/exchange"} <= {each.rpc_method for each in kept}
    text = " ".join(
        f"{each.url} {each.request_headers} {each.request_body} {each.response_body}"
        for each in kept
    )
    assert acme.peers.authority.url in text, "the audience is no secret"
    hidden = [token, "the-company", "the-secret-there", *acme.company.codes]
    hidden += [
        oauth_secrets.decrypt_identity(row, "id_token"),
        oauth_secrets.decrypt_identity(row, "refresh"),
    ]
    hidden += [acme.peers.authority.requests[-1]["assertion"]]
    assert not [secret for secret in hidden if secret in text]


async def test_another_client_at_the_company_begins_anew(acme: AtCompany, ada: Acting) -> None:
    await acme.sign_in(ada)
    await get_access_token(acme.vault, ada)
    refresh = oauth_secrets.decrypt_identity(await CompanySignIn.objects.aget(), "refresh")

    acme.provider.client_id = "another"
    await acme.provider.asave()

    assert not await CompanySignIn.objects.aexists() and not await OAuthGrant.objects.aexists()
    assert (bytes(acme.provider.secret), acme.company.revoked) == (b"", [refresh])


async def test_a_service_that_leaves_the_company_keeps_no_token_of_it(
    acme: AtCompany, ada: Acting
) -> None:
    await acme.sign_in(ada)
    await get_access_token(acme.vault, ada)

    acme.vault.authentication = "oauth_user"
    await acme.vault.asave()

    assert await where(acme.vault, ada) == ConnectionState.NOT_CONNECTED
    assert (await failure(acme.vault, ada)).kind == "sign_in_needed"


async def test_the_link_asks_for_an_identity_and_comes_back_to_one_address(
    acme: AtCompany, ada: Acting
) -> None:
    request = await start(acme.services[1], ada)

    assert (request.company, request.scopes) == ("acme", ())
    assert request.url.startswith(f"{acme.company.url}/authorize?")
    for part in (
        "nonce=",
        "scope=openid+offline_access",
        "code_challenge_method=S256",
        "oauth%2Fcompany%2Facme%2Fcallback",
    ):
        assert part in request.url
