"""The ways in which files reach a message, and the preview of what the model receives."""

import base64
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import FilePayload, Page, expect

from tests.chatapp.files.office_files import slides, word_file, workbook
from tests.peers.reading_room import DOT
from tests.wire.script import Answer

from .browser import (
    PASTE,
    PASTE_PICTURE,
    House,
    Visit,
    ask_in_new_chat,
    both_looks,
    box,
    button,
    drag,
)

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

WORD: FilePayload = {"name": "minutes.docx", "mimeType": "", "buffer": word_file()}
BOOK: FilePayload = {"name": "sales.xlsx", "mimeType": "", "buffer": workbook()}
SHOW: FilePayload = {"name": "plan.pptx", "mimeType": "", "buffer": slides()}


def chip(tab: Page, name: str) -> Any:
    return tab.get_by_role("checkbox", name=name)


def last_question(house: House) -> str:
    messages = house.model.requests[-1].body["messages"]
    said = next(each["content"] for each in reversed(messages) if each["role"] == "user")
    return said if isinstance(said, str) else str(said)


@both_looks
def test_office_files_are_previewed_and_their_text_is_sent(visit: Visit, house: House) -> None:
    tab = visit.tab()
    asked = house.model.answers("What did we agree?", Answer(text="Forty."))
    tab.goto("/")
    box(tab).fill(asked)
    tab.get_by_label("Add files").set_input_files([WORD, BOOK, SHOW])
    expect(chip(tab, "minutes.docx Word")).to_be_checked()
    expect(chip(tab, "sales.xlsx Excel")).to_be_checked()
    tab.get_by_role("link", name="Preview sales.xlsx").click()
    picker = tab.locator("#picker")
    expect(picker).to_contain_text("2 sheets · 4 rows read · The model receives its text.")
    expect(picker).to_contain_text("| May | 40 |")
    expect(tab.get_by_role("heading", name="sales.xlsx", level=2)).to_be_focused()
    tab.get_by_role("link", name="Preview plan.pptx").click()
    expect(picker).to_contain_text("2 slides")
    button(picker, "Close").click()
    expect(picker).to_be_empty()
    expect(box(tab)).to_have_value(asked)
    button(tab, "Send").click()
    expect(tab.get_by_text("Forty.")).to_be_visible()
    for words in ("We agreed: 40", "| May | 40 |", "Slide 1: Plan"):
        assert words in last_question(house)
    tab.get_by_role("link", name="minutes.docx").click()
    expect(tab.get_by_text("# Minutes")).to_be_visible()
    visit.witness.assert_clean()


@both_looks
def test_a_long_paste_becomes_a_file_and_goes_back(visit: Visit) -> None:
    tab = visit.tab()
    tab.goto("/")
    box(tab).fill("Look: ")
    words = "Line of a log.\n" * 800
    tab.evaluate(PASTE, words)
    pasted = chip(tab, "Pasted text.txt")
    expect(pasted).to_be_checked()
    expect(box(tab)).to_have_value("Look: ")
    button(tab, "Undo and put the text into the message").click()
    expect(pasted).to_have_count(0)
    expect(box(tab)).to_have_value("Look: " + words)
    expect(box(tab)).to_be_focused()
    visit.witness.assert_clean()


def test_a_short_paste_stays_text_and_ten_megabytes_freeze_nothing(visit: Visit) -> None:
    tab = visit.tab()
    tab.goto("/")
    assert tab.evaluate(PASTE, "x" * 10_000) is None
    tab.evaluate(PASTE, "x" * 10_000_000)
    expect(chip(tab, "Pasted text.txt")).to_have_count(1)
    expect(chip(tab, "Pasted text.txt")).to_be_checked()
    # It would not fit into a message.
    expect(tab.get_by_role("button", name="Undo")).to_have_count(0)
    box(tab).press_sequentially("Still here")
    expect(box(tab)).to_have_value("Still here")
    visit.witness.assert_clean()


@both_looks
def test_a_pasted_picture_becomes_a_file(visit: Visit) -> None:
    tab = visit.tab()
    tab.goto("/")
    tab.evaluate(PASTE_PICTURE % base64.b64encode(DOT).decode())
    expect(chip(tab, "screen.png PNG")).to_be_checked()
    visit.witness.assert_clean()


def test_files_are_dropped_anywhere_in_the_chat(visit: Visit, house: House, tmp_path: Path) -> None:
    tab = visit.tab()
    house.model.answers("Hello there", Answer(text="Hello."))
    ask_in_new_chat(tab, "Hello there")
    names = ("شكرا 🙂.txt", "n" * 200 + ".md")
    for name in names:
        (tmp_path / name).write_text("Words")
    paths = [tmp_path / name for name in names]
    target = tab.get_by_text("Drop files here to add them to the message")
    expect(target).to_be_hidden()
    drag(tab, "dragEnter", *paths)
    expect(target).to_be_visible()
    tab.locator("#drop").dispatch_event("dragleave")
    expect(target).to_be_hidden()
    # Also beside the chat, where the browser would leave the page for the file.
    beside = (60, 500)
    drag(tab, "dragEnter", *paths, at=beside)
    expect(target).to_be_visible()
    drag(tab, "dragOver", *paths, at=beside)
    drag(tab, "dragOver", *paths, at=beside)
    # Chromium tells the page nothing of a drag that its protocol cancels, but the pointer returns.
    drag(tab, "dragCancel", *paths, at=beside)
    tab.mouse.move(700, 300)
    expect(target).to_be_hidden()
    drag(tab, "dragEnter", *paths, at=beside)
    expect(target).to_be_visible()
    drag(tab, "dragOver", *paths, at=beside)
    drag(tab, "drop", *paths, at=beside)
    expect(target).to_be_hidden()
    for name in names:
        expect(chip(tab, name)).to_be_checked()
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    visit.witness.assert_clean()


