"""The command palette, by keyboard and on a phone without JavaScript."""

import pytest
from playwright.sync_api import Page, Route, expect

from tests.wire.script import Answer

from .browser import Visit, ask_in_new_chat, both_looks, box, expect_over

pytestmark = pytest.mark.long
PHONE = {"width": 390, "height": 844}
FIND = "Find a command, a chat or a page"


@both_looks
def test_a_chat_is_found_and_opened_by_keyboard(visit: Visit) -> None:
    tab = visit.tab()
    for title in ("Palette of colours", "Another chat"):
        ask_in_new_chat(tab, visit.house.model.answers(title, Answer(text="Noted.")))
        expect_over(tab)
    box(tab).fill("A draft")
    tab.keyboard.press("Control+k")
    find = tab.get_by_label(FIND)
    expect(find).to_be_focused()
    tab.keyboard.type("palette")
    palette = tab.get_by_role("dialog")
    link = palette.get_by_role("link", name="Palette of colours")
    expect(link.locator("mark")).to_be_visible()
    tab.keyboard.press("ArrowDown")
    expect(link).to_be_focused()
    tab.keyboard.press("ArrowUp")
    expect(find).to_be_focused()
    tab.keyboard.press("Escape")
    expect(palette).to_be_hidden()
    expect(box(tab)).to_have_value("A draft")
    tab.keyboard.press("Control+k")
    expect(find).to_have_value("palette")
    expect(link).to_be_visible()
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("heading", name="Palette of colours")).to_be_visible()


def test_keys_that_are_pressed_before_the_list_comes_are_for_that_list(visit: Visit) -> None:
    tab, held = visit.tab(), list[Route]()
    ask_in_new_chat(tab, visit.house.model.answers("Palette of colours", Answer(text="Noted.")))
    expect_over(tab)
    tab.goto("/")
    tab.keyboard.press("Control+k")
    find = tab.get_by_label(FIND)
    expect(tab.get_by_role("dialog").get_by_role("link", name="Inbox")).to_be_visible()
    tab.route("**/palette/?q=palette", lambda route: held.append(route))
    with tab.expect_request("**/palette/?q=palette"):
        tab.keyboard.type("palette")
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("Enter")
    expect(find).to_be_focused()
    held[0].continue_()
    expect(tab.get_by_role("heading", name="Palette of colours")).to_be_visible()


def test_a_letter_that_is_typed_before_the_script_has_come_stays(visit: Visit) -> None:
    tab, held = visit.tab(), list[Route]()
    tab.route("**/js/palette*.js", lambda route: held.append(route))
    tab.goto("/")
    with tab.expect_request("**/js/palette*.js"):
        tab.keyboard.press("Control+k")
    find = tab.get_by_label(FIND)
    expect(find).to_be_focused()
    tab.keyboard.type("p")
    held[0].continue_()
    for _ in range(200):
        if tab.evaluate("!!document.getElementById('palette').onkeydown"):
            break
        tab.wait_for_timeout(50)
    tab.keyboard.type("alette")
    expect(find).to_have_value("palette")


def test_a_command_changes_the_open_chat(visit: Visit) -> None:
    tab = visit.tab(viewport=PHONE)
    ask_in_new_chat(tab, visit.house.model.answers("To be archived", Answer(text="Noted.")))
    expect_over(tab)
    tab.get_by_role("button", name="Open the list of chats").click()
    tab.get_by_role("button", name="Search").click()
    tab.keyboard.type("archive")
    tab.get_by_role("dialog").get_by_role("button", name="Archive this chat").click()
    expect(tab.get_by_text("Archived", exact=True)).to_be_visible()


