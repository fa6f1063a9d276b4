"""Sharing a chat in a browser: its owner makes a link by keyboard, somebody else opens it and goes
on in a chat of their own, and it ends when it is revoked."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.wire.script import Answer, Tool

from .browser import Visit, ask, ask_in_new_chat, both_looks, box, button, expect_over

pytestmark = pytest.mark.long
ADDRESS = re.compile(r"/shared/[\w-]{64}/$")


def begin(visit: Visit, text: str) -> Page:
    """Open a new chat with a message and its answer."""
    tab = visit.tab()
    ask_in_new_chat(tab, visit.house.model.answers(text, Answer(text="The **Elbe**.")))
    expect_over(tab)
    return tab


def make_link(tab: Page) -> str:
    """Make a link by keyboard alone, and return its path."""
    button(tab, "Chat menu").focus()
    tab.keyboard.press("Enter")
    tab.get_by_role("link", name="Share…").focus()
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("heading", name="Share chat")).to_be_visible()
    button(tab, "Create link").focus()
    tab.keyboard.press("Enter")
    expect(tab.get_by_text("The link is ready.")).to_be_visible()
    tab.keyboard.press("Tab")
    expect(button(tab, "Copy link")).to_be_focused()
    address = tab.locator("figure code").inner_text()
    assert ADDRESS.search(address)
    return address[address.index("/shared/") :]


@both_looks
def test_a_shared_chat_is_read_and_continued_by_somebody_else(visit: Visit) -> None:
    owner = begin(visit, "Which river is in Meissen")
    path = make_link(owner)

    reader = visit.tab("stranger")
    reader.goto(path)
    expect(reader.get_by_text(f"Shared by {visit.owner} on")).to_be_visible()
    expect(reader.get_by_text("The Elbe.")).to_be_visible()
    assert reader.locator("script, form").count() == 0
    reader.get_by_role("link", name="Continue in a new chat").click()
    button(reader, "Create chat").click()
    expect(box(reader)).to_be_visible()
    expect(reader.get_by_text("Copied from a chat that another person shared")).to_be_visible()
    ask(reader, visit.house.model.answers("And in Lyon", Answer(text="The Rhône.")))
    expect_over(reader)
    expect(reader.get_by_text("The Rhône.")).to_be_visible()

    owner.goto("/shared-links/")
    expect(owner.get_by_text("Opened 1 time, last on")).to_be_visible()
    owner.get_by_role("button", name="Revoke").click()
    expect(owner.get_by_text("1 ended link")).to_be_visible()
    visit.witness.excuse("404")
    reader.goto(path)
    expect(reader.get_by_role("heading", name="Shared chat not found")).to_be_visible()


def test_the_bar_of_a_shared_chat_leaves_room_to_read_with_a_large_zoom(visit: Visit) -> None:
    path = make_link(begin(visit, "Which river is in Pirna"))
    # The second size is the first one at 400 %.
    for width, height, position in ((1280, 1024, "sticky"), (320, 256, "static")):
        tab = visit.tab("stranger", viewport={"width": width, "height": height})
        tab.goto(path)
        expect(tab.locator(".print-help")).to_have_css("position", position)


def test_who_is_not_signed_in_signs_in_to_open_a_link(visit: Visit) -> None:
    path = make_link(begin(visit, "Which river is in Torgau"))
    visit.witness.excuse("404")
    tab = visit.tab("")
    tab.goto(path)
    expect(tab.get_by_role("heading", name="Shared chat not found")).to_be_visible()
    tab.get_by_role("link", name="Sign in").click()
    tab.get_by_label("Name").fill("stranger")
    tab.get_by_label("Password").fill(visit.house.installation.password)
    button(tab, "Sign in").click()
    expect(tab.get_by_text("Which river is in Torgau").last).to_be_visible()


def test_a_tool_that_changes_something_asks_in_the_copy(visit: Visit) -> None:
    path = make_link(begin(visit, "Which river is in Magdeburg"))
    reader = visit.tab("stranger")
    reader.goto(path + "continue")
    button(reader, "Create chat").click()
    call = Tool(name="things_delete_thing", arguments={"name": "boat"}, id="call_shared")
    ask(reader, visit.house.model.answers("Remove the boat", Answer(tools=(call,))))
    expect(
        reader.get_by_text("untrusted content from “chat shared by owner”").first
    ).to_be_visible()
    assert visit.executions("boat") == 0
