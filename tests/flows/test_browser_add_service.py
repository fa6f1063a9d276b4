"""An admin comes from nothing to a working OAuth service with confirmed tools for one group, in a
real browser, also in one that runs no scripts."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.peers.authority import Authority, served_authority
from tests.peers.vault import Vault, served_vault

from .browser import Visit, button, fill_house

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

# A person may make six checks a minute, and each look begins with some.
BEGIN = """
from django.contrib.auth.models import Group
from mcpconfig.models import Look
Look.objects.all().delete()
Group.objects.filter(name="Treasurers").delete()
"""
MAKE_GROUP = """
from chatapp.models import Member
Group.objects.create(name="Treasurers").user_set.add(Member.objects.get(username="admin"))
"""
CHECK = """
from chatapp.models import Member
from mcpconfig.models import Service, ServiceDraft
made = Service.objects.get(name="vault")
usable = [each.username for each in Member.objects.order_by("username")
    if Service.objects.for_member(each).filter(pk=made.pk).exists()]
assert usable == ["admin"], usable
assert made.settings.exclude(confirmed_hash="").count() == made.definitions.count() > 0
assert made.oauth_clients.count() == 1 and not ServiceDraft.objects.exists()
"""


@pytest.fixture
def peers() -> Iterator[tuple[Authority, Vault]]:
    with served_authority() as (authority, _), served_vault(authority) as (vault, _):
        authority.person = "admin"
        yield authority, vault


def shell(visit: Visit, code: str) -> None:
    visit.house.installation.manage("shell", "-v", "0", "-c", code)


@pytest.mark.parametrize("colors", ["light", "dark"])
@pytest.mark.parametrize("size", [(1280, 800), (390, 844)], ids=["desk", "phone"])
def test_from_nothing_to_confirmed_tools_for_one_group(
    visit: Visit, peers: tuple[Authority, Vault], size: tuple[int, int], colors: str
) -> None:
    shell(visit, BEGIN)
    viewport = {"width": size[0], "height": size[1]}
    tab = visit.tab("admin", viewport=viewport, color_scheme=colors)
    make_group(tab)
    walk(visit, tab, peers)


def test_no_step_needs_scripts(visit: Visit, peers: tuple[Authority, Vault]) -> None:
    """But the group: Django's admin finds its members with a script."""
    shell(visit, BEGIN + MAKE_GROUP)
    walk(visit, visit.tab("admin", java_script_enabled=False), peers, has_scripts=False)


def walk(
    visit: Visit, tab: Page, peers: tuple[Authority, Vault], *, has_scripts: bool = True
) -> None:
    authority, vault = peers
    try:
        check(tab, vault.url, has_scripts)
        save(tab, has_scripts)
        sign_in(tab, authority)
        confirm(tab)
        shell(visit, CHECK)
        assert authority.registrations == 1
        # The one other host that the browser goes to is the authorization server.
        requests = visit.witness.requests
        requests[:] = [url for url in requests if not url.startswith(authority.url)]
    finally:
        fill_house(visit.house.installation, ["mcp", "remove", "vault"])


def make_group(tab: Page) -> None:
    """Make the group with the admin in it."""
    tab.goto("/admin/auth/group/add/")
    tab.get_by_label("Name:").fill("Treasurers")
    tab.get_by_role("combobox").first.click()
    tab.get_by_role("searchbox").last.fill("admin")
    tab.get_by_role("option", name="admin", exact=True).click()
    button(tab, "Save").click()
    expect(tab.get_by_role("link", name="Treasurers").first).to_be_visible()


def check(tab: Page, url: str, has_scripts: bool) -> None:
    tab.goto("/admin/")
    tab.get_by_role("link", name="Add service").first.click()
    tab.get_by_label("URL", exact=True).fill(url)
    tab.get_by_label("URL", exact=True).press("Enter")
    steps = tab.get_by_role("list", name="Checks")
    expect(steps).to_contain_text("turn on “allow private addresses”")
    expect(tab.get_by_role("button", name="Add service")).to_be_disabled()
    tab.get_by_label("Allow private addresses").check()
    # The redirect URL of the registration has the name, so it is chosen first.
    tab.get_by_label("Short name").fill("vault")
    button(tab, "Check again").click()
    expect(steps).to_contain_text("OAuth, asked for when connecting")
    expect(steps).to_contain_text("Registered as")


def save(tab: Page, has_scripts: bool) -> None:
    """A script hides the fields of what is not chosen."""
    expect(tab.get_by_label("Client ID")).to_be_visible()
    if has_scripts:
        expect(tab.get_by_label("Bearer token", exact=True).last).to_be_hidden()
        expect(tab.get_by_label("Treasurers")).to_be_hidden()
    tab.get_by_role("radio", name="Groups").check()
    tab.get_by_label("Treasurers").check()
    button(tab, "Add service").click()
    expect(tab.get_by_role("heading", name="Status of vault")).to_be_visible()


def sign_in(tab: Page, authority: Authority) -> None:
    status = tab.url
    button(tab, "Sign in").click()
    host = urlsplit(authority.url).netloc
    tab.get_by_role("link", name=f"Continue to {host}").click()
    expect(tab.get_by_text("vault is connected.")).to_be_visible()
    tab.goto(status)


def confirm(tab: Page) -> None:
    button(tab, "Fetch tools").first.click()
    for box in tab.locator("[name=definition]").all():
        box.check()
    button(tab, "Confirm these tools").click()
    expect(tab.get_by_text("All tools are confirmed.")).to_be_visible()
    tabs = tab.get_by_role("navigation", name="Pages of vault")
    tabs.get_by_role("link", name="Tools", exact=True).click()
    expect(tab.get_by_role("row").filter(has_text=re.compile("whoami"))).to_contain_text(
        "confirmed"
    )
    tabs.get_by_role("link", name="Changes", exact=True).click()
    expect(tab.get_by_text("Added to these groups: Treasurers.").first).to_be_visible()
