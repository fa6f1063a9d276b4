"""Working with copied messages in a browser: an imported chat is edited, answered again and forked,
by keyboard, on two devices and without a script."""

import pytest
from playwright.sync_api import FilePayload, Page, expect

from tests.chatapp.imports.samples import gpt_chat, gpt_node, to_json
from tests.wire.script import Answer

from .browser import Visit, ask, both_looks, box, button, expect_over

pytestmark = pytest.mark.long
PHONE = {"width": 390, "height": 844}


def import_chat(tab: Page, key: str, *, is_answered: bool = True) -> str:
    """Import a chat about herons, open it and return its address."""
    nodes = [
        gpt_node("q1", None, "user", f"How tall is a heron ({key})?"),
        gpt_node("a1", "q1", "assistant", "About a metre."),
        gpt_node("q2", "a1", "user", f"And a crane ({key})?"),
        gpt_node("a2", "q2", "assistant", "A little more."),
    ]
    chat = gpt_chat(*nodes[: 4 if is_answered else 3], title=f"Herons {key}", conversation_id=key)
    file: FilePayload = {"name": "e.json", "mimeType": "application/json", "buffer": to_json(chat)}
    tab.goto("/imports/")
    tab.get_by_label("ZIP or JSON file").set_input_files(file)
    button(tab, "Read file").press("Enter")
    button(tab, "Import selected").click()
    tab.get_by_role("main").get_by_role("link", name=f"Herons {key}").click()
    expect(tab.get_by_text("Imported from ChatGPT")).to_be_visible()
    return tab.url


def expect_messages(tab: Page, *texts: str) -> None:
    expect(tab.locator(".thread .bubble")).to_have_text(list(texts))


@both_looks
def test_an_imported_chat_is_edited_answered_again_and_forked(visit: Visit) -> None:
    key = "phone" if visit.is_on_phone else "desktop"
    heron, crane = f"How tall is a heron ({key})?", f"And a crane ({key})?"
    tab, other = visit.tab(), visit.tab()
    address = import_chat(tab, key)
    other.goto(address)

    visit.house.model.answers(f"How wide ({key})?", Answer(text="Two metres."))
    pen = tab.get_by_role("link", name="Edit message")
    pen.first.focus()
    tab.keyboard.press("Enter")
    field = tab.get_by_role("textbox", name="Edit message")
    expect(field).to_have_value(heron)
    field.fill(f"How wide ({key})?")
    tab.keyboard.press("Tab")  # Cancel
    tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")
    for page in (tab, other):
        expect_messages(page, f"How wide ({key})?")
        expect(page.get_by_text("Two metres.")).to_be_visible()
        expect_over(page)
    button(tab, "Previous version").press("Enter")
    for page in (tab, other):
        expect_messages(page, heron, crane)
        expect(page.get_by_text("Version 1 of 2")).to_be_attached()

    visit.house.model.answers(crane, Answer(text="Much more."))
    button(tab, "Regenerate answer").last.press("Enter")
    for page in (tab, other):
        expect(page.get_by_text("Much more.")).to_be_visible()
        expect(page.get_by_text("A little more.")).to_have_count(0)
        expect_over(page)
    button(tab, "Previous version").last.press("Enter")
    expect(other.get_by_text("A little more.")).to_be_visible()

    button(tab, "Fork into a new chat").first.press("Enter")
    expect(tab.get_by_text("Forked from")).to_be_visible()
    expect_messages(tab, heron)
    expect(tab.get_by_text("About a metre.")).to_be_visible()
    ask(tab, visit.house.model.answers(f"And a stork ({key})?", Answer(text="The same.")))
    expect(tab.get_by_text("The same.")).to_be_visible()
    expect_over(tab)
    expect_messages(other, heron, crane)


@both_looks
def test_a_message_without_an_answer_is_answered(visit: Visit) -> None:
    key = "small" if visit.is_on_phone else "large"
    tab = visit.tab()
    import_chat(tab, key, is_answered=False)
    visit.house.model.answers(f"And a crane ({key})?", Answer(text="A little more."))
    button(tab, "Answer this message").press("Enter")
    expect(tab.get_by_text("A little more.")).to_be_visible()
    expect_over(tab)
    expect(button(tab, "Answer this message")).to_have_count(0)


def test_without_a_script_copied_messages_are_edited_and_answered_again(visit: Visit) -> None:
    address = import_chat(visit.tab(), "plain")
    tab = visit.tab(java_script_enabled=False, viewport=PHONE)
    tab.goto(address)
    visit.house.model.answers("And a crane (plain)?", Answer(text="Much more."))
    box(tab).fill("A draft")
    button(tab, "Regenerate answer").last.click()
    expect(box(tab)).to_have_value("A draft")
    expect(tab.get_by_text("Much more.")).to_be_visible(timeout=30_000)
    visit.house.model.answers("How wide (plain)?", Answer(text="Two metres."))
    tab.get_by_role("link", name="Edit message").first.click()
    tab.get_by_role("textbox", name="Edit message").fill("How wide (plain)?")
    button(tab, "Send").click()
    expect_messages(tab, "How wide (plain)?")
    expect(tab.get_by_text("Two metres.")).to_be_visible(timeout=30_000)
