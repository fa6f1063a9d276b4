"""The menu of a chat in a browser: the draft and the focus stay, and the list follows at once."""

from typing import Any

import pytest
from playwright.sync_api import Locator, Page, ViewportSize, expect

from tests.wire.script import Answer

from .browser import Visit, ask_in_new_chat, both_looks, box, expect_over, open_sidebar

pytestmark = pytest.mark.long
LAPTOP: ViewportSize = {"width": 1280, "height": 800}
PHONE: ViewportSize = {"width": 390, "height": 844}
TITLE = """
from chatapp.journal import journal
from chatapp.models import Conversation, Turn
Conversation.objects.filter(pk="{chat}").update(title="{title}")
turn = Turn.objects.get(conversation="{chat}")
journal.append(turn.conversation_id, turn.pk, [journal.title_entry(turn)])
"""


def open_chat(visit: Visit, title: str, **options: Any) -> Page:
    tab = visit.tab(**options)
    ask_in_new_chat(tab, visit.house.model.answers(title, Answer(text="Noted.")))
    expect_over(tab)
    return tab


def find_link(tab: Page, title: str) -> Locator:
    """Return the link to a chat in the list."""
    return tab.locator("#sidebar-list").get_by_role("link", name=title)


def press(tab: Page, name: str) -> None:
    """Press a button of the chat menu."""
    tab.get_by_role("button", name="Chat menu").click()
    menu = tab.get_by_role("group", name="Chat menu")
    menu.get_by_role("button", name=name).click()
    expect(menu).to_be_hidden()


def open_actions(tab: Page, title: str) -> Locator:
    """Open the menu of a row in the list of chats."""
    tab.get_by_role("button", name=f"Actions for {title}").click()
    menu = tab.locator("#sidebar-list").get_by_role("group", name=title)
    expect(menu).to_be_visible()
    return menu


def rename(tab: Page, title: str) -> None:
    tab.get_by_label("Title", exact=True).fill(title)
    tab.keyboard.press("Enter")


@both_looks
def test_a_chat_is_renamed_by_keyboard_and_the_draft_stays(visit: Visit) -> None:
    visit.witness.excuse("status of 422")
    tab = open_chat(visit, "A list of plants")
    box(tab).fill("A draft")
    title = tab.get_by_role("button", name="Rename this chat")
    tab.keyboard.press("F2")
    expect(tab.get_by_label("Title", exact=True)).to_be_focused()
    rename(tab, "x" * 81)
    expect(tab.get_by_text("This title has 81 characters. The limit is 80.")).to_be_visible()
    expect(tab.get_by_label("Title", exact=True)).to_have_value("x" * 81)
    rename(tab, "Plants of the garden")
    expect(tab.get_by_role("heading", name="Plants of the garden")).to_be_visible()
    expect(title).to_be_focused()
    expect(box(tab)).to_have_value("A draft")
    open_sidebar(tab)
    expect(find_link(tab, "Plants of the garden")).to_be_visible()


@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_a_title_becomes_a_field_in_its_place(visit: Visit, size: ViewportSize) -> None:
    tab = open_chat(visit, "Written in place", viewport=size)
    heading = tab.get_by_role("heading", name="Written in place")
    before = heading.bounding_box()
    heading.dblclick(force=True)  # the button lies over it
    field = tab.get_by_label("Title", exact=True)
    expect(field).to_be_focused()
    place = field.bounding_box()
    assert before and place
    assert abs(place["x"] - before["x"]) < 20
    assert place["y"] <= before["y"] <= place["y"] + place["height"]
    field.fill("Never mind")
    tab.keyboard.press("Escape")
    expect(field).to_be_hidden()
    expect(tab.get_by_role("button", name="Rename this chat")).to_be_focused()
    expect(heading).to_be_visible()


