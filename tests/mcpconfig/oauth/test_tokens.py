"""Tokens between operations: renewed once when they are due, ended only by a definite refusal."""

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from starlette.responses import JSONResponse, PlainTextResponse, Response

from mcpconfig.models import OAuthClient, OAuthGrant, Service, ToolDefinition
from mcpconfig.oauth import tokens
from mcpconfig.oauth.tokens import get_access_token
from mcpconfig.values.acting import Acting
from mcpconfig.values.errors import OperationError
from tests.peers.finished_calls import call_tool

from .conftest import Browser, Peers

pytestmark = [pytest.mark.gate, pytest.mark.timeout(300)]

CALL = ToolDefinition(name="whoami", input_schema={})


async def make_due(*, is_over: bool = True) -> None:
    """The token must be renewed now, and has expired or has some time left."""
    now = timezone.now()
    ends = now - timedelta(seconds=1) if is_over else now + timedelta(seconds=30)
    await OAuthGrant.objects.aupdate(renew_at=now, expires_at=ends)


@pytest.fixture
async def connected(service: Service, ada: Acting, browser: Browser) -> Service:
    await browser.sign_in(service, ada)
    return service


async def test_a_fresh_token_is_used_without_asking_anybody(
    connected: Service, ada: Acting, peers: Peers
) -> None:
    peers.authority_served.arrivals.clear()

    assert await get_access_token(connected, ada) == await get_access_token(connected, ada)

    assert peers.asked == []


async def test_a_token_that_is_over_is_renewed_and_the_new_one_opens_the_service(
    connected: Service, ada: Acting, peers: Peers
) -> None:
    before = await get_access_token(connected, ada)
    await make_due()
    peers.authority.tokens.clear()

    outcome = await call_tool(connected, CALL, {}, acting=ada)

    assert outcome.result.content[0]["text"] == "ada"
    assert await get_access_token(connected, ada) != before
    assert peers.authority.grants("refresh_token") == 1


async def test_the_renewal_names_the_resource_and_the_client(
    connected: Service, ada: Acting, peers: Peers
) -> None:
    await make_due()
    await get_access_token(connected, ada)

    sent = peers.authority.requests[-1]
    assert (sent["grant_type"], sent["resource"]) == ("refresh_token", peers.vault.url)
    assert sent["authorization"].startswith("Basic ")


async def test_the_rotated_refresh_token_is_used_the_next_time(
    connected: Service, ada: Acting, peers: Peers
) -> None:
    for _ in range(3):
        await make_due()
        await get_access_token(connected, ada)

    shown = [request["refresh_token"] for request in peers.authority.requests[1:]]
    assert len(set(shown)) == 3


async def test_a_refresh_token_stays_where_the_answer_brings_no_other(
    connected: Service, ada: Acting, peers: Peers
) -> None:
    peers.authority.answers.append(
        JSONResponse({"access_token": "second", "token_type": "bearer", "expires_in": 60})
    )
    await make_due()
    assert await get_access_token(connected, ada) == "second"

    await make_due()
    assert await get_access_token(connected, ada) != "second"


async def test_twenty_calls_at_once_ask_for_one_new_token(
    connected: Service, ada: Acting, peers: Peers
) -> None:
    await make_due()

    found = await asyncio.gather(*(get_access_token(connected, ada) for _ in range(20)))

    assert peers.authority.grants("refresh_token") == 1
    assert len(set(found)) == 1
    assert peers.authority.tokens[found[0]].subject == "ada"


async def test_a_token_without_an_end_is_never_renewed_by_itself(
    service: Service, ada: Acting, browser: Browser, peers: Peers
) -> None:
    peers.authority.lifetime = None
    grant = await browser.sign_in(service, ada)

    assert (grant.renew_at, grant.expires_at) == (None, None)
    assert await get_access_token(service, ada)
    assert peers.authority.grants("refresh_token") == 0


@pytest.mark.parametrize(("lifetime", "leeway"), [(3600, 60), (100, 10), (3, 0.3)])
async def test_a_token_is_renewed_a_little_before_its_end(
    service: Service,
    ada: Acting,
    browser: Browser,
    peers: Peers,
    lifetime: int,
    leeway: float,
) -> None:
    peers.authority.lifetime = lifetime
    grant = await browser.sign_in(service, ada)

    assert grant.expires_at is not None and grant.renew_at is not None
    assert (grant.expires_at - grant.renew_at).total_seconds() == pytest.approx(leeway)


async def test_tokens_that_end_at_once_are_used_once_each_and_not_asked_for_for_ever(
    connected: Service, ada: Acting, peers: Peers
) -> None:
    peers.authority.lifetime = 0
    await make_due()

    assert await get_access_token(connected, ada)

    assert peers.authority.grants("refresh_token") == 1


async def test_without_a_refresh_token_the_end_is_a_sign_in(
    service: Service, ada: Acting, browser: Browser, peers: Peers
) -> None:
    peers.authority.gives_refresh_tokens = False
    await browser.sign_in(service, ada)
    await make_due()

    with pytest.raises(OperationError) as caught:
        await get_access_token(service, ada)

    assert (caught.value.kind, caught.value.was_sent) == ("sign_in_needed", False)


@pytest.mark.parametrize(
    "code", ["invalid_grant", "invalid_scope", "invalid_request", "invented_by_the_server"]
)
async def test_a_definite_no_ends_the_grant_and_is_not_asked_for_again(
    connected: Service, ada: Acting, peers: Peers, code: str
) -> None:
    peers.authority.answers.append(JSONResponse({"error": code}, status_code=400))
    await make_due()

    for _ in range(2):
        with pytest.raises(OperationError) as caught:
            await get_access_token(connected, ada)
        assert caught.value.kind == "sign_in_needed"

    assert peers.authority.grants("refresh_token") == 1
    assert (await OAuthGrant.objects.aget()).is_dead


