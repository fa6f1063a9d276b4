"""What the scripts do in a real browser: pages and posts are real, the frames are scripted."""

import base64
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.test import Client
from playwright.sync_api import Browser, Locator, Page, WebSocketRoute, expect, sync_playwright

from chatapp.conversations.message_queue import MAX_QUEUED
from chatapp.live.page_facts import render_call
from chatapp.models import Approval, Conversation, Member, Message, ToolCall, Turn
from chatapp.rendering import page_values
from chatapp.rendering.markdown.stream import render_markdown
from chatapp.rendering.page_values import TextView
from chatapp.rendering.pages import fragments
from tests.flows.browser import ARGUMENTS, PASTE, PASTE_PICTURE, drag, find_chromium
from tests.peers.reading_room import DOT
from tests.turns import rows

pytestmark = pytest.mark.gate
APPROVE = re.compile("^Approve")


@pytest.fixture(scope="module", autouse=True)
def browser() -> Iterator[Browser]:
    """Playwright keeps an event loop in this thread; Django must not mind queries beside it."""
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        opened = playwright.chromium.launch(executable_path=find_chromium(), args=ARGUMENTS)
        yield opened
        opened.close()


class Line:
    """The server's end of the tab's socket: each connection, and what is sent over the last one."""

    def __init__(self, tab: Page) -> None:
        self.tab = tab
        self.connections: list[WebSocketRoute] = []
        tab.route_web_socket(re.compile("/ws/"), lambda route: self.connections.append(route))

    def wait_for(self, count: int) -> None:
        """Until the tab has connected this many times, at most ten seconds."""
        ends_at = time.monotonic() + 10
        while len(self.connections) < count and time.monotonic() < ends_at:
            self.tab.title()  # a turn of the tab, in which the connection can arrive
        assert len(self.connections) == count

    def send(self, n: int, *ops: tuple[str, str, str]) -> None:
        self.connections[-1].send(json.dumps({"n": n, "f": ops}))


@pytest.fixture
def tab(browser: Browser, live_server: Any, owner: Member) -> Iterator[Page]:
    client = Client()
    client.force_login(owner)
    context = browser.new_context(base_url=live_server.url)
    cookie = {"name": "sessionid", "value": client.cookies["sessionid"].value}
    context.add_cookies([{**cookie, "url": live_server.url}])  # type: ignore[typeddict-item]
    opened = context.new_page()
    opened.set_default_timeout(10_000)
    problems: list[str] = []
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on("console", lambda line: problems.append(line.text) if "Policy" in line.text else None)
    yield opened
    context.close()
    assert problems == []


@pytest.fixture
def line(tab: Page) -> Line:
    return Line(tab)


def show(tab: Page, turn: Turn) -> None:
    tab.goto(f"/c/{turn.conversation_id}/")


def box(tab: Page) -> Locator:
    return tab.get_by_role("textbox", name="Message")


def html_of(call: ToolCall) -> str:
    return render_call(ToolCall.objects.get(pk=call.pk))


# --- frames --------------------------------------------------------------------------------
def test_frames_are_painted_once_and_in_order(tab: Page, line: Line, owner: Member) -> None:
    turn = rows.turn(owner, Turn.State.RUNNING)
    show(tab, turn)
    blocks, tail = (
        page_values.blocks_id(turn.answer_id, 1, 0),
        page_values.tail_id(turn.answer_id, 1, 0),
    )
    opened = fragments.render_part(turn.answer_id, TextView(step=1, position=0, blocks=""))
    line.send(7, ("a", page_values.parts_id(turn.answer_id), "<p>seen before</p>"))
    line.send(8, ("a", page_values.parts_id(turn.answer_id), opened))
    line.send(9, ("a", blocks, "<p>one</p>"), ("r", tail, "<pre><code>two</code></pre>"))
    line.send(9, ("a", blocks, "<p>again</p>"))
    line.send(10, ("x", tail, " <three>"))
    prose = tab.locator(f"#{page_values.part_id(turn.answer_id, 1, 0)}")
    expect(prose).to_have_text("onetwo <three>")
    line.send(11, ("d", page_values.part_id(turn.answer_id, 1, 0), ""))
    expect(prose).to_have_count(0)
    expect(tab.get_by_text("seen before")).to_have_count(0)


