"""The page of services, and signing in to one: what each person sees, and who may not."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from django.contrib.auth.models import Group
from django.test import Client, override_settings

from chatapp.models import Member
from mcpconfig.models import OAuthAttempt, OAuthGrant, Service
from mcpconfig.oauth.servers.challenges import _store_challenge
from mcpconfig.values.acting import Acting
from mcpconfig.values.challenge import Challenge
from tests.conftest import signed_in
from tests.dom_tree import Element, parse
from tests.peers.authority import Authority, served_authority
from tests.peers.vault import Vault, served_vault

pytestmark = [pytest.mark.gate, pytest.mark.timeout(30)]

GETS = ["/services/", "/oauth/mcp/vault/callback"]
POSTS = ["/oauth/mcp/vault/start", "/oauth/mcp/vault/disconnect"]


@pytest.fixture
def peers(transactional_db: None) -> Iterator[tuple[Authority, Vault]]:
    with served_authority() as (authority, _), served_vault(authority) as (vault, _):
        yield authority, vault


@pytest.fixture
def vault(peers: tuple[Authority, Vault]) -> Service:
    return Service.objects.create(
        name="vault",
        title="The vault",
        description="Keeps things.",
        url=peers[1].url,
        authentication="oauth_user",
        allows_private_addresses=True,
        visibility="everyone",
    )


def page(answer: Any) -> Element:
    assert answer["Content-Type"].startswith("text/html")
    return parse(answer.content.decode())


def keep_for_a_group_of(member: Member) -> None:
    """The vault is no longer for everyone, and this member's still."""
    group = Group.objects.create(name="keepers")
    member.groups.add(group)
    service = Service.objects.get()
    service.groups.add(group)
    Service.objects.update(visibility="groups")


def leave(client: Client) -> tuple[Any, str]:
    """The page before leaving, and where its link leads."""
    answer = client.post("/oauth/mcp/vault/start")
    link = page(answer).one("section", aria_label="Before you leave").one("a", rel="noreferrer")
    return answer, link["href"]


def follow_sign_in(link: str) -> str:
    """The path that the authorization server sends the person's browser back to."""
    answer = httpx2.get(link, trust_env=False)
    assert answer.status_code == 302, answer.text
    parts = urlsplit(answer.headers["location"])
    return f"{parts.path}?{parts.query}"


def connect(client: Client) -> Any:
    _, link = leave(client)
    return client.get(follow_sign_in(link))


def get_row(client: Client, name: str = "vault") -> Element:
    return page(client.get("/services/")).one("li", id=f"service-{name}")


def buttons(element: Element) -> list[str]:
    return [button.text for button in element.all("button")]


def test_a_person_connects_and_disconnects_a_service(owner: Member, vault: Service) -> None:
    client = signed_in(owner)
    row = get_row(client)
    assert row.one("h2").text == "The vault"
    assert "Keeps things." in row.text
    assert row.one(data_standing="not connected")
    assert buttons(row) == ["Connect The vault"]

    answer = connect(client)

    assert answer.status_code == 200
    assert "The vault is connected." in page(answer).one("section", aria_label="Sign-in").text
    row = get_row(client)
    assert row.one(data_standing="connected")
    assert "tools" in row.one("small").text
    assert buttons(row) == ["Disconnect The vault"]

    assert client.post("/oauth/mcp/vault/disconnect")["Location"] == "/services/"
    assert buttons(get_row(client)) == ["Connect The vault"]
    assert not OAuthGrant.objects.exists()


def test_the_page_before_leaving_is_ours_and_says_where_one_goes(
    owner: Member, vault: Service, peers: tuple[Authority, Vault]
) -> None:
    """No redirect: the content policy would stop one after a form, and nobody could look first."""
    answer, link = leave(signed_in(owner))

    host = urlsplit(peers[0].url).netloc
    assert answer.status_code == 200 and "Location" not in answer
    assert "form-action 'self'" in answer["Content-Security-Policy"]
    section = page(answer).one("section", aria_label="Before you leave")
    assert section.one("strong").text == host
    assert host in section.one("a", rel="noreferrer").text
    assert link.startswith(f"{peers[0].url}/authorize?")
    assert [code.text for code in section.all("code")] == ["tools"]
    assert "no-store" in answer["Cache-Control"]


def test_the_way_back_is_the_address_under_which_the_person_came(
    owner: Member, vault: Service
) -> None:
    _, link = leave(signed_in(owner))
    assert "redirect_uri=http%3A%2F%2Ftestserver%2Foauth%2Fmcp%2Fvault%2Fcallback" in link


