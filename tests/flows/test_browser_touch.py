"""On a touch screen, what is pressed is at least 44 CSS pixels high, or is a word in a text."""

import pytest
from playwright.sync_api import Page, expect

from tests.wire.script import Answer

from .browser import DEMO_MODEL, Visit, ask_in_new_chat, button, card, expect_over, write

pytestmark = pytest.mark.gate
PHONE = {"width": 390, "height": 844}
ANSWER = "Two pools.\n\n| pool | size |\n|---|---|\n| a | 1 |\n| b | 2 |\n\n```python\nx = 1\n```\n"
# The label around a box counts as the box.
SMALL = """() => [...document.querySelectorAll("a, button, select, summary, label:has(input)")]
  .filter((each) => each.checkVisibility() && !each.matches(".skip, .vh, p a"))
  .map((each) => [each, each.getBoundingClientRect()])
  .filter(([, box]) => box.height && box.height < 43.5)
  .map(([each, box]) => `${each.tagName} ${each.textContent.trim().slice(0, 30)} ${box.height}`)"""


def open_phone(visit: Visit) -> Page:
    return visit.tab(viewport=PHONE, has_touch=True, is_mobile=True)


def test_a_chat_is_made_for_fingers(visit: Visit) -> None:
    tab = open_phone(visit)
    ask_in_new_chat(tab, visit.house.model.answers("Pools", Answer(text=ANSWER)))
    expect_over(tab)
    assert tab.evaluate(SMALL) == []
    write(tab, "Delete the note Old ideas", DEMO_MODEL)
    expect(card(tab, "delete a note", "notebook")).to_be_visible()
    assert tab.evaluate(SMALL) == []
    button(tab, "Chat menu").click()
    assert tab.evaluate(SMALL) == []


@pytest.mark.parametrize("address", ["/", "/search/", "/assistants/", "/prompts/", "/services/"])
def test_pages_are_made_for_fingers(visit: Visit, address: str) -> None:
    tab = open_phone(visit)
    tab.goto(address)
    assert tab.evaluate(SMALL) == []
    button(tab, "Open the list of chats").click()
    assert tab.evaluate(SMALL) == []


def test_with_a_mouse_controls_are_smaller(visit: Visit) -> None:
    tab = visit.tab(viewport=PHONE)
    tab.goto("/search/")
    assert tab.evaluate(SMALL), "the same check finds them"
