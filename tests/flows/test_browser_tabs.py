"""Reload, a second tab, going back, a tab in the background: everywhere the same page, and nobody
who reads, selects or writes is disturbed."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.wire.script import Answer, Tool

from .browser import Visit, ask, ask_in_new_chat, button, card, expect_over, region, tick_as_read

pytestmark = [pytest.mark.gate, pytest.mark.timeout(300)]
PARAGRAPHS = 40
IN_STEP_MS = 2_000
HIDE = """() => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
SHOW = """() => {
  delete document.hidden;
  document.dispatchEvent(new Event("visibilitychange"));
}"""
SELECT = """() => {
  const words = document.querySelector(".prose p").firstChild;
  getSelection().setBaseAndExtent(words, 4, words, 14);
}"""


def tale(visit: Visit, name: str, paragraphs: int = PARAGRAPHS, delay_ms: float = 8) -> str:
    """A question with a long answer, whose paragraphs come over some seconds."""
    text = "\n\n".join(
        f"Paragraph {number} of the tale of *{name}* with `code {number}`, a [link]"
        f"(https://example.org/{number}) and a list:\n\n- one\n- two"
        for number in range(1, paragraphs + 1)
    )
    answer = Answer(text=f"{text}\n\nThe tale of {name} is over.", chunk=12, delay_ms=delay_ms)
    return visit.house.model.answers(f"Tell {name}", answer)


def text_of(tab: Page) -> str:
    return region(tab).inner_text()


def has_come_to(tab: Page, number: int) -> None:
    expect(region(tab)).to_contain_text(f"Paragraph {number} of")


def is_complete(tab: Page, name: str) -> None:
    expect(region(tab)).to_contain_text(f"The tale of {name} is over.")
    expect_over(tab)


def assert_streaming(tab: Page) -> None:
    assert tab.locator(".status[aria-busy]").count() == 1, "The answer came too early to tell."


@pytest.mark.long
def test_a_reload_in_the_middle_gives_the_bytes_of_a_tab_that_never_left(visit: Visit) -> None:
    stays, leaves = visit.tab(), visit.tab()
    ask_in_new_chat(stays, tale(visit, "reload", delay_ms=30))
    leaves.goto(stays.url)
    for number in (3, 8, 16):
        has_come_to(leaves, number)
        leaves.reload()
    assert_streaming(leaves)
    for tab in (stays, leaves):
        is_complete(tab, "reload")
    assert text_of(leaves) == text_of(stays)
    leaves.reload()
    assert text_of(leaves) == text_of(stays)


@pytest.mark.long
def test_a_tab_in_the_background_ends_with_the_same_text(visit: Visit) -> None:
    front, back = visit.tab(), visit.tab()
    ask_in_new_chat(front, tale(visit, "background", delay_ms=30))
    back.goto(front.url)
    has_come_to(back, 3)
    back.evaluate(HIDE)
    has_come_to(front, 20)
    back.evaluate(SHOW)
    assert_streaming(back)
    for tab in (front, back):
        is_complete(tab, "background")
    assert text_of(back) == text_of(front)


@pytest.mark.long
def test_going_back_and_forward_brings_the_answer_that_was_made_meanwhile(visit: Visit) -> None:
    stays, leaves = visit.tab(), visit.tab()
    ask_in_new_chat(stays, tale(visit, "back"))
    leaves.goto(stays.url)
    has_come_to(leaves, 2)
    leaves.goto("/approvals/")
    is_complete(stays, "back")
    leaves.go_back()
    is_complete(leaves, "back")
    assert text_of(leaves) == text_of(stays)
    leaves.go_back()
    leaves.go_forward()
    assert text_of(leaves) == text_of(stays)


def question(visit: Visit, name: str, *, calls: int = 1) -> str:
    tools = tuple(
        Tool(name="things_delete_thing", arguments={"name": f"{name}-{n}"}, id=f"call_{name}_{n}")
        for n in range(calls)
    )
    return visit.house.model.answers(
        f"Delete {name}", Answer(tools=tools), Answer(text=f"All is done with {name}.")
    )