def test_a_lost_line_is_taken_up_after_the_last_frame(tab: Page, line: Line, owner: Member) -> None:
    show(tab, rows.turn(owner, Turn.State.RUNNING))
    line.send(12)
    line.connections[-1].close(code=1012)
    line.wait_for(2)
    assert line.connections[-1].url.endswith("after=12")


def test_a_line_that_stays_away_is_put_into_words(tab: Page, owner: Member) -> None:
    tab.clock.install()
    tab.route_web_socket(re.compile("/ws/"), lambda route: route.close(code=1013))
    show(tab, rows.turn(owner))
    words = tab.locator("[data-link-state]")
    tab.clock.run_for(1_500)
    expect(words).to_have_text("")
    tab.clock.run_for(1_000)
    expect(words).to_have_text("Connection lost. Reconnecting…")


def test_a_computer_that_goes_offline_says_so_although_its_line_stays_open(
    tab: Page, line: Line, owner: Member
) -> None:
    tab.clock.install()
    show(tab, rows.turn(owner))
    line.wait_for(1)
    line.send(7)
    words = tab.locator("[data-link-state]")
    tab.context.set_offline(True)
    tab.clock.run_for(2_000)
    expect(words).to_have_text("Connection lost. Reconnecting…")
    tab.context.set_offline(False)
    tab.clock.run_for(30_000)
    line.send(8)
    expect(words).to_have_text("")


def test_a_silent_line_is_given_up_and_heartbeats_keep_it(
    tab: Page, line: Line, owner: Member
) -> None:
    tab.clock.install()
    show(tab, rows.turn(owner))
    for _ in range(4):
        tab.clock.run_for(20_000)
        line.send(7)
    line.wait_for(1)
    tab.clock.run_for(46_000)
    line.wait_for(2)


def test_a_page_that_cannot_go_on_loads_anew_but_not_at_once(tab: Page, owner: Member) -> None:
    tab.clock.install()
    closed: list[str] = []

    def refuse(route: WebSocketRoute) -> None:
        closed.append(route.url)
        route.close(code=4409)

    tab.route_web_socket(re.compile("/ws/"), refuse)
    show(tab, rows.turn(owner))
    tab.evaluate("() => { window.isTheSamePage = true; }")
    tab.clock.run_for(8_000)
    assert tab.evaluate("() => window.isTheSamePage")
    assert len(closed) == 1
    with tab.expect_navigation():
        tab.clock.run_for(3_000)


def test_what_a_person_opened_stays_open(tab: Page, line: Line, owner: Member) -> None:
    call = rows.call(rows.turn(owner), {"title": "Old ideas"}, "sending")
    show(tab, call.turn)
    row = tab.locator(f"#{page_values.tool_call_id(call.pk)}")
    row.locator("summary").first.click()
    ToolCall.objects.update(state="succeeded")
    line.send(8, ("o", page_values.tool_call_id(call.pk), html_of(call)))
    expect(row).to_have_attribute("data-state", "succeeded")
    expect(row).to_have_attribute("open", "")


@pytest.mark.parametrize("whole", [False, True])
def test_a_card_that_asks_the_same_keeps_what_is_typed_and_the_focus(
    tab: Page, line: Line, owner: Member, whole: bool
) -> None:
    call = rows.question(rows.turn(owner))
    show(tab, call.turn)
    card = tab.get_by_role("group", name=APPROVE)
    card.get_by_text("Deny with a reason").click()
    card.get_by_role("textbox").fill("Keep it")
    answer = page_values.message_id(call.turn.answer_id)
    new = f'<li id="{answer}" data-new>{html_of(call)}</li>' if whole else html_of(call)
    line.send(8, ("o", answer if whole else page_values.tool_call_id(call.pk), new))
    line.send(9, ("r", page_values.COMPOSER_ID, "painted"))
    expect(tab.get_by_text("painted")).to_be_visible()
    expect(tab.locator("[data-new]")).to_have_count(1 if whole else 0)
    expect(card.get_by_role("textbox")).to_have_value("Keep it")
    expect(card.get_by_role("textbox")).to_be_focused()


