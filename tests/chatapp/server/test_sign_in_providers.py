"""SIGN_IN_PROVIDERS: what is read, and what stops the start with which words."""

import json
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from chatapp.server import sign_in_providers
from chatapp.server.environment import Environment
from chatapp.server.sign_in_providers import (
    build_allauth_settings,
    list_provider_apps,
    read_providers,
)

RIGHT = {
    "id": "company",
    "issuer": "https://id.example.com/realms/main/",
    "client_id": "countersign",
    "client_secret": "hidden-secret",
}
SAML = {
    "id": "acme",
    "kind": "saml",
    "issuer": "urn:acme:identity",
    "sso_url": "https://id.example.com/sso?tenant=1",
    "certificate": "-----BEGIN CERTIFICATE-----\nTUlJ\nQg==\n-----END CERTIFICATE-----\n" * 2,
}


def read(monkeypatch: pytest.MonkeyPatch, value: Any) -> Any:
    text = value if isinstance(value, str) else json.dumps(value)
    monkeypatch.setenv("SIGN_IN_PROVIDERS", text)
    return read_providers(Environment())


def test_without_the_setting_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SIGN_IN_PROVIDERS", raising=False)
    assert read_providers(Environment()) == ()


def test_a_provider_is_closed_unless_a_field_opens_it(monkeypatch: pytest.MonkeyPatch) -> None:
    (provider,) = read(monkeypatch, [RIGHT])
    assert provider.issuer == "https://id.example.com/realms/main"
    assert provider.name == "company"
    opening = (provider.creates_accounts, provider.links_by_email, provider.emails_are_verified)
    assert opening == (False, False, False)
    assert "hidden-secret" not in repr(provider)
    (app,) = build_allauth_settings((provider,))["openid_connect"]["APPS"]
    assert app["settings"]["oauth_pkce_enabled"]


def test_only_the_apps_of_the_providers_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list_provider_apps(()) == []
    assert list_provider_apps(read(monkeypatch, [RIGHT, {**RIGHT, "id": "other"}])) == [
        "allauth.socialaccount.providers.openid_connect"
    ]
    github = {"id": "code", "kind": "github", "client_id": "a", "client_secret": "b"}
    assert list_provider_apps(read(monkeypatch, [github])) == [
        "allauth.socialaccount.providers.github"
    ]


def test_a_secret_comes_from_another_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPANY_SECRET", "from there")
    entry = {**RIGHT, "client_secret": "", "client_secret_env": "COMPANY_SECRET"}
    (provider,) = read(monkeypatch, [entry])
    assert provider.client_secret == "from there"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("{", "a list of JSON"),
        ('{"id": "x"}', "a list of JSON"),
        ("[1]", "a JSON list of objects"),
        ([{**RIGHT, "secert": "x"}], "there is no field “secert”"),
        ([{**RIGHT, "id": "Has Spaces"}], "“id” is lower-case letters"),
        ([{**RIGHT, "kind": "radius"}], "“kind” is oidc or github or saml or ldap"),
        ([{**SAML, "issuer": ""}], "“issuer” is the entity id"),
        ([{**SAML, "sso_url": "http://id.example.com"}], "“sso_url” is an https address"),
        ([{**SAML, "sso_url": ""}], "“sso_url” is an https address"),
        ([{**SAML, "certificate": "MIIB"}], "“certificate” or the variable “certificate_env”"),
        ([{**SAML, "attributes": ["mail"]}], "“attributes” maps texts to texts"),
        ([{**RIGHT, "issuer": "http://id.example.com"}], "“issuer” is an https address"),
        ([{**RIGHT, "issuer": ""}], "“issuer” is an https address"),
        ([{**RIGHT, "client_id": ""}], "“client_id” is set"),
        ([{**RIGHT, "client_id": 7}], "“client_id” is text"),
        ([{**RIGHT, "client_secret": ""}], "“client_secret” or the variable"),
        ([{**RIGHT, "creates_accounts": "yes"}], "“creates_accounts” is true or false"),
        ([{**RIGHT, "allowed_domains": "example.com"}], "“allowed_domains” is a list of texts"),
        ([{**RIGHT, "allowed_domains": ["@example.com"]}], "“allowed_domains” has host names"),
        ([{**RIGHT, "groups": ["a"]}], "“groups” maps texts to texts"),
        ([RIGHT, RIGHT], "each id is used once"),
        ([{**RIGHT, "kind": "github"}], "GitHub has none"),
    ],
)
def test_a_wrong_setting_stops_the_start_with_its_field(
    monkeypatch: pytest.MonkeyPatch, value: Any, words: str
) -> None:
    with pytest.raises(ImproperlyConfigured) as refusal:
        read(monkeypatch, value)
    assert words in str(refusal.value)
    assert str(refusal.value).startswith("SIGN_IN_PROVIDERS cannot be used")
    assert "hidden-secret" not in str(refusal.value)


def test_a_saml_provider_has_certificates_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two certificates, while the provider changes its key."""
    monkeypatch.setenv("ACME_CERTIFICATE", SAML["certificate"])
    entry = {**SAML, "certificate": "", "certificate_env": "ACME_CERTIFICATE"}
    (provider,) = read(monkeypatch, [entry])
    assert provider.certificates == ("TUlJQg==", "TUlJQg==")
    assert (provider.client_id, provider.client_secret) == ("", "")
    (app,) = build_allauth_settings((provider,))["saml"]["APPS"]
    assert app["client_id"] == app["provider_id"] == "acme"


def test_a_saml_provider_without_its_library_stops_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sign_in_providers, "SAML_LIBRARY", "no_such_library")
    with pytest.raises(ImproperlyConfigured) as refusal:
        read(monkeypatch, [SAML])
    assert "uv sync --extra saml" in str(refusal.value)
