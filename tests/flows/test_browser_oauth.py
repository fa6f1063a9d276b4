"""Signing in to a service in a real browser, with two server processes on one database: begun at
one, finished at the other, renewed unseen, and asked for again when it has ended."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.peers.authority import Authority, served_authority
from tests.peers.vault import Vault, served_vault
from tests.wire.script import Answer, Tool

from .browser import (
    MODEL,
    PEOPLE,
    SLOWEST_MS,
    Scribe,
    ask_in_new_chat,
    button,
    card,
    fill_house,
    region,
    sign_in,
    tick_as_read,
)
from .model_server import answering
from .server import Installation, Server, database

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

MAKE_SERVICE = """
from mcpconfig.models import Service
Service.objects.create(
    name="vault", url={url!r}, authentication="oauth_user", visibility="everyone",
    allows_private_addresses=True
)
"""
MAKE_DUE = """
from datetime import timedelta
from django.utils import timezone
from mcpconfig.models import OAuthGrant
past = timezone.now() - timedelta(seconds=1)
assert OAuthGrant.objects.update(renew_at=past, expires_at=past) == 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Town:
    """Two servers of one installation, an authorization server, a service, and a model."""

    installation: Installation
    first: Server
    second: Server
    authority: Authority
    vault: Vault
    model: Scribe

    def asks(self, question: str, then: str) -> str:
        """What to write so that the model uses the service, and goes on with these words."""
        call = Answer(tools=(Tool(name="vault_whoami"),))
        return self.model.answers(question, call, Answer(text=then))


@contextmanager
def start_town(folder: Path, kind: str) -> Iterator[Town]:
    with (
        database(kind, folder) as database_url,
        answering(Scribe()) as model,
        served_authority() as (authority, _),
        served_vault(authority) as (vault, _),
    ):
        authority.person = "owner"
        installation = Installation(
            folder,
            DJANGO_SETTINGS_MODULE="chatapp.settings",
            DATABASE_URL=database_url,
            OPENAI_BASE_URL=model.url,
            DEFAULT_MODEL=MODEL,
        )
        second = installation.server("second")
        # People come back to the second server, wherever they left from.
        installation.environment["PUBLIC_URL"] = second.address
        second.environment["PUBLIC_URL"] = second.address
        first = installation.server("first")
        people = ["member", "add", *PEOPLE[0], "--password-env", "PASSWORD"]
        fill_house(installation, people)
        installation.manage("shell", "-v", "0", "-c", MAKE_SERVICE.format(url=vault.url))
        try:
            first.start()
            second.start()
            yield Town(
                installation=installation,
                first=first,
                second=second,
                authority=authority,
                vault=vault,
                model=model,
            )
        finally:
            installation.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def town(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Town]:
    with start_town(tmp_path, request.param) as made:
        yield made


@pytest.fixture
def tab(chromium: Browser, town: Town) -> Iterator[Page]:
    """The owner's, at the second server. Its cookies are good at the first one, too."""
    with chromium.new_context(base_url=town.second.address) as context:
        context.set_default_timeout(SLOWEST_MS)
        opened = context.new_page()
        sign_in(opened, "owner", town.installation.password)
        yield opened


def connect(tab: Page, town: Town) -> None:
    """Begun at the first server, finished at the second."""
    tab.goto(f"{town.first.address}/services/")
    button(tab, "Connect vault").click()
    assert tab.url.startswith(town.first.address)
    go_through(tab, town)
    expect(tab.get_by_text("vault is connected.")).to_be_visible()


def go_through(tab: Page, town: Town) -> None:
    """From the page that names the authorization server, over there and back."""
    host = urlsplit(town.authority.url).netloc
    tab.get_by_role("link", name=f"Continue to {host}").click()
    tab.wait_for_url(f"{town.second.address}/**")


def test_a_sign_in_is_begun_at_one_server_finished_at_another_and_renewed_unseen(
    tab: Page, town: Town
) -> None:
    connect(tab, town)
    tab.goto("/services/")
    expect(tab.get_by_text(re.compile("Connected as you"))).to_be_visible()
    use_it(tab, town, "Who am I there?", "You are the owner.")
    assert (town.vault.runs, town.authority.grants("refresh_token")) == (1, 0)

    make_due(town)
    use_it(tab, town, "And now?", "You are still the owner.")
    assert (town.vault.runs, town.authority.grants("refresh_token")) == (2, 1)


def test_the_same_call_goes_on_after_the_sign_in_had_ended(tab: Page, town: Town) -> None:
    connect(tab, town)
    use_it(tab, town, "Who am I there?", "You are the owner.")

    end_the_sign_in(town)
    ask_in_new_chat(tab, town.asks("Once more", "It went on."), MODEL)
    allow(tab)
    again = tab.get_by_role("group", name=re.compile("^Sign-in needed"))
    expect(again).to_be_visible()
    assert town.vault.runs == 1
    tab.goto("/services/")
    expect(tab.get_by_text("Connect again", exact=False).first).to_be_visible()
    tab.go_back()
    button(again, "Connect again").click()
    go_through(tab, town)

    expect(region(tab)).to_contain_text("It went on.")
    assert town.vault.runs == 2
    assert town.authority.grants("authorization_code") == 2


def use_it(tab: Page, town: Town, question: str, then: str) -> None:
    """Ask, allow the call, and read the end of the answer."""
    ask_in_new_chat(tab, town.asks(question, then), MODEL)
    allow(tab)
    expect(region(tab)).to_contain_text(then)


def allow(tab: Page) -> None:
    question = card(tab, "whoami", "vault")
    expect(question).to_be_visible()
    tick_as_read(tab)
    button(question, "Allow once").click()


def make_due(town: Town) -> None:
    """The stored token is over, as the clock would have it later."""
    town.installation.manage("shell", "-v", "0", "-c", MAKE_DUE)


def end_the_sign_in(town: Town) -> None:
    """The token is over, and the authorization server does not renew it any more."""
    town.authority.refreshers.clear()
    make_due(town)
