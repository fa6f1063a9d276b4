"""A58: when a sign-in goes, its tokens go, here and at the server that gave them."""

import time
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from chatapp.models import Member
from mcpconfig import secrets
from mcpconfig.acting import Acting
from mcpconfig.errors import OperationError
from mcpconfig.models import OAuthChallenge, OAuthGrant, OAuthRevocation, Service
from mcpconfig.oauth import removal, revocation, sealed
from mcpconfig.oauth.challenges import challenged
from mcpconfig.oauth.standing import State, standing
from mcpconfig.oauth.tokens import access_token

from .conftest import Browser, Peers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(30)]


@pytest.fixture
async def connected(service: Service, ada: Acting, browser: Browser) -> Service:
    await browser.sign_in(service, ada)
    return service


def given(peers: Peers) -> set[str]:
    """All tokens that the server holds to be good."""
    return {*peers.authority.tokens, *peers.authority.refreshers}


async def gone(peers: Peers, before: set[str]) -> None:
    assert not await OAuthGrant.objects.aexists()
    assert not await OAuthRevocation.objects.aexists()
    assert before and set(peers.authority.revoked) == before
    assert given(peers) == set()


async def test_a58_who_disconnects_leaves_no_token_anywhere(
    connected: Service, ada: Acting, peers: Peers
) -> None:
    before = given(peers)
    await challenged(connected, ada, ['Bearer scope="admin"'])

    await sync_to_async(removal.disconnect)(connected, ada)

    await gone(peers, before)
    assert not await OAuthChallenge.objects.aexists()
    with pytest.raises(OperationError) as caught:
        await access_token(connected, ada)
    assert caught.value.kind == "sign_in_needed"


async def test_a58_a_member_who_is_deleted_leaves_no_token_anywhere(
    connected: Service, ada: Acting, peers: Peers
) -> None:
    before = given(peers)

    await Member.objects.filter(pk=ada.user_id).adelete()

    await gone(peers, before)


async def test_a58_a_service_that_is_removed_leaves_no_token_anywhere(
    connected: Service, peers: Peers
) -> None:
    before = given(peers)

    await sync_to_async(connected.delete)()

    await gone(peers, before)


async def test_a58_a_service_that_moves_leaves_no_token_anywhere(
    connected: Service, peers: Peers
) -> None:
    before = given(peers)
    connected.url = "https://elsewhere.example/mcp"

    await sync_to_async(connected.save)()

    await gone(peers, before)


async def test_one_persons_disconnecting_is_nobody_elses(
    connected: Service, ada: Acting, bob: Acting, browser: Browser
) -> None:
    await browser.sign_in(connected, bob)

    await sync_to_async(removal.disconnect)(connected, ada)

    assert await access_token(connected, bob)


async def test_a_new_sign_in_does_not_revoke_what_it_replaces(
    connected: Service, ada: Acting, browser: Browser, peers: Peers
) -> None:
    """Some servers take a revoked token for the end of the whole family, the new one included."""
    await browser.sign_in(connected, ada)

    assert peers.authority.revoked == []


async def test_a_server_that_revokes_nothing_is_no_hindrance(
    service: Service, ada: Acting, browser: Browser, peers: Peers
) -> None:
    peers.authority.says["revocation_endpoint"] = None
    await browser.sign_in(service, ada)

    await sync_to_async(removal.disconnect)(service, ada)

    assert not await OAuthGrant.objects.aexists()
    assert peers.authority.revoked == []


@pytest.mark.parametrize("trouble", ["refused", "hangs"])
async def test_removing_is_done_within_seconds_whatever_the_server_does(
    connected: Service, ada: Acting, monkeypatch: pytest.MonkeyPatch, trouble: str, peers: Peers
) -> None:
    monkeypatch.setattr(revocation, "SECONDS", 1.0)
    if trouble == "refused":
        await OAuthGrant.objects.aupdate(revocation_endpoint="http://127.0.0.1:9/revoke")
    else:
        peers.authority.revoking.append(hanging)

    started = time.monotonic()
    await sync_to_async(removal.disconnect)(connected, ada)

    assert time.monotonic() - started < 4
    assert not await OAuthGrant.objects.aexists()


async def hanging(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    while (await receive())["type"] != "http.disconnect":
        pass


async def test_what_nobody_could_open_is_removed_all_the_same(
    connected: Service, ada: Acting, peers: Peers
) -> None:
    await OAuthGrant.objects.aupdate(access=secrets.encrypt("x", place="elsewhere"))

    await sync_to_async(removal.disconnect)(connected, ada)

    assert not await OAuthGrant.objects.aexists()
    assert peers.authority.revoked == []


async def test_what_a_crash_left_is_revoked_with_the_next_one(
    connected: Service, ada: Acting, bob: Acting, browser: Browser, peers: Peers
) -> None:
    await browser.sign_in(connected, bob)
    left = await OAuthGrant.objects.select_related("client", "service").aget(person_id=bob.user_id)
    await sync_to_async(note_without_revoking)(left)
    assert await OAuthRevocation.objects.acount() == 1

    await sync_to_async(removal.disconnect)(connected, ada)

    assert len(peers.authority.revoked) == 4
    assert not await OAuthRevocation.objects.aexists()


def note_without_revoking(grant: OAuthGrant) -> None:
    """As a process that dies between commit and revocation would leave it."""
    assert grant.client is not None
    OAuthRevocation.objects.create(
        revocation_endpoint=grant.revocation_endpoint,
        service_url=grant.endpoint,
        allows_private_addresses=True,
        payload=sealed.seal_revocation(removal._payload(grant, grant.client)),
    )


async def test_no_token_stands_open_in_the_note(connected: Service, peers: Peers) -> None:
    grant = await OAuthGrant.objects.select_related("client", "service").aget()
    await sync_to_async(note_without_revoking)(grant)

    kept = repr([row async for row in OAuthRevocation.objects.values()])

    assert not any(token in kept for token in given(peers))


async def test_standing_tells_each_person_where_they_are(
    service: Service, ada: Acting, bob: Acting, browser: Browser
) -> None:
    look = sync_to_async(standing)
    assert (await look(service, ada)).state == State.NOT_CONNECTED

    await browser.sign_in(service, ada)
    mine, his = await look(service, ada), await look(service, bob)
    assert (mine.state, mine.scopes) == (State.CONNECTED, ("tools",))
    assert mine.since is not None
    assert his.state == State.NOT_CONNECTED

    await challenged(service, ada, ['Bearer error="insufficient_scope", scope="admin"'])
    wanted = await look(service, ada)
    assert (wanted.state, wanted.wanted) == (State.CONNECT_AGAIN, ("admin",))

    await OAuthChallenge.objects.all().adelete()
    await OAuthGrant.objects.aupdate(is_dead=True)
    assert (await look(service, ada)).state == State.CONNECT_AGAIN


async def test_a_sign_in_that_ended_with_a_refresh_token_left_is_still_one(
    connected: Service, ada: Acting
) -> None:
    await OAuthGrant.objects.aupdate(expires_at="2020-01-01T00:00Z")
    assert (await sync_to_async(standing)(connected, ada)).state == State.CONNECTED

    await OAuthGrant.objects.aupdate(refresh=b"")
    assert (await sync_to_async(standing)(connected, ada)).state == State.CONNECT_AGAIN
