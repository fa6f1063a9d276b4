"""Unread and failed answers in the list, and temporary chats, in a browser."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.wire.script import Answer, Tool

from .browser import (
    Visit,
    ask_in_new_chat,
    both_looks,
    box,
    button,
    card,
    expect_over,
    open_sidebar,
    region,
    tick_as_read,
)

pytestmark = pytest.mark.long
ENDS = {
    "unread": Answer(text="The thing is gone."),
    "the answer failed": Answer(status=400, error={"message": "Not like this."}),
}


def find_link(tab: Page, title: str) -> Locator:
    return tab.locator("#sidebar-list").get_by_role("link", name=title)


@pytest.mark.parametrize("mark", ENDS)
def test_an_answer_that_ends_while_its_person_is_elsewhere_is_marked_until_they_look(
    visit: Visit, mark: str
) -> None:
    title = f"Delete thing {list(ENDS).index(mark)}"
    call = Tool(name="things_delete_thing", arguments={"name": title}, id="call_1")
    tab = visit.tab()
    ask_in_new_chat(tab, visit.house.model.answers(title, Answer(tools=(call,)), ENDS[mark]))
    expect(card(tab, "delete thing")).to_be_visible()
    tab.get_by_role("link", name=re.compile("^Inbox")).click()
    tab.locator("#inbox").get_by_role("link", name=title).click()
    question = card(tab, "delete thing")
    expect(question).to_be_visible()
    tick_as_read(tab)
    button(question, "Allow once").click()
    link = find_link(tab, title)
    expect(link).to_contain_text(mark)
    link.click()
    expect(tab.get_by_role("heading", name=title)).to_be_visible()
    expect(link).not_to_contain_text(mark)


@both_looks
def test_an_answer_that_ends_before_its_persons_eyes_is_read(visit: Visit) -> None:
    title = "Count the things"
    tab = visit.tab()
    with tab.expect_response("**/sidebar/"):
        ask_in_new_chat(tab, visit.house.model.answers(title, Answer(text="Seven.")))
        expect_over(tab)
    elsewhere = visit.tab()
    elsewhere.goto("/")
    open_sidebar(elsewhere)
    expect(find_link(elsewhere, title)).not_to_contain_text("unread")


@both_looks
@pytest.mark.parametrize("has_script", [True, False], ids=["script", "no script"])
def test_a_temporary_chat_is_in_the_list_when_it_is_kept(visit: Visit, has_script: bool) -> None:
    title = f"A surprise {has_script}"
    tab = visit.tab(java_script_enabled=has_script)
    tab.goto("/")
    note = tab.get_by_text("Deleted 24 hours after the last message.")
    expect(note).to_be_hidden()
    tab.get_by_label("Temporary chat").check()
    expect(note).to_be_visible()
    box(tab).fill(visit.house.model.answers(title, Answer(text="I say nothing.")))
    button(tab, "Send").click()
    tab.wait_for_url("**/c/*/")
    expect(region(tab)).to_contain_text("I say nothing.")
    expect(note).to_be_visible()
    expect(find_link(tab, title)).to_have_count(0)
    button(tab, "Keep this chat").click()
    expect(note).to_have_count(0)
    expect(tab.locator("#sidebar-list", has_text=title)).to_have_count(1)
