"""Sign-ins and registrations as admins see them: their state, their end, and never a token."""

from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chatapp.models import Member
from mcpconfig.admin import sign_ins
from mcpconfig.models import OAuthChallenge, OAuthClient, OAuthGrant, Service
from mcpconfig.oauth import sign_in_admin
from mcpconfig.oauth.servers.challenges import record_challenge
from mcpconfig.oauth.sign_in_admin import SignInCount
from mcpconfig.oauth.sign_in_status import ConnectionState
from mcpconfig.secrets import oauth_secrets
from mcpconfig.values.acting import Acting
from tests.dom_tree import Element, parse

from .conftest import Browser, Peers

pytestmark = [pytest.mark.gate, pytest.mark.timeout(30)]


@pytest.fixture
async def connected(service: Service, ada: Acting, bob: Acting, browser: Browser) -> Service:
    """Two people are signed in, by one registration."""
    for each in (ada, bob):
        await browser.sign_in(service, each)
    return service


def page_of(client: Client, service: Service, query: str = "") -> Element:
    url = reverse("admin:mcpconfig_service_sign_ins", args=[service.pk])
    answer = client.get(url + query)
    assert answer.status_code == 200
    return parse(answer.content.decode())


def press(client: Client, page: Element, name: str) -> Any:
    """Press this button of the page, with the values of its form."""
    form = next(form for form in page.all("form") if name in form.buttons())
    data = {each["name"]: each["value"] for each in form.all("input")}
    return client.post(form["action"], data)


def count(service: Service) -> SignInCount:
    return sign_in_admin.count_sign_ins([service])[service.pk]


def row(page: Element, name: str) -> Element:
    return next(each for each in page.all("tr") if each.text.startswith(name))


def test_the_page_says_who_is_signed_in_since_when_and_for_what(
    connected: Service, admin_client: Client
) -> None:
    page = page_of(admin_client, connected)
    for name in ("ada", "bob"):
        said = row(page, name).text
        assert "Signed in" in said and f"{timezone.localtime():%b %Y}" in said and "tools" in said
    registration = OAuthClient.objects.get()
    said = row(page, registration.client_id).text
    assert "Registered automatically" in said and registration.issuer in said


def test_no_token_and_no_secret_is_on_the_page(
    connected: Service, admin_client: Client, peers: Peers
) -> None:
    url = reverse("admin:mcpconfig_service_sign_ins", args=[connected.pk])
    html = admin_client.get(url).content.decode()
    secrets = {*peers.authority.tokens, *peers.authority.refreshers}
    secrets |= {oauth_secrets.decrypt_client_secret(each) for each in OAuthClient.objects.all()} - {
        ""
    }
    assert secrets and not any(secret in html for secret in secrets)


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({}, ConnectionState.CONNECTED),
        ({"is_dead": True}, ConnectionState.CONNECT_AGAIN),
        (
            {"refresh": b"", "expires_at": timezone.now() - timedelta(hours=1)},
            ConnectionState.CONNECT_AGAIN,
        ),
        ({"expires_at": timezone.now() - timedelta(hours=1)}, ConnectionState.CONNECTED),
        ({"access": b""}, ConnectionState.CONNECTED),
        ({"access": b"", "refresh": b""}, ConnectionState.CONNECT_AGAIN),
        ({"refresh": b"", "expires_at": None}, ConnectionState.CONNECTED),
    ],
)
def test_a_sign_in_that_only_another_one_helps_says_so_and_is_counted(
    connected: Service, fields: dict[str, Any], state: ConnectionState
) -> None:
    OAuthGrant.objects.filter(person__username="ada").update(**fields)
    ada, bob = sign_in_admin.list_sign_ins(connected)
    assert (ada.state, ada.is_over) == (state, state == ConnectionState.CONNECT_AGAIN)
    assert bob.state == ConnectionState.CONNECTED
    assert count(connected) == SignInCount(total=2, ended=int(ada.is_over))


def test_what_the_service_wants_beyond_it_is_told(
    connected: Service, ada: Acting, admin_client: Client
) -> None:
    async_to_sync(record_challenge)(connected, ada, ['Bearer scope="tools admin"'])
    said = row(page_of(admin_client, connected), "ada").text
    assert "Sign-in needed" in said and "now also requires: tools, admin" in said
    assert count(connected) == SignInCount(total=2, ended=1)


def test_what_the_service_wants_of_the_shared_sign_in_is_counted(
    connected: Service, ada: Acting
) -> None:
    async_to_sync(record_challenge)(connected, ada, ['Bearer scope="admin"'])
    OAuthGrant.objects.filter(person__username="bob").update(person=None)
    assert count(connected) == SignInCount(total=2, ended=1)
    OAuthChallenge.objects.update(person=None)
    assert count(connected) == SignInCount(total=2, ended=1)
    assert {
        each.person is None: each.is_over for each in sign_in_admin.list_sign_ins(connected)
    } == {
        True: True,
        False: False,
    }


def test_a_sign_in_to_an_earlier_address_is_not_listed(connected: Service) -> None:
    OAuthGrant.objects.filter(person__username="ada").update(endpoint="https://old.example/mcp")
    assert [str(each.person) for each in sign_in_admin.list_sign_ins(connected)] == ["bob"]
    assert count(connected) == SignInCount(total=1)