@override_settings(PUBLIC_URL="https://chat.example.org")
def test_the_way_back_is_the_public_address_where_there_is_one(
    owner: Member, vault: Service
) -> None:
    _, link = leave(signed_in(owner))
    assert "redirect_uri=https%3A%2F%2Fchat.example.org%2Foauth%2Fmcp%2Fvault%2Fcallback" in link


def test_a_stranger_who_opens_the_callback_gets_nothing_and_spoils_nothing(
    owner: Member, stranger: Member, vault: Service
) -> None:
    client = signed_in(owner)
    path = follow_sign_in(leave(client)[1])

    answer = signed_in(stranger).get(path)

    assert answer.status_code == 409
    assert page(answer).one("p", class_="notice").text
    assert not OAuthGrant.objects.exists()
    assert client.get(path).status_code == 200


def test_another_session_of_the_same_person_does_not_finish(owner: Member, vault: Service) -> None:
    path = follow_sign_in(leave(signed_in(owner))[1])

    assert signed_in(owner).get(path).status_code == 409
    assert not OAuthGrant.objects.exists()


def test_a_callback_works_once(owner: Member, vault: Service) -> None:
    client = signed_in(owner)
    path = follow_sign_in(leave(client)[1])
    assert client.get(path).status_code == 200
    OAuthGrant.objects.all().delete()

    assert client.get(path).status_code == 409
    assert not OAuthGrant.objects.exists()


def test_a_callback_tells_nobody_its_address(owner: Member, vault: Service) -> None:
    client = signed_in(owner)
    for path in ("/oauth/mcp/vault/callback?state=x&code=y", follow_sign_in(leave(client)[1])):
        assert client.get(path)["Referrer-Policy"] == "no-referrer"


def test_words_in_the_address_are_never_on_the_page(owner: Member, vault: Service) -> None:
    query = "state=x&error=<b>evil</b>&error_description=Call+0800+EVIL&iss=https://evil.example"
    answer = signed_in(owner).get(f"/oauth/mcp/vault/callback?{query}")

    assert answer.status_code == 409
    assert "evil" not in answer.content.decode().lower()


def test_a_service_that_cannot_be_signed_in_to_says_why(
    owner: Member, vault: Service, peers: tuple[Authority, Vault]
) -> None:
    peers[0].says["code_challenge_methods_supported"] = None

    answer = signed_in(owner).post("/oauth/mcp/vault/start")

    assert answer.status_code == 409
    assert "PKCE" in page(answer).one("p", **{"class": "notice"}).text
    assert not OAuthAttempt.objects.exists()


def test_a_service_that_wants_more_says_what(owner: Member, vault: Service) -> None:
    client = signed_in(owner)
    connect(client)
    _store_challenge(vault, Acting.of(owner), Challenge(scope="admin", is_step_up=True), "")

    row = get_row(client)
    assert row.one(data_standing="connect again")
    assert "admin" in row.one("small").text
    assert buttons(row) == ["Connect again The vault", "Disconnect The vault"]
    answer, _ = leave(client)
    assert "admin" in [code.text for code in page(answer).all("code")]


def test_an_ended_sign_in_is_connected_again(owner: Member, vault: Service) -> None:
    client = signed_in(owner)
    connect(client)
    OAuthGrant.objects.update(is_dead=True)

    row = get_row(client)
    assert row.one(data_standing="connect again")

    assert connect(client).status_code == 200
    assert buttons(get_row(client)) == ["Disconnect The vault"]


def test_a_shared_sign_in_is_an_admins_to_make_and_everybodys_to_see(
    owner: Member, admin: Member, vault: Service
) -> None:
    Service.objects.update(authentication="oauth_shared")
    assert get_row(signed_in(owner)).one(data_standing="not connected")
    assert buttons(get_row(signed_in(owner))) == []
    for path in POSTS:
        assert signed_in(owner).post(path).status_code == 403
    assert signed_in(owner).get("/oauth/mcp/vault/callback").status_code == 403

    assert connect(signed_in(admin)).status_code == 200

    assert OAuthGrant.objects.get().person_id is None
    assert get_row(signed_in(owner)).one(data_standing="connected")
    assert buttons(get_row(signed_in(admin))) == ["Disconnect The vault"]


def test_a_service_without_sign_in_needs_nothing(owner: Member, vault: Service) -> None:
    Service.objects.update(authentication="none")

    assert get_row(signed_in(owner)).one(data_standing="ready")
    assert buttons(get_row(signed_in(owner))) == []
    assert signed_in(owner).post("/oauth/mcp/vault/start").status_code == 403