@both_looks
def test_a_row_of_the_list_has_the_actions_of_its_chat(visit: Visit) -> None:
    visit.witness.excuse("status of 422")
    tab = open_chat(visit, "Row of plants")
    first = tab.url
    ask_in_new_chat(tab, visit.house.model.answers("Row of trees", Answer(text="Noted.")))
    expect_over(tab)
    more = tab.get_by_role("button", name="Actions for Row of plants")
    open_sidebar(tab)
    find_link(tab, "Row of plants").focus()
    tab.keyboard.press("Tab")
    expect(more).to_be_focused()
    expect(more).to_have_css("opacity", "1")
    tab.keyboard.press("Enter")
    menu = tab.locator("#sidebar-list").get_by_role("group", name="Row of plants")
    expect(menu).to_be_visible()
    menu.get_by_role("button", name="Pin").focus()
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("heading", name="Pinned")).to_be_visible()
    expect(menu).to_be_hidden()
    expect(more).to_be_focused()
    menu = open_actions(tab, "Row of plants")
    expect(menu.get_by_role("button", name="Unpin")).to_be_visible()
    menu.get_by_label("Title").fill("x" * 81)
    tab.keyboard.press("Enter")
    expect(menu.get_by_text("This title has 81 characters.")).to_be_visible()
    menu.get_by_label("Title").fill("Row of herbs")
    # The list is loaded again, and what is typed stays.
    with tab.expect_response("**/sidebar/*"):
        tab.evaluate("htmx.trigger('#sidebar-list', 'refresh')")
    tab.keyboard.press("Enter")
    expect(find_link(tab, "Row of herbs")).to_be_visible()
    expect(menu).to_be_hidden()
    expect(tab.get_by_role("button", name="Actions for Row of herbs")).to_be_focused()
    assert tab.url != first
    expect(tab.get_by_role("heading", name="Row of trees")).to_be_visible()


@both_looks
@pytest.mark.parametrize("act", ["Delete", "Archive"])
def test_a_row_that_leaves_the_list_comes_back_by_undo(visit: Visit, act: str) -> None:
    tab = open_chat(visit, f"To leave by {act}", viewport=PHONE, has_touch=True, is_mobile=True)
    gone = f"To leave by {act}"
    ask_in_new_chat(tab, visit.house.model.answers(f"Beside {act}", Answer(text="Noted.")))
    expect_over(tab)
    tab.get_by_role("button", name="Open the list of chats").click()
    open_actions(tab, gone).get_by_role("button", name=act).click()
    expect(find_link(tab, gone)).to_have_count(0)
    undo = tab.get_by_role("button", name="Undo")
    expect(undo).to_be_focused()
    with tab.expect_response("**/sidebar/*"):
        tab.evaluate("htmx.trigger('#sidebar-list', 'refresh')")
    expect(undo).to_be_focused()
    undo.click()
    expect(find_link(tab, gone)).to_be_visible()
    expect(tab.get_by_role("button", name=f"Actions for {gone}")).to_be_focused()
    expect(undo).to_have_count(0)


def test_an_action_on_the_row_of_the_open_chat_changes_its_heading(visit: Visit) -> None:
    tab = open_chat(visit, "Open and in the list")
    menu = open_actions(tab, "Open and in the list")
    menu.get_by_label("Title").fill("Renamed in the list")
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("heading", name="Renamed in the list")).to_be_visible()
    open_actions(tab, "Renamed in the list").get_by_role("button", name="Delete").click()
    expect(tab.get_by_text("Chat deleted: Renamed in the list")).to_be_visible()
    expect(tab.get_by_role("heading", name="Hello, owner.")).to_be_visible()


def make_title(visit: Visit, tab: Page, title: str) -> None:
    """Store what a model made as the title of the chat in this tab, in another process."""
    chat = tab.url.rstrip("/").rpartition("/")[2]
    visit.house.installation.manage("shell", "-v", "0", "-c", TITLE.format(chat=chat, title=title))


def test_a_title_of_the_model_appears_and_a_title_that_is_being_typed_stays(visit: Visit) -> None:
    tab = open_chat(visit, "A list of trees")
    make_title(visit, tab, "Trees <of> the garden")
    expect(tab.get_by_role("heading", name="Trees <of> the garden")).to_be_visible()
    expect(find_link(tab, "Trees <of> the garden")).to_be_visible()
    tab.get_by_role("button", name="Rename this chat").click()
    field = tab.get_by_label("Title", exact=True)
    expect(field).to_have_value("Trees <of> the garden")
    field.fill("My own")
    make_title(visit, tab, "Another title")
    expect(tab.get_by_role("heading", name="Another title")).to_be_visible()
    expect(field).to_have_value("My own")
    expect(field).to_be_focused()
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("heading", name="My own")).to_be_visible()


