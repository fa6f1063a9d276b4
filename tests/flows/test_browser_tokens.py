"""A person gives a program a token, sees what it asks for, answers it, and takes the token back."""

import json
import urllib.error
import urllib.request
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from .browser import House, Visit, button, tick_as_read

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
FACT = {"text": "The heron nests by the mill."}


def ask(house: House, token: str, path: str, arguments: dict[str, Any] | None = None) -> Any:
    """A program's request: its status and what it was told."""
    body = None if arguments is None else json.dumps(arguments).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(house.server.address + path, body, headers)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def create_token(tab: Page, name: str) -> str:
    """A new token for the REST face, made by keyboard; its text."""
    form = tab.get_by_role("form", name="New access token")
    form.get_by_role("textbox", name="Name").fill(name)
    form.get_by_role("checkbox", name="Use tools over REST").focus()
    tab.keyboard.press("Space")
    form.get_by_role("combobox").select_option("30")
    button(form, "Create token").focus()
    tab.keyboard.press("Enter")
    made = tab.get_by_role("status", name="Your new token")
    expect(made).to_be_visible()
    return made.locator("code").inner_text()


def confirm(tab: Page, house: House) -> None:
    """Enter the password, as the sign-in of the browser may be some time ago."""
    tab.goto("/settings/confirm/?next=/tokens/")
    tab.get_by_label("Password").fill(house.installation.password)
    button(tab, "Continue").click()
    expect(tab.get_by_role("heading", name="Access tokens")).to_be_visible()


def test_a_program_asks_and_its_person_decides_in_the_browser(visit: Visit, house: House) -> None:
    tab = visit.tab()
    tab.goto("/")
    tab.locator(".account").click()
    tab.get_by_role("link", name="Access tokens").click()
    confirm(tab, house)
    token = create_token(tab, "Bird notes")

    status, told = ask(house, token, "/api/tools/remember", FACT)
    assert (status, told["waits"]["for"]) == (202, "approval")
    tab.goto(told["waits"]["url"])
    waiting = tab.get_by_role("group", name="Approve")
    expect(waiting).to_contain_text(FACT["text"])
    tick_as_read(tab)
    button(waiting, "Allow once").click()
    expect(tab.get_by_text(f"Saved to memory: {FACT['text']}")).to_be_visible()
    status, done = ask(house, token, f"/api/calls/{told['call']}")
    assert (status, done["state"]) == (200, "succeeded")

    tab.goto("/")
    tab.get_by_role("link", name="Bird notes (program)").first.click()
    expect(tab.get_by_text("asks for remember")).to_be_visible()


def test_a_token_is_shown_once_and_ends_when_it_is_revoked(visit: Visit, house: House) -> None:
    tab = visit.tab()
    confirm(tab, house)
    token = create_token(tab, "Short job")
    assert ask(house, token, "/api/tools/")[0] == 200
    tab.goto("/tokens/")
    assert token not in tab.content()
    entry = tab.get_by_role("article", name="Short job")
    expect(entry).to_contain_text("Last used")
    button(entry, "Revoke the token Short job").click()
    expect(tab.get_by_role("article", name="Short job")).to_contain_text("Revoked on")
    status, refused = ask(house, token, "/api/tools/")
    assert (status, refused["error"]["kind"]) == (401, "token_ended")


def test_without_javascript_and_on_a_phone_the_page_does_the_same(
    visit: Visit, house: House
) -> None:
    visit.witness.excuse("status of 4")
    tab = visit.tab(java_script_enabled=False, viewport={"width": 390, "height": 844})
    confirm(tab, house)
    create_token(tab, "Phone job")
    wide = tab.evaluate("document.documentElement.scrollWidth > innerWidth")
    assert not wide
    button(tab.get_by_role("article", name="Phone job"), "Revoke the token Phone job").click()
    expect(tab.get_by_role("article", name="Phone job")).to_contain_text("Revoked on")
