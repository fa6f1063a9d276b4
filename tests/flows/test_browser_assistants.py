"""Assistants and saved prompts in a browser: from their forms to what the model server receives."""

import re

import pytest
from playwright.sync_api import FilePayload, Locator, Page, expect

from chatapp.files.reader import PICTURE_SIDE
from tests.chatapp.files.drawings import photograph
from tests.wire.script import Answer

from .browser import Visit, both_looks, box, button, expect_over
from .story import question_in

pytestmark = pytest.mark.long
LAPTOP = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}


def create_assistant(tab: Page, name: str) -> None:
    tab.goto("/")
    if tab.get_by_role("button", name="Open the list of chats").is_visible():
        tab.goto("/assistants/")
    else:
        tab.get_by_role("link", name="Assistants").click()
    tab.get_by_role("link", name="New assistant").click()
    tab.get_by_label("Name", exact=True).fill(name)
    photo = FilePayload(name="me.jpg", mimeType="image/jpeg", buffer=photograph(6))
    tab.get_by_label("Picture (optional)").set_input_files(photo)
    tab.get_by_label("Instructions").fill("x" * 8_001)
    tab.get_by_label("Only these services").check()
    tab.get_by_role("checkbox", name="things").check()
    tab.get_by_label("Starter 1").fill("Review {{incident}}")
    button(tab, "Create assistant").click()
    expect(tab.get_by_text("This text has 8001 characters.")).to_be_visible()
    expect(tab.get_by_text("Your picture is not saved yet.")).to_be_visible()
    expect_picture(tab.locator(".picture-choice"))
    expect(tab.get_by_role("checkbox", name="things")).to_be_checked()
    expect(tab.get_by_label("Starter 1")).to_have_value("Review {{incident}}")
    tab.get_by_label("Instructions").fill("You work for {{team}}.")
    button(tab, "Create assistant").click()
    expect(tab.get_by_role("heading", name=name)).to_be_visible()
    expect_picture(tab.locator(".preset").filter(has_text=name))


def expect_picture(place: Locator) -> None:
    """Check that the picture is shown here, and not only named."""
    expect(place.locator("img")).to_have_js_property("naturalWidth", PICTURE_SIDE)


def start_chat(tab: Page, name: str) -> None:
    tab.get_by_role("link", name=f"Start a chat with {name}").click()
    expect(tab.get_by_role("heading", name=name)).to_be_visible()
    expect_picture(tab.locator("#assistant-start"))
    tab.get_by_text(re.compile(f"Instructions of {name} by (owner|phone)")).click()
    expect(tab.get_by_text("You work for {{team}}.", exact=True)).to_be_visible()


def find_prompt(visit: Visit, question: str) -> str:
    """Return the prompt of the request with this question."""
    bodies = [each.body for each in visit.house.model.requests]
    *_, body = [each for each in bodies if question_in(each) == question]
    return str(body["messages"][0]["content"])


@both_looks
@pytest.mark.parametrize("has_script", [True, False], ids=["script", "no script"])
def test_a_chat_is_started_with_an_assistant_and_its_starter(
    visit: Visit, has_script: bool
) -> None:
    visit.witness.excuse("status of 422")
    name, question = f"Incident review {has_script}", f"Review the outage {has_script}"
    visit.house.model.answers(question, Answer(text="Reviewed."))
    tab = visit.tab(java_script_enabled=has_script, viewport=PHONE if has_script else LAPTOP)
    create_assistant(tab, name)
    start_chat(tab, name)
    button(tab, "Review {{incident}}").click()
    tab.get_by_label("incident").fill(f"the outage {has_script}")
    button(tab, "Preview").click()
    button(tab, "Insert into the message").click()
    expect(box(tab)).to_have_value(question)
    # Without the value of a variable nothing is sent, and everything stays.
    button(tab, "Send").click()
    expect(tab.get_by_text("needs more information. Fill in: team.")).to_be_visible()
    expect(box(tab)).to_have_value(question)
    tab.get_by_label("team").fill("Payments")
    button(tab, "Send").click()
    tab.wait_for_url("**/c/*/")
    expect(tab.get_by_role("link", name=name)).to_be_visible()
    expect_picture(tab.locator("#chat-head"))
    if has_script:
        expect_over(tab)
    else:
        expect(tab.get_by_text("Reviewed.")).to_be_visible()
    assert find_prompt(visit, question).endswith("\n    You work for Payments.")


@both_looks
@pytest.mark.parametrize("has_script", [True, False], ids=["script", "no script"])
def test_a_saved_prompt_follows_what_was_typed(visit: Visit, has_script: bool) -> None:
    tab = visit.tab(java_script_enabled=has_script)
    title = f"Weekly {has_script}"
    tab.goto("/prompts/new/")
    tab.get_by_label("Title").fill(title)
    tab.get_by_label("Text").fill("Report on {{week}}.")
    button(tab, "Create prompt").click()
    expect(tab.get_by_role("heading", name=title)).to_be_visible()
    tab.goto("/")
    box(tab).fill("Dear all,")
    button(tab, "Add to the message").click()
    button(tab, "Use a saved prompt").click()
    button(tab, f"Choose {title}").click()
    tab.get_by_label("week").fill("12")
    button(tab, "Preview").click()
    expected = "Dear all,\n\nReport on 12."
    if has_script:
        expect(button(tab, "Insert into the message")).to_be_visible()
        box(tab).fill("Dear all, and hello.")
        expected = "Dear all, and hello.\n\nReport on 12."
    button(tab, "Insert into the message").click()
    expect(box(tab)).to_have_value(expected)
    tab.goto("/prompts/")
    button(tab, f"Use {title}").click()
    tab.get_by_label("week").fill("14")
    button(tab, "Preview").click()
    button(tab, "Insert into the message").click()
    expect(box(tab)).to_have_value(re.compile(r"Report on 14\.$"))
    if has_script:
        box(tab).fill(f"/{title.partition(' ')[0]}")
        choose = button(tab, f"Choose {title}")
        expect(choose).to_be_visible()
        box(tab).press("ArrowDown")
        expect(choose).to_be_focused()
        tab.keyboard.press("Enter")
        tab.get_by_label("week").fill("13")
        button(tab, "Preview").click()
        button(tab, "Insert into the message").click()
        expect(box(tab)).to_have_value("Report on 13.")


def test_an_assistant_that_was_deleted_meanwhile_keeps_the_message(visit: Visit) -> None:
    visit.witness.excuse("status of 409", "status of 422")
    tab, other = visit.tab(), visit.tab()
    create_assistant(tab, "Short-lived")
    start_chat(tab, "Short-lived")
    tab.get_by_label("team").fill("Payments")
    other.goto("/assistants/")
    other.get_by_role("link", name="Edit Short-lived").click()
    other.get_by_text("Delete…").click()
    button(other, "Delete Short-lived").click()
    expect(other.get_by_role("heading", name="Short-lived")).to_have_count(0)
    box(tab).fill("My words")
    button(tab, "Send").click()
    expect(
        tab.get_by_text("The assistant was deleted, or you can no longer use it.")
    ).to_be_visible()
    expect(box(tab)).to_have_value("My words")
    expect(tab.get_by_role("heading", name="Short-lived")).to_have_count(0)
    visit.house.model.answers("My words", Answer(text="Without it."))
    button(tab, "Send").click()
    tab.wait_for_url("**/c/*/")
    expect_over(tab)
