"""A person downloads a chat and prints it: with the whole conversation, and without JavaScript."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.wire.script import Answer

from .browser import Visit, ask_in_new_chat, both_looks, button, expect_over

pytestmark = pytest.mark.long
PHONE = {"width": 390, "height": 844}
CODE = "```python\nprint('a line that is long enough to be wider than a phone')\n```"
# What is only there to be pressed, and what is around the conversation.
NOT_PRINTED = "#sidebar, textarea, .thread button, .print-help, .topbar button"


def open_export(visit: Visit, question: str, **options: bool) -> Page:
    """Ask, and go to the choices by the menu of the chat."""
    tab = visit.tab(viewport=PHONE)
    ask_in_new_chat(tab, visit.house.model.answers(question, Answer(text=CODE)))
    expect_over(tab)
    button(tab, "Chat menu").click()
    tab.get_by_role("link", name="Export", exact=True).click()
    expect(tab.get_by_role("heading", name="Export chat")).to_be_visible()
    return tab


def download(tab: Page, folder: Path) -> tuple[str, str]:
    """Return the name and the text of the file."""
    with tab.expect_download() as begun:
        button(tab, "Download").click()
    path = folder / "file"
    begun.value.save_as(path)
    return begun.value.suggested_filename, path.read_text()


@both_looks
def test_a_chat_is_downloaded_in_both_formats(visit: Visit, tmp_path: Path) -> None:
    tab = open_export(visit, "Which plants need shade?")
    name, written = download(tab, tmp_path)
    assert name.startswith("Which plants need shade 20") and name.endswith(".md")
    assert "# Which plants need shade?" in written and CODE in written
    tab.get_by_role("radiogroup", name="Format").get_by_label("JSON").check()
    tab.get_by_label("With arguments and results").check()
    name, written = download(tab, tmp_path)
    found = json.loads(written)
    assert name.endswith(".json") and found["tool_calls"] == "full"
    assert [each["role"] for each in found["messages"]] == ["user", "assistant"]


def test_it_works_without_javascript(visit: Visit, tmp_path: Path) -> None:
    address = open_export(visit, "Which plants need sun?").url
    plain = visit.tab(java_script_enabled=False)
    plain.goto(address)
    assert CODE in download(plain, tmp_path)[1]
    plain.get_by_role("link", name="Open print view").click()
    expect(plain.get_by_role("heading", name="Which plants need sun?")).to_be_visible()


@pytest.mark.parametrize("is_print_view", [True, False])
def test_paper_has_the_conversation_alone(visit: Visit, is_print_view: bool) -> None:
    tab = open_export(visit, "Which plants need water?")
    address = tab.url.removesuffix("export")
    tab.emulate_media(color_scheme="dark")
    tab.goto(f"{address}print" if is_print_view else address)
    tab.emulate_media(media="print", color_scheme="dark")
    for each in tab.locator(NOT_PRINTED).all():
        expect(each).to_be_hidden()
    expect(tab.get_by_role("heading", name="Which plants need water?").first).to_be_visible()
    expect(tab.get_by_role("heading", name="Your message")).to_be_visible()
    expect(tab.get_by_text("a line that is long enough")).to_be_visible()
    body = "getComputedStyle(document.body)"
    assert tab.evaluate(f"{body}.color") == "rgb(0, 0, 0)"
    sheet = "getComputedStyle(document.documentElement).backgroundColor"
    assert tab.evaluate(sheet) == "rgb(255, 255, 255)"
    pre = "document.querySelector('.code pre')"
    assert tab.evaluate(f"{pre}.scrollWidth <= {pre}.clientWidth + 1")
    assert tab.pdf().startswith(b"%PDF")
