"""A person switches tools in the menu by keyboard, in two tabs, on a phone and without
JavaScript, in a real browser."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.wire.script import Answer

from .browser import (
    DEMO_MODEL,
    House,
    Visit,
    ask,
    ask_in_new_chat,
    both_looks,
    box,
    button,
    expect_over,
)

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


def entry(tab: Page) -> Locator:
    """The button that opens the menu and says how many tools are on."""
    return tab.get_by_role("button", name="Tools: ")


def open_menu(tab: Page) -> Locator:
    entry(tab).click()
    menu = tab.get_by_role("search", name="Tools")
    expect(menu).to_be_visible()
    return menu


def all_of(menu: Page | Locator) -> Locator:
    return menu.get_by_role("checkbox", name="All tools of things")


def get_offered(house: House) -> list[str]:
    """The tools of services that the last request told the model of."""
    tools = house.model.requests[-1].body.get("tools", [])
    names = [tool["function"]["name"] for tool in tools]
    return [name for name in names if name.startswith("things_")]


def test_the_menu_lies_over_the_chat_and_closes_with_escape(visit: Visit, house: House) -> None:
    tab = visit.tab()
    said = "\n\n".join(f"Paragraph {number} of a long answer." for number in range(40))
    ask_in_new_chat(tab, house.model.answers("Tell me much", Answer(text=said)))
    expect_over(tab)
    last = tab.get_by_text("Paragraph 39 of")
    expect(last).to_be_in_viewport()
    before = last.bounding_box()
    menu = open_menu(tab)
    assert last.bounding_box() == before
    tab.keyboard.press("Tab")
    expect(box(tab)).not_to_be_focused()
    tab.keyboard.press("Escape")
    expect(menu).to_have_count(0)
    expect(box(tab)).to_be_focused()


@both_looks
def test_a_switch_shows_in_another_tab_at_once_and_counts_for_the_next_message(
    visit: Visit, house: House
) -> None:
    first = visit.tab()
    for question in ("With tools?", "Without tools?"):
        house.model.answers(question, Answer(text="Well."))
    first.goto("/")
    ask(first, "With tools?")
    expect_over(first)
    assert get_offered(house)
    second = visit.tab()
    second.goto(first.url)
    before = entry(second).get_attribute("aria-label") or ""
    here, there = open_menu(first), open_menu(second)
    expect(all_of(here)).to_be_checked()
    all_of(here).focus()
    first.keyboard.press("Space")
    expect(all_of(here)).not_to_be_checked()
    expect(all_of(here)).to_be_focused()
    expect(all_of(there)).not_to_be_checked()
    expect(second.get_by_text("This chat has its own settings.")).to_be_visible()
    expect(entry(second)).not_to_have_attribute("aria-label", before)
    button(first, "Close").click()
    ask(first, "Without tools?")
    expect_over(first)
    assert get_offered(house) == []
    button(second, "Use the settings of all my chats").click()
    expect(all_of(there)).to_be_checked()


def test_a_search_finds_a_tool_to_switch_and_keeps_what_is_typed(
    visit: Visit, house: House
) -> None:
    tab = visit.tab()
    tab.goto("/")
    box(tab).fill("Half a thought")
    menu = open_menu(tab)
    search = menu.get_by_role("searchbox", name="Search tools")
    expect(search).to_be_focused()
    tab.keyboard.type("things")
    switch = menu.get_by_role("switch").first
    expect(switch).to_be_checked()
    switch.click()
    expect(switch).not_to_be_checked()
    expect(search).to_have_value("things")
    switch.click()
    expect(switch).to_be_checked()
    button(tab, "Close").click()
    expect(box(tab)).to_have_value("Half a thought")


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)], ids=["laptop", "phone"])
def test_in_a_new_chat_the_menu_lies_over_the_page_and_moves_nothing(
    visit: Visit, size: tuple[int, int]
) -> None:
    width, height = size
    tab = visit.tab(viewport={"width": width, "height": height})
    tab.goto("/")
    tab.get_by_label("Model").select_option(DEMO_MODEL)  # it has examples below the box
    greeting = tab.get_by_role("heading", level=1)
    places = [greeting, box(tab), tab.get_by_text("Answers can be wrong.")]
    before = [place.bounding_box() for place in places]
    menu = open_menu(tab)
    menu.get_by_role("button", name="things").click()
    expect(menu.get_by_role("switch").first).to_be_visible()
    assert [place.bounding_box() for place in places] == before
    picker, end = tab.locator(".picker").bounding_box(), before[1]
    assert picker and end
    assert end["y"] + end["height"] < picker["y"] and picker["y"] + picker["height"] <= height
    expect(greeting).to_be_in_viewport()
    tab.keyboard.press("Escape")
    expect(menu).to_have_count(0)


def test_on_a_phone_the_menu_fits_its_screen(visit: Visit) -> None:
    tab = visit.tab(viewport={"width": 390, "height": 844})
    tab.goto("/")
    menu = open_menu(tab)
    menu.get_by_role("button", name="things").click()
    expect(menu.get_by_role("switch").first).to_be_visible()
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390


def test_without_javascript_the_menu_is_a_page(visit: Visit) -> None:
    tab = visit.tab(java_script_enabled=False)
    tab.goto("/")
    box(tab).fill("Half a thought")
    entry(tab).click()
    expect(tab.get_by_role("heading", name="Tools", level=1)).to_be_visible()
    all_of(tab).click()
    expect(all_of(tab)).not_to_be_checked()
    all_of(tab).click()
    expect(all_of(tab)).to_be_checked()
    button(tab, "Close").click()
    expect(box(tab)).to_have_value("Half a thought")


@pytest.mark.parametrize("has_scripts", [True, False])
def test_a_new_chat_that_uses_no_tools_says_so_on_its_button(
    visit: Visit, has_scripts: bool
) -> None:
    tab = visit.tab(java_script_enabled=has_scripts)
    tab.goto("/")
    expect(entry(tab)).to_have_accessible_name(re.compile(r"^Tools: \d+ on$"))
    tab.get_by_role("checkbox", name="No tools").check()
    expect(entry(tab)).to_have_accessible_name("Tools: off in this chat")
    expect(entry(tab)).to_have_text(re.compile(r"Tools\s+off"))
    entry(tab).click()
    expect(tab.get_by_role("searchbox", name="Search tools")).to_be_visible()
