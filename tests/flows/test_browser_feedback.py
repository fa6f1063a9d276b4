"""Rating an answer in a browser: by keyboard, in two tabs, without a script, and on a phone."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.wire.script import Answer

from .browser import Visit, ask_in_new_chat, both_looks, box, button, expect_over

pytestmark = pytest.mark.long
PHONE = {"width": 390, "height": 844}
LONG = "The Elbe. It rises in the Giant Mountains.\n\n" * 12


def begin(visit: Visit, text: str) -> Page:
    """Open a new chat with a message and its answer."""
    tab = visit.tab()
    ask_in_new_chat(tab, visit.house.model.answers(text, Answer(text=LONG)))
    expect_over(tab)
    return tab


def good(tab: Page) -> Locator:
    return button(tab, "Good answer")


def bad(tab: Page) -> Locator:
    return button(tab, "Bad answer")


def field(tab: Page) -> Locator:
    return tab.get_by_role("textbox", name=re.compile(r"^What was (good|wrong)\?"))


def expect_pressed(tab: Page, *, is_good: bool) -> None:
    expect(good(tab)).to_have_attribute("aria-pressed", str(is_good).lower())
    expect(bad(tab)).to_have_attribute("aria-pressed", str(not is_good).lower())


@both_looks
def test_by_keyboard_alone_an_answer_is_rated_and_the_rating_is_taken_back(visit: Visit) -> None:
    tab = begin(visit, "Which river is in Dresden")
    other = visit.tab()
    other.goto(tab.url)
    bad(tab).focus()
    tab.keyboard.press("Enter")
    expect_pressed(tab, is_good=False)
    expect(bad(tab)).to_be_focused()
    tab.keyboard.press("Tab")  # the line that folds the form
    tab.keyboard.press("Tab")
    expect(field(tab)).to_be_focused()
    tab.keyboard.type("It names one of two rivers")
    tab.keyboard.press("Shift+Tab")
    tab.keyboard.press("Shift+Tab")
    tab.keyboard.press("Shift+Tab")
    expect(good(tab)).to_be_focused()
    tab.keyboard.press("Space")
    expect_pressed(tab, is_good=True)
    expect(field(tab)).to_have_value("It names one of two rivers")
    field(tab).focus()
    tab.keyboard.press("End")
    tab.keyboard.type(", fine")
    tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")
    expect(button(tab, "Save")).to_be_focused()
    expect(tab.get_by_text("Saved", exact=True)).to_have_count(1)
    expect(tab.locator("[data-announcements]")).to_have_text("Comment saved.")
    expect_pressed(other, is_good=True)
    tab.reload()
    expect_pressed(tab, is_good=True)
    tab.get_by_text("Rated as good").click()
    expect(field(tab)).to_have_value("It names one of two rivers, fine")
    good(tab).focus()
    tab.keyboard.press("Enter")
    for page in (tab, other):
        expect(good(page)).to_have_attribute("aria-pressed", "false")
        expect(page.get_by_text("Rated as good")).to_have_count(0)
    expect(good(tab)).to_be_focused()


def test_a_comment_that_is_too_long_stays_in_its_field(visit: Visit) -> None:
    visit.witness.excuse("status of 422")
    tab = begin(visit, "Which river is in Meissen")
    good(tab).click()
    field(tab).fill("a" * 501)
    button(tab, "Save").click()
    expect(tab.get_by_text("This comment has 501 characters. The limit is 500.")).to_be_visible()
    assert len(field(tab).input_value()) == 501
    field(tab).fill("Short")
    button(tab, "Save").click()
    expect(tab.get_by_text("Saved", exact=True)).to_have_count(1)
    expect(tab.get_by_text("The limit is 500")).to_have_count(0)


def test_what_is_typed_survives_a_rating_in_another_tab(visit: Visit) -> None:
    tab = begin(visit, "Which river is in Torgau")
    good(tab).click()
    field(tab).fill("Half a sent")
    other = visit.tab()
    other.goto(tab.url)
    bad(other).click()
    expect_pressed(tab, is_good=False)
    expect(field(tab)).to_have_value("Half a sent")
    expect(field(tab)).to_be_visible()


def test_without_a_script_on_a_phone_an_answer_is_rated(visit: Visit) -> None:
    address = begin(visit, "Which river is in Riesa").url
    tab = visit.tab(java_script_enabled=False, viewport=PHONE)
    tab.goto(address)
    bad(tab).click()
    expect_pressed(tab, is_good=False)
    expect(field(tab)).to_be_visible()
    field(tab).fill("b" * 501)
    visit.witness.excuse("status of 422")
    button(tab, "Save").click()
    expect(tab.get_by_text("This comment has 501 characters. The limit is 500.")).to_be_visible()
    field(tab).fill("Too short")
    button(tab, "Save").click()
    expect_pressed(tab, is_good=False)
    tab.get_by_text("Rated as bad").click()
    expect(field(tab)).to_have_value("Too short")
    bad(tab).click()
    expect(bad(tab)).to_have_attribute("aria-pressed", "false")


def test_on_a_phone_the_form_fits_below_the_answer(visit: Visit) -> None:
    address = begin(visit, "Which river is in Pirna").url
    tab = visit.tab(viewport=PHONE)
    tab.goto(address)
    good(tab).click()
    expect(button(tab, "Save")).to_be_in_viewport(ratio=1)
    for each in (field(tab), button(tab, "Save"), good(tab), bad(tab)):
        edges = each.bounding_box()
        assert edges and edges["x"] >= 0 and edges["x"] + edges["width"] <= PHONE["width"]
    assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    expect(box(tab)).to_be_visible()


def test_the_form_is_in_view_also_before_the_socket_is_connected(visit: Visit) -> None:
    address = begin(visit, "Which river is in Meissen").url
    tab = visit.tab(viewport=PHONE)
    tab.route_web_socket("**/ws/**", lambda _socket: None)
    tab.goto(address)
    good(tab).click()
    expect(button(tab, "Save")).to_be_in_viewport(ratio=1)