def test_pinning_and_archiving_change_the_list_at_once(visit: Visit) -> None:
    tab = open_chat(visit, "Handover of the shift")
    link = find_link(tab, "Handover of the shift")
    press(tab, "Pin")
    expect(tab.get_by_role("heading", name="Pinned")).to_be_visible()
    press(tab, "Archive")
    expect(tab.get_by_text("Archived", exact=True)).to_be_visible()
    expect(link).to_have_count(0)
    press(tab, "Move back to the list")
    expect(link).to_be_visible()


@pytest.mark.parametrize("has_script", [True, False], ids=["script", "no script"])
def test_a_deleted_chat_comes_back_by_undo(visit: Visit, has_script: bool) -> None:
    title = f"To be deleted {has_script}"
    address = open_chat(visit, title).url
    tab = visit.tab(java_script_enabled=has_script, viewport=PHONE)
    tab.goto(address)
    press(tab, "Delete")
    expect(tab.get_by_text(f"Chat deleted: {title}")).to_be_visible()
    tab.get_by_role("button", name="Undo").click()
    expect(tab.get_by_role("heading", name=title)).to_be_visible()
    assert tab.url == address


def test_without_script_a_refused_title_stays_in_its_place(visit: Visit) -> None:
    visit.witness.excuse("status of 422")
    address = open_chat(visit, "Without a script").url
    tab = visit.tab(java_script_enabled=False)
    tab.goto(address)
    press(tab, "Rename")
    rename(tab, "x" * 81)
    expect(tab.get_by_text("This title has 81 characters. The limit is 80.")).to_be_visible()
    rename(tab, "A shorter one")
    expect(tab.get_by_role("heading", name="A shorter one")).to_be_visible()


@pytest.mark.parametrize("has_script", [True, False], ids=["script", "no script"])
def test_several_chats_are_archived_from_the_search_page_and_undone(
    visit: Visit, has_script: bool
) -> None:
    titles = [f"Bulk {number} {has_script}" for number in range(3)]
    for title in titles:
        open_chat(visit, title).close()
    tab = visit.tab(java_script_enabled=has_script)
    tab.goto("/search/?q=bulk")
    bar = tab.get_by_role("group", name="Selected chats")
    expect(bar).to_be_hidden()
    for title in titles[:2]:
        tab.get_by_role("checkbox", name=f"Select {title}").check()
    expect(bar).to_be_visible()
    bar.get_by_role("button", name="Archive").click()
    expect(tab.get_by_text("2 chats archived.")).to_be_visible()
    expect(find_link(tab, titles[2])).to_be_visible()
    expect(find_link(tab, titles[0])).to_have_count(0)
    undo = tab.get_by_role("button", name="Undo")
    expect(undo).to_be_focused()
    tab.keyboard.press("Enter")
    expect(find_link(tab, titles[0])).to_be_visible()


def test_selected_chats_are_downloaded(visit: Visit) -> None:
    open_chat(visit, "To be downloaded").close()
    tab = visit.tab(viewport=PHONE)
    tab.goto("/search/?select=all")
    with tab.expect_download() as download:
        tab.get_by_role("button", name="Export").click()
    assert download.value.suggested_filename.endswith(".zip")


def test_the_list_of_chats_is_hidden_and_stays_so(visit: Visit) -> None:
    tab = visit.tab()
    tab.goto("/")
    switch = tab.get_by_role("checkbox", name="Hide the list of chats")
    sidebar = tab.get_by_role("navigation", name="Chats")
    switch.focus()
    with tab.expect_response("**/sidebar/hide"):
        tab.keyboard.press("Space")
    expect(sidebar).to_be_hidden()
    expect(switch).to_be_focused()
    tab.reload()
    expect(sidebar).to_be_hidden()
    with tab.expect_response("**/sidebar/hide"):
        switch.uncheck()
    expect(sidebar).to_be_visible()


def test_without_script_a_phone_can_send_beside_the_files(visit: Visit) -> None:
    tab = visit.tab(viewport=PHONE, java_script_enabled=False)
    tab.goto("/")
    box(tab).fill(visit.house.model.answers("From a phone", Answer(text="Noted.")))
    tab.get_by_role("button", name="Send").click()
    expect(tab.get_by_text("Noted.")).to_be_visible()
