"""Challenges of services: parsed as untrusted input, and stored for the next sign-in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpconfig.models import OAuthChallenge, OAuthGrant, Service
from mcpconfig.oauth.servers.challenges import record_challenge
from mcpconfig.oauth.tokens import get_access_token
from mcpconfig.values.acting import Acting
from mcpconfig.values.challenge import Challenge
from tests.mcpconfig.oauth.conftest import Browser, Peers, start

pytestmark = pytest.mark.timeout(30)

METADATA = "https://service.example/.well-known/oauth-protected-resource"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([], Challenge()),
        (["Bearer"], Challenge()),
        (["Basic realm=x"], Challenge()),
        ([f'Bearer resource_metadata="{METADATA}"'], Challenge(resource_metadata=METADATA)),
        ([f"Bearer resource_metadata={METADATA}"], Challenge(resource_metadata=METADATA)),
        (['Bearer scope="a b"'], Challenge(scope="a b")),
        (['bearer SCOPE = "a b" , realm="x"'], Challenge(scope="a b")),
        (['Basic realm="a, b", Bearer scope="c"'], Challenge(scope="c")),
        (["Basic realm=x", 'Bearer scope="c"'], Challenge(scope="c")),
        (['DPoP algs="ES256", scope="d", Bearer scope="c"'], Challenge(scope="c")),
        (['Bearer scope="a", scope="b"'], Challenge(scope="a")),
        (['Bearer scope="a", Bearer scope="b"'], Challenge(scope="a")),
        (['Bearer error="insufficient_scope", scope="w"'], Challenge(scope="w", is_step_up=True)),
        (['Bearer error="invalid_token", scope="w"'], Challenge(scope="w")),
        (['Bearer error_description="scope=evil", scope="good"'], Challenge(scope="good")),
        (['Bearer error_description="no scope=\\"evil\\""'], Challenge()),
        (['Bearer xscope="evil"'], Challenge()),
        (['Bearer scope="a\\"b"'], Challenge()),
        (['Bearer scope="a  b"'], Challenge()),
        (['Bearer scope="é"'], Challenge()),
        (['Bearer scope="a\x00b"'], Challenge()),
        (['Bearer scope="unended'], Challenge()),
        (["Bearer token68=="], Challenge()),
    ],
)
def test_a_challenge_is_read_as_its_grammar_says(headers: list[str], expected: Challenge) -> None:
    assert Challenge.read(headers) == expected


@given(st.lists(st.text(max_size=200), max_size=3))
def test_no_header_breaks_the_reading(headers: list[str]) -> None:
    read = Challenge.read(headers)
    assert len(read.resource_metadata) <= 2000 and len(read.scope) <= 1000


@given(st.text(st.sampled_from('Bearer scope="=,\\ \t'), max_size=300))
def test_no_malformed_challenge_breaks_the_reading(said: str) -> None:
    assert "\\" not in Challenge.read([f"Bearer {said}"]).scope


async def test_what_the_service_wanted_is_asked_for_at_the_next_start(
    service: Service, ada: Acting, peers: Peers
) -> None:
    error = await record_challenge(service, ada, ['Bearer scope="admin"'])

    assert error.kind == "sign_in_needed"
    assert (await start(service, ada)).scopes == ("admin",)


async def test_one_persons_challenge_is_not_another_ones(
    service: Service, ada: Acting, bob: Acting
) -> None:
    await record_challenge(service, ada, ['Bearer scope="admin"'])

    assert (await start(service, bob)).scopes == ("tools",)


async def test_what_an_admins_test_was_told_helps_the_first_person(
    service: Service, ada: Acting
) -> None:
    await record_challenge(service, None, ['Bearer scope="admin"'])

    assert (await start(service, ada)).scopes == ("admin",)


async def test_a_challenge_of_an_old_address_is_forgotten(
    service: Service, ada: Acting, peers: Peers
) -> None:
    await record_challenge(service, ada, ['Bearer scope="admin"'])
    await OAuthChallenge.objects.aupdate(endpoint="https://old.example/mcp")

    assert (await start(service, ada)).scopes == ("tools",)


async def test_a_challenge_is_kept_once_however_often_it_comes(
    service: Service, ada: Acting
) -> None:
    for _ in range(3):
        await record_challenge(service, ada, ['Bearer scope="admin"'])

    assert await OAuthChallenge.objects.acount() == 1


async def test_somebody_who_showed_nothing_spoils_no_token(
    service: Service, ada: Acting, browser: Browser, peers: Peers
) -> None:
    await browser.sign_in(service, ada)
    await record_challenge(service, ada, ["Bearer"])
    await record_challenge(service, ada, ["Bearer"], token="an older one")

    assert await get_access_token(service, ada)
    assert peers.authority.grants("refresh_token") == 0


async def test_a_renewed_sign_in_settles_a_plain_challenge_but_not_a_wish_for_more_rights(
    service: Service, ada: Acting, browser: Browser
) -> None:
    grant = await browser.sign_in(service, ada)
    token = await get_access_token(service, ada)
    await record_challenge(service, ada, ["Bearer"], token=token)
    await get_access_token(service, ada)
    assert not await OAuthChallenge.objects.aexists()

    await record_challenge(service, ada, ['Bearer error="insufficient_scope", scope="admin"'])
    await OAuthGrant.objects.filter(pk=grant.pk).aupdate(
        renew_at="2020-01-01T00:00Z", expires_at="2020-01-01T00:00Z"
    )
    await get_access_token(service, ada)
    assert await OAuthChallenge.objects.aexists()


async def test_a_wish_for_rights_that_were_asked_for_already_is_a_no(
    service: Service, ada: Acting, browser: Browser
) -> None:
    await browser.sign_in(service, ada)

    error = await record_challenge(
        service, ada, ['Bearer error="insufficient_scope", scope="tools"']
    )

    assert error.kind == "forbidden"
    assert not await OAuthChallenge.objects.aexists()
