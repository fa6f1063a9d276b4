"""A person is sent to a page before a service takes a call, in a real browser: one device shows the
address, another says that it is done."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.peers.serving import Served
from tests.peers.tollgate import PAGE, Tollgate
from tests.wire.script import Answer, Tool

from .browser import House, Visit, ask_in_new_chat, both_looks, button, fill_house
from .server import eventually

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
CROSS = Answer(tools=(Tool(name="gate_cross", arguments={"who": "Ada"}),))


@pytest.fixture(scope="module")
def _service(chromium: Browser, house: House) -> Iterator[Tollgate]:
    gate = Tollgate()
    with Served(gate.application()) as served:
        add = ["mcp", "add", "gate", served.url, "--allow-private", "--title", "The gate"]
        low = ["mcp", "tool", "gate", "cross", "--level", "low"]
        fill_house(house.installation, add, ["mcp", "confirm", "gate"], low)
        yield gate
        fill_house(house.installation, ["mcp", "remove", "gate"])


@pytest.fixture
def gate(_service: Tollgate) -> Tollgate:
    _service.is_paid, _service.refusals = False, 0
    _service.passages.clear()
    return _service


def question(tab: Page) -> Locator:
    return tab.get_by_role("group", name="Question: cross · The gate")


@both_looks
def test_a_page_is_opened_first_and_the_call_goes_on_from_another_device(
    visit: Visit, house: House, gate: Tollgate
) -> None:
    tab = visit.tab()
    house.model.answers("Let Ada across", CROSS, Answer(text="She is over there."))
    ask_in_new_chat(tab, "Let Ada across")
    link = question(tab).get_by_role("link", name="Open toll.example")
    expect(link).to_have_attribute("href", PAGE["url"])
    expect(question(tab)).to_contain_text("Pay the toll.")
    assert gate.passages == []

    phone = visit.tab(viewport={"width": 390, "height": 844})
    phone.goto(tab.url)
    button(question(phone), "Done").click()
    eventually(lambda: gate.refusals == 2, "the call is tried again")
    expect(button(question(phone), "Done")).to_be_enabled()
    expect(question(tab)).to_be_visible()
    assert gate.passages == [], "It was not done, so it is asked for again."

    gate.is_paid = True
    button(question(phone), "Done").click()
    for screen in (tab, phone):
        expect(screen.get_by_text("She is over there.")).to_be_visible()
        expect(question(screen)).to_have_count(0)
    assert gate.passages == ["Ada"]


def test_declining_ends_the_call_by_keyboard(visit: Visit, house: House, gate: Tollgate) -> None:
    tab = visit.tab()
    house.model.answers("Let Bob across", CROSS, Answer(text="He stays here."))
    ask_in_new_chat(tab, "Let Bob across")
    button(question(tab), "Decline").focus()
    tab.keyboard.press("Enter")
    expect(tab.get_by_text("He stays here.")).to_be_visible()
    expect(tab.locator("details.tool")).to_contain_text("failed")
    assert gate.passages == []
