"""Editing a message, another answer and the switch between versions, in a browser: by keyboard, in
two tabs, without a script, and with a search for a version that is hidden."""

from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.wire.script import Answer

from .browser import Visit, ask, ask_in_new_chat, both_looks, box, expect_over

pytestmark = pytest.mark.long
PHONE = {"width": 390, "height": 844}


def begin(visit: Visit, text: str, said: str, **options: Any) -> Page:
    """Open a new chat with a message and its answer."""
    tab = visit.tab(**options)
    ask_in_new_chat(tab, visit.house.model.answers(text, Answer(text=said)))
    expect_over(tab)
    return tab


def link_to_edit(tab: Page, number: int = 0) -> Locator:
    return tab.get_by_role("link", name="Edit message").nth(number)


def field(tab: Page) -> Locator:
    return tab.get_by_role("textbox", name="Edit message")


def expect_messages(tab: Page, *texts: str) -> None:
    expect(tab.locator(".thread .bubble")).to_have_text(list(texts))


@both_looks
def test_by_keyboard_alone_a_message_is_edited_and_its_first_version_comes_back(
    visit: Visit,
) -> None:
    tab = begin(visit, "Name three ports", "Rostock, Kiel, Emden")
    other = visit.tab()
    other.goto(tab.url)
    box(tab).fill("A draft")
    visit.house.model.answers("Name four ports", Answer(text="Four it is"))
    link_to_edit(tab).focus()
    tab.keyboard.press("Enter")
    expect(field(tab)).to_be_focused()
    expect(field(tab)).to_have_value("Name three ports")
    field(tab).fill("Name four ports")
    tab.keyboard.press("Tab")  # Cancel
    tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")
    for page in (tab, other):
        expect_messages(page, "Name four ports")
        expect(page.get_by_text("Four it is")).to_be_visible()
        expect(page.get_by_text("Rostock")).to_have_count(0)
        expect_over(page)
    assert tab.evaluate("document.activeElement !== document.body")
    earlier = tab.get_by_role("button", name="Previous version")
    earlier.focus()
    tab.keyboard.press("Enter")
    for page in (tab, other):
        expect_messages(page, "Name three ports")
        expect(page.get_by_text("Version 1 of 2")).to_be_attached()
        expect(page.get_by_text("Rostock, Kiel, Emden")).to_be_visible()
    expect(earlier).to_be_focused()
    expect(box(tab)).to_have_value("A draft")


@both_looks
def test_an_answer_is_regenerated_and_a_new_message_follows_the_one_that_is_shown(
    visit: Visit,
) -> None:
    tab = begin(visit, "Name a river", "The Elbe")
    visit.house.model.answers("Name a river", Answer(text="The Oder"))
    tab.get_by_role("button", name="Regenerate answer").click()
    expect(tab.get_by_text("The Oder")).to_be_visible()
    expect_over(tab)
    expect_messages(tab, "Name a river")
    tab.get_by_role("button", name="Next version").click()
    expect(tab.get_by_text("The Elbe")).to_be_visible()
    ask(tab, visit.house.model.answers("And a lake?", Answer(text="The Müritz")))
    expect(tab.get_by_text("The Müritz")).to_be_visible()
    expect_over(tab)
    expect_messages(tab, "Name a river", "And a lake?")


def test_a_closed_form_gives_the_focus_back_and_a_refused_text_stays(visit: Visit) -> None:
    visit.witness.excuse("status of 422")
    tab = begin(visit, "Name a hill", "The Brocken")
    link_to_edit(tab).click()
    field(tab).fill("  ")
    tab.get_by_role("button", name="Send", exact=True).first.click()
    expect(tab.get_by_text("Enter a message.")).to_be_visible()
    field(tab).fill("Something else")
    tab.get_by_role("link", name="Cancel").click()
    expect(link_to_edit(tab)).to_be_focused()
    expect_messages(tab, "Name a hill")


def test_without_a_script_a_message_is_edited_on_a_page_and_versions_switch(visit: Visit) -> None:
    address = begin(visit, "Name a wood", "The Spessart").url
    tab = visit.tab(java_script_enabled=False, viewport=PHONE)
    tab.goto(address)
    visit.house.model.answers("Name two woods", Answer(text="Two it is"))
    link_to_edit(tab).click()
    field(tab).fill("Name two woods")
    tab.get_by_role("button", name="Send", exact=True).click()
    expect_messages(tab, "Name two woods")
    expect(tab.get_by_text("Two it is")).to_be_visible(timeout=30_000)
    box(tab).fill("A draft")
    tab.get_by_role("button", name="Previous version").click()
    expect_messages(tab, "Name a wood")
    expect(box(tab)).to_have_value("A draft")


def test_a_hidden_version_is_found_and_shown_again(visit: Visit) -> None:
    tab = begin(visit, "Name a moor", "The Teufelsmoor")
    chat = tab.url
    visit.house.model.answers("Name two moors", Answer(text="Two moors"))
    link_to_edit(tab).click()
    field(tab).fill("Name two moors")
    tab.get_by_role("button", name="Send", exact=True).first.click()
    expect(tab.get_by_text("Two moors", exact=True)).to_be_visible()
    expect_over(tab)
    tab.goto("/search/?q=Teufelsmoor")
    tab.locator("main").get_by_role("link", name="Teufelsmoor").click()
    expect(tab.get_by_text("The chat currently shows another version.")).to_be_visible()
    tab.get_by_role("button", name="Switch to this version").click()
    expect_messages(tab, "Name a moor")
    tab.goto(chat)
    expect(tab.get_by_text("The Teufelsmoor")).to_be_visible()
