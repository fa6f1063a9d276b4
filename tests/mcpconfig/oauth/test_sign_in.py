"""Signing in from beginning to end, at a real authorization server."""

from dataclasses import replace
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import override_settings

from mcpconfig.models import OAuthAttempt, OAuthChallenge, OAuthGrant, Service, ToolDefinition
from mcpconfig.oauth.sign_in import begin, finish
from mcpconfig.oauth.tokens import get_access_token
from mcpconfig.operations.tool_listing import fetch_tools
from mcpconfig.values.acting import Acting
from mcpconfig.values.errors import OperationError
from mcpconfig.values.hooks import Hooks, using_hooks
from mcpconfig.values.results import CallOutcome
from tests.peers.finished_calls import call_tool

from .conftest import BASE_URL, SESSION, Browser, MakeService, Peers, browse, start

pytestmark = [pytest.mark.gate, pytest.mark.timeout(30)]


def said(outcome: CallOutcome) -> str:
    return str(outcome.result.content[0]["text"])


async def tool(service: Service, name: str, acting: Acting | None) -> ToolDefinition:
    found = {each.name: each for each in await fetch_tools(service, acting=acting)}
    return found[name]


async def test_two_people_have_two_tokens_and_the_service_knows_each(
    service: Service, ada: Acting, bob: Acting, browser: Browser
) -> None:
    await browser.sign_in(service, ada)
    await browser.sign_in(service, bob)
    whoami = await tool(service, "whoami", ada)

    heard = [said(await call_tool(service, whoami, {}, acting=who)) for who in (ada, bob)]

    assert heard == ["ada", "bob"]


async def test_a_person_without_a_sign_in_is_told_to_connect_and_nothing_is_sent(
    service: Service, ada: Acting, peers: Peers
) -> None:
    peers.vault_served.arrivals.clear()

    with pytest.raises(OperationError) as caught:
        await call_tool(service, ToolDefinition(name="whoami", input_schema={}), {}, acting=ada)

    assert (caught.value.kind, caught.value.was_sent) == ("sign_in_needed", False)
    assert caught.value.is_definite
    assert peers.vault_served.arrivals.seen == []


async def test_the_operator_cannot_act_where_each_person_signs_in(service: Service) -> None:
    with pytest.raises(OperationError) as caught:
        await get_access_token(service, None)

    assert caught.value.kind == "configuration"


async def test_one_sign_in_of_an_admin_serves_everybody_where_it_is_shared(
    service: Service, ada: Acting, bob: Acting, browser: Browser, peers: Peers
) -> None:
    wanted = {"kind": "sign_in_needed", "message": "Sign in.", "hint": ""}
    await Service.objects.filter(pk=service.pk).aupdate(
        authentication="oauth_shared", last_error=wanted
    )
    await service.arefresh_from_db()
    grant = await browser.sign_in(service, ada)

    tokens = {await get_access_token(service, who) for who in (ada, bob, None)}

    assert grant.person_id is None
    assert [peers.authority.tokens[token].subject for token in tokens] == ["ada"]
    await service.arefresh_from_db()
    assert service.last_error is None, "Its tools would stay out of every chat."


async def test_the_request_names_the_service_the_challenge_and_the_rights(
    service: Service, ada: Acting, peers: Peers
) -> None:
    request = await start(service, ada)

    query = {name: values[0] for name, values in parse_qs(urlsplit(request.url).query).items()}
    assert request.url.startswith(f"{peers.authority.url}/authorize?")
    assert request.host == urlsplit(peers.authority.url).netloc
    assert query["resource"] == peers.vault.url
    assert (query["code_challenge_method"], len(query["code_challenge"])) == ("S256", 43)
    assert query["redirect_uri"] == f"{BASE_URL}/oauth/mcp/vault/callback"
    assert query["scope"] == "tools"
    assert request.scopes == ("tools",)


async def test_the_token_request_names_the_service_and_proves_who_began(
    service: Service, ada: Acting, browser: Browser, peers: Peers
) -> None:
    await browser.sign_in(service, ada)

    sent = peers.authority.requests[-1]
    assert sent["resource"] == peers.vault.url
    assert len(sent["code_verifier"]) >= 43
    assert sent["redirect_uri"] == f"{BASE_URL}/oauth/mcp/vault/callback"
    assert sent["authorization"].startswith("Basic ")
    assert "client_secret" not in sent


async def test_neither_state_session_verifier_nor_tokens_can_be_read_from_the_database(
    service: Service, ada: Acting, peers: Peers
) -> None:
    peers.authority.person = "ada"
    request = await start(service, ada)
    returned = await browse(request)
    await finish(service, ada, returned, session_key=SESSION)

    kept = repr([row async for row in OAuthAttempt.objects.values()])
    kept += repr([row async for row in OAuthGrant.objects.values()])
    token = await get_access_token(service, ada)
    verifier = peers.authority.requests[-1]["code_verifier"]
    for secret in (returned.state, SESSION, verifier, token, returned.code):
        assert secret and secret not in kept


