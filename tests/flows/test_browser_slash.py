"""Commands after `/` in the message box, in a browser: by keyboard and by screen reader."""

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.wire.script import Answer

from .browser import Visit, ask_in_new_chat, both_looks, box, expect_over

pytestmark = pytest.mark.long


def offers(tab: Page) -> Locator:
    listed = tab.get_by_role("region", name="Commands and prompts").get_by_role("listitem")
    return listed.locator(".btn")


def begin(tab: Page, text: str) -> None:
    """Write this, key by key, and wait for what is offered for it."""
    box(tab).press_sequentially(text)
    expect(tab.locator(f'[data-typed="{text}"]').first).to_be_visible()


def open_chat(visit: Visit, question: str) -> Page:
    tab = visit.tab()
    ask_in_new_chat(tab, visit.house.model.answers(question, Answer(text="Done.")))
    expect_over(tab)
    return tab


@both_looks
def test_the_keyboard_alone_finds_a_command_and_runs_it(visit: Visit) -> None:
    tab = open_chat(visit, "Export me by a slash")
    begin(tab, "/exp")
    expect(offers(tab)).to_have_count(1)
    expect(tab.locator("[data-announcements]")).to_contain_text("1 suggestion")
    expect(box(tab)).to_be_focused()
    box(tab).press("ArrowDown")
    expect(offers(tab).first).to_be_focused()
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/export")


@both_looks
def test_enter_runs_the_first_command_and_sends_nothing(visit: Visit) -> None:
    tab = open_chat(visit, "Archive me by a slash")
    begin(tab, "/archive")
    box(tab).press("Enter")
    expect(tab.get_by_text("Archived", exact=True).first).to_be_visible()
    expect(tab.locator(".bubble")).to_have_count(1)
    expect(box(tab)).to_have_value("")


def test_a_step_opens_in_place_of_the_list_and_empties_the_box(visit: Visit) -> None:
    tab = open_chat(visit, "Show the tools by a slash")
    begin(tab, "/tools")
    box(tab).press("Enter")
    expect(tab.locator("#tools")).to_be_visible()
    expect(box(tab)).to_have_value("")
    tab.keyboard.press("Escape")
    expect(tab.locator("#picker")).to_be_empty()
    expect(box(tab)).to_be_focused()


def test_commands_are_grouped_and_cut_as_one_types(visit: Visit) -> None:
    tab = open_chat(visit, "List the commands")
    begin(tab, "/")
    region = tab.get_by_role("region", name="Commands and prompts")
    for heading in ("For this message", "Commands", "Prompts from services"):
        expect(region.get_by_role("heading", name=heading)).to_be_visible()
    whole = offers(tab).count()
    box(tab).press_sequentially("s")
    expect(tab.locator('[data-typed="/s"]').first).to_be_visible()
    assert 0 < offers(tab).count() < whole
    box(tab).press_sequentially("omething else")
    expect(tab.locator("#picker")).to_be_empty()


def test_a_message_that_only_begins_with_a_slash_is_sent(visit: Visit) -> None:
    tab = visit.tab()
    tab.goto("/")
    text = visit.house.model.answers("/etc/hosts is a file?", Answer(text="Yes, it is."))
    box(tab).press_sequentially(text)
    box(tab).press("Enter")
    tab.wait_for_url("**/c/*/")
    expect(tab.get_by_text("Yes, it is.")).to_be_visible()


def test_a_mention_in_a_message_that_begins_with_a_slash_is_completed(visit: Visit) -> None:
    tab = visit.tab()
    tab.goto("/")
    box(tab).press_sequentially("/etc and @thing")
    expect(tab.locator('[data-typed="@thing"]')).to_be_visible()
    box(tab).press("Enter")
    expect(box(tab)).to_have_value("/etc and @things ")


def test_a_command_that_is_sent_before_its_list_is_there_is_no_message(visit: Visit) -> None:
    visit.witness.excuse("status of 422")
    tab = open_chat(visit, "Pin me in a hurry")
    box(tab).fill("/pin")
    box(tab).press("Enter")
    expect(tab.locator('[data-typed="/pin"]').first).to_be_visible()
    expect(box(tab)).to_have_value("/pin")
    expect(box(tab)).to_be_focused()
    box(tab).press("Enter")
    pinned = tab.get_by_role("img", name="Pinned").or_(tab.get_by_text("Pinned"))
    expect(pinned.first).to_be_visible()
    expect(tab.locator(".bubble")).to_have_count(1)