@pytest.mark.parametrize("follows", [True, False])
def test_the_page_follows_the_end_unless_the_reader_is_elsewhere(
    tab: Page, line: Line, owner: Member, follows: bool
) -> None:
    turn = rows.turn(owner, Turn.State.RUNNING)
    rows.said(turn, "\n\n".join(f"Paragraph {number}" for number in range(80)))
    show(tab, turn)
    scroller = tab.get_by_role("region", name="Conversation")
    expect(scroller.get_by_text("Paragraph 79")).to_be_in_viewport()
    if not follows:
        scroller.hover()
        tab.mouse.wheel(0, -3_000)
        expect(scroller.get_by_text("Paragraph 79")).not_to_be_in_viewport()
    line.send(8, ("a", page_values.parts_id(turn.answer_id), "<p>The newest</p>" * 30))
    newest = scroller.get_by_text("The newest")
    expect(newest).to_have_count(30)
    expect(newest.last).to_be_in_viewport() if follows else expect(
        newest.last
    ).not_to_be_in_viewport()


@pytest.mark.parametrize("move", ["key", "scrollbar"])
def test_a_small_movement_up_lets_go_of_the_end(
    tab: Page, line: Line, owner: Member, move: str
) -> None:
    turn = rows.turn(owner, Turn.State.RUNNING)
    rows.said(turn, "\n\n".join(f"Paragraph {number}" for number in range(80)))
    show(tab, turn)
    scroller = tab.get_by_role("region", name="Conversation")
    end = scroller.evaluate("(it) => it.scrollTop")
    if move == "key":
        scroller.focus()
        tab.keyboard.press("ArrowUp")
    else:
        scroller.evaluate("(it) => it.scrollBy(0, -40)")
    tab.wait_for_function(
        "([end]) => document.querySelector('[data-stream]').scrollTop < end", arg=[end]
    )
    line.send(8, ("a", page_values.parts_id(turn.answer_id), "<p>The newest</p>" * 30))
    newest = scroller.get_by_text("The newest")
    expect(newest).to_have_count(30)
    expect(newest.last).not_to_be_in_viewport()


# --- earlier messages ----------------------------------------------------------------------
def test_earlier_messages_come_above_while_a_reader_scrolls_up(
    tab: Page, line: Line, owner: Member
) -> None:
    show(tab, rows.turns_of_chat(owner, 50)[0])
    questions = tab.locator(".bubble")
    expect(questions).to_have_count(20)
    expect(questions.last).to_be_in_viewport()
    first = tab.get_by_text("Question 30.")
    scroller = tab.get_by_role("region", name="Conversation")
    top = "(it) => it.getBoundingClientRect().top"
    before = first.evaluate(
        f"(it) => {{ it.closest('[data-stream]').scrollTo(0, 0); return ({top})(it); }}"
    )
    expect(questions).to_have_count(40)
    expect(tab.locator("#earlier")).not_to_be_in_viewport()
    assert abs(first.evaluate(top) - before) < 4
    scroller.evaluate("(it) => it.scrollTo(0, 0)")
    expect(questions).to_have_count(50)
    expect(tab.locator("#earlier")).to_have_count(0)
    line.send(101, ("a", page_values.THREAD_ID, '<li class="turn">The newest</li>'))
    expect(tab.locator("#thread > li").last).to_have_text("The newest")


def test_the_link_to_earlier_messages_works_by_keyboard_and_gives_its_focus_on(
    tab: Page, line: Line, owner: Member
) -> None:
    show(tab, rows.turns_of_chat(owner, 50)[0])
    link = tab.get_by_role("link", name="Earlier messages")
    for count in (40, 50):
        link.evaluate("(it) => it.focus({ preventScroll: true })")
        tab.keyboard.press("Enter")
        expect(tab.locator(".bubble")).to_have_count(count)
        expect(tab.get_by_role("region", name="Conversation")).to_be_focused()


def test_earlier_messages_that_did_not_come_are_asked_for_again(
    tab: Page, line: Line, owner: Member
) -> None:
    show(tab, rows.turns_of_chat(owner, 50)[0])
    link = tab.get_by_role("link", name="Earlier messages")
    address = re.compile("before=")
    tab.route(address, lambda route: route.fulfill(status=503, body="<p>Busy</p>"))
    with tab.expect_response(address):
        link.evaluate("(it) => it.click()")
    tab.unroute(address)
    expect(tab.locator(".bubble")).to_have_count(20)
    link.evaluate("(it) => it.click()")
    expect(tab.locator(".bubble")).to_have_count(40)


