"""On a touch screen, what is pressed is at least 44 CSS pixels high, or is a word in a text, and
lies where the phone's notch and bars cover nothing."""

import re

import pytest
from playwright.sync_api import Page, ViewportSize, expect

from tests.wire.script import Answer

from .browser import DEMO_MODEL, Visit, ask, ask_in_new_chat, button, card, expect_over, write

pytestmark = pytest.mark.long
PHONE: ViewportSize = {"width": 390, "height": 844}
PAGES = [
    *("/", "/search/", "/assistants/", "/prompts/", "/services/", "/settings/", "/archived/"),
    *("/projects/", "/memory/", "/tools/", "/usage/", "/log/", "/tokens/", "/shared-links/"),
    *("/imports/", "/language/", "/consents/", "/approvals/"),
]
ANSWER = "Two pools.\n\n| pool | size |\n|---|---|\n| a | 1 |\n| b | 2 |\n\n```python\nx = 1\n```\n"
# The label around a box counts as the box.
SMALL = """() => [...document.querySelectorAll("a, button, select, summary, label:has(input)")]
  .filter((each) => each.checkVisibility() && !each.matches(".skip, .vh, p a"))
  .map((each) => [each, each.getBoundingClientRect()])
  .filter(([, box]) => box.height && box.height < 43.5)
  .map(([each, box]) => `${each.tagName} ${each.textContent.trim().slice(0, 30)} ${box.height}`)"""
SIDE: ViewportSize = {"width": 844, "height": 390}
INSETS = {"top": 47, "right": 30, "bottom": 34, "left": 20}
# How far visible elements reach under each covered edge. What scrolls is judged at its end.
COVERED = """([css, insets]) => {
  for (const each of document.querySelectorAll(".scroller")) each.scrollTop = each.scrollHeight;
  scrollTo(0, document.body.scrollHeight);
  const found = [...document.querySelectorAll(css)].filter((each) => each.checkVisibility());
  if (!found.length) return [`no ${css}`];
  return found.map((each) => [each, each.getBoundingClientRect()]).filter(([, box]) =>
      box.top < insets.top - .5 || box.bottom > innerHeight - insets.bottom + .5
      || box.left < insets.left - .5 || box.right > innerWidth - insets.right + .5)
    .map(([each, box]) => `${css} ${each.className} ${JSON.stringify(box)}`);
}"""


def open_phone(visit: Visit) -> Page:
    return visit.tab(viewport=PHONE, has_touch=True, is_mobile=True)


def cover_edges(tab: Page, insets: dict[str, int]) -> None:
    """Cover the edges of the screen as a phone does with its notch and bars."""
    session = tab.context.new_cdp_session(tab)
    session.send("Emulation.setSafeAreaInsetsOverride", {"insets": insets})


def find_covered(tab: Page, *selectors: str) -> list[str]:
    return [each for css in selectors for each in tab.evaluate(COVERED, [css, INSETS])]


def edges(tab: Page, css: str) -> tuple[float, float]:
    """The upper and the lower edge of an element."""
    box = tab.locator(css).bounding_box()
    assert box is not None
    return box["y"], box["y"] + box["height"]


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


def test_the_head_of_a_chat_and_its_project_are_made_for_fingers(visit: Visit) -> None:
    tab = open_phone(visit)
    tab.goto("/projects/new/")
    tab.get_by_label("Name").fill("Fingers")
    button(tab, "Create project").click()
    expect(tab.locator(".crumb")).to_be_visible()
    assert tab.evaluate(SMALL) == []
    tab.get_by_role("link", name="New chat in this project").click()
    ask(tab, visit.house.model.answers("In the project", Answer(text="Yes.")))
    tab.wait_for_url("**/c/*/")
    expect_over(tab)
    expect(tab.locator("a.state")).to_have_text("Fingers")
    assert tab.evaluate(SMALL) == []
    button(tab, "Chat menu").click()
    button(tab, "Archive").click()
    tab.goto("/archived/")
    expect(tab.get_by_role("link", name="In the project")).to_be_visible()
    assert tab.evaluate(SMALL) == []


