"""Importing chats in a browser: a file is chosen by its page, its chats are listed, imported by the
worker while the page follows, read, gone on in, and taken back."""

import json

import pytest
from playwright.sync_api import FilePayload, Page, expect

from tests.chatapp.imports.pictures import png
from tests.chatapp.imports.samples import CHATGPT, CLAUDE, OPEN_WEBUI, to_json, to_zip
from tests.wire.script import Answer

from .browser import Visit, ask, both_looks, button, expect_over

pytestmark = pytest.mark.long
FILE: FilePayload = {
    "name": "export.zip",
    "mimeType": "application/zip",
    "buffer": to_zip(
        {
            "conversations.json": to_json(CHATGPT, CLAUDE, OPEN_WEBUI),
            "file-AbCd-pond.png": png(side=240),
        }
    ),
}


def choose(tab: Page, file: FilePayload) -> None:
    tab.goto("/imports/")
    tab.get_by_label("ZIP or JSON file").set_input_files(file)
    button(tab, "Read file").focus()
    tab.keyboard.press("Enter")


@both_looks
def test_chats_of_a_file_are_imported_and_taken_back(visit: Visit) -> None:
    tab = visit.tab()
    tab.goto("/search/")
    tab.get_by_role("main").get_by_role("link", name="Import chats").click()
    choose(tab, FILE)
    expect(tab.get_by_role("heading", name="3 chats from ChatGPT")).to_be_visible()
    expect(tab.get_by_text("come over: 2 pictures · 1 file")).to_be_visible()
    tab.get_by_text("What will not come over").click()
    expect(tab.get_by_text("1 picture is left out: not in the export").first).to_be_visible()
    expect(tab.get_by_text("3 tool calls become text and cannot run again")).to_be_visible()
    tab.get_by_role("checkbox", name="Frogs").press("Space")
    button(tab, "Import selected").press("Enter")
    expect(tab.get_by_role("heading", name="2 chats were imported from ChatGPT")).to_be_visible()

    tab.get_by_role("main").get_by_role("link", name="Ponds").click()
    expect(tab.get_by_text("Imported from ChatGPT")).to_be_visible()
    picture = tab.get_by_role("img", name="pond.png")
    expect(picture).to_be_visible()
    expect(picture).to_have_js_property("naturalWidth", 240)
    expect(tab.get_by_text("It is four metres deep.")).to_be_visible()
    button(tab, "Previous version").click()
    expect(tab.get_by_text("About a metre.")).to_be_visible()
    ask(tab, visit.house.model.answers("And in winter", Answer(text="Less.")))
    expect_over(tab)
    expect(tab.get_by_text("Less.")).to_be_visible()

    tab.goto("/imports/")
    tab.get_by_role("main").get_by_role("link", name="export.zip").click()
    expect(tab.get_by_text("1 chat in which you went on stays.")).to_be_visible()
    button(tab, "Undo import").click()
    expect(tab.get_by_role("heading", name="The import was undone")).to_be_visible()


@both_looks
def test_a_broken_file_says_what_to_do(visit: Visit) -> None:
    tab = visit.tab()
    cut: FilePayload = {
        "name": "cut.json",
        "mimeType": "application/json",
        "buffer": json.dumps([CHATGPT]).encode()[:-30],
    }
    choose(tab, cut)
    expect(tab.get_by_text("This file is cut off or damaged.")).to_be_visible()
    tab.get_by_role("link", name="Choose another file").click()
    expect(tab.get_by_label("ZIP or JSON file")).to_be_visible()
