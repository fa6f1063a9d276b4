"""A card by keyboard alone, as a screen reader tells it, in two tabs, and in every state."""

import pytest
from playwright.sync_api import Locator, Page, expect

from chatapp.models import ToolCall

from .all_states import TITLE
from .browser import House, Visit, ask_in_new_chat, button, card, expect_over, region, tick_as_read
from .test_browser_decisions import deletion

pytestmark = [pytest.mark.gate, pytest.mark.timeout(300)]
PHONE = {"width": 390, "height": 844}
TOLD = """
- group /Approve.*things/:
  - 'heading "The assistant wants to run Delete thing in things" [level=3]'
  - definition: told
  - group:
    - button "Allow once"
    - button "Deny"
"""


@pytest.fixture(scope="module")
def filled(house: House) -> str:
    """The address of the chat with a call in every state."""
    script = "from tests.flows.all_states import fill; print(fill().pk)"
    return f"/c/{house.installation.manage('shell', '-v', '0', '-c', script).split()[-1]}/"


def tab_to(tab: Page, wanted: Locator) -> None:
    """Press Tab until it has the focus, as somebody without a mouse does. The list of chats lies
    on the way, and is as long as other tests left it."""
    for _ in range(400):
        tab.keyboard.press("Tab")
        if wanted.evaluate("(element) => element === document.activeElement"):
            return
    raise AssertionError("It cannot be reached by keyboard.")


@pytest.mark.parametrize(
    "size",
    [pytest.param(None, id="laptop"), pytest.param(PHONE, id="phone", marks=pytest.mark.long)],
)
def test_every_state_says_its_word(visit: Visit, filled: str, size: dict[str, int] | None) -> None:
    tab = visit.tab(viewport=size) if size else visit.tab()
    tab.goto(filled)
    expect(region(tab)).to_contain_text(TITLE)
    said = region(tab).inner_text().lower()
    # The call that succeeded waits for a review.
    ours = {"awaiting_approval", "proposed", "succeeded"}
    for state in ToolCall.State:
        if state.value not in ours:
            assert str(state.label) in said, state
    assert "waiting for your review" in said
    assert "nothing is sent unless you allow it" in said
    assert "needs two approvals" in said
    assert "you approved this. waiting for a second approval" in said
    wide = tab.evaluate("() => document.documentElement.scrollWidth > window.innerWidth")
    assert not wide, "It scrolls sideways."


def test_a_screen_reader_is_told_what_asks_and_what_can_be_done(visit: Visit) -> None:
    tab = visit.tab()
    ask_in_new_chat(tab, deletion(visit, "told"))
    question = card(tab, "delete thing")
    expect(question).to_match_aria_snapshot(TOLD)


@pytest.mark.parametrize(
    ("name", "answer", "times"), [("pressed", "Allow once", 1), ("spared", "Deny", 0)]
)
def test_a_card_is_answered_by_keyboard_alone(
    visit: Visit, name: str, answer: str, times: int
) -> None:
    tab = visit.tab()
    ask_in_new_chat(tab, deletion(visit, name))
    question = card(tab, "delete thing")
    expect(question).to_be_visible()
    tick_as_read(tab)
    tab_to(tab, button(question, answer))
    tab.keyboard.press("Enter")
    expect(region(tab)).to_contain_text(f"All is done with {name}.")
    expect_over(tab)
    assert visit.executions(name) == times


def test_values_are_changed_by_keyboard_alone(visit: Visit) -> None:
    tab = visit.tab()
    ask_in_new_chat(tab, deletion(visit, "before"))
    question = card(tab, "delete thing")
    expect(question).to_be_visible()
    tick_as_read(tab)
    tab_to(tab, question.get_by_text("Edit values"))
    tab.keyboard.press("Enter")
    tab_to(tab, question.get_by_label("name"))
    tab.keyboard.press("Control+A")
    tab.keyboard.type("after")
    tab_to(tab, button(question, "Allow with these values"))
    tab.keyboard.press("Enter")
    expect(region(tab)).to_contain_text("All is done with before.")
    expect_over(tab)
    assert (visit.executions("before"), visit.executions("after")) == (0, 1)


def test_the_buttons_of_a_long_card_stay_in_reach_on_a_phone(visit: Visit) -> None:
    tab = visit.tab(viewport=PHONE)
    ask_in_new_chat(tab, deletion(visit, "reached"))
    question = card(tab, "delete thing")
    question.get_by_text("Show the exact request").click()
    question.get_by_text("Explain").click()
    question.evaluate("(card) => card.scrollIntoView({ block: 'start' })")
    assert question.evaluate("(card) => card.scrollHeight > card.closest('.scroller').clientHeight")
    expect(question.get_by_role("heading").first).to_be_in_viewport()
    expect(button(question, "Allow once")).to_be_in_viewport(ratio=1)
    tick_as_read(tab)
    button(question, "Deny").click()
    expect(region(tab)).to_contain_text("All is done with reached.")
    expect_over(tab)
    assert visit.executions("reached") == 0


@pytest.mark.long
def test_two_pages_follow_one_decision(visit: Visit) -> None:
    first = visit.tab()
    ask_in_new_chat(first, deletion(visit, "shared"))
    second = visit.tab()
    second.goto(first.url)
    for tab in (first, second):
        expect(card(tab, "delete thing")).to_be_visible()
    tick_as_read(second)
    button(card(second, "delete thing"), "Allow once").click()
    for tab in (first, second):
        expect(region(tab)).to_contain_text("All is done with shared.")
        expect(card(tab, "delete thing")).to_have_count(0)
        expect_over(tab)
    assert visit.executions("shared") == 1