def test_arrows_wait_for_the_list_of_what_was_typed(visit: Visit) -> None:
    tab = visit.tab()
    tab.goto("/")
    tab.keyboard.press("Control+k")
    find, palette = tab.get_by_label(FIND), tab.get_by_role("dialog")
    expect(palette.get_by_role("link", name="New chat")).to_be_visible()
    held: list[Route] = []
    tab.route("**/palette/?q=usage", lambda route: held.append(route))
    with tab.expect_request("**/palette/?q=usage"):
        tab.keyboard.type("usage")
    tab.keyboard.press("ArrowDown")
    expect(find).to_be_focused()
    held[0].continue_()
    expect(palette.get_by_role("status")).to_have_text("2 results")
    expect(palette.get_by_role("link", name="Search messages")).to_be_focused()
    tab.keyboard.press("ArrowDown")
    expect(palette.get_by_role("link", name="Usage", exact=True)).to_be_focused()


def test_space_presses_a_command(visit: Visit) -> None:
    tab = visit.tab()
    ask_in_new_chat(tab, visit.house.model.answers("To be pinned", Answer(text="Noted.")))
    expect_over(tab)
    tab.keyboard.press("Control+k")
    tab.get_by_role("dialog").get_by_role("button", name="Pin this chat").focus()
    tab.keyboard.press("Space")
    expect(tab.get_by_role("heading", name="Pinned", exact=True)).to_be_visible()


def test_letters_go_into_the_box_and_enter_searches_messages(visit: Visit) -> None:
    tab = visit.tab()
    ask_in_new_chat(tab, visit.house.model.answers("Hedgehogs", Answer(text="Noted.")))
    expect_over(tab)
    tab.keyboard.press("Control+k")
    expect(tab.get_by_role("dialog").get_by_role("listitem").first).to_be_visible()
    tab.keyboard.press("ArrowDown")
    tab.keyboard.type("hedgehogs")
    expect(tab.get_by_label(FIND)).to_have_value("hedgehogs")
    tab.keyboard.press("Enter")
    expect(tab.get_by_text("Found in 1 chat")).to_be_visible()


def test_without_script_its_box_searches(visit: Visit) -> None:
    tab = visit.tab(java_script_enabled=False)
    tab.goto("/")
    tab.get_by_role("button", name="Search").click()
    tab.get_by_label(FIND).fill("elephants")
    tab.keyboard.press("Enter")
    expect(tab.get_by_text("No chat has all these words.")).to_be_visible()


def test_commands_press_what_is_on_the_page(visit: Visit) -> None:
    tab = visit.tab()
    answers = (Answer(text="Noted."), Answer(text="Noted again."))
    ask_in_new_chat(tab, visit.house.model.answers("To be pressed", *answers))
    expect_over(tab)
    run_command(tab, "Rename this chat")
    expect(tab.get_by_label("Title", exact=True)).to_be_focused()
    tab.keyboard.type("Pressed")  # in place of all of it
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("heading", name="Pressed", exact=True)).to_be_visible()
    run_command(tab, "Regenerate the last answer")
    expect(tab.get_by_text("Noted again.")).to_be_visible()
    expect_over(tab)
    run_command(tab, "Choose tools and services")
    expect(tab.get_by_role("search", name="Tools")).to_be_visible()
    tab.keyboard.press("Escape")
    sidebar = tab.get_by_role("navigation", name="Chats")
    run_command(tab, "Hide or show the list of chats")
    expect(sidebar).to_be_hidden()
    tab.keyboard.press("Control+b")
    expect(sidebar).to_be_visible()


def test_the_theme_is_chosen_on_any_page(visit: Visit) -> None:
    tab = visit.tab("stranger")
    tab.goto("/usage/")
    run_command(tab, "Use the dark theme")
    expect(tab.locator("html[data-theme=dark]")).to_have_count(1)
    assert tab.url.endswith("/usage/")
    run_command(tab, "Use the theme of the system")
    expect(tab.locator("html[data-theme]")).to_have_count(0)


def run_command(tab: Page, label: str) -> None:
    tab.keyboard.press("Control+k")
    tab.get_by_label(FIND).fill(label)
    entry = tab.get_by_role("dialog").get_by_role("button", name=label)
    expect(entry.locator("mark").first).to_be_visible()
    tab.keyboard.press("ArrowDown")
    expect(entry).to_be_focused()
    tab.keyboard.press("Enter")
