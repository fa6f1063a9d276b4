"""Several actions that wait at once, and a result that nobody has looked at, in a browser."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.wire.script import Answer, Tool

from .browser import (
    Visit,
    ask_in_new_chat,
    both_looks,
    button,
    card,
    cards,
    expect_over,
    region,
    tick_as_read,
)

pytestmark = [pytest.mark.gate, pytest.mark.timeout(300)]
SOME_WAIT = "3 actions need your approval."


def make_calls(visit: Visit, word: str) -> str:
    """A question whose answer asks for two medium actions and a high one."""
    medium = [
        Tool(name="things_slow_thing", arguments={"name": f"{word}-{n}", "seconds": 0}, id=f"c{n}")
        for n in (1, 2)
    ]
    high = Tool(name="things_delete_thing", arguments={"name": f"{word}-3"}, id="c3")
    steps = Answer(tools=(*medium, high)), Answer(text=f"All of {word} is done.")
    return visit.house.model.answers(f"Do {word}", *steps)


def effects(visit: Visit, word: str) -> list[str]:
    return sorted(line for line in visit.house.effects.lines if f" {word}-" in line)


def boxes(tab: Page) -> Locator:
    return tab.get_by_role("checkbox", name=re.compile("^Select"))


def three_wait(tab: Page) -> None:
    expect(tab.locator("#batch").get_by_text(SOME_WAIT)).to_be_visible()
    tick_as_read(tab)


@both_looks
def test_several_are_selected_and_run_together_and_the_dangerous_one_is_not(visit: Visit) -> None:
    word = f"batch-{visit.owner}"
    tab = visit.tab()
    ask_in_new_chat(tab, make_calls(visit, word))
    three_wait(tab)
    expect(boxes(tab)).to_have_count(2)
    boxes(tab).first.check()
    button(tab, "Select all").click()
    expect(boxes(tab).last).to_be_checked()
    button(tab, "Allow selected").click()
    expect(cards(tab)).to_have_count(1)
    assert effects(visit, word) == [], "Nothing runs before all are decided."
    button(card(tab, "delete thing"), "Deny").click()
    expect(region(tab)).to_contain_text(f"All of {word} is done.")
    assert effects(visit, word) == [f"slow_thing {word}-{n}" for n in (1, 2)]


@pytest.mark.long
def test_another_tab_follows_and_keeps_what_is_ticked_in_it(visit: Visit) -> None:
    here = visit.tab()
    ask_in_new_chat(here, make_calls(visit, "tabs"))
    three_wait(here)
    there = here.context.new_page()
    there.goto(here.url)
    three_wait(there)
    boxes(there).nth(1).check()
    button(cards(here).first, "Allow once").click()
    expect(cards(there)).to_have_count(2)
    expect(there.locator("#batch").get_by_text("2 actions need your approval.")).to_be_visible()
    expect(boxes(there)).to_be_checked()
    button(there, "Deny all").click()
    expect(cards(here)).to_have_count(0)
    expect(region(here)).to_contain_text("All of tabs is done.")
    assert effects(visit, "tabs") == ["slow_thing tabs-1"]


@pytest.mark.long
def test_by_keyboard_alone_and_enter_on_a_box_runs_nothing(visit: Visit) -> None:
    tab = visit.tab()
    ask_in_new_chat(tab, make_calls(visit, "keys"))
    three_wait(tab)
    boxes(tab).first.focus()
    tab.keyboard.press("Space")
    tab.keyboard.press("Enter")
    expect(boxes(tab).first).to_be_checked()
    expect(cards(tab)).to_have_count(3)
    button(tab, "Allow selected").focus()
    tab.keyboard.press("Enter")
    expect(cards(tab)).to_have_count(2)
    button(tab, "Deny all").focus()
    tab.keyboard.press("Space")
    expect(region(tab)).to_contain_text("All of keys is done.")
    assert effects(visit, "keys") == ["slow_thing keys-1"]


@pytest.mark.long
def test_without_javascript_and_on_a_phone(visit: Visit) -> None:
    tab = visit.tab()
    ask_in_new_chat(tab, make_calls(visit, "plain"))
    three_wait(tab)
    phone = visit.context(viewport={"width": 390, "height": 844}, java_script_enabled=False)
    plain = phone.new_page()
    plain.goto(tab.url)
    button(plain, "Select all").click()
    expect(plain.get_by_role("heading", name="Needs your approval")).to_be_visible()
    expect(boxes(plain).first).to_be_checked()
    tick_as_read(plain)
    button(plain, "Allow selected").click()
    plain.wait_for_url("**/c/*/")
    button(card(tab, "delete thing"), "Deny").click()
    expect(region(tab)).to_contain_text("All of plain is done.")
    assert effects(visit, "plain") == ["slow_thing plain-1", "slow_thing plain-2"]


# --- a result that nobody has looked at ----------------------------------------------------------
@pytest.fixture
def reviewed(visit: Visit) -> Iterator[None]:
    decide = ["mcp", "tool", "things", "read_thing"]
    visit.house.installation.manage(*decide, "--review-results")
    yield
    visit.house.installation.manage(*decide, "--no-review-results")


def look_at(tab: Page) -> Locator:
    return tab.get_by_role("group", name=re.compile("^Review the result: Read thing"))


@pytest.mark.usefixtures("reviewed")
@pytest.mark.parametrize("gives", [pytest.param(True, marks=pytest.mark.long), False])
def test_a_result_is_looked_at_before_the_assistant_sees_it(visit: Visit, gives: bool) -> None:
    name = f"seen-{gives}"
    call = Tool(name="things_read_thing", arguments={"name": name}, id="c1")
    question = visit.house.model.answers(
        f"Read {name}", Answer(tools=(call,)), Answer(text=f"That was {name}.")
    )
    tab = visit.tab()
    ask_in_new_chat(tab, question)
    look = look_at(tab)
    expect(look).to_contain_text("The assistant has not seen it yet.")
    expect(look).to_contain_text(f"{name} is a thing")
    other = tab.context.new_page()
    other.goto(tab.url)
    tick_as_read(tab)
    button(look, "Share with the assistant" if gives else "Withhold").click()
    expect_over(tab)
    expect(region(other)).to_contain_text(f"That was {name}.")
    told = visit.house.model.requests[-1].body
    assert (f"{name} is a thing" in str(told)) is gives
    row = region(tab).locator("summary").filter(has_text="withheld")
    expect(row).to_have_count(0 if gives else 1)


@pytest.mark.long
@pytest.mark.usefixtures("reviewed")
def test_a_result_that_waits_outlives_a_killed_server(visit: Visit) -> None:
    call = Tool(name="things_read_thing", arguments={"name": "kept"}, id="c1")
    answers = Answer(tools=(call,)), Answer(text="That was kept.")
    tab = visit.tab()
    ask_in_new_chat(tab, visit.house.model.answers("Read kept", *answers))
    expect(look_at(tab)).to_be_visible()
    address = tab.url
    tab.goto("about:blank")
    visit.house.server.end()
    visit.house.server.start()
    tab.goto(address)
    expect(look_at(tab)).to_contain_text("kept is a thing")
    tick_as_read(tab)
    button(look_at(tab), "Share with the assistant").click()
    expect(region(tab)).to_contain_text("That was kept.")
    assert visit.house.effects.lines.count("read_thing kept") == 1