@pytest.mark.long
def test_a_decision_in_one_tab_shows_in_the_other_within_two_seconds(visit: Visit) -> None:
    one, other = visit.tab(), visit.tab()
    ask_in_new_chat(one, question(visit, "seen"))
    other.goto(one.url)
    expect(card(other, "delete thing")).to_be_visible()
    tick_as_read(one)
    button(card(one, "delete thing"), "Deny").click()
    expect(card(other, "delete thing")).to_have_count(0, timeout=IN_STEP_MS)
    expect(region(other)).to_contain_text("denied by owner", timeout=IN_STEP_MS)
    for tab in (one, other):
        expect(region(tab)).to_contain_text("All is done with seen.")
        expect_over(tab)
    assert text_of(other) == text_of(one)


def test_a_word_in_say_why_outlives_the_decision_about_another_call(visit: Visit) -> None:
    tab, other = visit.tab(), visit.tab()
    ask_in_new_chat(tab, question(visit, "pair", calls=2))
    expect(card(tab, "delete thing")).to_have_count(2)
    second = card(tab, "delete thing").last
    second.get_by_text("Deny with a reason").click()
    second.get_by_role("textbox").press_sequentially("Keep it: I am")
    other.goto(tab.url)
    tick_as_read(other)
    button(card(other, "delete thing").first, "Deny").click()
    expect(region(tab)).to_contain_text("denied by owner")
    expect(card(tab, "delete thing")).to_have_count(1)
    word = card(tab, "delete thing").get_by_role("textbox")
    expect(word).to_be_focused()
    tab.keyboard.type(" not done with it.")
    expect(word).to_have_value("Keep it: I am not done with it.")
    button(card(tab, "delete thing"), "Deny").click()
    expect(region(other)).to_contain_text("Keep it: I am not done with it.")


@pytest.mark.long
def test_a_selection_in_an_earlier_paragraph_outlives_the_stream(visit: Visit) -> None:
    tab = visit.tab()
    ask_in_new_chat(tab, tale(visit, "selection"))
    has_come_to(tab, 3)
    tab.evaluate(SELECT)
    selected = tab.evaluate("getSelection().toString()")
    assert len(selected) == 10
    assert_streaming(tab)
    is_complete(tab, "selection")
    assert tab.evaluate("getSelection().toString()") == selected


def scrolled(tab: Page) -> dict[str, Any]:
    measured: dict[str, Any] = region(tab).evaluate(
        """(box) => {
        const top = box.scrollTop;
        return { top, rest: box.scrollHeight - box.clientHeight - top };
    }"""
    )
    return measured


def test_a_reader_who_scrolled_up_is_not_pulled_down(visit: Visit) -> None:
    tab = visit.tab()
    ask_in_new_chat(tab, tale(visit, "scrolled"))
    has_come_to(tab, 12)
    region(tab).hover()
    tab.mouse.wheel(0, -100_000)
    expect(region(tab)).to_have_js_property("scrollTop", 0)
    assert_streaming(tab)
    is_complete(tab, "scrolled")
    assert scrolled(tab)["top"] == 0


def test_a_reader_at_the_end_stays_at_the_end(visit: Visit) -> None:
    tab = visit.tab()
    ask_in_new_chat(tab, tale(visit, "followed"))
    is_complete(tab, "followed")
    assert scrolled(tab)["top"] > 500
    assert scrolled(tab)["rest"] < 80


def test_both_tabs_show_what_was_written_in_either(visit: Visit) -> None:
    one, other = visit.tab(), visit.tab()
    ask_in_new_chat(one, visit.house.model.answers("First", Answer(text="The first answer.")))
    expect_over(one)
    other.goto(one.url)
    ask(other, visit.house.model.answers("Second", Answer(text="The second answer.")))
    for tab in (one, other):
        expect(region(tab)).to_contain_text("The second answer.")
        expect_over(tab)
    assert text_of(other) == text_of(one)
    link = one.get_by_role("link", name=re.compile("First"))
    expect(link.first).to_be_visible()
