"""Messages that are written while the assistant works: sent in turn, sent now, edited and removed,
in a browser."""

import pytest
from playwright.sync_api import Page, expect

from tests.wire.script import Answer, Tool

from .browser import (
    Visit,
    ask_in_new_chat,
    both_looks,
    box,
    button,
    card,
    expect_over,
    region,
    tick_as_read,
    write,
)

pytestmark = pytest.mark.long
PHONE = {"width": 390, "height": 844}


def begin(visit: Visit, text: str) -> Page:
    """Open a chat whose answer does not end by itself."""
    tab = visit.tab()
    endless = Answer(text="Let me think about this.", cut="hang", cut_after=6)
    ask_in_new_chat(tab, visit.house.model.answers(text, endless))
    expect(tab.get_by_text("Let me think")).to_be_visible()
    return tab


def expect_queue(tab: Page, *texts: str) -> None:
    expect(tab.locator("#queue .text")).to_have_text(list(texts))


def expect_messages(tab: Page, *texts: str) -> None:
    expect(tab.locator(".thread .bubble")).to_have_text(list(texts))


@both_looks
def test_a_queued_message_keeps_the_open_request_and_follows_the_answer(visit: Visit) -> None:
    call = Tool(name="things_delete_thing", arguments={"name": "old"}, id="call_old")
    scene = Answer(tools=(call,)), Answer(text="The old thing is gone.")
    tab = visit.tab(viewport=PHONE)
    ask_in_new_chat(tab, visit.house.model.answers("Delete the old thing", *scene))
    question = card(tab, "delete thing")
    expect(question).to_be_visible()
    expect(tab.get_by_text("Queueing one does not.")).to_be_visible()
    box(tab).fill(visit.house.model.answers("Then count them", Answer(text="Seven are left.")))
    button(tab, "Queue").click()
    expect_queue(tab, "Then count them")
    expect(box(tab)).to_have_value("")
    expect(question).to_be_visible()
    tick_as_read(tab)
    button(question, "Allow once").click()
    expect(region(tab)).to_contain_text("The old thing is gone.")
    expect(region(tab)).to_contain_text("Seven are left.")
    expect_queue(tab)
    expect_messages(tab, "Delete the old thing", "Then count them")
    assert visit.executions("old") == 1


@both_looks
def test_by_keyboard_alone_a_message_is_queued_edited_and_sent_now(visit: Visit) -> None:
    tab = begin(visit, "Plan the move")
    other = visit.tab()
    other.goto(tab.url)
    write(tab, "Ask Mara")
    for page in (tab, other):
        expect_queue(page, "Ask Mara")
    box(tab).press_sequentially("today")
    edit = tab.get_by_role("button", name="Edit queued message")
    edit.focus()
    tab.keyboard.press("Enter")
    expect(box(tab)).to_have_value("Ask Mara\n\ntoday")
    expect_queue(other)
    box(tab).fill(visit.house.model.answers("Ask Mara today", Answer(text="Mara knows.")))
    tab.keyboard.press("Enter")
    expect_queue(other, "Ask Mara today")
    button(tab, "Send now").focus()
    tab.keyboard.press("Enter")
    for page in (tab, other):
        expect(region(page)).to_contain_text("Mara knows.")
        expect_messages(page, "Plan the move", "Ask Mara today")
        expect_queue(page)
    expect_over(tab)
    expect(box(tab)).to_be_focused()


def test_a_stopped_answer_holds_the_queue_until_its_person_sends_or_removes(visit: Visit) -> None:
    tab = begin(visit, "Plan the party")
    write(tab, visit.house.model.answers("Invite everyone", Answer(text="All are invited.")))
    expect(box(tab)).to_have_value("")
    write(tab, "Order the cake")
    expect_queue(tab, "Invite everyone", "Order the cake")
    button(tab, "Stop").click()
    expect(tab.get_by_role("alert").filter(has_text="not complete")).to_be_visible()
    tab.reload()
    expect_queue(tab, "Invite everyone", "Order the cake")
    tab.get_by_role("button", name="Remove queued message").nth(1).click()
    expect_queue(tab, "Invite everyone")
    expect(tab.get_by_role("button", name="Edit queued message")).to_be_focused()
    button(tab, "Send now").click()
    expect(region(tab)).to_contain_text("All are invited.")
    expect_queue(tab)
    expect_messages(tab, "Plan the party", "Invite everyone")