@pytest.mark.parametrize("address", PAGES)
def test_pages_are_made_for_fingers(visit: Visit, address: str) -> None:
    tab = open_phone(visit)
    tab.goto(address)
    assert tab.evaluate(SMALL) == []
    button(tab, "Open the list of chats").click()
    assert tab.evaluate(SMALL) == []


def test_a_page_without_the_list_of_chats_is_made_for_fingers(visit: Visit) -> None:
    tab = open_phone(visit)
    tab.goto("/password/")
    assert tab.evaluate(SMALL) == []


def test_with_a_mouse_controls_are_smaller(visit: Visit) -> None:
    tab = visit.tab(viewport=PHONE)
    tab.goto("/search/")
    assert tab.evaluate(SMALL), "the same check finds them"


def test_nothing_lies_under_the_notch_and_the_bars_of_a_phone(visit: Visit) -> None:
    tab = open_phone(visit)
    ask_in_new_chat(tab, visit.house.model.answers("Covered", Answer(text=ANSWER)))
    expect_over(tab)
    expect(tab.locator("meta[name=viewport]")).to_have_attribute("content", re.compile("=cover"))
    top, bottom = edges(tab, ".topbar")[0], edges(tab, ".dock")[1]
    assert (top, bottom) == (0, PHONE["height"])
    cover_edges(tab, INSETS)
    assert edges(tab, ".topbar")[0] == INSETS["top"]
    assert edges(tab, ".dock")[1] == PHONE["height"] - INSETS["bottom"]
    assert find_covered(tab, ".topbar", ".composer", ".fineprint", ".turn:last-child .prose") == []
    button(tab, "Chat menu").click()
    assert find_covered(tab, "#chat-menu") == []
    tab.keyboard.press("Escape")
    button(tab, "Open the list of chats").click()
    assert edges(tab, "#sidebar") == (0, PHONE["height"]), "its colour reaches the edges"
    assert find_covered(tab, "#sidebar > *") == []
    tab.locator(".account").click()
    assert find_covered(tab, "#account-menu") == []
    tab.keyboard.press("Escape")
    tab.get_by_role("button", name="Search").click()
    tab.locator(".palette").evaluate("(palette) => { palette.style.height = '60rem'; }")
    assert find_covered(tab, ".palette") == []
    tab.keyboard.press("Escape")
    tab.evaluate("""() => {
      const picture = document.querySelector("#lightbox");
      picture.style.cssText = "width: 200vw; height: 200vh";
      picture.showModal();
    }""")
    assert find_covered(tab, "#lightbox") == []


@pytest.mark.parametrize("size", [PHONE, SIDE], ids=["upright", "side"])
def test_pages_end_above_the_bar_of_gestures(visit: Visit, size: ViewportSize) -> None:
    tab = visit.tab(viewport=size, has_touch=True, is_mobile=True)
    tab.goto("/settings/")
    cover_edges(tab, INSETS)
    assert find_covered(tab, ".topbar", ".settings-part:last-child > *") == []
    if size == SIDE:
        assert edges(tab, "#sidebar") == (0, SIDE["height"])
        assert find_covered(tab, ".hide-sidebar", ".brand") == []
        tab.get_by_label("Hide the list of chats").check()
        assert find_covered(tab, ".hide-sidebar", ".topbar", ".settings-part:last-child > *") == []
    outside = visit.tab("", viewport=size, has_touch=True, is_mobile=True)
    outside.goto("/sign-in/")
    cover_edges(outside, INSETS)
    outside.evaluate("() => scrollTo(0, document.body.scrollHeight)")
    assert edges(outside, ".door")[1] <= size["height"] - INSETS["bottom"]
