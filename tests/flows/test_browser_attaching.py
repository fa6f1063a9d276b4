"""A person attaches a resource, uses a prompt and opens what a tool shows, in a real browser."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.peers.reading_room import ReadSwitch, at_room
from tests.peers.serving import Served
from tests.wire.script import Answer, Tool

from .browser import House, Visit, ask_in_new_chat, both_looks, box, button, fill_house, write

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
TYPED = "**/attach/typed"


@pytest.fixture(scope="module")
def room(chromium: Browser, house: House) -> Iterator[None]:
    with Served(at_room(ReadSwitch())) as served:
        add = ["mcp", "add", "room", served.url, "--allow-private"]
        fill_house(house.installation, add, ["mcp", "confirm", "room"])
        yield
        fill_house(house.installation, ["mcp", "remove", "room"])


def open_menu(tab: Page) -> None:
    button(tab, "Add to the message").click()


def attach_notice(tab: Page) -> None:
    open_menu(tab)
    button(tab, "Attach a resource from room").click()
    search = tab.get_by_role("searchbox", name="Search resources")
    expect(search).to_be_focused()
    search.fill("notice")
    search.press("Enter")
    button(tab, "View Notice <b>board</b>").click()
    expect(tab.locator("#picker")).to_contain_text("Closed on Mondays")
    attach = button(tab, "Attach to the message")
    expect(attach).to_be_focused()
    attach.click()
    expect(tab.locator("#picker")).to_be_empty()
    expect(tab.get_by_role("checkbox", name="Notice")).to_be_focused()


@both_looks
@pytest.mark.parametrize("javascript", [True, False])
def test_a_resource_is_attached_and_sent_with_what_was_written(
    visit: Visit, house: House, room: None, javascript: bool
) -> None:
    tab = visit.tab(java_script_enabled=javascript)
    house.model.answers("What does it say?", Answer(text="Closed on Mondays."))
    tab.goto("/")
    box(tab).fill("What does it say?")
    if javascript:
        attach_notice(tab)
    else:
        open_menu(tab)
        button(tab, "Attach a resource from room").click()
        tab.get_by_role("searchbox").fill("notice")
        button(tab.get_by_role("main"), "Search").click()
        button(tab, "View Notice <b>board</b>").click()
        button(tab, "Attach to the message").click()
    expect(box(tab)).to_have_value("What does it say?")
    expect(tab.get_by_role("checkbox", name="Notice")).to_be_checked()
    button(tab, "Send").click()
    tab.wait_for_url("**/c/*/")
    sent = tab.locator(".turn[data-role=user]")
    expect(sent.get_by_role("link", name="Notice")).to_be_visible()
    sent.get_by_role("link", name="Notice").click()
    expect(tab.locator("pre")).to_contain_text("<h1 id=thread>Closed on Mondays</h1>")
    tab.get_by_role("link", name="Back to the chat").click()
    expect(tab.get_by_text("Closed on Mondays.")).to_be_visible()


def test_an_attachment_that_is_unticked_stays_here(visit: Visit, house: House, room: None) -> None:
    tab = visit.tab()
    house.model.answers("Never mind", Answer(text="Fine."))
    tab.goto("/")
    attach_notice(tab)
    tab.get_by_role("checkbox", name="Notice").uncheck()
    write(tab, "Never mind")
    tab.wait_for_url("**/c/*/")
    expect(tab.get_by_text("Fine.")).to_be_visible()
    expect(tab.locator(".turn .attachments")).to_have_count(0)


def test_a_prompt_is_found_by_a_slash_filled_in_and_sent_by_the_person(
    visit: Visit, house: House, room: None
) -> None:
    tab = visit.tab()
    house.model.answers("Plan 2 days in Bern, please.", Answer(text="By boat."))
    tab.goto("/")
    box(tab).press_sequentially("/room:tri")
    expect(button(tab, "Choose Plan a trip")).to_be_visible()
    expect(box(tab)).to_be_focused()
    button(tab, "Choose Plan a trip").click()
    town = tab.get_by_label("town")
    expect(town).to_be_focused()
    town.press_sequentially("Bern")
    expect(tab.locator("datalist option[value=Bern]")).to_be_attached()
    button(tab, "Preview").click()
    button(tab, "Insert into the message").click()
    expect(box(tab)).to_have_value("Plan 2 days in Bern.\n\n> By train?\n> Or by boat?")
    expect(tab.get_by_role("checkbox", name="room://guide")).to_be_checked()
    expect(tab.locator("#picker")).to_be_empty()
    expect(tab.locator(".turn")).to_have_count(0)
    write(tab, "Plan 2 days in Bern, please.")
    tab.wait_for_url("**/c/*/")
    expect(tab.get_by_text("By boat.")).to_be_visible()
    expect(tab.locator(".turn").get_by_role("link", name="room://guide")).to_be_visible()


def test_a_list_that_a_slash_opened_closes_with_it(visit: Visit, room: None) -> None:
    tab = visit.tab()
    tab.goto("/")
    box(tab).press_sequentially("/ro")
    expect(button(tab, "Prompts from room")).to_be_visible()
    box(tab).fill("")
    expect(tab.locator("#picker")).to_be_empty()


def test_sending_only_the_name_of_a_prompt_opens_it(visit: Visit, room: None) -> None:
    tab = visit.tab()
    visit.witness.excuse("422")
    tab.goto("/")
    write(tab, "/room:trip")
    expect(tab.get_by_label("town")).to_be_visible()
    expect(box(tab)).to_have_value("/room:trip")


def test_a_list_that_comes_after_the_form_does_not_replace_it(visit: Visit, room: None) -> None:
    tab = visit.tab()
    visit.witness.excuse("422")
    tab.goto("/")
    held: list[Route] = []
    tab.route(TYPED, lambda route: held.append(route))
    with tab.expect_request(TYPED):
        box(tab).fill("/room:trip")
    box(tab).press("Enter")
    expect(tab.get_by_label("town")).to_be_visible()
    with tab.expect_response(TYPED) as listed:
        held[0].continue_()
    assert "Choose" in listed.value.text()
    tab.evaluate("() => new Promise(requestAnimationFrame)")
    expect(tab.get_by_label("town")).to_be_visible()
    tab.unroute(TYPED)
    box(tab).fill("/ro")
    expect(button(tab, "Prompts from room")).to_be_visible()
    box(tab).press("Escape")
    expect(tab.locator("#picker")).to_be_empty()


@both_looks
def test_what_a_tool_shows_is_drawn_and_its_link_opened_here(
    visit: Visit, house: House, room: None
) -> None:
    tab = visit.tab()
    tool = Answer(tools=(Tool(name="room_show_gallery", arguments={}),))
    house.model.answers("Show the walls", tool, Answer(text="There."))
    ask_in_new_chat(tab, "Show the walls")
    expect(tab.get_by_text("There.")).to_be_visible()
    for _ in range(2):  # as it came by the line, and as the page has it after a reload
        row = tab.locator("details.tool")
        row.locator("summary").first.click()
        picture = row.get_by_role("img")
        picture.scroll_into_view_if_needed()
        expect(picture).to_have_js_property("naturalWidth", 1)
        expect(row.locator("audio")).to_have_js_property("controls", True)
        button(row, "Open Notice").click()
        expect(row.locator(".opened pre")).to_contain_text("<script>alert(1)</script>")
        tab.reload()
    visit.witness.assert_clean()
