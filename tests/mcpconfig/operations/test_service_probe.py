"""The check of an address before a service is added: each step says what it found, or why it failed
and what to do. Nothing is stored."""

from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route

from chatapp.models import Member
from mcpconfig.models import Exchange, OAuthChallenge, OAuthClient, Service
from mcpconfig.operations.service_probe import Probe, list_tools_of_draft, probe_service
from mcpconfig.secrets.credentials import RequestCredentials
from mcpconfig.services.service_names import propose_name
from mcpconfig.values.errors import HOST_CHECK_HINT, OperationError
from mcpconfig.values.probe import ProbeReport, ProbeStep
from tests.peers.authority import Authority, served_authority
from tests.peers.serving import Served
from tests.peers.toolbox import BEARER
from tests.peers.vault import Vault, served_vault

pytestmark = pytest.mark.timeout(60)

BASE_URL = "https://chat.example"


@pytest.fixture
def peers() -> Iterator[tuple[Authority, Vault]]:
    with served_authority() as (authority, _), served_vault(authority) as (vault, _):
        yield authority, vault


async def probe(
    url: str,
    credentials: RequestCredentials | None = None,
    allows_private: bool = True,
    **options: Any,
) -> Probe:
    service = Service(url=url, allows_private_addresses=allows_private)
    return await probe_service(service, credentials, base_url=BASE_URL, **options)


def states(report: ProbeReport) -> dict[str, str]:
    return {step.name: step.state for step in report.steps}


def step(report: ProbeReport, name: Any) -> ProbeStep:
    found = report.get_step(name)
    assert found is not None
    return found


async def test_a_service_without_sign_in_passes_every_step(peer: Served) -> None:
    report = (await probe(peer.url)).report

    assert set(states(report).values()) == {"passed"}
    assert (report.title, report.name, report.authentication) == ("toolbox", "toolbox", "none")
    assert report.tools
    assert "listed without sign-in" in step(report, "tools").detail
    assert report.blocking is None


@pytest.mark.parametrize("era", ["modern", "handshake"])
async def test_the_era_is_told(era: str, request: pytest.FixtureRequest) -> None:
    served: Served = request.getfixturevalue(era)
    detail = step((await probe(served.url)).report, "era").detail
    assert ("with a handshake" in detail) == (era == "handshake")


async def test_nothing_is_stored_by_a_check(modern: Served, guarded: Served) -> None:
    await probe(modern.url)
    await probe(guarded.url)

    def count() -> int:
        models = (Service, Exchange, OAuthChallenge, OAuthClient)
        return sum(model.objects.count() for model in models)

    assert await sync_to_async(count)() == 0


async def test_a_private_address_is_refused_before_anything_is_sent(modern: Served) -> None:
    report = (await probe(modern.url.replace("http:", "https:"), allows_private=False)).report

    assert states(report)["address"] == "failed"
    assert "allow private addresses" in step(report, "address").fix
    assert set(states(report).values()) == {"failed", "later"}
    assert report.blocking is step(report, "address")
    assert modern.arrivals.seen == []


async def test_a_member_who_is_no_admin_gets_no_way_inside(modern: Served) -> None:
    owner = await Member.objects.acreate(username="ada")
    service = Service(url=modern.url, allows_private_addresses=True, owner=owner)
    found = await probe_service(service, None, base_url=BASE_URL)

    assert states(found.report)["address"] == "failed"
    assert modern.arrivals.seen == []


async def test_a_service_of_one_admin_may_be_inside(modern: Served) -> None:
    owner = await Member.objects.acreate(username="ada", is_staff=True, rights=["services"])
    service = Service(url=modern.url, allows_private_addresses=True, owner=owner)
    found = await probe_service(service, None, base_url=BASE_URL)

    assert set(states(found.report).values()) == {"passed"}


async def test_a_service_that_asks_for_a_token_says_so(guarded: Served) -> None:
    report = (await probe(guarded.url)).report

    assert states(report)["transport"] == "passed"
    assert states(report)["tools"] == "later"
    assert report.tools is None and report.blocking is None


async def test_with_a_token_the_tools_are_listed(guarded: Served) -> None:
    sent = RequestCredentials(headers={"authorization": f"Bearer {BEARER}"})
    report = (await probe(guarded.url, sent)).report

    assert report.tools
    assert "with these credentials" in step(report, "tools").detail


async def test_a_wrong_token_fails_at_the_tools_and_is_not_shown(guarded: Served) -> None:
    secret = "wrong-token-0123456789"
    sent = RequestCredentials(headers={"authorization": f"Bearer {secret}"})
    report = (await probe(guarded.url, sent)).report

    failed = step(report, "tools")
    assert failed.state == "failed" and "401" in failed.raw
    assert "does not accept the stored credentials" in failed.detail
    assert secret not in str(report.to_json())


