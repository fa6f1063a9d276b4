"""A person adds a service of their own and tells the assistant about one, and an admin imports
some, in a real browser."""

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from .browser import House, Visit, button, fill_house

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

ALLOW = "\n".join(
    [
        "from chatapp.models import HousePolicy",
        "house = HousePolicy.current()",
        "house.lets_add_services = True",
        "house.save()",
    ]
)


@pytest.fixture(scope="module")
def allowed(chromium: Browser, house: House) -> Iterator[None]:
    house.installation.manage("shell", "-v", "0", "-c", ALLOW)
    yield
    fill_house(house.installation, ["shell", "-v", "0", "-c", ALLOW.replace("True", "False")])


def add(tab: Page, name: str, url: str, token: str = "") -> None:
    tab.goto("/services/")
    tab.get_by_role("link", name="Add your own service").click()
    tab.get_by_label("Short name").fill(name)
    tab.get_by_label("Address (URL)").fill(url)
    if token:
        tab.get_by_label("Sign-in").select_option("Bearer token")
        tab.get_by_label("Bearer token", exact=True).fill(token)
    button(tab, "Add and test").press("Enter")


@pytest.mark.parametrize("javascript", [True, False])
def test_a_service_is_added_tested_changed_and_removed(
    visit: Visit, allowed: None, javascript: bool
) -> None:
    """It leads inside, which it may not: so it is kept, says so, and is used nowhere."""
    visit.witness.excuse("422")
    tab = visit.tab(java_script_enabled=javascript)
    name = f"mine-{javascript}".lower()
    add(tab, name, "http://127.0.0.1:9/mcp")
    expect(tab.get_by_text("The URL must begin with https://.")).to_be_visible()
    expect(tab.get_by_label("Short name")).to_have_value(name)

    add(tab, name, "https://127.0.0.1:9/mcp", token="a-token-of-mine")
    expect(tab.get_by_role("heading", name=name).first).to_be_visible()
    expect(tab.locator("#own-state")).to_contain_text(
        "The service is saved, but it cannot be used now."
    )
    expect(tab.locator("#own-state")).to_contain_text("Ask an admin to add")

    tab.get_by_role("link", name="Edit", exact=True).click()
    tab.get_by_label("Name", exact=True).fill("My box")
    button(tab, "Save and test").click()
    expect(tab.get_by_role("heading", name="My box").first).to_be_visible()

    tab.get_by_text("Remove…").click()
    button(tab, "Remove My box").click()
    expect(tab.get_by_role("heading", name="Connected services", exact=True)).to_be_visible()
    expect(tab.get_by_text("My box")).to_have_count(0)


def test_a_stranger_sees_nothing_of_it(visit: Visit, allowed: None) -> None:
    visit.witness.excuse("404")
    add(visit.tab(), "hidden", "https://127.0.0.1:9/mcp")
    other = visit.tab("stranger")
    other.goto("/services/")
    expect(other.get_by_text("hidden")).to_have_count(0)
    other.goto("/services/own/hidden/")
    expect(other.get_by_text("127.0.0.1")).to_have_count(0)


def test_a_person_tells_the_assistant_about_a_service(visit: Visit) -> None:
    tab = visit.tab(viewport={"width": 390, "height": 844})
    tab.goto("/services/")
    tab.get_by_role("link", name="Instructions for the assistant about things").click()
    words = tab.get_by_label("For all tools of things")
    words.fill("Only what is on the shelf.")
    button(tab, "Save for the service").click()
    expect(words).to_have_value("Only what is on the shelf.")
    tab.get_by_label("Tool", exact=True).select_option("read_thing")
    tab.get_by_label("Instructions", exact=True).fill("Aloud.")
    button(tab, "Save for this tool").click()
    expect(tab.get_by_label("For the tool read_thing")).to_have_value("Aloud.")
    width = tab.evaluate("() => document.documentElement.scrollWidth")
    assert width <= 390
    for name in ("for the service", "for read_thing"):
        tab.get_by_role("textbox", name="read_thing" if "read_thing" in name else "For all").fill(
            ""
        )
        button(tab, f"Save {name}").click()
        expect(tab.get_by_role("heading", name="Your instructions")).to_be_visible()


def test_an_admin_imports_what_an_editor_keeps(visit: Visit, house: House) -> None:
    entries = {
        "wiki": {"url": "https://wiki.example/mcp", "headers": {"X-Key": "${input:key}"}},
        "program": {"command": "npx"},
    }
    written = json.dumps({"servers": entries, "inputs": [{"id": "key", "description": "Wiki key"}]})
    tab = visit.tab("admin")
    tab.goto("/admin/mcpconfig/service/")
    tab.get_by_role("link", name="Import").click()
    tab.get_by_label("Configuration").fill(written)
    button(tab, "Show preview").click()
    expect(tab.get_by_text("Countersign starts no programs")).to_be_visible()
    expect(tab.get_by_role("checkbox", name="Add wiki")).to_be_checked()
    tab.get_by_label("Wiki key").fill("a-key-0123456789")
    tab.get_by_label("Short name").fill("imported")
    button(tab, "Add selected services").click()
    expect(tab.get_by_text("Added 1 service.")).to_be_visible()
    fill_house(house.installation, ["mcp", "remove", "imported"])
