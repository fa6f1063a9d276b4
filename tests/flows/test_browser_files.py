"""A person adds files to a message and sends them, in a real browser."""

import base64
from typing import Any

import pytest
from playwright.sync_api import FileChooser, FilePayload, Page, TimeoutError, expect

from tests.chatapp.files.papers import pdf
from tests.peers.reading_room import DOT, WAV
from tests.wire.script import Answer

from .browser import House, Visit, both_looks, box, button, expect_over, write

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

PICTURE: FilePayload = {"name": "dot.png", "mimeType": "image/png", "buffer": DOT}
PAPER: FilePayload = {"name": "sums.pdf", "mimeType": "application/pdf", "buffer": pdf("Sold: 40")}
NOTES: FilePayload = {"name": "notes.md", "mimeType": "", "buffer": b"Buy milk"}
TUNE: FilePayload = {"name": "tune.wav", "mimeType": "audio/wav", "buffer": WAV}


def chip(tab: Page, name: str) -> Any:
    return tab.get_by_role("checkbox", name=name)


def last_question(house: House) -> Any:
    messages = house.model.requests[-1].body["messages"]
    return next(each["content"] for each in reversed(messages) if each["role"] == "user")


@both_looks
@pytest.mark.parametrize("javascript", [True, False])
def test_files_are_added_and_sent_and_a_bad_one_loses_nothing(
    visit: Visit, house: House, javascript: bool
) -> None:
    tab = visit.tab(java_script_enabled=javascript)
    visit.witness.excuse("422")
    asked = house.model.answers("What is in them?", Answer(text="A dot and 40."))
    tab.goto("/")
    box(tab).fill(asked)
    tab.get_by_label("Add files").set_input_files([PICTURE, TUNE, PAPER])
    if not javascript:
        button(tab, "Send").click()
    expect(tab.get_by_text("tune.wav: unsupported file type.")).to_be_visible()
    expect(box(tab)).to_have_value(asked)
    expect(chip(tab, "dot.png")).to_be_checked()
    expect(chip(tab, "sums.pdf PDF")).to_be_checked()
    tab.get_by_label("Add files").set_input_files([NOTES])
    if javascript:
        chip(tab, "notes.md").uncheck()
    button(tab, "Send").click()
    tab.wait_for_url("**/c/*/")
    expect(tab.get_by_text("A dot and 40.")).to_be_visible()
    sent = tab.locator(".turn[data-role=user]")
    expect(sent.get_by_role("img", name="dot.png")).to_have_js_property("naturalWidth", 1)
    expect(sent.get_by_role("link", name="notes.md")).to_have_count(int(not javascript))
    words, picture = last_question(house)
    assert base64.b64encode(DOT).decode() in picture["image_url"]["url"]
    assert "Sold: 40" in words["text"]
    expect(tab.get_by_text("The model did not receive “sums.pdf”.")).to_be_visible()
    visit.witness.assert_clean()


def open_by_enter(tab: Page) -> FileChooser:
    """Press Enter on the file input and return the window that opens.

    Chromium reports windows from the moment it was told to: `report_file_windows` comes first.
    It drops keys while it is busy with a new page, so the key is pressed again."""
    for _ in range(6):
        try:
            with tab.expect_file_chooser(timeout=10_000) as chooser:
                tab.keyboard.press("Enter")
        except TimeoutError:
            continue
        return chooser.value
    raise AssertionError("Enter opened no window.")


def report_file_windows(tab: Page) -> None:
    """A window that opens before somebody listens is Chromium's own, and no second one opens."""
    tab.on("filechooser", lambda _: None)


def test_files_are_added_by_keyboard_while_somebody_types(visit: Visit, house: House) -> None:
    tab = visit.tab()
    report_file_windows(tab)
    asked = house.model.answers("Read my notes", Answer(text="Milk."))
    tab.goto("/")
    expect(box(tab)).to_be_focused()
    for _ in range(12):
        tab.keyboard.press("Tab")
        if tab.evaluate("document.activeElement.type") == "file":
            break
    expect(tab.get_by_label("Add files")).to_be_focused()
    chooser = open_by_enter(tab)
    box(tab).focus()
    chooser.set_files([NOTES])
    expect(chip(tab, "notes.md")).to_be_checked()
    expect(box(tab)).to_be_focused()
    write(tab, asked)
    tab.wait_for_url("**/c/*/")
    expect(tab.get_by_text("Milk.")).to_be_visible()
    expect_over(tab)
    again = house.model.answers("And this one?", Answer(text="The same."))
    tab.get_by_label("Add files").set_input_files([NOTES])
    expect(chip(tab, "notes.md")).to_be_checked()
    write(tab, again)
    expect(tab.get_by_text("The same.")).to_be_visible()
    expect(chip(tab, "notes.md")).to_have_count(0)
    assert tab.get_by_label("Add files").evaluate("(input) => input.files.length") == 0
    expect(tab.locator(".turn").get_by_role("link", name="notes.md")).to_have_count(2)
    visit.witness.assert_clean()
