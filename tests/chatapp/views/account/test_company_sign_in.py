"""Company sign-in on the pages: connect once, come back, sign out of all; and who may not."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx2
import pytest
from django.test import Client

from chatapp.models import Member
from mcpconfig.models import CompanySignIn, IdentityProvider, OAuthAttempt, Service
from mcpconfig.secrets import credentials, oauth_secrets
from tests.conftest import signed_in
from tests.dom_tree import Element, parse
from tests.peers.company import CLIENT, SECRET, Company, served_company

pytestmark = pytest.mark.timeout(30)


@pytest.fixture
def company(transactional_db: None) -> Iterator[Company]:
    with served_company() as served:
        yield served


@pytest.fixture(autouse=True)
def services(company: Company) -> list[Service]:
    provider = IdentityProvider.objects.create(
        name="acme",
        title="Acme",
        issuer=company.url,
        client_id=CLIENT,
        allows_private_addresses=True,
    )
    oauth_secrets.encrypt_provider_secret(provider, SECRET)
    provider.save()
    made = [
        Service.objects.create(
            name=name,
            url=f"http://127.0.0.1:9/{name}",
            authentication="company",
            identity_provider=provider,
            client_id="us",
            allows_private_addresses=True,
            visibility="everyone",
        )
        for name in ("archive", "wiki")
    ]
    for service in made:
        credentials.set_client_secret(service, "a-secret")
    return made


def row(client: Client, name: str) -> Element:
    answer = client.get("/services/")
    return parse(answer.content.decode()).one("li", id=f"service-{name}")


def get_callback_path(client: Client, name: str = "wiki") -> str:
    """The path that the identity provider sends the browser back to."""
    page = parse(client.post(f"/oauth/mcp/{name}/start").content.decode())
    section = page.one("section", aria_label="Before you leave")
    assert "Acme" in section.text
    link = section.one("a", rel="noreferrer")
    parts = urlsplit(httpx2.get(link["href"], trust_env=False).headers["location"])
    return f"{parts.path}?{parts.query}"


def test_a_person_connects_one_service_and_has_both(owner: Member) -> None:
    client = signed_in(owner)
    assert "Needs your sign-in at Acme" in row(client, "archive").text

    back = get_callback_path(client)
    answer = client.get(back)

    assert back.startswith("/oauth/company/acme/callback?")
    assert (answer.status_code, answer["Referrer-Policy"]) == (200, "no-referrer")
    assert "<bdi>wiki</bdi> is connected." in answer.content.decode()
    for name in ("archive", "wiki"):
        shown = row(client, name)
        assert "with your sign-in at Acme for all its services." in shown.text
        (button,) = shown.all("button")
        assert "Acme" in button.text

    client.post("/oauth/mcp/archive/disconnect")

    assert [button.text for button in row(client, "wiki").all("button")] == ["Connect wiki"]
    assert not CompanySignIn.objects.exists()


def test_a_stranger_with_the_address_gets_nothing_and_spoils_nothing(
    owner: Member, stranger: Member
) -> None:
    client = signed_in(owner)
    back = get_callback_path(client)

    answer = signed_in(stranger).get(back)

    assert answer.status_code == 409
    assert not CompanySignIn.objects.exists()
    assert client.get(back).status_code == 200


def test_who_is_signed_out_is_shown_the_door(client: Client) -> None:
    answer = client.get("/oauth/company/acme/callback?state=x&code=y")
    assert answer["Location"].startswith("/sign-in/")


def test_only_a_known_provider_answers_and_only_to_reading(owner: Member) -> None:
    client = signed_in(owner)
    assert client.get("/oauth/company/evil/callback").status_code == 404
    assert client.post("/oauth/company/acme/callback").status_code == 405


def test_words_in_the_address_are_never_on_the_page(owner: Member) -> None:
    client = signed_in(owner)
    back = f"{get_callback_path(client).split('&code=')[0].split('?')[0]}?state=x&error=canary"
    answer = client.get(back)
    assert answer.status_code == 409
    assert "canary" not in answer.content.decode()


def test_a_service_that_one_may_not_use_is_not_connected(
    stranger: Member, owner: Member, services: list[Service]
) -> None:
    Service.objects.update(visibility="private", owner=owner)
    assert signed_in(stranger).post("/oauth/mcp/wiki/start").status_code == 404
    assert not OAuthAttempt.objects.exists()


def test_an_admin_sees_who_is_signed_in(owner: Member, admin_client: Client) -> None:
    client = signed_in(owner)
    client.get(get_callback_path(client))
    service = Service.objects.get(name="archive")

    page = admin_client.get(f"/admin/mcpconfig/service/{service.pk}/sign-ins/").content.decode()

    assert "Acme" in page and owner.display_name in page