# --- approvals -----------------------------------------------------------------------------
def test_a_new_card_takes_no_focus_and_is_announced(tab: Page, line: Line, owner: Member) -> None:
    turn = rows.turn(owner)
    show(tab, turn)
    box(tab).press_sequentially("half a th")
    call = rows.question(turn, definition=rows.definition())
    line.send(8, ("a", page_values.parts_id(turn.answer_id), html_of(call)))
    said = tab.locator("[data-announcements]")
    expect(said).to_have_text("Approval needed: Delete a note, high risk.")
    tab.keyboard.type("ought")
    expect(box(tab)).to_have_value("half a thought")
    tab.keyboard.press("Alt+KeyA")
    expect(tab.get_by_role("group", name=APPROVE)).to_be_focused()


def test_a_card_that_came_by_the_socket_can_be_decided(
    tab: Page, line: Line, owner: Member
) -> None:
    turn = rows.turn(owner)
    show(tab, turn)
    call = rows.question(turn)
    line.send(8, ("a", page_values.parts_id(turn.answer_id), html_of(call)))
    tab.get_by_role("group", name=APPROVE).get_by_role("button", name="Deny").click()
    expect(tab.locator(f"#{page_values.tool_call_id(call.pk)}")).to_contain_text("denied by owner")
    assert Approval.objects.get().state == "denied"


def test_a_double_press_is_one_decision_and_the_keyboard_goes_on(
    tab: Page, line: Line, owner: Member
) -> None:
    turn = rows.turn(owner)
    first, second = rows.question(turn), rows.question(turn)
    show(tab, turn)
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    button = tab.locator(f"#{page_values.tool_call_id(first.pk)}").get_by_role(
        "button", name="Deny"
    )
    button.focus()
    button.evaluate("(button) => { button.click(); button.click(); }")
    expect(tab.locator(f"#{page_values.tool_call_id(second.pk)}")).to_be_focused()
    assert len([url for url in asked if "decide" in url]) == 1


def test_a_decision_does_not_move_somebody_who_went_on_typing(
    tab: Page, line: Line, owner: Member
) -> None:
    call = rows.question(rows.turn(owner))
    show(tab, call.turn)
    button = tab.get_by_role("button", name="Deny")
    button.focus()
    button.evaluate("(it) => { it.click(); document.getElementById('message').focus(); }")
    expect(tab.locator(f"#{page_values.tool_call_id(call.pk)}")).to_contain_text("denied")
    expect(box(tab)).to_be_focused()


def test_a_stale_card_is_replaced_and_says_why(tab: Page, line: Line, owner: Member) -> None:
    call = rows.question(rows.turn(owner))
    show(tab, call.turn)
    Approval.objects.update(binding="c" * 64)
    tab.get_by_role("button", name="Deny").click()
    expect(tab.get_by_role("alert").filter(has_text="changed after you opened it")).to_be_visible()
    assert Approval.objects.get().state == "open"


# --- the message box -------------------------------------------------------------------------
def test_enter_sends_and_shift_enter_makes_a_line(tab: Page, owner: Member) -> None:
    tab.goto("/")
    box(tab).press_sequentially("one")
    box(tab).press("Shift+Enter")
    box(tab).press_sequentially("two")
    box(tab).press("Enter")
    tab.wait_for_url(re.compile("/c/"))
    assert Conversation.objects.get().turns.get().question.parts.get().text == "one\ntwo"


def test_what_was_refused_stays_in_the_box(tab: Page, line: Line, owner: Member) -> None:
    turn = rows.turn(owner, Turn.State.RUNNING)
    for number in range(MAX_QUEUED):
        turn.conversation.queued_messages.create(text=f"Message {number}", model=rows.MODEL)
    show(tab, turn)
    box(tab).fill("And now?")
    box(tab).press("Enter")
    expect(tab.locator("#composer-notice")).to_contain_text("10 queued messages")
    expect(box(tab)).to_have_value("And now?")


def test_what_was_accepted_leaves_the_box_and_the_next_one_is_another_message(
    tab: Page, line: Line, owner: Member
) -> None:
    show(tab, rows.turn(owner, Turn.State.DONE))
    for number in range(2):
        box(tab).fill(f"Message {number}")
        box(tab).press("Enter")
        expect(box(tab)).to_have_value("")
        Turn.objects.update(state="done")
    assert Message.objects.filter(role="user").count() == 3


def test_a_server_that_cannot_be_reached_loses_nothing(
    tab: Page, line: Line, owner: Member
) -> None:
    show(tab, rows.turn(owner, Turn.State.DONE))
    tab.route("**/messages", lambda route: route.abort())
    box(tab).fill("Keep me")
    box(tab).press("Enter")
    expect(tab.locator("#composer-notice")).to_contain_text("cannot be reached")
    expect(box(tab)).to_have_value("Keep me")


