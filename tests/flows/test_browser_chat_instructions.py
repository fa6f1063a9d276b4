"""Instructions for a chat in a browser: from its menu to what the model server receives."""

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.wire.script import Answer

from .browser import Visit, ask, ask_in_new_chat, both_looks, expect_over
from .story import question_in

pytestmark = pytest.mark.long
PHONE = {"width": 390, "height": 844}


def open_page(tab: Page, name: str) -> None:
    tab.get_by_role("button", name="Chat menu").click()
    tab.get_by_role("group", name="Chat menu").get_by_role("link", name=name).click()
    expect(tab.get_by_role("heading", name="Instructions and parameters")).to_be_visible()


def find_box(tab: Page) -> Locator:
    return tab.get_by_role("textbox", name="Instructions", exact=True)


def save(tab: Page, text: str) -> None:
    find_box(tab).fill(text)
    tab.get_by_role("button", name="Save").click()


def find_prompt(visit: Visit, question: str) -> str:
    """Return the prompt of the request with this question."""
    bodies = [each.body for each in visit.house.model.requests]
    *_, body = [each for each in bodies if question_in(each) == question]
    return str(body["messages"][0]["content"])


@both_looks
@pytest.mark.parametrize("has_script", [True, False], ids=["script", "no script"])
def test_instructions_of_a_chat_reach_the_model_server(visit: Visit, has_script: bool) -> None:
    visit.witness.excuse("status of 422")
    first, second = f"A recipe {has_script}", f"Another recipe {has_script}"
    for question in (first, second):
        visit.house.model.answers(question, Answer(text="Noted."))
    tab = visit.tab()
    ask_in_new_chat(tab, first)
    expect_over(tab)
    other = visit.tab(java_script_enabled=has_script, viewport=PHONE)
    other.goto(tab.url)
    open_page(other, "Instructions and parameters")
    save(other, "x" * 8_001)
    expect(other.get_by_text("These instructions have 8,001 characters.")).to_be_visible()
    expect(find_box(other)).to_have_value("x" * 8_001)
    save(other, "Answer in German.\nTimes are UTC.")
    expect(other.get_by_role("heading", name=first)).to_be_visible()
    ask(tab, second)
    expect_over(tab)
    assert "Answer in German." not in find_prompt(visit, first)
    assert find_prompt(visit, second).endswith("    Answer in German.\n    Times are UTC.")
    open_page(other, "Instructions and parameters")
    expect(find_box(other)).to_have_value("Answer in German.\nTimes are UTC.")
    save(other, "")
    open_page(other, "Instructions and parameters")
    other.get_by_role("link", name="Back to the chat").click()
    expect(other.get_by_role("heading", name=first)).to_be_visible()
