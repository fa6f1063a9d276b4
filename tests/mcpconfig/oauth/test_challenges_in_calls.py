"""A call that a service refuses for its token: which outcome is certain, and that it can continue
after a sign-in."""

import pytest
from asgiref.sync import sync_to_async

from mcpconfig.models import Service, ToolDefinition
from mcpconfig.operations.tools import fetch_listing
from mcpconfig.secrets.credentials import set_bearer
from mcpconfig.values.acting import Acting
from mcpconfig.values.errors import OperationError
from tests.peers.finished_calls import call_tool
from tests.peers.serving import Served
from tests.peers.toolbox import BEARER

from .conftest import Browser, MakeService, Peers

pytestmark = pytest.mark.timeout(30)

CALL = ToolDefinition(name="whoami", input_schema={})


async def connected(service: Service, ada: Acting, browser: Browser) -> None:
    """Signed in, and with a remembered endpoint, so that a call is the first request."""
    await browser.sign_in(service, ada)
    await fetch_listing(service, acting=ada)


async def turned_away(service: Service, ada: Acting | None = None) -> OperationError:
    with pytest.raises(OperationError) as caught:
        await call_tool(service, CALL, {}, acting=ada)
    return caught.value


async def test_a_call_with_a_revoked_token_has_certainly_not_run_and_goes_on_after_a_sign_in(
    service: Service, ada: Acting, browser: Browser, peers: Peers
) -> None:
    await connected(service, ada, browser)
    peers.authority.tokens.clear()
    peers.authority.refreshers.clear()

    error = await turned_away(service, ada)
    assert (error.kind, error.was_sent, error.is_definite) == ("sign_in_needed", True, True)
    assert peers.vault.runs == 0

    await browser.sign_in(service, ada)
    outcome = await call_tool(service, CALL, {}, acting=ada)
    assert outcome.result.content[0]["text"] == "ada"
    assert peers.vault.runs == 1


@pytest.mark.parametrize(
    ("challenge", "is_definite"),
    [
        ('Bearer error="invalid_token"', True),
        ('Basic realm="x", Bearer scope="tools"', True),
        ("Bearer", False),
        ('Basic realm="x"', False),
        ("Bearer ,,,", False),
    ],
)
async def test_only_a_well_formed_challenge_is_certain(
    service: Service,
    ada: Acting,
    browser: Browser,
    peers: Peers,
    challenge: str,
    is_definite: bool,
) -> None:
    await connected(service, ada, browser)
    peers.authority.tokens.clear()
    peers.vault.challenge = challenge

    error = await turned_away(service, ada)

    assert error.kind == "sign_in_needed"
    assert error.is_definite == is_definite


async def test_a_call_that_needs_more_rights_has_certainly_not_run(
    service: Service, ada: Acting, browser: Browser, peers: Peers
) -> None:
    await connected(service, ada, browser)

    with pytest.raises(OperationError) as caught:
        await call_tool(service, ToolDefinition(name="seal", input_schema={}), {}, acting=ada)

    assert (caught.value.kind, caught.value.is_definite) == ("sign_in_needed", True)
    assert peers.vault.runs == 0


async def test_a_token_that_was_entered_and_is_refused_with_a_challenge_is_certain_too(
    guarded: Served, service_at: MakeService
) -> None:
    service = await service_at(guarded.url, authentication="bearer")
    await sync_to_async(set_bearer)(service, BEARER)
    await fetch_listing(service)
    await sync_to_async(set_bearer)(service, "stale-token")

    error = await turned_away(service)

    assert (error.kind, error.was_sent, error.is_definite) == ("sign_in_needed", True, True)
    assert "Bearer" in error.www_authenticate
