"""Attacks on a sign-in, from the OAuth section of docs/threats.md: each is refused and stores
nothing."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async

from mcpconfig.models import OAuthAttempt, OAuthGrant, Service, ToolDefinition
from mcpconfig.oauth.sign_in import CallbackParameters, finish
from mcpconfig.values.acting import Acting
from mcpconfig.values.errors import OperationError
from tests.peers.authority import served_authority

from .conftest import SESSION, Browser, MakeService, Peers, browse, start

pytestmark = [pytest.mark.gate, pytest.mark.timeout(30)]

Finish = Callable[..., Awaitable[OAuthGrant]]
CALL = ToolDefinition(name="whoami", input_schema={})


async def refused(
    service: Service, acting: Acting, returned: CallbackParameters, session: str = SESSION
) -> OperationError:
    """Return the failure, and check that no grant was stored."""
    with pytest.raises(OperationError) as caught:
        await finish(service, acting, returned, session_key=session)
    assert not await OAuthGrant.objects.aexists()
    return caught.value


async def test_somebody_elses_callback_address_signs_nobody_in(
    service: Service, ada: Acting, bob: Acting, peers: Peers
) -> None:
    returned = await browse(await start(service, ada))

    await refused(service, bob, returned)

    assert peers.authority.requests == []
    assert await finish(service, ada, returned, session_key=SESSION), "and does not use it up"


async def test_the_code_of_an_attacker_does_not_enter_a_victims_session(
    service: Service, ada: Acting, bob: Acting, peers: Peers
) -> None:
    """Login CSRF: bob begins, agrees, and has ada open the address that he should come back to."""
    of_bob = await browse(await start(service, bob, session="the-session-of-bob"))
    await start(service, ada)

    await refused(service, ada, of_bob)

    assert peers.authority.requests == []


async def test_another_browser_of_the_same_person_does_not_finish_it(
    service: Service, ada: Acting, peers: Peers
) -> None:
    returned = await browse(await start(service, ada))

    await refused(service, ada, returned, session="another-session")

    assert peers.authority.requests == []


async def test_a_state_is_good_once(
    service: Service, ada: Acting, browser: Browser, peers: Peers
) -> None:
    returned = await browse(await start(service, ada))
    await finish(service, ada, returned, session_key=SESSION)
    await OAuthGrant.objects.all().adelete()
    peers.authority.requests.clear()

    await refused(service, ada, returned)

    assert peers.authority.requests == []


async def test_a_state_is_over_after_ten_minutes(
    service: Service, ada: Acting, peers: Peers
) -> None:
    returned = await browse(await start(service, ada))
    attempt = await OAuthAttempt.objects.aget()
    assert timedelta(minutes=10) == OAuthAttempt.LIFETIME
    attempt.expires_at -= OAuthAttempt.LIFETIME
    await attempt.asave()

    await refused(service, ada, returned)

    assert peers.authority.requests == []


@pytest.mark.parametrize("state", ["", "guessed", "x" * 100_000, "\x00", "é\ud800"])
async def test_a_missing_or_invented_state_is_refused(
    service: Service, ada: Acting, state: str
) -> None:
    returned = await browse(await start(service, ada))

    await refused(service, ada, replace(returned, state=state))


async def test_what_was_begun_for_one_service_does_not_finish_for_another(
    service: Service, ada: Acting, peers: Peers, service_at: MakeService
) -> None:
    other = await service_at(peers.vault.url, name="other", authentication="oauth_user")
    returned = await browse(await start(service, ada))

    await refused(other, ada, returned)

    assert peers.authority.requests == []


@pytest.mark.parametrize("is_clean", [True, False], ids=["cleared", "only the address changed"])
async def test_a_service_that_moved_meanwhile_gets_no_grant(
    service: Service, ada: Acting, peers: Peers, is_clean: bool
) -> None:
    returned = await browse(await start(service, ada))
    service.url = f"{service.url}/elsewhere"
    if is_clean:
        await sync_to_async(service.save)()
    else:
        await Service.objects.filter(pk=service.pk).aupdate(url=service.url)

    await refused(service, ada, returned)

    assert peers.authority.requests == []


async def test_an_answer_from_another_issuer_is_refused_before_any_code_is_sent(
    service: Service, ada: Acting, peers: Peers
) -> None:
    returned = await browse(await start(service, ada))

    error = await refused(service, ada, replace(returned, iss="https://evil.example"))

    assert peers.authority.requests == []
    assert "evil.example" not in error.message


async def test_issuers_are_compared_letter_by_letter(
    service: Service, ada: Acting, peers: Peers
) -> None:
    returned = await browse(await start(service, ada))

    await refused(service, ada, replace(returned, iss=f"{peers.authority.url}/"))


async def test_an_issuer_that_was_announced_must_come(
    service: Service, ada: Acting, peers: Peers
) -> None:
    peers.authority.names_its_issuer = True
    returned = await browse(await start(service, ada))
    assert returned.iss == peers.authority.url

    await refused(service, ada, replace(returned, iss=None))


async def test_the_announced_issuer_that_comes_is_accepted(
    service: Service, ada: Acting, browser: Browser, peers: Peers
) -> None:
    peers.authority.names_its_issuer = True

    assert await browser.sign_in(service, ada)


async def test_an_error_of_the_wrong_issuer_is_not_told(
    service: Service, ada: Acting, peers: Peers
) -> None:
    returned = await browse(await start(service, ada))
    wrong = replace(returned, code="", error="access_denied", iss="https://evil.example")

    error = await refused(service, ada, wrong)

    assert "a different server" in error.message
    assert "allowed" not in error.message


async def test_no_word_of_a_server_or_an_address_is_shown(service: Service, ada: Acting) -> None:
    returned = await browse(await start(service, ada))

    error = await refused(service, ada, replace(returned, code="", error="call-0800-EVIL now"))

    assert "EVIL" not in error.message + error.hint


async def test_metadata_under_another_name_is_refused(
    service: Service, ada: Acting, peers: Peers
) -> None:
    peers.authority.says["issuer"] = "https://accounts.example.org"

    with pytest.raises(OperationError) as caught:
        await start(service, ada)

    assert "uses a different name" in caught.value.message
    assert "/register" not in peers.asked


async def test_a_code_goes_only_to_the_server_that_was_asked(
    service: Service, ada: Acting, peers: Peers
) -> None:
    """Mix-up: after the person has left, the service names the attacker's server."""
    with served_authority() as (evil, _):
        returned = await browse(await start(service, ada))
        peers.vault.says["authorization_servers"] = [evil.url]

        await finish(service, ada, returned, session_key=SESSION)

        assert evil.requests == []
        assert peers.authority.grants("authorization_code") == 1


