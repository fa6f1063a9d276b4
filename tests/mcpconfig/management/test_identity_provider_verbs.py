"""Identity providers from the command line and in the admin: both check and keep the same."""

from typing import Any

import pytest
from django.test import Client, override_settings

from chatapp.models import Member
from mcpconfig.models import IdentityProvider, Service
from mcpconfig.secrets import oauth_secrets
from tests.mcp_command import Ran

pytestmark = pytest.mark.timeout(30)

ISSUER = "https://id.example"
SECRET = "canary-secret-0123"
ADD = "/admin/mcpconfig/identityprovider/add/"
NEEDED = ("--issuer", ISSUER, "--client-id", "us", "--client-secret-env", "SECRET")
FORM = {"name": "acme", "issuer": ISSUER, "client_id": "us", "client_secret": SECRET}


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", SECRET)


def stored() -> tuple[str, str, str]:
    provider = IdentityProvider.objects.get()
    return provider.issuer, provider.client_id, oauth_secrets.decrypt_provider_secret(provider)


def a_service() -> Service:
    return Service.objects.create(
        name="wiki",
        url="https://wiki.example/mcp",
        authentication="company",
        identity_provider=IdentityProvider.objects.get(),
    )


@override_settings(PUBLIC_URL="https://chat.example")
def test_one_is_added_shown_changed_and_removed_from_the_command_line() -> None:
    added = Ran("identity-provider", "acme", *NEEDED, "--json")
    assert added.code == 0, added.err
    assert added.json["redirect_uri"] == "https://chat.example/oauth/company/acme/callback"
    assert stored() == (ISSUER, "us", SECRET)

    assert Ran("identity-provider", "acme", "--title", "Acme").code == 0
    shown = Ran("identity-provider", "acme", "--json")
    assert (shown.json["title"], shown.json["has_secret"]) == ("Acme", True)
    assert stored() == (ISSUER, "us", SECRET), "what is not named stays"
    assert "acme" in Ran("identity-providers").out
    assert SECRET not in added.out + shown.out + Ran("identity-provider", "acme").out

    assert Ran("identity-provider", "acme", "--remove").code == 0
    assert not IdentityProvider.objects.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("identity-provider", "none"), "no identity provider"),
        (("identity-provider", "acme", "--issuer", ISSUER), "client id: This field is required"),
        (("identity-provider", "acme", *NEEDED[2:], "--issuer", "http://id.example"), "https://"),
        (
            ("add", "wiki", "https://w.example/", "--company-sign-in", "none"),
            "no identity provider",
        ),
    ],
)
def test_what_cannot_work_is_refused(words: tuple[str, ...], said: str) -> None:
    ran = Ran(*words)
    assert (ran.code, said in ran.err) == (1, True), ran.err
    assert not IdentityProvider.objects.exists() and not Service.objects.exists()


def test_one_that_opens_services_is_not_removed() -> None:
    Ran("identity-provider", "acme", *NEEDED)
    a_service()
    ran = Ran("identity-provider", "acme", "--remove")
    assert (ran.code, "These services use it: wiki." in ran.err) == (1, True)
    assert IdentityProvider.objects.exists()


@pytest.mark.parametrize("option", [("--issuer", "https://evil.example"), ("--client-id", "other")])
def test_the_secret_is_not_carried_to_another_issuer_or_client(option: tuple[str, str]) -> None:
    Ran("identity-provider", "acme", *NEEDED)
    ran = Ran("identity-provider", "acme", *option)
    assert (ran.code, "client secret: Enter this again" in ran.err) == (1, True)
    assert stored() == (ISSUER, "us", SECRET)


def test_an_admin_adds_one_and_its_secret_is_on_no_page(admin_client: Client) -> None:
    assert (
        "Set PUBLIC_URL in the server’s environment first" in admin_client.get(ADD).content.decode()
    )
    with override_settings(PUBLIC_URL="https://chat.example"):
        assert admin_client.post(ADD, FORM).status_code == 302
        provider = IdentityProvider.objects.get()
        page = admin_client.get(f"/admin/mcpconfig/identityprovider/{provider.pk}/change/")
    text = page.content.decode()
    assert stored() == (ISSUER, "us", SECRET)
    assert "https://chat.example/oauth/company/acme/callback" in text
    assert "Currently: set." in text and SECRET not in text


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"issuer": "http://id.example"}, "issuer"),
        ({"issuer": "https://10.0.0.1@evil.example"}, "issuer"),
        ({"client_id": ""}, "client_id"),
        ({"name": "not a name"}, "name"),
    ],
)
def test_the_form_says_what_is_wrong(
    admin_client: Client, changes: dict[str, Any], field: str
) -> None:
    answer = admin_client.post(ADD, FORM | changes)
    assert answer.status_code == 200
    assert list(answer.context["adminform"].form.errors) == [field]


def test_an_admin_who_names_another_client_is_told_what_goes(admin_client: Client) -> None:
    admin_client.post(ADD, FORM)
    page = f"/admin/mcpconfig/identityprovider/{IdentityProvider.objects.get().pk}/change/"
    assert admin_client.post(page, FORM | {"client_secret": ""}).status_code == 302
    assert stored() == (ISSUER, "us", SECRET)
    answer = admin_client.post(page, FORM | {"client_id": "other"}, follow=True)
    assert "All members must sign in again" in answer.content.decode()
    assert stored() == (ISSUER, "other", SECRET)


def test_a_service_for_company_sign_in_needs_a_provider(admin_client: Client) -> None:
    Ran("identity-provider", "acme", *NEEDED)
    words = ("add", "wiki", "https://wiki.example/mcp", "--client-id", "us")
    missing = Ran(*words, "--company-sign-in", "acme")
    assert (missing.code, "client secret: Required." in missing.err) == (1, True)
    assert Ran(*words, "--company-sign-in", "acme", "--client-secret-env", "SECRET").code == 0
    status = Ran("status", "wiki", "--json").json
    assert (status["authentication"], status["identity_provider"]) == ("company", "acme")


def test_members_do_not_see_identity_providers(owner: Member, client: Client) -> None:
    client.force_login(owner)
    assert client.get(ADD).status_code in (302, 403)
