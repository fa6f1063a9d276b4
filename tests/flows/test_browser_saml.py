"""Sign-in by a SAML provider of another project, in a browser."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.peers.programs import find_free_port, running, saml_provider
from tests.peers.saml_provider import CERTIFICATE, KEY

from .browser import House, Look, both_looks, open_house, openai_alone

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
PORT = find_free_port()
SETTING = {
    "id": "acme",
    "name": "Acme",
    "kind": "saml",
    "issuer": "urn:samlify",
    "sso_url": f"http://127.0.0.1:{PORT}/sso",
    "certificate": CERTIFICATE,
    "creates_accounts": True,
    "emails_are_verified": True,
    "allowed_domains": ["example.com"],
}


@pytest.fixture(scope="module")
def acme(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A server that knows the provider, and the provider, which knows the server's address."""
    folder: Path = tmp_path_factory.mktemp("acme")
    (folder / "key.pem").write_text(KEY)
    (folder / "certificate.pem").write_text(CERTIFICATE)
    setting = {"SIGN_IN_PROVIDERS": json.dumps([SETTING])}
    with open_house(folder, lambda model: {**openai_alone(model), **setting}) as house:
        address = f"{house.server.address.rstrip('/')}/sign-in/with/acme/saml/"
        with running(saml_provider(address), folder, PORT):
            yield house


@both_looks
def test_a_person_comes_in_and_confirms_by_the_provider(
    chromium: Browser, acme: House, look: Look
) -> None:
    """The provider's page posts from another site, so that the session's cookie is not sent."""
    tab = chromium.new_context(base_url=acme.server.address, **look).new_page()
    tab.goto("/sign-in/?next=/memory/")
    tab.get_by_role("link", name="Sign in with Acme").click()
    tab.get_by_role("button", name="Sign in as Ada").click()
    expect(tab.get_by_role("heading", name="Memory")).to_be_visible()
    tab.goto("/settings/")
    expect(tab.get_by_label("Email")).to_have_value("ada@example.com")
    expect(tab.get_by_label("Last name")).to_have_value("Lovelace")
    tab.goto("/settings/confirm/?next=/memory/")
    tab.get_by_role("link", name="Sign in again with Acme").click()
    tab.get_by_role("button", name="Sign in as Ada").click()
    expect(tab.get_by_role("heading", name="Memory")).to_be_visible()
    tab.context.close()