def test_the_list_of_chats_is_asked_for_every_quarter_of_a_minute(tab: Page, owner: Member) -> None:
    tab.clock.install()
    tab.goto("/")
    turn = rows.turn(owner, text="From another tab")
    with tab.expect_response(re.compile("/sidebar/")):
        tab.clock.run_for(15_500)
    tab.clock.run_for(100)
    expect(tab.locator(f"#{page_values.link_id(turn.conversation_id)}")).to_contain_text("waiting")


def test_a_shortcut_begins_a_new_chat(tab: Page, line: Line, owner: Member) -> None:
    show(tab, rows.turn(owner))
    tab.keyboard.press("Control+KeyJ")
    tab.wait_for_url(re.compile(r"/\??$"))
    expect(tab.get_by_role("heading", name="Hello, owner.")).to_be_visible()


def test_a_person_decides_without_javascript(
    browser: Browser, live_server: Any, owner: Member
) -> None:
    call = rows.question(rows.turn(owner))
    client = Client()
    client.force_login(owner)
    context = browser.new_context(base_url=live_server.url, java_script_enabled=False)
    cookie = {"name": "sessionid", "value": client.cookies["sessionid"].value}
    context.add_cookies([{**cookie, "url": live_server.url}])  # type: ignore[typeddict-item]
    tab = context.new_page()
    show(tab, call.turn)
    tab.get_by_text("Deny with a reason").click()
    tab.get_by_role("group", name=APPROVE).get_by_role("textbox").fill("Not today")
    tab.get_by_role("button", name="Deny").click()
    expect(tab.locator(f"#{page_values.tool_call_id(call.pk)}")).to_contain_text("Not today")
    context.close()
    assert Approval.objects.get().reason == "Not today"


# --- modules that load when they are needed --------------------------------------------------
def copy_button(tab: Page) -> Locator:
    return tab.get_by_role("button", name="Copy", exact=True)


def test_a_module_is_loaded_once_and_does_what_its_first_press_asked(
    tab: Page, line: Line, owner: Member
) -> None:
    turn = rows.turn(owner, Turn.State.DONE)
    rows.said(turn, "```\nfirst\n```")
    tab.context.grant_permissions(["clipboard-write"])
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    show(tab, turn)
    copy_button(tab).click()
    expect(copy_button(tab)).to_have_attribute("data-copied", "")
    box(tab).press("Control+V")
    expect(box(tab)).to_have_value("first\n")
    # One that came later.
    second = TextView(step=1, position=7, blocks=render_markdown("```\nsecond\n```"))
    place = page_values.parts_id(turn.answer_id)
    line.send(8, ("a", place, fragments.render_part(turn.answer_id, second)))
    expect(copy_button(tab)).to_have_count(2)
    copy_button(tab).last.click()
    expect(copy_button(tab).last).to_have_attribute("data-copied", "")
    box(tab).press("Control+V")
    expect(box(tab)).to_have_value("first\nsecond\n")
    assert len([url for url in asked if "/js/copy" in url]) == 1


def test_a_module_that_did_not_come_is_asked_for_again(
    tab: Page, line: Line, owner: Member
) -> None:
    turn = rows.turn(owner, Turn.State.DONE)
    rows.said(turn, "```\ncode\n```")
    tab.context.grant_permissions(["clipboard-write"])
    tab.route("**/js/copy*.js", lambda route: route.abort())
    show(tab, turn)
    copy_button(tab).click()
    expect(tab.locator("#composer-notice")).to_contain_text("cannot be reached")
    tab.unroute("**/js/copy*.js")
    copy_button(tab).click()
    expect(copy_button(tab)).to_have_attribute("data-copied", "")


LONG = "Line of a log.\n" * 800
UNREACHABLE = "The server cannot be reached. Nothing is lost. Try again in a moment."


def abort_requests(tab: Page, *addresses: str) -> None:
    for address in addresses:
        tab.route(address, lambda route: route.abort())


