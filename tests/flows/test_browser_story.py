"""A person's whole way: the first link, a password, a question, an approval, a server that dies.

By keyboard alone, and once more without JavaScript.
"""

import re
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.migrated import make_sqlite

from .browser import (
    DEMO_MODEL,
    Scribe,
    Visit,
    Witness,
    box,
    button,
    card,
    cards,
    expect_over,
    region,
    tick_as_read,
    write,
)
from .server import Installation, Server

pytestmark = [pytest.mark.gate, pytest.mark.timeout(300)]
SCREENS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1280, "height": 800}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 800}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True},
}
PASSWORD = "paper-boats-float"
DRAFT = "and after that"
# The answer, while it is still coming.
STREAMING = "body:has(.status[aria-busy]) .prose"


@pytest.fixture
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server of an installation that nobody has set up: the demo is all there is."""
    folder = tmp_path_factory.mktemp("fresh")
    made = Installation(
        folder,
        DJANGO_SETTINGS_MODULE="chatapp.settings",
        DATABASE_URL=make_sqlite(folder / "fresh.sqlite3"),
        OPENAI_API_KEY="",
        DEMO="1",
    )
    server = made.server("fresh")
    try:
        server.start()
        yield server
    finally:
        made.close()


def first_link(server: Server) -> str:
    """What the server prints after the line that it serves."""
    assert server.process is not None and server.process.stdout is not None
    limit = threading.Timer(10, server.process.kill)
    limit.start()
    line = server.process.stdout.readline()
    limit.cancel()
    assert line.startswith("First sign-in: ")
    return line.split()[-1]


def tab_to(tab: Page, place: Locator, most: int = 30) -> None:
    """Press Tab until this has the focus."""
    has_focus = "(element) => element === document.activeElement"
    for _ in range(most):
        if place.evaluate(has_focus):
            return
        tab.keyboard.press("Tab")
    assert place.evaluate(has_focus), f"{place} is not reached with {most} presses of Tab"


def sign_in_for_the_first_time(tab: Page, server: Server) -> None:
    tab.goto(first_link(server))
    tab_to(tab, button(tab, "Sign in as admin"))
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("heading", name="Choose a password")).to_be_visible()
    for label in ("New password", "Confirm new password"):
        tab_to(tab, tab.get_by_label(label, exact=True))
        tab.keyboard.type(PASSWORD)
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("heading", name="Hello, admin.")).to_be_visible()


def ask_by_keyboard(tab: Page, text: str) -> None:
    tab_to(tab, box(tab))
    tab.keyboard.type(text)
    tab.keyboard.press("Enter")


@pytest.mark.parametrize(
    "screen",
    ["light", *(pytest.param(name, marks=pytest.mark.long) for name in ("dark", "phone"))],
)
def test_the_whole_way_goes_by_keyboard_alone_and_outlives_the_server(
    chromium: Browser, fresh: Server, screen: str
) -> None:
    witness = Witness(urlsplit(fresh.address).netloc)
    witness.excuse("WebSocket connection", "net::ERR_", "Failed to fetch")
    with chromium.new_context(base_url=fresh.address, **SCREENS[screen]) as context:
        witness.watch(context)
        tab = context.new_page()
        sign_in_for_the_first_time(tab, fresh)
        walk(tab, fresh)
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    witness.assert_clean()


def walk(tab: Page, server: Server) -> None:
    """Ask, see the answer come, be asked, lose the server, decide, and read what became of it."""
    ask_by_keyboard(tab, "Show me everything you can do")
    tab.locator(STREAMING, has_text=re.compile(r".{20}")).first.wait_for()
    expect_over(tab)
    ask_by_keyboard(tab, "Delete the note Old ideas")
    tab.keyboard.type(DRAFT)
    question = card(tab, "delete a note", "notebook")
    expect(question).to_be_visible()
    expect(box(tab)).to_be_focused()
    shown = question.inner_text()
    server.end()
    expect(tab.get_by_text("Connection lost. Reconnecting…")).to_be_visible()
    server.start()
    expect(tab.get_by_text("Connection lost. Reconnecting…")).to_have_count(0, timeout=90_000)
    assert question.inner_text() == shown
    expect(box(tab)).to_have_value(DRAFT)
    tab.keyboard.press("Alt+a")
    expect(question).to_be_focused()
    tab_to(tab, button(question, "Allow once"), most=3)
    tab.keyboard.press("Enter")
    expect(region(tab)).to_contain_text("A clock that runs backwards")
    expect_over(tab)
    expect(question).to_have_count(0)
    expect(tab.locator("body")).not_to_be_focused()


@pytest.mark.long
def test_the_starters_show_a_write_that_runs_and_one_to_allow_in_advance(
    chromium: Browser, fresh: Server
) -> None:
    with chromium.new_context(base_url=fresh.address, **SCREENS["light"]) as context:
        tab = context.new_page()
        sign_in_for_the_first_time(tab, fresh)
        tab.get_by_role("button", name="Create a note called Packing list").click()
        button(tab, "Send").click()
        expect_over(tab)
        expect(region(tab)).to_contain_text("Packing list")
        expect(cards(tab)).to_have_count(0)
        write(tab, "Add lemons to Groceries")
        question = card(tab, "add to a note", "notebook")
        expect(question).to_contain_text("Medium risk")
        question.get_by_text("Allow…").click()
        tick_as_read(tab)
        button(question, "In this chat").click()
        expect_over(tab)
        write(tab, "Add figs to Groceries")
        expect(region(tab)).to_contain_text("figs")
        expect_over(tab)
        expect(cards(tab)).to_have_count(0)
        tab.goto("/consents/")
        expect(tab.get_by_role("main")).to_contain_text("append_to_note")


def test_without_javascript_one_can_sign_in_ask_decide_both_ways_and_stop(visit: Visit) -> None:
    tab = visit.context("", java_script_enabled=False).new_page()
    tab.goto("/approvals/")
    tab.get_by_label("Name").fill("owner")
    tab.get_by_label("Password").fill(visit.house.installation.password)
    button(tab, "Sign in").click()
    expect(tab.get_by_role("heading", name="Inbox")).to_be_visible()
    button(tab, "New chat").click()
    _deny(tab)
    _allow(tab)
    _stop(tab, visit.house.model)


def send(tab: Page, text: str, model: str) -> None:
    tab.get_by_label("Model").select_option(model)
    box(tab).fill(text)
    button(tab, "Send").click()


def _deny(tab: Page) -> None:
    send(tab, "Delete the note Reading list", DEMO_MODEL)
    question = card(tab, "delete a note", "notebook")
    expect(question).to_be_visible()
    question.get_by_text("Deny with a reason").click()
    question.get_by_role("textbox").fill("I still need it.")
    button(question, "Deny").click()
    expect(region(tab)).to_contain_text("denied by owner")
    expect(region(tab)).to_contain_text("I still need it.")
    expect_over(tab)


def _allow(tab: Page) -> None:
    send(tab, "Delete the note Reading list", DEMO_MODEL)
    question = card(tab, "delete a note", "notebook")
    expect(question).to_be_visible()
    tick_as_read(tab)
    button(question, "Allow once").click()
    expect(region(tab)).to_contain_text("The Lighthouse")
    expect_over(tab)


def _stop(tab: Page, model: Scribe) -> None:
    send(tab, "Search the archive for milk", DEMO_MODEL)
    button(tab, "Stop").click()
    expect(region(tab)).to_contain_text("Stopped")
    expect_over(tab)
    expect(button(tab, "Send")).to_be_visible()
