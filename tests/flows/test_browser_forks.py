"""Forking a chat in a browser: by keyboard, and on without the first chat."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.wire.script import Answer

from .browser import Visit, ask, ask_in_new_chat, both_looks, box, button, expect_over

pytestmark = pytest.mark.long


def begin(visit: Visit, text: str) -> Page:
    """Open a new chat with a message and its answer."""
    tab = visit.tab()
    ask_in_new_chat(tab, visit.house.model.answers(text, Answer(text="The Elbe.")))
    expect_over(tab)
    return tab


@both_looks
def test_by_keyboard_alone_a_chat_is_forked_and_goes_on(visit: Visit) -> None:
    tab = begin(visit, "Which river is in Dresden")
    first = tab.url
    button(tab, "Fork into a new chat").focus()
    tab.keyboard.press("Enter")
    expect(tab.get_by_text("Forked from")).to_be_visible()
    assert tab.url != first
    expect(tab.get_by_text("The Elbe.")).to_be_visible()
    if not visit.is_on_phone:  # its keyboard would cover the chat
        expect(box(tab)).to_be_focused()
    ask(tab, visit.house.model.answers("And in Paris", Answer(text="The Seine.")))
    expect_over(tab)
    expect(tab.get_by_text("The Seine.")).to_be_visible()
    tab.get_by_role("link", name=re.compile("^Which river")).first.click()
    expect(tab.get_by_text("The Seine.")).to_have_count(0)
    expect(tab.get_by_text("The Elbe.")).to_be_visible()


def test_what_was_typed_stays_in_the_first_chat(visit: Visit) -> None:
    tab = begin(visit, "Which river is in Cologne")
    first = tab.url
    box(tab).press_sequentially("Not sent yet")
    button(tab, "Fork into a new chat").click()
    expect(tab.get_by_text("Forked from")).to_be_visible()
    expect(box(tab)).to_have_value("")
    tab.goto(first)
    expect(box(tab)).to_have_value("Not sent yet")