async def test_another_worker_takes_up_what_one_began(
    service: Service, ada: Acting, peers: Peers
) -> None:
    """Only rows are shared: the service is loaded again, as in another process."""
    returned = await browse(await start(service, ada))

    elsewhere = await Service.objects.aget(pk=service.pk)
    grant = await finish(elsewhere, replace(ada), returned, session_key=SESSION)

    assert grant.person_id == ada.user_id


async def test_whoever_waits_for_a_sign_in_is_woken(
    service: Service, ada: Acting, browser: Browser
) -> None:
    woken: list[tuple[Service, int | None]] = []

    async def note(signed_in_to: Service, person_id: int | None) -> None:
        woken.append((signed_in_to, person_id))

    with using_hooks(Hooks(sign_in_listeners=(note,))):
        await browser.sign_in(service, ada)

    assert woken == [(service, ada.user_id)]


async def test_a_tool_that_wants_more_rights_gets_them_with_the_next_sign_in(
    service: Service, ada: Acting, browser: Browser, peers: Peers
) -> None:
    await browser.sign_in(service, ada)
    seal = await tool(service, "seal", ada)
    with pytest.raises(OperationError) as caught:
        await call_tool(service, seal, {}, acting=ada)
    assert caught.value.kind == "sign_in_needed"
    assert "more rights" in caught.value.message

    grant = await browser.sign_in(service, ada)

    assert browser.requests[-1].is_step_up
    assert browser.requests[-1].scopes == ("tools", "admin")
    assert grant.scope == "tools admin"
    assert said(await call_tool(service, seal, {}, acting=ada)) == "sealed"
    assert not await OAuthChallenge.objects.aexists()


async def test_what_an_admin_entered_as_scopes_is_asked_for(
    service: Service, ada: Acting, peers: Peers
) -> None:
    service.scopes = "tools admin"

    request = await start(service, ada)

    assert request.scopes == ("tools", "admin")


async def test_the_scopes_of_a_challenge_come_before_those_of_the_description(
    service: Service, ada: Acting, peers: Peers
) -> None:
    peers.vault.challenge = 'Bearer scope="admin"'

    assert (await start(service, ada)).scopes == ("admin",)


async def test_no_scope_is_asked_for_where_the_service_names_none(
    service: Service, ada: Acting, peers: Peers
) -> None:
    peers.vault.says["scopes_supported"] = None
    peers.authority.says["scopes_supported"] = ["everything", "more"]

    request = await start(service, ada)

    assert request.scopes == ()
    assert "scope=" not in request.url


async def test_offline_access_is_asked_for_where_the_server_knows_it(
    service: Service, ada: Acting, peers: Peers
) -> None:
    peers.authority.says["scopes_supported"] = ["tools", "offline_access"]

    request = await start(service, ada)

    assert request.scopes == ("tools", "offline_access")
    assert "prompt=consent" in request.url


async def test_a_declined_sign_in_is_told_as_such_and_leaves_no_grant(
    service: Service, ada: Acting
) -> None:
    returned = await browse(await start(service, ada))

    with pytest.raises(OperationError) as caught:
        declined = replace(returned, code="", error="access_denied")
        await finish(service, ada, declined, session_key=SESSION)

    assert "Access was denied there." in caught.value.message
    assert not await OAuthGrant.objects.aexists()


async def test_a_service_that_nobody_signs_in_to_is_refused(
    ada: Acting, peers: Peers, service_at: MakeService
) -> None:
    plain = await service_at(peers.vault.url, authentication="bearer")

    with pytest.raises(OperationError) as caught:
        await start(plain, ada)

    assert caught.value.kind == "configuration"


async def test_attempts_that_are_over_are_swept_by_the_next_one(
    service: Service, ada: Acting
) -> None:
    await start(service, ada)
    first = await OAuthAttempt.objects.aget()
    first.expires_at -= timedelta(hours=1)
    await first.asave()

    await start(service, ada)

    assert [row.pk async for row in OAuthAttempt.objects.all()] != [first.pk]
    assert await OAuthAttempt.objects.acount() == 1


@override_settings(PUBLIC_URL="https://chat.example.org")
async def test_the_address_to_come_back_to_is_the_public_one(service: Service, ada: Acting) -> None:
    request = await begin(service, ada, session_key=SESSION, base_url="https://chat.example.org")

    assert "redirect_uri=https%3A%2F%2Fchat.example.org%2Foauth%2Fmcp%2Fvault%2Fcallback" in (
        request.url
    )