@pytest.mark.parametrize("how", ["unreachable", "refused"])
def test_a_long_paste_that_is_not_stored_stays_text(tab: Page, owner: Member, how: str) -> None:
    answer = {"status": 422, "body": '<div id="x">Refused</div>'}
    tab.route(
        "**/attach/files",
        lambda route: route.abort() if how == "unreachable" else route.fulfill(**answer),
    )
    tab.goto("/")
    box(tab).fill("Look: , please")
    box(tab).evaluate("(it) => it.setSelectionRange(6, 6)")
    tab.evaluate(PASTE, LONG)
    expect(box(tab)).to_have_value(f"Look: {LONG}, please")
    if how == "unreachable":
        expect(tab.locator("#composer-notice")).to_have_text(UNREACHABLE)
    assert tab.evaluate("document.getElementById('files').files.length") == 0


def test_pastes_and_drops_need_no_module(
    tab: Page, line: Line, owner: Member, tmp_path: Path
) -> None:
    """As with a page of the release before, whose modules are gone."""
    show(tab, rows.turn(owner, Turn.State.DONE))
    abort_requests(tab, "**/js/*.js")
    tab.evaluate(PASTE, LONG)
    expect(tab.get_by_role("checkbox", name="Pasted text.txt")).to_be_checked()
    tab.evaluate(PASTE_PICTURE % base64.b64encode(DOT).decode())
    expect(tab.get_by_role("checkbox", name="screen.png")).to_be_checked()
    (tmp_path / "notes.txt").write_text("Words")
    here = tab.url
    for kind in ("dragEnter", "dragOver", "drop"):
        drag(tab, kind, tmp_path / "notes.txt", at=(60, 500))
    expect(tab.get_by_role("checkbox", name="notes.txt")).to_be_checked()
    expect(tab.locator("#drop")).to_be_hidden()
    assert (tab.url, len(tab.context.pages)) == (here, 1)