@pytest.mark.parametrize("status", [401, 403, 500])
async def test_a_server_that_repeats_the_token_does_not_bring_it_into_the_report(
    status: int,
) -> None:
    secret = "echoed-token-0123456789"

    async def repeat(request: Any) -> JSONResponse:
        said = request.headers.get("authorization", "")
        challenge = {"www-authenticate": f'Bearer error="invalid_token {said}"'}
        return JSONResponse({"error": f"unknown: {said}"}, status_code=status, headers=challenge)

    app = Starlette(routes=[Route("/mcp", repeat, methods=["GET", "POST"])])
    sent = RequestCredentials(headers={"authorization": f"Bearer {secret}"})
    with Served(app) as served:
        report = (await probe(served.url, sent)).report
        assert any(secret in str(each.headers) for each in served.arrivals.seen)
    assert report.failed and secret not in str(report.to_json())


async def test_oauth_is_found_with_its_server_and_countersign_registers_itself(
    peers: tuple[Authority, Vault],
) -> None:
    authority, vault = peers
    found = await probe(vault.url)
    report = found.report

    assert report.authentication == "oauth_user" and report.scopes == "tools"
    assert authority.url in step(report, "challenge").detail
    assert "WWW-Authenticate" in step(report, "challenge").raw
    assert states(report)["registration"] == "passed"
    assert authority.registrations == 1
    assert found.registration is not None
    assert found.registration.redirect_uri == report.redirect_uri
    assert "secret" not in repr(found.registration)


async def test_a_second_check_uses_the_same_registration(peers: tuple[Authority, Vault]) -> None:
    authority, vault = peers
    first = await probe(vault.url)
    second = await probe(vault.url, known=first.registration)

    assert authority.registrations == 1
    assert second.registration == first.registration


async def test_a_refused_registration_shows_the_answer_and_the_way_by_hand(
    peers: tuple[Authority, Vault],
) -> None:
    authority, vault = peers

    async def refuse(scope: Any, receive: Any, send: Any) -> None:
        said = {"error": "access_denied", "error_description": "dynamic registration is disabled"}
        await JSONResponse(said, status_code=403)(scope, receive, send)

    authority.registering.append(refuse)
    report = (await probe(vault.url)).report

    failed = step(report, "registration")
    assert failed.state == "failed"
    assert "403" in failed.raw and "dynamic registration is disabled" in failed.raw
    assert "redirect URL" in failed.fix
    assert report.blocking is None, "it can be added with a client ID"


async def test_a_client_id_by_hand_is_not_registered(peers: tuple[Authority, Vault]) -> None:
    authority, vault = peers
    service = Service(url=vault.url, allows_private_addresses=True, client_id="mine")
    report = (await probe_service(service, None, base_url=BASE_URL)).report

    assert "mine" in step(report, "registration").detail
    assert authority.registrations == 0


async def test_a_403_points_at_the_host_check() -> None:
    async def refuse(_request: Any) -> PlainTextResponse:
        return PlainTextResponse("Forbidden", status_code=403)

    app = Starlette(routes=[Route("/mcp", refuse, methods=["GET", "POST"])])
    with Served(app) as served:
        report = (await probe(served.url)).report

    failed = step(report, "transport")
    assert failed.state == "failed" and "403" in failed.raw
    assert str(HOST_CHECK_HINT) in failed.fix


@pytest.mark.parametrize(
    ("url", "name", "words"),
    [
        ("http://127.0.0.1:1/mcp", "transport", "Nothing answers"),
        ("https://nobody.invalid/mcp", "address", "not found"),
        ("tracker", "address", "must begin with https://"),
        ("https://me:secret@127.0.0.1/mcp", "address", "must not contain a user name"),
    ],
)
async def test_an_address_that_leads_nowhere_says_why(url: str, name: str, words: str) -> None:
    report = (await probe(url)).report

    assert words in step(report, name).detail and step(report, name).fix
    assert report.blocking is step(report, name)


async def test_a_page_that_is_no_service_shows_both_transports() -> None:
    with Served(Starlette()) as served:
        report = (await probe(served.url)).report

    raw = step(report, "transport").raw
    assert "Streamable HTTP" in raw and "HTTP+SSE" in raw and "404" in raw


async def test_the_whole_check_is_bounded(modern: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpconfig.operations.service_probe.PROBE_SECONDS", 0.0)
    report = (await probe(modern.url)).report

    assert step(report, "transport").state == "failed"
    assert "did not answer in time" in step(report, "transport").detail


async def test_a_report_survives_its_storage(modern: Served) -> None:
    report = (await probe(modern.url)).report
    assert ProbeReport.from_json(report.to_json()) == report


async def test_tools_are_read_again_over_a_new_connection(modern: Served, guarded: Served) -> None:
    listing = await list_tools_of_draft(
        Service(url=modern.url, allows_private_addresses=True), None
    )
    assert listing.tools
    with pytest.raises(OperationError):
        await list_tools_of_draft(Service(url=guarded.url, allows_private_addresses=True), None)


def test_proposed_names_are_free_and_speak_of_the_service() -> None:
    assert propose_name("https://mcp.tracker.example/mcp", "", ()) == "tracker"
    assert propose_name("https://mcp.tracker.example/mcp", "Tracker Server", ()) == "tracker-server"
    assert propose_name("https://tracker.example/", "", {"tracker", "tracker-2"}) == "tracker-3"
    assert propose_name("http://127.0.0.1:8080/mcp", "", ()) == "service"
    assert propose_name("nonsense", "", ()) == "service"
