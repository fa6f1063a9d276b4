"""What a person sees: lists that fit the window, reasons that show, a menu that leads somewhere."""

import re

import pytest
from playwright.sync_api import Page, expect

from chatapp.models import Part
from tests.wire.script import Answer, Tool

from .browser import Visit, ask, ask_in_new_chat, box, button, card, expect_over

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
PHONE = {"width": 390, "height": 844}
LAPTOP = {"width": 1280, "height": 800}
LISTS = [
    "/admin/chatapp/approval/",
    "/admin/chatapp/conversation/",
    "/admin/chatapp/member/",
    "/admin/chatapp/toolcall/",
    "/admin/chatapp/turn/",
    "/admin/mcpconfig/exchange/",
    "/admin/mcpconfig/service/",
    "/admin/mcpconfig/tooldefinition/",
]
PHONE_LISTS = [
    "/admin/chatapp/logentry/",
    "/admin/chatapp/member/",
    "/admin/chatapp/policyrule/",
    "/admin/mcpconfig/service/",
]
# Calls in all states, because the longest names of states take the most space.
FILL = """
from tests.flows.all_states import fill
fill("stranger")
"""
SIDEWAYS = """() => [document.documentElement, ...document.querySelectorAll(".results")]
  .filter((box) => box.scrollWidth > box.clientWidth)
  .map((box) => `${box.className || "page"}: ${box.scrollWidth - box.clientWidth}`)"""
HANGS_OUT = """(turn) => turn.querySelector(".acts").getBoundingClientRect().bottom
  - turn.getBoundingClientRect().bottom"""
# How far a line of places begins to the right of where nothing is cut off any more.
LINE_STARTS = """(line) => {
  const cut = parseFloat(getComputedStyle(line).clipPath.split(" ").pop());
  const edge = line.getBoundingClientRect().left + cut;
  const tops = new Map();
  for (const place of line.children) {
    const { left, top } = place.getBoundingClientRect();
    tops.set(top, Math.min(left, tops.get(top) ?? Infinity));
  }
  return [...tops.values()].map((left) => edge - left);
}"""


def deletes(visit: Visit, question: str, name: str) -> str:
    call = Tool(name="things_delete_thing", arguments={"name": name}, id="call_looks")
    return visit.house.model.answers(question, Answer(tools=(call,)))


def fails(visit: Visit) -> str:
    call = Tool(name="things_read_thing", arguments={}, id="call_reason")
    answers = (Answer(tools=(call,)), Answer(text="It lacked a name."))
    return visit.house.model.answers("Read something", *answers)


def test_no_list_of_the_admin_scrolls_sideways(visit: Visit) -> None:
    visit.house.installation.manage("shell", "-v", "0", "-c", FILL)
    tab = visit.tab("admin", viewport=LAPTOP)
    long_name = "a-lamp-" * 20
    ask_in_new_chat(tab, deletes(visit, f"Delete {long_name}", long_name))
    expect(card(tab, "delete thing")).to_be_visible()
    ask_in_new_chat(tab, fails(visit))
    expect_over(tab)
    for address in LISTS:
        tab.goto(address)
        expect(tab.locator("#result_list tbody tr").first).to_be_visible()
        assert tab.evaluate(SIDEWAYS) == [], address


def test_what_an_admin_looks_up_on_a_phone_fits_it(visit: Visit) -> None:
    tab = visit.tab("admin", viewport=PHONE)
    for address in PHONE_LISTS:
        tab.goto(address)
        expect(tab.locator("#changelist")).to_be_visible()
        assert tab.evaluate(SIDEWAYS) == [], address


@pytest.mark.parametrize("size", [PHONE, LAPTOP], ids=["phone", "laptop"])
def test_the_reason_of_a_failed_call_is_read_without_opening_it(
    visit: Visit, size: dict[str, int]
) -> None:
    tab = visit.tab(viewport=size)
    ask_in_new_chat(tab, fails(visit))
    expect_over(tab)
    row = tab.locator(".tool[data-state=failed]")
    assert not row.evaluate("(row) => row.open")
    reason = row.locator(".reason")
    expect(reason).to_be_visible()
    expect(reason).to_have_text("Missing: name.")
    assert reason.evaluate("(line) => 0 < line.clientWidth && line.scrollWidth <= line.clientWidth")


