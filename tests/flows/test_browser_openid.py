"""Sign-in by a certified OpenID provider, in a browser."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.peers.programs import find_free_port, openid_provider, running

from .browser import House, Look, both_looks, open_house, openai_alone, sign_in

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
PORT = find_free_port()
SETTING = {
    "id": "company",
    "name": "Company",
    "issuer": f"http://127.0.0.1:{PORT}",
    "client_id": "countersign",
    "client_secret": "client-secret-of-the-test",
    "creates_accounts": True,
    "required_groups": ["chat"],
    "groups": {"chat": "Chat"},
}


@pytest.fixture(scope="module")
def company(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A server that knows the provider, and the provider, which knows the server's address."""
    folder: Path = tmp_path_factory.mktemp("company")
    setting = {"SIGN_IN_PROVIDERS": json.dumps([SETTING])}
    with open_house(folder, lambda model: {**openai_alone(model), **setting}) as house:
        callback = f"{house.server.address.rstrip('/')}/sign-in/with/company/callback/"
        with running(openid_provider(callback), folder, PORT):
            yield house


@pytest.fixture
def tab(chromium: Browser, company: House, look: Look) -> Iterator[Page]:
    with chromium.new_context(base_url=company.server.address, **look) as context:
        yield context.new_page()


def sign_in_there(tab: Page, name: str) -> None:
    """Fill the forms of the provider: who one is, and that this server may know."""
    tab.get_by_placeholder("Enter any login").fill(name)
    tab.get_by_placeholder("and password").fill("any")
    tab.get_by_role("button", name="Sign-in").click()
    tab.get_by_role("button", name="Continue").click()


@both_looks
def test_a_person_comes_in_by_the_provider(tab: Page) -> None:
    tab.goto("/sign-in/?next=/memory/")
    tab.get_by_role("link", name="Sign in with Company").click()
    sign_in_there(tab, "ada")
    expect(tab.get_by_role("heading", name="Memory")).to_be_visible()
    tab.goto("/settings/")
    expect(tab.get_by_text("ada@example.com")).to_be_visible()
    expect(tab.get_by_label("Last name")).to_have_value("Lovelace")


@both_looks
def test_the_provider_asks_again_to_confirm(tab: Page) -> None:
    """Although the person still has a session there."""
    tab.goto("/sign-in/?next=/memory/")
    tab.get_by_role("link", name="Sign in with Company").click()
    sign_in_there(tab, "confirming")
    tab.goto("/settings/confirm/?next=/tokens/")
    tab.get_by_role("link", name="Sign in again with Company").click()
    expect(tab.get_by_placeholder("Enter any login")).to_be_visible()
    tab.get_by_placeholder("Enter any login").fill("confirming")
    tab.get_by_placeholder("and password").fill("any")
    tab.get_by_role("button", name="Sign-in").click()
    expect(tab.get_by_role("heading", name="Access tokens")).to_be_visible()


@both_looks
def test_who_cancels_there_gets_a_sentence_here(tab: Page) -> None:
    tab.goto("/sign-in/")
    tab.get_by_role("link", name="Sign in with Company").click()
    tab.get_by_role("link", name="Cancel").click()
    expect(tab.get_by_role("heading", name="You are not signed in")).to_be_visible()
    expect(tab.get_by_text("You cancelled the sign-in")).to_be_visible()


@both_looks
def test_a_member_connects_the_provider(tab: Page, company: House) -> None:
    sign_in(tab, "stranger", company.installation.password)
    tab.goto("/settings/")
    tab.get_by_role("link", name="Connect Company").click()
    sign_in_there(tab, "grace")
    expect(tab.get_by_role("button", name="Disconnect Company")).to_be_visible()
    tab.context.clear_cookies()
    tab.goto("/sign-in/")
    tab.get_by_role("link", name="Sign in with Company").click()
    sign_in_there(tab, "grace")
    expect(tab.get_by_role("heading", name=re.compile("Hello, stranger"))).to_be_visible()
    tab.goto("/settings/")
    tab.get_by_role("button", name="Disconnect Company").click()
    expect(tab.get_by_role("link", name="Connect Company")).to_be_visible()
