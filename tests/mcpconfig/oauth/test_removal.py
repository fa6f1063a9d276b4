"""When a sign-in ends, its tokens are deleted here and revoked at the server that issued them."""

from typing import Any

import pytest
from asgiref.sync import sync_to_async

from chatapp.models import Member
from mcpconfig.models import OAuthChallenge, OAuthGrant, OAuthRevocation, Service
from mcpconfig.oauth import removal, revocation
from mcpconfig.oauth.servers.challenges import record_challenge
from mcpconfig.oauth.sign_in_status import ConnectionState, get_sign_in_status
from mcpconfig.oauth.tokens import get_access_token
from mcpconfig.secrets import encryption, oauth_secrets
from mcpconfig.values.acting import Acting
from mcpconfig.values.errors import OperationError

from .conftest import Browser, Peers

pytestmark = [pytest.mark.gate, pytest.mark.timeout(30)]


@pytest.fixture
async def connected(service: Service, ada: Acting, browser: Browser) -> Service:
    await browser.sign_in(service, ada)
    return service


def given(peers: Peers) -> set[str]:
    """All tokens that the server accepts."""
    return {*peers.authority.tokens, *peers.authority.refreshers}


async def gone(peers: Peers, before: set[str]) -> None:
    assert not await OAuthGrant.objects.aexists()
    assert not await OAuthRevocation.objects.aexists()
    assert before and set(peers.authority.revoked) == before
    assert given(peers) == set()


async def test_who_disconnects_leaves_no_token_anywhere(
    connected: Service, ada: Acting, peers: Peers
) -> None:
    before = given(peers)
    await record_challenge(connected, ada, ['Bearer scope="admin"'])

    await sync_to_async(removal.disconnect)(connected, ada)

    await gone(peers, before)
    assert not await OAuthChallenge.objects.aexists()
    with pytest.raises(OperationError) as caught:
        await get_access_token(connected, ada)
    assert caught.value.kind == "sign_in_needed"


async def test_a_member_who_is_deleted_leaves_no_token_anywhere(
    connected: Service, ada: Acting, peers: Peers
) -> None:
    before = given(peers)

    await Member.objects.filter(pk=ada.user_id).adelete()

    await gone(peers, before)


async def test_a_service_that_is_removed_leaves_no_token_anywhere(
    connected: Service, peers: Peers
) -> None:
    before = given(peers)

    await sync_to_async(connected.delete)()

    await gone(peers, before)


async def test_a_service_that_moves_leaves_no_token_anywhere(
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

    assert await get_access_token(connected, bob)


async def test_a_new_sign_in_does_not_revoke_what_it_replaces(
    connected: Service, ada: Acting, browser: Browser, peers: Peers
) -> None:
    """Some servers end the whole family of tokens when one is revoked, including the new one."""
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
    monkeypatch.setattr(revocation, "MAX_SECONDS", 1.0)
    if trouble == "refused":
        await OAuthGrant.objects.aupdate(revocation_endpoint="http://127.0.0.1:9/revoke")
    else:
        peers.authority.revoking.append(hanging)

    await sync_to_async(removal.disconnect)(connected, ada)

    assert not await OAuthGrant.objects.aexists()


async def hanging(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    while (await receive())["type"] != "http.disconnect":
        pass


async def test_what_nobody_could_open_is_removed_all_the_same(
    connected: Service, ada: Acting, peers: Peers
) -> None:
    await OAuthGrant.objects.aupdate(access=encryption.encrypt("x", place="elsewhere"))

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
    """The state after a process that dies between commit and revocation."""
    assert grant.client is not None
    OAuthRevocation.objects.create(
        revocation_endpoint=grant.revocation_endpoint,
        service_url=grant.endpoint,
        allows_private_addresses=True,
        payload=oauth_secrets.encrypt_revocation(removal._build_payload(grant, grant.client)),
    )


async def test_no_token_stands_open_in_the_note(connected: Service, peers: Peers) -> None:
    grant = await OAuthGrant.objects.select_related("client", "service").aget()
    await sync_to_async(note_without_revoking)(grant)

    kept = repr([row async for row in OAuthRevocation.objects.values()])

    assert not any(token in kept for token in given(peers))


async def test_standing_tells_each_person_where_they_are(
    service: Service, ada: Acting, bob: Acting, browser: Browser
) -> None:
    look = sync_to_async(get_sign_in_status)
    assert (await look(service, ada)).state == ConnectionState.NOT_CONNECTED

    await browser.sign_in(service, ada)
    mine, his = await look(service, ada), await look(service, bob)
    assert (mine.state, mine.scopes) == (ConnectionState.CONNECTED, ("tools",))
    assert mine.since is not None
    assert his.state == ConnectionState.NOT_CONNECTED

    await record_challenge(service, ada, ['Bearer error="insufficient_scope", scope="admin"'])
    wanted = await look(service, ada)
    assert (wanted.state, wanted.wanted) == (ConnectionState.CONNECT_AGAIN, ("admin",))

    await OAuthChallenge.objects.all().adelete()
    await OAuthGrant.objects.aupdate(is_dead=True)
    assert (await look(service, ada)).state == ConnectionState.CONNECT_AGAIN


async def test_a_sign_in_that_ended_with_a_refresh_token_left_is_still_one(
    connected: Service, ada: Acting
) -> None:
    await OAuthGrant.objects.aupdate(expires_at="2020-01-01T00:00Z")
    assert (
        await sync_to_async(get_sign_in_status)(connected, ada)
    ).state == ConnectionState.CONNECTED

    await OAuthGrant.objects.aupdate(refresh=b"")
    assert (
        await sync_to_async(get_sign_in_status)(connected, ada)
    ).state == ConnectionState.CONNECT_AGAIN