@pytest.mark.parametrize("size", [PHONE, LAPTOP], ids=["phone", "laptop"])
def test_no_line_of_places_begins_or_ends_with_a_dot(visit: Visit, size: dict[str, int]) -> None:
    tab = visit.tab(viewport=size)
    ask_in_new_chat(tab, deletes(visit, "Delete the lamp", "lamp"))
    asked = card(tab, "delete thing")
    expect(asked).to_be_visible()
    starts = asked.locator(".where").evaluate(LINE_STARTS)
    assert (len(starts) > 1) == (size is PHONE)
    # Each line begins in what is cut off, together with the dot before its first place.
    assert all(abs(start - starts[0]) < 1 and start > 10 for start in starts), starts


def press_through(tab: Page, name: str) -> None:
    """Go to what has this name by the Tab key alone."""
    for _ in range(12):
        tab.keyboard.press("Tab")
        if name in tab.evaluate("document.activeElement.textContent"):
            return
    pytest.fail(f"The Tab key does not lead to {name}.")


@pytest.mark.parametrize("size", [PHONE, LAPTOP], ids=["phone", "laptop"])
def test_the_account_menu_leads_to_the_password_and_back(
    visit: Visit, size: dict[str, int]
) -> None:
    tab = visit.tab(viewport=size)
    tab.goto("/")
    if size is PHONE:
        button(tab, "Open the list of chats").click()
    menu = tab.get_by_role("group", name="Your account")
    expect(menu).to_be_hidden()
    tab.get_by_role("button", name="Your account: owner").press("Enter")
    expect(menu).to_be_visible()
    assert menu.evaluate("(box) => box.getBoundingClientRect().right <= innerWidth")
    press_through(tab, "Settings")
    tab.keyboard.press("Enter")
    tab.get_by_role("link", name="Change password").press("Enter")
    expect(tab.get_by_role("heading", name="Change your password")).to_be_visible()
    tab.get_by_role("link", name="Back to your chats").click()
    expect(box(tab)).to_be_visible()


def test_the_menu_goes_away_by_escape_and_keeps_the_place(visit: Visit) -> None:
    tab = visit.tab()
    tab.goto("/")
    opener = tab.get_by_role("button", name="Your account: owner")
    opener.press("Enter")
    tab.keyboard.press("Escape")
    expect(tab.get_by_role("group", name="Your account")).to_be_hidden()
    expect(opener).to_be_focused()


def test_the_three_kinds_of_notice_differ_in_word_sign_and_colour(visit: Visit) -> None:
    model = visit.house.model
    tab = visit.tab()
    looks = []
    scenes = [
        ("Break", Answer(text="I begin", cut="reset", cut_after=2), Part.NoticeKind.ERROR),
        ("Run on", Answer(text="On and on", finish="length"), Part.NoticeKind.INFO),
        ("Hold on", Answer(text="Word by word. " * 300, delay_ms=40), Part.NoticeKind.STOPPED),
    ]
    for question, answer, kind in scenes:
        ask_in_new_chat(tab, model.answers(question, answer))
        if kind == Part.NoticeKind.STOPPED:
            expect(tab.locator(".prose")).to_contain_text("Word")
            button(tab, "Stop").click()
        expect_over(tab)
        notice = tab.locator(f".notice[data-kind={kind}]").last
        word = notice.locator("p").inner_text().split()[0]
        sign = notice.locator("use").get_attribute("href")
        colour = notice.locator(".icon").evaluate("(icon) => getComputedStyle(icon).color")
        looks.append((word, sign, colour))
    for each in zip(*looks, strict=True):
        assert len(set(each)) == 3, looks


def test_the_last_line_of_an_earlier_answer_is_not_cut_off(visit: Visit) -> None:
    tab = visit.tab()
    answers = [Answer(text="One."), Answer(text="Two."), Answer(text="Three.")]
    question = visit.house.model.answers("And now?", *answers)
    ask_in_new_chat(tab, question)
    for _ in range(2):
        expect_over(tab)
        ask(tab, question)
    expect_over(tab)
    first = tab.locator(".turn[data-role=assistant]").first
    first.scroll_into_view_if_needed()
    assert first.evaluate("(turn) => getComputedStyle(turn).contentVisibility") == "auto"
    assert first.evaluate(HANGS_OUT) <= 0


def test_the_name_field_has_the_keyboard(visit: Visit) -> None:
    tab = visit.tab("")
    tab.goto("/sign-in/")
    expect(tab.get_by_label("Name")).to_be_focused()
    assert re.search("Sign in", tab.title())
