"""What a person types and does not send waits for them: on another device, in each chat, and with
its files."""

import pytest
from playwright.sync_api import FilePayload, Page, Route, expect

from tests.peers.reading_room import DOT
from tests.wire.script import Answer

from .browser import Visit, ask, ask_in_new_chat, both_looks, box, button, expect_over

pytestmark = pytest.mark.gate
PHONE = {"width": 390, "height": 844}
PICTURE: FilePayload = {"name": "dot.png", "mimeType": "image/png", "buffer": DOT}


def begin(visit: Visit, text: str) -> Page:
    tab = visit.tab()
    ask_in_new_chat(tab, visit.house.model.answers(text, Answer(text="Yes")))
    expect_over(tab)
    return tab


@both_looks
def test_a_draft_goes_on_on_another_device_and_is_gone_once_it_is_sent(visit: Visit) -> None:
    tab = begin(visit, "Is the lift working")
    with tab.expect_response("**/draft/") as saved:
        box(tab).press_sequentially("And the stairs")
    assert saved.value.status == 204
    phone = visit.tab(viewport=PHONE)
    phone.goto(tab.url)
    expect(box(phone)).to_have_value("And the stairs")
    box(phone).press_sequentially(" today")
    ask(phone, visit.house.model.answers("And the stairs today", Answer(text="No")))
    expect_over(phone)
    phone.reload()
    expect(box(phone)).to_have_value("")
    tab.reload()
    expect(box(tab)).to_have_value("")


def test_a_quick_change_of_the_chat_keeps_what_was_typed_in_each(visit: Visit) -> None:
    tab = begin(visit, "Is the canteen open")
    address = tab.url
    # Typed, because `fill` saves at once: it also says that the box has changed.
    box(tab).press_sequentially("About the canteen")
    with tab.expect_response("**/draft/"):
        tab.get_by_role("button", name="New chat", exact=True).click()
    expect(box(tab)).to_have_value("")
    box(tab).press_sequentially("About the garden")
    with tab.expect_response("**/draft/"):
        tab.get_by_role("link", name="Is the canteen open").first.click()
    tab.wait_for_url(address)
    expect(box(tab)).to_have_value("About the canteen")
    tab.goto("/")
    expect(box(tab)).to_have_value("About the garden")
    with tab.expect_response("**/draft/"):
        box(tab).fill("")


def test_a_draft_that_is_still_being_saved_outlives_the_change_of_the_chat(visit: Visit) -> None:
    tab = begin(visit, "Is the cellar dry")
    address = tab.url
    held: list[Route] = []
    tab.route("**/draft/", lambda route: held.append(route), times=1)
    box(tab).focus()
    with tab.expect_request("**/draft/"):
        tab.keyboard.insert_text("About the cellar")
        tab.get_by_role("button", name="New chat", exact=True).click()
    expect(box(tab)).to_have_value("")
    with tab.expect_response("**/draft/"):
        held.pop().continue_()
    tab.goto(address)
    expect(box(tab)).to_have_value("About the cellar")


@both_looks
def test_a_file_is_kept_with_the_draft_and_taken_out_of_it(visit: Visit) -> None:
    tab = begin(visit, "Is there a picture")
    with tab.expect_response("**/draft/"):
        tab.get_by_label("Add files").set_input_files([PICTURE])
    tab.reload()
    picture = tab.get_by_role("checkbox", name="dot.png")
    expect(picture).to_be_checked()
    with tab.expect_response("**/draft/"):
        picture.uncheck()
    tab.reload()
    expect(tab.locator("#composer-attachments li")).to_have_count(0)


def test_a_text_that_cannot_be_saved_stays_in_the_box(visit: Visit) -> None:
    tab = begin(visit, "How long may it be")
    visit.witness.excuse("422")
    with tab.expect_response("**/draft/") as refused:
        box(tab).fill("a" * 400_000)
    assert refused.value.status == 422
    assert len(box(tab).input_value()) == 400_000
    expect(button(tab, "Send")).to_be_enabled()