def test_many_sign_ins_are_on_several_pages(
    connected: Service, admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sign_ins, "SIGN_INS_PER_PAGE", 1)
    page = page_of(admin_client, connected)
    assert row(page, "ada") and "bob" not in page.text
    assert "Page 1 of 2" in page.text
    (link,) = [each["href"] for each in page.all("a") if each.text == "Next"]
    second = page_of(admin_client, connected, link)
    assert "ada" not in second.text
    press(admin_client, second, "Revoke the sign-in of bob")
    assert [str(grant.person) for grant in OAuthGrant.objects.all()] == ["ada"]


def test_revoke_ends_one_persons_sign_in_here_and_there(
    connected: Service, admin_client: Client, peers: Peers, ada: Acting
) -> None:
    async_to_sync(record_challenge)(connected, ada, ['Bearer scope="admin"'])
    given = {*peers.authority.tokens, *peers.authority.refreshers}

    press(admin_client, page_of(admin_client, connected), "Revoke the sign-in of ada")

    assert [str(grant.person) for grant in OAuthGrant.objects.all()] == ["bob"]
    assert not OAuthChallenge.objects.exists()
    assert set(peers.authority.revoked) < given and len(peers.authority.revoked) == 2
    assert "Revoked the sign-in of ada" in LogEntry.objects.get().change_message


def test_a_revoked_sign_in_of_everybody_is_called_shared(
    connected: Service, admin_client: Client
) -> None:
    OAuthGrant.objects.filter(person__username="ada").update(person=None)
    shared = OAuthGrant.objects.get(person=None)
    url = reverse("admin:mcpconfig_service_revoke", args=[connected.pk])
    admin_client.post(url, {"sign_in": str(shared.pk)})
    assert not OAuthGrant.objects.filter(pk=shared.pk).exists()
    assert "Revoked the shared sign-in" in LogEntry.objects.get().change_message


def test_register_again_forgets_the_registration_and_what_came_of_it(
    connected: Service, admin_client: Client, peers: Peers, browser: Browser, ada: Acting
) -> None:
    before = OAuthClient.objects.get()
    address = f"Register again at {before.issuer}"

    press(admin_client, page_of(admin_client, connected), address)

    assert not OAuthGrant.objects.exists() and not OAuthClient.objects.exists()
    assert len(peers.authority.revoked) == 4
    assert before.issuer in LogEntry.objects.get().change_message
    async_to_sync(browser.sign_in)(connected, ada)
    assert OAuthClient.objects.get().client_id != before.client_id


@pytest.mark.parametrize("kind", ["typed", "document"])
def test_only_what_registered_itself_can_be_forgotten(
    connected: Service, admin_client: Client, kind: str
) -> None:
    """The row of an entered client says at which server its secret may be used."""
    OAuthClient.objects.update(kind=kind)
    assert "Register again" not in page_of(admin_client, connected).one(id="content-main").buttons()
    url = reverse("admin:mcpconfig_service_forget_registration", args=[connected.pk])
    admin_client.post(url, {"registration": str(OAuthClient.objects.get().pk)})
    assert OAuthClient.objects.exists() and OAuthGrant.objects.count() == 2


@pytest.mark.parametrize("given", ["", "x", "-1", "9" * 30, "another service's"])
@pytest.mark.parametrize("button", ["revoke", "forget_registration"])
def test_what_is_not_of_this_service_is_left_alone(
    connected: Service, admin_client: Client, button: str, given: str
) -> None:
    other = Service.objects.create(name="other", url="https://other.example/mcp")
    if given == "another service's":
        ids = OAuthGrant.objects if button == "revoke" else OAuthClient.objects
        given = str(ids.values_list("pk", flat=True)[0])
    url = reverse(f"admin:mcpconfig_service_{button}", args=[other.pk])
    answer = admin_client.post(url, {"sign_in": given, "registration": given}, follow=True)
    text = answer.content.decode()
    assert "was already deleted" in text or "has already ended" in text
    assert OAuthGrant.objects.count() == 2 and OAuthClient.objects.count() == 1


async def test_one_sign_in_for_all_is_everybodys(
    service: Service, ada: Acting, browser: Browser
) -> None:
    service.authentication = Service.Authentication.OAUTH_SHARED
    await service.asave()
    await browser.sign_in(service, ada)
    (only,) = await sync_to_async(sign_in_admin.list_sign_ins)(service)
    assert (only.person, only.state) == (None, ConnectionState.CONNECTED)
    assert await sync_to_async(sign_in_admin.revoke)(service, only.id)
    assert not await OAuthGrant.objects.aexists()


@pytest.mark.parametrize("name", ["sign_ins", "revoke", "forget_registration"])
def test_only_admins_see_or_end_sign_ins(
    connected: Service, admin_client: Client, stranger: Member, stranger_client: Client, name: str
) -> None:
    url = reverse(f"admin:mcpconfig_service_{name}", args=[connected.pk])
    assert stranger_client.get(url).status_code == 302
    stranger.is_staff = True
    stranger.save()
    assert stranger_client.get(url).status_code in (403, 405)
    assert stranger_client.post(url).status_code in (403, 405)
    if name != "sign_ins":
        assert admin_client.get(url).status_code == 405
    assert OAuthGrant.objects.count() == 2