async def test_after_the_end_of_a_grant_a_new_sign_in_revives_it(
    connected: Service, ada: Acting, browser: Browser, peers: Peers
) -> None:
    peers.authority.answers.append(JSONResponse({"error": "invalid_grant"}, status_code=400))
    await make_due()
    with pytest.raises(OperationError):
        await get_access_token(connected, ada)

    await browser.sign_in(connected, ada)

    outcome = await call_tool(connected, CALL, {}, acting=ada)
    assert outcome.result.content[0]["text"] == "ada"


async def test_a_server_that_forgot_the_client_is_registered_with_anew(
    connected: Service, ada: Acting, browser: Browser, peers: Peers
) -> None:
    peers.authority.clients.clear()
    await make_due()
    with pytest.raises(OperationError) as caught:
        await get_access_token(connected, ada)
    assert caught.value.kind == "sign_in_needed"
    assert not await OAuthClient.objects.aexists()

    await browser.sign_in(connected, ada)

    assert peers.authority.registrations == 2


TROUBLES: list[Response] = [
    PlainTextResponse("<h1>Bad gateway</h1>", status_code=502),
    JSONResponse({"error": "server_error"}, status_code=500),
    JSONResponse({"error": "slow_down"}, status_code=429),
    PlainTextResponse("no such page", status_code=404),
    PlainTextResponse("access_token=x"),
    JSONResponse(["access_token"]),
    JSONResponse({"access_token": ""}, status_code=302, headers={"location": "/elsewhere"}),
    JSONResponse({"token_type": "bearer"}),
    JSONResponse({"access_token": "x", "token_type": "mac"}),
    JSONResponse({"access_token": "a\r\nx-evil: 1", "token_type": "bearer"}),
    JSONResponse({"access_token": "é", "token_type": "bearer"}),
    JSONResponse({"access_token": 5, "token_type": "bearer"}),
]


@pytest.mark.parametrize("trouble", TROUBLES, ids=range(len(TROUBLES)))
async def test_what_is_not_a_definite_no_leaves_the_grant_as_it_is(
    connected: Service, ada: Acting, peers: Peers, trouble: Response
) -> None:
    peers.authority.answers.append(trouble)
    await make_due()

    with pytest.raises(OperationError) as caught:
        await get_access_token(connected, ada)

    assert caught.value.kind in ("server_error", "protocol")
    assert not caught.value.was_sent
    assert await get_access_token(connected, ada), "the next try succeeds"


async def test_a_server_that_cannot_be_reached_ends_nothing(
    connected: Service, ada: Acting, peers: Peers
) -> None:
    await OAuthGrant.objects.aupdate(token_endpoint="http://127.0.0.1:9/token")
    await make_due()

    with pytest.raises(OperationError) as caught:
        await get_access_token(connected, ada)

    assert caught.value.kind == "refused"
    assert not (await OAuthGrant.objects.aget()).is_dead


async def test_while_the_old_token_lasts_a_failed_renewal_costs_nothing(
    connected: Service, ada: Acting, peers: Peers
) -> None:
    before = await get_access_token(connected, ada)
    peers.authority.answers.append(JSONResponse({}, status_code=503))
    await make_due(is_over=False)

    assert await get_access_token(connected, ada) == before


async def test_who_died_while_renewing_is_replaced_when_the_lease_is_over(
    connected: Service, ada: Acting, peers: Peers
) -> None:
    await make_due()
    gone = timezone.now() - timedelta(seconds=1)
    await OAuthGrant.objects.aupdate(lease="somebody who died", lease_until=gone)

    assert await get_access_token(connected, ada)

    assert peers.authority.grants("refresh_token") == 1


async def test_nobody_waits_for_ever_for_a_renewal(
    connected: Service, ada: Acting, peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "MAX_WAIT_SECONDS", 0.5)
    await make_due()
    later = timezone.now() + timedelta(minutes=5)
    await OAuthGrant.objects.aupdate(lease="somebody who hangs", lease_until=later)

    with pytest.raises(OperationError) as caught:
        await get_access_token(connected, ada)

    assert caught.value.kind == "timeout"
    assert peers.authority.grants("refresh_token") == 0


async def test_stop_during_a_renewal_does_not_lose_the_new_token(
    connected: Service, ada: Acting, peers: Peers
) -> None:
    """A rotated refresh token that is not stored would end the sign-in."""

    asked, go_on = threading.Event(), threading.Event()

    async def slowly(scope: Any, receive: Any, send: Any) -> None:
        asked.set()
        await asyncio.to_thread(go_on.wait, 10)
        answer = {"access_token": "kept", "token_type": "bearer", "refresh_token": "next"}
        await JSONResponse(answer)(scope, receive, send)

    peers.authority.answers.append(slowly)
    await make_due()
    renewal = asyncio.create_task(get_access_token(connected, ada))
    assert await asyncio.to_thread(asked.wait, 10)
    renewal.cancel()
    with pytest.raises(asyncio.CancelledError):
        await renewal
    go_on.set()

    assert await get_access_token(connected, ada) == "kept"


async def test_a_token_that_the_service_turns_away_is_renewed_before_the_next_call(
    connected: Service, ada: Acting, peers: Peers
) -> None:
    peers.authority.tokens.clear()
    with pytest.raises(OperationError) as caught:
        await call_tool(connected, CALL, {}, acting=ada)
    assert caught.value.kind == "sign_in_needed"

    outcome = await call_tool(connected, CALL, {}, acting=ada)

    assert outcome.result.content[0]["text"] == "ada"
    assert peers.authority.grants("refresh_token") == 1
