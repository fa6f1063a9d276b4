"""A project in a browser: made, filled and shared; a citation that opens its place."""

import re

import pytest
from playwright.sync_api import FilePayload, Page, expect

from tests.chatapp.files.papers import pdf
from tests.wire.script import Answer, Tool

from .browser import Visit, ask, both_looks, box, button, expect_over, region
from .story import question_in

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
PAPER: FilePayload = {
    "name": "paper.pdf",
    "mimeType": "application/pdf",
    "buffer": pdf("Nothing here.", "The zinc alarm rings at noon."),
}
NOTES: FilePayload = {
    "name": "notes.md",
    "mimeType": "text/markdown",
    "buffer": b"# Gateway\n\nThe gateway gives up after 30 seconds.",
}
ODD: FilePayload = {"name": "odd.bin", "mimeType": "", "buffer": bytes(range(256)) * 20}


def create_project(tab: Page, name: str, instructions: str = "Times are UTC.") -> str:
    """Return the address of a new project."""
    tab.goto("/projects/")
    tab.get_by_role("link", name="New project").last.click()
    tab.get_by_label("Name", exact=True).fill(name)
    tab.get_by_label("Instructions").fill(instructions)
    button(tab, "Create project").click()
    expect(tab.get_by_role("heading", name=name, level=1)).to_be_visible()
    return tab.url


def find_prompt(visit: Visit, question: str) -> str:
    """Return the prompt of the first request with this question."""
    bodies = [each.body for each in visit.house.model.requests]
    found = [each for each in bodies if question_in(each) == question]
    return str(found[0]["messages"][0]["content"])


@both_looks
def test_a_chat_in_a_project_cites_a_file_and_the_link_opens_the_place(visit: Visit) -> None:
    tab = visit.tab()
    address = create_project(tab, "Checkout")
    tab.get_by_label("Add files").set_input_files([NOTES, PAPER])
    expect(tab.get_by_text("Searchable")).to_have_count(2)
    link = tab.get_by_role("link", name="paper.pdf", exact=True)
    passage = f"{link.get_attribute('href')}#c2"
    tab.get_by_role("link", name="New chat in this project").click()
    expect(tab.get_by_role("heading", name="Checkout")).to_be_visible()
    question = "When does the alarm ring?"
    search = Answer(tools=(Tool(name="search-files", arguments={"words": "zinc alarm"}),))
    cited = Answer(text=f"At noon ([paper.pdf, page 2]({passage})).")
    ask(tab, visit.house.model.answers(question, search, cited))
    tab.wait_for_url("**/c/*/")
    expect_over(tab)
    assert "    Times are UTC." in find_prompt(visit, question)
    expect(tab.locator("#chat-head").get_by_role("link", name="Checkout")).to_be_visible()
    with tab.context.expect_page() as opened:
        region(tab).get_by_role("link", name="paper.pdf, page 2").click()
    opened.value.wait_for_url("**#c2")
    marked = opened.value.locator(".passage:target")
    expect(marked).to_contain_text("The zinc alarm rings at noon.")
    expect(marked).to_be_in_viewport()
    tab.goto(address)
    expect(tab.get_by_role("region", name="Your chats")).to_contain_text(question)


def test_an_upload_that_does_not_reach_the_server_says_so_on_the_page(visit: Visit) -> None:
    tab = visit.tab()
    create_project(tab, "Far away")
    tab.context.set_offline(True)
    tab.get_by_label("Add files").set_input_files([NOTES])
    said = tab.locator("#page-notice")
    expect(said).to_have_text(
        "The server cannot be reached. Nothing is lost. Try again in a moment."
    )
    expect(said).to_be_in_viewport(ratio=1)
    tab.context.set_offline(False)
    visit.witness.excused += ["ERR_INTERNET_DISCONNECTED", "htmx:error"]


def test_a_refused_file_says_why_and_the_others_stay(visit: Visit) -> None:
    visit.witness.excuse("status of 422")
    tab = visit.tab()
    create_project(tab, "Odd files")
    tab.get_by_label("Add files").set_input_files([NOTES, ODD])
    expect(tab.get_by_role("alert")).to_contain_text("odd.bin: unsupported file type.")
    files = tab.get_by_role("region", name="Files")
    expect(files.get_by_role("listitem")).to_have_count(1)
    files.get_by_label("Delete notes.md").click()
    button(files, "Delete file").click()
    expect(files).to_contain_text("No files yet.")


@both_looks
@pytest.mark.parametrize("has_script", [True, False], ids=["script", "no script"])
def test_members_are_added_and_a_chat_is_moved(visit: Visit, has_script: bool) -> None:
    visit.witness.excuse("status of 422")
    name = f"Hiring {has_script}"
    tab = visit.tab(java_script_enabled=has_script)
    address = create_project(tab, name)
    tab.get_by_label("Username").fill("nobody-of-this-name")
    button(tab, "Add member").click()
    expect(tab.get_by_text("There is no active member named")).to_be_visible()
    expect(tab.get_by_label("Username")).to_have_value("nobody-of-this-name")
    tab.get_by_label("Username").fill("stranger")
    button(tab, "Add member").click()
    expect(tab.get_by_role("region", name="Members").get_by_role("listitem")).to_have_count(2)
    other = visit.tab("stranger")
    other.goto(address)
    expect(other.get_by_role("heading", name=name, level=1)).to_be_visible()
    expect(other.get_by_role("link", name="Edit", exact=True)).to_have_count(0)
    question = f"Move me {has_script}"
    visit.house.model.answers(question, Answer(text="Here."))
    other.goto("/")
    box(other).fill(question)
    button(other, "Send").click()
    other.wait_for_url("**/c/*/")
    expect_over(other)
    button(other, "Chat menu").click()
    other.get_by_role("link", name="Move to a project…").click()
    other.get_by_label(name).check()
    button(other, "Move chat").click()
    expect(other.locator("#chat-head").get_by_role("link", name=name)).to_be_visible()
    # The owner sees no chat of another member.
    tab.goto(address)
    expect(tab.get_by_role("region", name="Your chats")).to_contain_text("no chats")
    button(tab.get_by_role("region", name="Members"), "Remove stranger").click()
    answer = other.request.get(address)
    assert answer.status == 404
    other.reload()
    expect(other.locator("#chat-head").get_by_role("link", name=re.compile(name))).to_have_count(0)