def test_a_picture_or_a_drop_that_is_not_stored_is_said_and_stays_chosen(
    tab: Page, owner: Member, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("Words")
    tab.goto("/")
    abort_requests(tab, "**/attach/files", "**/js/*.js")
    notice = tab.locator("#composer-notice")
    chosen = "[...document.getElementById('files').files].map((file) => file.name)"
    tab.evaluate(PASTE_PICTURE % base64.b64encode(DOT).decode())
    expect(notice).to_have_text(UNREACHABLE)
    assert tab.evaluate(chosen) == ["screen.png"]
    notice.evaluate("(it) => it.replaceChildren()")
    for kind in ("dragEnter", "dragOver", "drop"):
        drag(tab, kind, tmp_path / "notes.txt")
    expect(notice).to_have_text(UNREACHABLE)
    assert tab.evaluate(chosen) == ["notes.txt"]
    assert len(tab.context.pages) == 1


def test_a_selection_that_cannot_be_quoted_is_said(tab: Page, line: Line, owner: Member) -> None:
    turn = rows.turn(owner, Turn.State.DONE)
    rows.said(turn, "The Elbe")
    abort_requests(tab, "**/js/quote*.js")
    show(tab, turn)
    choose = "(it) => getSelection().selectAllChildren(it)"
    tab.locator(".prose").evaluate(choose)
    expect(tab.locator("#composer-notice")).to_have_text(UNREACHABLE)
    tab.unroute("**/js/quote*.js")
    tab.locator(".bubble").evaluate(choose)
    expect(tab.get_by_role("button", name="Quote", exact=True)).to_be_visible()


@pytest.mark.parametrize("signs", [{"isComposing": True, "keyCode": 229}, {"keyCode": 229}])
def test_escape_that_ends_a_composition_stops_no_answer(
    tab: Page, line: Line, owner: Member, signs: dict[str, Any]
) -> None:
    turn = rows.turn(owner, Turn.State.RUNNING)
    show(tab, turn)
    press = """(it, signs) => it.dispatchEvent(new KeyboardEvent("keydown", {
      code: "Escape", key: "Escape", bubbles: true, cancelable: true, ...signs,
    }))"""
    # Nothing was prevented: the input method alone acts.
    assert box(tab).evaluate(press, signs)
    assert not box(tab).evaluate(press, {"keyCode": 27})
    with tab.expect_response("**/stop"):
        box(tab).press("Escape")


def test_text_of_a_card_and_of_a_call_is_not_quoted(tab: Page, line: Line, owner: Member) -> None:
    turn = rows.turn(owner)
    rows.said(turn, "I delete it.")
    call = rows.question(turn)
    show(tab, call.turn)
    choose = "(it) => getSelection().selectAllChildren(it)"
    quote = tab.get_by_role("button", name="Quote", exact=True)
    tab.locator(".prose").evaluate(choose)
    expect(quote).to_be_visible()
    tab.get_by_role("group", name=APPROVE).evaluate(choose)
    expect(quote).to_be_hidden()
    # From the text into the card: the text alone.
    tab.locator(f"#{page_values.parts_id(turn.answer_id)}").evaluate(choose)
    quote.click()
    expect(box(tab)).to_have_value("> I delete it.\n\n")


# --- another chat --------------------------------------------------------------------------
def open_from_list(tab: Page, words: str) -> None:
    tab.get_by_role("navigation", name="Chats").get_by_role("link", name=words).click()
    expect(tab.locator(".bubble").first).to_have_text(words)


def test_another_chat_is_opened_in_place_with_its_own_socket(
    tab: Page, line: Line, owner: Member
) -> None:
    first, second = rows.turn(owner, text="First"), rows.turn(owner, text="Second")
    rows.said(second, "```\ncode\n```")
    show(tab, first)
    line.wait_for(1)
    tab.evaluate("document.documentElement.dataset.marked = ''")
    box(tab).fill("half a thought")
    open_from_list(tab, "Second")
    assert tab.url.endswith(f"/c/{second.conversation_id}/")
    expect(tab).to_have_title("Second · Countersign")
    expect(tab.locator("html[data-marked]")).to_have_count(1)
    expect(tab.locator("#sidebar-list [aria-current]")).to_contain_text("Second")
    expect(tab.locator("[data-announcements]")).to_have_text("Second · Countersign")
    expect(box(tab)).to_be_focused()
    expect(box(tab)).to_have_value("")
    expect(tab.get_by_role("button", name="Copy", exact=True)).to_have_count(1)
    line.wait_for(2)
    old, new = line.connections
    assert str(second.conversation_id) in new.url
    # A frame of the chat that was left changes nothing in this one.
    old.send(json.dumps({"n": 99, "f": [["a", page_values.THREAD_ID, "<li>Of the first</li>"]]}))
    line.send(8, ("a", page_values.THREAD_ID, "<li>Of the second</li>"))
    expect(tab.get_by_text("Of the second")).to_be_visible()
    expect(tab.get_by_text("Of the first")).to_have_count(0)
    tab.evaluate("history.back()")
    expect(tab.locator(".bubble")).to_have_text("First")
    expect(tab).to_have_title("First · Countersign")


def test_a_chat_is_opened_in_a_new_tab_with_control(tab: Page, line: Line, owner: Member) -> None:
    first, second = rows.turn(owner, text="First"), rows.turn(owner, text="Second")
    show(tab, first)
    with tab.context.expect_page() as opened:
        link = tab.get_by_role("navigation", name="Chats").get_by_role("link", name="Second")
        link.click(modifiers=["Control"])
    opened.value.wait_for_url(f"**/c/{second.conversation_id}/")
    expect(tab.locator(".bubble")).to_have_text("First")


def test_a_chat_that_is_gone_shows_the_whole_page_of_the_error(
    tab: Page, line: Line, owner: Member
) -> None:
    first, second = rows.turn(owner, text="First"), rows.turn(owner, text="Second")
    show(tab, first)
    Conversation.objects.filter(pk=second.conversation_id).delete()
    tab.get_by_role("navigation", name="Chats").get_by_role("link", name="Second").click()
    expect(tab.get_by_role("heading", name="Page not found")).to_be_visible()
    assert tab.url.endswith(f"/c/{second.conversation_id}/")


def test_a_session_that_ended_leads_to_the_sign_in(tab: Page, line: Line, owner: Member) -> None:
    show(tab, rows.turn(owner, text="First"))
    tab.context.clear_cookies()
    tab.get_by_role("button", name="New chat").click()
    expect(tab.get_by_label("Password")).to_be_visible()
    expect(tab.locator("#sidebar")).to_have_count(0)


def test_the_examples_of_the_demo_go_when_a_real_model_is_chosen(
    tab: Page, monkeypatch: pytest.MonkeyPatch, settings: LazySettings
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
    settings.DEFAULT_MODEL = "demo:assistant"
    tab.goto("/")
    model, examples = tab.get_by_label("Model"), tab.locator(".starters")
    expect(examples).to_be_visible()
    model.select_option(index=1)
    expect(examples).to_be_hidden()
    model.select_option("demo:assistant")
    expect(examples).to_be_visible()