def test_a_dropped_folder_is_refused_and_the_message_can_still_be_sent(
    visit: Visit, house: House, tmp_path: Path
) -> None:
    tab = visit.tab()
    (tmp_path / "folder").mkdir()
    (tmp_path / "notes.txt").write_text("Words")
    tab.goto("/")
    asked = house.model.answers("Is it there?", Answer(text="Not here."))
    box(tab).fill(asked)
    for kind in ("dragEnter", "dragOver", "drop"):
        drag(tab, kind, tmp_path / "folder", tmp_path / "notes.txt")
        if kind == "dragEnter":
            expect(tab.locator("#drop")).to_be_visible()
    notice = tab.get_by_role("alert").filter(has_text="Folders cannot be added.")
    expect(notice).to_be_visible()
    button(tab, "Send").click()
    expect(tab.get_by_text("Not here.")).to_be_visible()
    visit.witness.assert_clean()


def test_files_that_are_added_during_an_upload_are_all_added(visit: Visit) -> None:
    tab = visit.tab()
    tab.clock.install()
    tab.goto("/")
    network = tab.context.new_cdp_session(tab)
    network.send("Network.enable")
    slow = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": 200_000}
    network.send("Network.emulateNetworkConditions", {"offline": False, **slow})
    files = tab.get_by_label("Add files")
    files.set_input_files({"name": "first.txt", "mimeType": "", "buffer": b"one " * 150_000})
    bar = tab.get_by_role("progressbar", name="Adding files")
    expect(bar).to_be_visible()
    # How much was sent, and, once all was sent, that the server still reads it.
    tab.wait_for_function("(bar) => 0.1 < bar.value && bar.value < 0.9", arg=bar.element_handle())
    expect(tab.get_by_role("status").filter(has_text="Adding…")).to_be_visible()
    tab.evaluate(PASTE, "second " * 2_000)
    files.set_input_files({"name": "third.txt", "mimeType": "", "buffer": b"three"})
    # A slow upload is not given up after a minute, as other requests are.
    tab.clock.fast_forward(120_000)
    for name in ("first.txt", "Pasted text.txt", "third.txt"):
        expect(chip(tab, name)).to_be_checked()
    expect(bar).to_be_hidden()
    visit.witness.assert_clean()


def test_files_that_do_not_reach_the_server_are_said_and_stay_chosen(visit: Visit) -> None:
    tab = visit.tab()
    tab.goto("/")
    box(tab).fill("Typed")
    tab.context.set_offline(True)
    tab.get_by_label("Add files").set_input_files([WORD])
    expect(tab.locator("#composer-notice")).to_have_text(
        "The server cannot be reached. Nothing is lost. Try again in a moment."
    )
    expect(box(tab)).to_have_value("Typed")
    assert tab.evaluate("document.getElementById('files').files.length") == 1
    tab.context.set_offline(False)
    visit.witness.excused += ["ERR_INTERNET_DISCONNECTED", "htmx:error"]


def test_undo_without_a_session_puts_no_other_page_into_the_message(visit: Visit) -> None:
    tab = visit.tab()
    tab.goto("/")
    tab.evaluate(PASTE, "Line of a log.\n" * 800)
    expect(chip(tab, "Pasted text.txt")).to_be_checked()
    tab.context.clear_cookies()
    button(tab, "Undo and put the text into the message").click()
    expect(tab.locator("#composer-notice")).to_contain_text("Try again in a moment.")
    expect(box(tab)).to_have_value("")
    expect(chip(tab, "Pasted text.txt")).to_be_checked()
    visit.witness.excused += ["Failed to load resource", "ERR_FAILED"]


def test_a_long_name_leaves_room_for_what_can_be_done_with_the_file(visit: Visit) -> None:
    tab = visit.tab(viewport={"width": 390, "height": 844})
    tab.goto("/")
    name = "Pasted text" + "n" * 485 + ".txt"
    tab.get_by_label("Add files").set_input_files({"name": name, "mimeType": "", "buffer": b"A"})
    preview = tab.get_by_role("link", name="Preview Pasted text")
    place, around = preview.bounding_box(), tab.locator(".composer").bounding_box()
    assert place is not None and around is not None
    assert place["width"] >= 32
    assert place["x"] + place["width"] <= around["x"] + around["width"]
    visit.witness.assert_clean()


def test_a_phone_offers_its_camera_and_names_the_limits(visit: Visit) -> None:
    tab = visit.tab(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    tab.goto("/")
    button(tab, "Add to the message").click()
    expect(tab.locator("#picker")).to_contain_text("Up to 19.1 MB each, 10 in a message")
    camera = tab.get_by_label("Take a photo")
    expect(camera).to_have_attribute("capture", "environment")
    camera.set_input_files({"name": "photo.png", "mimeType": "", "buffer": DOT})
    expect(chip(tab, "photo.png")).to_be_checked()
    expect(tab.locator("#picker")).to_be_empty()
    visit.witness.assert_clean()
