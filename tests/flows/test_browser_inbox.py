"""The inbox in a browser: two tabs that follow each other, the keyboard alone, and a phone."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from .browser import (
    DEMO_MODEL,
    House,
    Visit,
    ask_in_new_chat,
    both_looks,
    button,
    card,
    expect_over,
    fill_house,
    region,
    tick_as_read,
)
from .test_browser_decisions import deletion

pytestmark = [pytest.mark.gate, pytest.mark.timeout(300)]
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
EMPTY = "Nothing needs your answer."
# The list and the card change in one frame; returns the text of what has the focus then.
CHANGE_BOTH = """async () => {
  const list = document.querySelector(".inbox"), card = list.querySelector(".tool");
  const fresh = list.cloneNode(true);
  fresh.dataset.keep = "changed";
  fresh.querySelector(".open-card").replaceChildren();
  const detail = [["o", list.id, fresh.outerHTML], ["o", card.id, card.outerHTML]];
  document.querySelector("[data-stream]").dispatchEvent(new CustomEvent("changes", { detail }));
  await new Promise((done) => list.isConnected ? requestAnimationFrame(done) : done());
  if (list.isConnected) throw new Error("The list is not painted.");
  return document.activeElement.matches("summary") ? document.activeElement.textContent : "";
}"""
NAMES = iter(f"ida{number}" for number in range(100))


@pytest.fixture
def ida(house: House) -> Iterator[str]:
    """Somebody for whom nothing waits yet."""
    name = next(NAMES)
    fill_house(house.installation, ["member", "add", name, "--password-env", "PASSWORD"])
    yield name


def inbox(tab: Page) -> Locator:
    return tab.locator(".inbox")


def badge(tab: Page, words: str) -> Locator:
    """The way to the inbox, named as a screen reader says it."""
    return tab.get_by_role("link", name=re.compile(f"^{words}$"))


def line(place: Locator, tool: str = "delete thing") -> Locator:
    return place.get_by_role("link", name=re.compile(tool, re.I))


def fits(tab: Page) -> bool:
    """Nothing is wider than the screen."""
    return bool(tab.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def test_tabs_of_one_person_follow_each_other(visit: Visit, ida: str) -> None:
    context = visit.context(ida)
    watching, chat = context.new_page(), context.new_page()
    watching.goto("/approvals/")
    expect(inbox(watching)).to_contain_text(EMPTY)
    expect(watching).to_have_title("Inbox · Countersign")
    ask_in_new_chat(chat, deletion(visit, "followed"))
    question = card(chat, "delete thing")
    expect(question).to_be_visible()
    expect(line(inbox(watching))).to_contain_text("followed")
    for tab in (watching, chat):
        expect(badge(tab, "Inbox 1 request is waiting for you")).to_be_visible()
        expect(tab).to_have_title(re.compile(r"^\(1\) "))
    expect(watching.locator("[data-announcements]")).to_have_text("1 request is waiting for you.")
    tick_as_read(chat)
    button(question, "Allow once").click()
    expect(inbox(watching)).to_contain_text(EMPTY)
    for tab in (watching, chat):
        expect(badge(tab, "Inbox")).to_be_visible()
        expect(tab).not_to_have_title(re.compile(r"^\("))
    expect(watching).to_have_title("Inbox · Countersign")
    expect_over(chat)
    assert visit.executions("followed") == 1


@pytest.mark.long
def test_another_person_sees_nothing_of_it(visit: Visit, ida: str) -> None:
    other = visit.tab("stranger")
    other.goto("/approvals/")
    before = other.title()
    chat = visit.tab(ida)
    ask_in_new_chat(chat, deletion(visit, "hers"))
    expect(badge(chat, "Inbox 1 request is waiting for you")).to_be_visible()
    other.reload()
    assert other.title() == before
    expect(other.get_by_text("hers")).to_have_count(0)


@pytest.mark.long
@pytest.mark.parametrize("place", ["its own page", "its row"])
def test_a_card_outside_of_the_chat_follows_what_another_tab_decides(
    visit: Visit, ida: str, place: str
) -> None:
    context = visit.context(ida)
    chat, alone = context.new_page(), context.new_page()
    ask_in_new_chat(chat, deletion(visit, "elsewhere"))
    expect(card(chat, "delete thing")).to_be_visible()
    if place == "its row":
        alone.goto("/approvals/")
        line(inbox(alone)).click()
    else:
        name = card(chat, "delete thing").get_attribute("id") or ""
        alone.goto(f"/approvals/{name.removeprefix('tool-call-')}/")
    button(card(alone, "delete thing"), "Allow once").hover()
    tick_as_read(chat)
    button(card(chat, "delete thing"), "Deny").click()
    expect(card(alone, "delete thing")).to_have_count(0)
    expect(alone.get_by_role("main")).to_contain_text("denied by")


@both_looks
def test_the_keyboard_alone_goes_from_one_to_the_next(visit: Visit, ida: str) -> None:
    tab = visit.tab(ida)
    for name in ("first", "second"):
        ask_in_new_chat(tab, deletion(visit, name))
        expect(card(tab, "delete thing")).to_be_visible()
    tab.goto("/approvals/")
    for name in ("first", "second"):
        _press_on(tab, line(inbox(tab), f"delete thing.*{name}"), "Enter")
        question = card(tab, "delete thing")
        expect(question).to_contain_text(name)
        expect(
            tab.get_by_role("group", name=re.compile(f"^delete thing.*{name}", re.I))
        ).to_be_focused()
        tick_as_read(tab)
        _press_on(tab, button(question, "Deny"), "Space")
        expect(question).to_have_count(0)
        expect(tab.locator("summary:focus")).to_contain_text("denied by")
    assert visit.executions("first") == visit.executions("second") == 0


@pytest.mark.parametrize("device", ["laptop", "phone"])
def test_a_plain_request_is_decided_in_its_row(visit: Visit, ida: str, device: str) -> None:
    """Two requests, one after the other, without opening a card."""
    tab = visit.tab(ida, **(PHONE if device == "phone" else {}))
    for thing in ("lemons", "limes"):
        ask_in_new_chat(tab, f"Add {thing} to Groceries", DEMO_MODEL)
        expect(card(tab, "add", "notebook")).to_be_visible()
    tab.goto("/approvals/")
    for thing, decision in (("lemons", "Allow once"), ("limes", "Deny")):
        form = inbox(tab).get_by_role("group", name=re.compile("Medium risk")).first
        expect(form).to_contain_text(thing)
        expect(form).to_contain_text("Groceries")
        assert fits(tab)
        tick_as_read(tab)
        button(form, decision).click()
        said = {"Allow once": "Allowed once:", "Deny": "Denied:"}[decision]
        expect(tab.get_by_role("status").filter(has_text=said)).to_be_visible()
        assert tab.evaluate("document.activeElement.closest('.inbox') !== null")
    expect(inbox(tab)).to_contain_text(EMPTY)


def _press_on(tab: Page, wanted: Locator, key: str) -> None:
    """Walk there by Tab, as somebody without a mouse does, and press the key."""
    expect(wanted.first).to_be_visible()
    for _ in range(40):
        if wanted.first.evaluate("(element) => element === document.activeElement"):
            tab.keyboard.press(key)
            return
        tab.keyboard.press("Tab")
    raise AssertionError(f"Tab does not lead to {wanted}")


@pytest.mark.long
def test_on_a_phone_one_answers_with_the_thumb(visit: Visit, ida: str) -> None:
    asking = visit.tab(ida)
    ask_in_new_chat(asking, deletion(visit, "thumbed"))
    expect(card(asking, "delete thing")).to_be_visible()
    phone = visit.tab(ida, **PHONE)
    phone.goto("/approvals/")
    assert fits(phone)
    expect(phone).to_have_title("(1) Inbox · Countersign")
    wanted = line(inbox(phone))
    assert (wanted.bounding_box() or {"height": 0})["height"] >= 44
    wanted.tap()
    question = card(phone, "delete thing")
    expect(question).to_be_visible()
    assert fits(phone)
    tick_as_read(phone)
    button(question, "Allow once").tap()
    expect(question).to_have_count(0)
    expect(inbox(phone)).to_contain_text("Delete thing")
    assert fits(phone)
    expect(region(asking)).to_contain_text("All is done with thumbed.")


@pytest.mark.long
def test_without_javascript_one_answers_in_the_row(visit: Visit, ida: str) -> None:
    tab = visit.tab(ida)
    for name in ("plain", "simple"):
        ask_in_new_chat(tab, deletion(visit, name))
        expect(card(tab, "delete thing")).to_be_visible()
    bare = visit.tab(ida, java_script_enabled=False)
    bare.goto("/approvals/")
    line(inbox(bare)).first.click()
    expect(line(inbox(bare))).to_have_count(2)
    tick_as_read(bare)
    button(card(bare, "delete thing"), "Deny").click()
    expect(bare).to_have_url(re.compile(r"/approvals/\?open="))
    expect(inbox(bare)).to_contain_text("denied by")
    line(inbox(bare), "delete thing.*simple").click()
    expect(card(bare, "delete thing")).to_contain_text("simple")
    expect(line(inbox(bare))).to_have_count(1)


def test_a_card_in_the_inbox_is_answered_there_while_the_list_changes(
    visit: Visit, ida: str
) -> None:
    context = visit.context(ida)
    chat, list_tab = context.new_page(), context.new_page()
    ask_in_new_chat(chat, deletion(visit, "early"))
    expect(card(chat, "delete thing")).to_be_visible()
    list_tab.goto("/approvals/")
    line(inbox(list_tab)).click()
    question = card(list_tab, "delete thing")
    question.get_by_text("Deny with a reason").click()
    reason = question.get_by_label("Tell the assistant why")
    reason.fill("Keep it")
    ask_in_new_chat(chat, deletion(visit, "late"))
    expect(line(inbox(list_tab))).to_have_count(2)
    expect(reason).to_have_value("Keep it")
    expect(reason).to_be_focused()
    tick_as_read(list_tab)
    button(question, "Deny").click()
    expect(question).to_have_count(0)
    expect(list_tab.locator("summary:focus")).to_contain_text("Keep it")
    expect(inbox(list_tab)).to_contain_text("denied by")
    expect(line(inbox(list_tab))).to_have_count(2)
    expect(badge(list_tab, "Inbox 1 request is waiting for you")).to_be_visible()
    list_tab.get_by_role("link", name="Close").click()
    expect(line(inbox(list_tab))).to_have_count(1)
    expect(line(inbox(list_tab))).to_contain_text("late")
    assert visit.executions("early") == visit.executions("late") == 0


def test_the_focus_stays_on_an_answered_card_when_the_list_changes_with_it(
    visit: Visit, ida: str
) -> None:
    tab = visit.tab(ida)
    ask_in_new_chat(tab, deletion(visit, "focused"))
    tab.goto("/approvals/")
    line(inbox(tab)).click()
    question = card(tab, "delete thing")
    expect(question).to_be_visible()
    tick_as_read(tab)
    button(question, "Deny").click()
    expect(tab.locator("summary:focus")).to_contain_text("denied by")
    assert "denied by" in tab.evaluate(CHANGE_BOTH)