@pytest.mark.parametrize("change", [{"is_enabled": False}, {"visibility": "private"}])
def test_a_service_that_is_not_for_this_person_is_not_there(
    owner: Member, vault: Service, change: dict[str, Any]
) -> None:
    Service.objects.update(**change)
    client = signed_in(owner)

    shown = page(client.get("/services/"))
    assert shown.with_class("nothing") and not shown.all("article")
    assert [client.post(path).status_code for path in POSTS] == [404, 404]
    assert client.get("/oauth/mcp/vault/callback").status_code == 404


def test_the_configuration_is_on_no_page(owner: Member, vault: Service) -> None:
    client = signed_in(owner)
    Service.objects.update(client_id="the-client-id-of-admins")
    text = client.get("/services/").content.decode()

    assert vault.url not in text and "the-client-id" not in text


@pytest.mark.parametrize("url", GETS)
def test_who_is_signed_out_is_shown_the_door(client: Client, vault: Service, url: str) -> None:
    assert client.get(url)["Location"].startswith("/sign-in/")


@pytest.mark.parametrize("url", POSTS)
def test_who_is_signed_out_changes_nothing(client: Client, vault: Service, url: str) -> None:
    assert client.post(url)["Location"].startswith("/sign-in/")
    assert not OAuthAttempt.objects.exists()


@pytest.mark.parametrize("url", POSTS)
def test_reading_changes_nothing_and_another_sites_form_is_refused(
    owner: Member, vault: Service, url: str
) -> None:
    assert signed_in(owner).get(url).status_code == 405
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(owner)
    assert strict.post(url).status_code == 403
    assert not OAuthAttempt.objects.exists()


@override_settings(PUBLIC_URL="https://chat.example.org")
def test_the_document_of_this_application_is_open_to_everybody(
    client: Client, vault: Service
) -> None:
    answer = client.get("/oauth/client.json")

    assert answer["Content-Type"] == "application/json"
    assert answer.json()["client_id"] == "https://chat.example.org/oauth/client.json"
    assert answer.json()["redirect_uris"] == ["https://chat.example.org/oauth/mcp/vault/callback"]


@override_settings(PUBLIC_URL="https://chat.example.org")
@pytest.mark.parametrize("visibility", ["private", "groups"])
def test_the_document_names_no_service_that_is_not_for_every_member(
    owner: Member, vault: Service, visibility: str
) -> None:
    kept_back = Service.objects.create(
        name="takeover-plans",
        url="https://two.example/",
        authentication="oauth_user",
        visibility=visibility,
        owner=owner,
    )

    answer = Client().get("/oauth/client.json")

    assert b"takeover" not in answer.content
    assert answer.json()["redirect_uris"] == [
        "https://chat.example.org/oauth/mcp/vault/callback",
        f"https://chat.example.org/oauth/mcp/~{kept_back.pk}/callback",
    ]


@override_settings(PUBLIC_URL="https://chat.example.org")
def test_a_sign_in_to_a_groups_service_comes_back_to_the_address_in_the_document(
    owner: Member, stranger: Member, vault: Service, peers: tuple[Authority, Vault]
) -> None:
    keep_for_a_group_of(owner)
    peers[0].says["client_id_metadata_document_supported"] = True
    peers[0].know({**Client().get("/oauth/client.json").json(), "scope": "tools"})
    client = signed_in(owner)
    path = follow_sign_in(leave(client)[1])
    assert path.startswith(f"/oauth/mcp/~{vault.pk}/callback?")

    assert signed_in(stranger).get(path).status_code == 404
    assert client.get(f"/oauth/mcp/~{10**30}/callback").status_code == 404
    assert client.get(path).status_code == 200

    assert get_row(client).one(data_standing="connected")


def test_a_groups_service_that_is_registered_by_name_keeps_its_address(
    owner: Member, vault: Service
) -> None:
    """An admin may have typed it in at the server by hand; nobody else reads it there."""
    keep_for_a_group_of(owner)
    client = signed_in(owner)

    path = follow_sign_in(leave(client)[1])

    assert path.startswith("/oauth/mcp/vault/callback?")
    assert client.get(path).status_code == 200


def test_there_is_no_document_without_a_public_address(client: Client, db: None) -> None:
    assert client.get("/oauth/client.json").status_code == 404


def test_the_account_menu_leads_to_the_services(owner: Member, vault: Service) -> None:
    body = page(signed_in(owner).get("/"))
    assert [link.text for link in body.all("a", href="/services/")] == ["Connected services"]