@pytest.mark.parametrize("announced", [None, [], ["plain"], ["s256"]])
async def test_a_server_that_does_not_announce_s256_is_refused_before_anybody_leaves(
    service: Service, ada: Acting, peers: Peers, announced: list[str] | None
) -> None:
    peers.authority.says["code_challenge_methods_supported"] = announced

    with pytest.raises(OperationError) as caught:
        await start(service, ada)

    assert "PKCE" in caught.value.message
    assert "/register" not in peers.asked
    assert not await OAuthAttempt.objects.aexists()


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)//",
        "data:text/html,<script>alert(1)</script>",
        "file:///etc/passwd",
        "ftp://example.org/",
        "vbscript:x",
        "blob:https://example.org/x",
        "about:blank",
        "intent://scan/#Intent;end",
        "https://user:password@example.org/authorize",
        "http://example.org/authorize",
        "//example.org/authorize",
        "$(touch /tmp/x)",
    ],
)
async def test_an_authorization_address_that_is_no_https_page_is_refused(
    service: Service, ada: Acting, peers: Peers, url: str
) -> None:
    peers.authority.says["authorization_endpoint"] = url

    with pytest.raises(OperationError) as caught:
        await start(service, ada)

    assert caught.value.kind == "configuration"
    assert not await OAuthAttempt.objects.aexists()
