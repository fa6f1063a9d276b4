"""Notifications of open pages, in a browser that has no way to a push service."""

import pytest
from playwright.sync_api import Page, expect

from tests.wire.script import Answer, Tool

from .browser import (
    Visit,
    ask,
    ask_in_new_chat,
    both_looks,
    button,
    card,
    expect_over,
    tick_as_read,
)

pytestmark = pytest.mark.long
# Here the browser takes every page for visible.
HIDE = """
window.isAway = false;
Object.defineProperty(document, "hidden", { get: () => window.isAway });
"""
# Chromium without its window may not show any.
RECORD = """
window.told = [];
const record = async (title, { body, data }) => told.push([title, body, data]);
if (isSecureContext) ServiceWorkerRegistration.prototype.showNotification = record;
"""
# With its window, the system may take it away at once.
SHOW_AND_RECORD = """
window.told = [];
const show = window.ServiceWorkerRegistration?.prototype.showNotification;
if (show) ServiceWorkerRegistration.prototype.showNotification = async function (...all) {
  await show.apply(this, all);
  const shown = await this.getNotifications();
  told.push(...shown.map(({ title, body, data }) => [title, body, data]));
};
"""
TURN = """async (isAway) => {
  const isSeen = async () => {
    const { held } = await navigator.locks.query();
    return held.some(({ name }) => name === "visible");
  };
  window.isAway = isAway;
  dispatchEvent(new Event("visibilitychange"));
  while (await isSeen() === isAway) await new Promise((go) => setTimeout(go, 20));
}"""
SLOW = Answer(text="One, two, three. " * 8, chunk=8, delay_ms=80)
FINISHED, FAILED = "An answer is finished", "An answer failed"
ONE_WAITS = "1 request is waiting for you"


def turn_on(visit: Visit, script: str = RECORD) -> Page:
    visit.witness.excuse("does not support the Push API in incognito mode")
    tab = visit.tab()
    tab.context.grant_permissions(["notifications"])
    tab.context.add_init_script(HIDE + script)
    tab.goto("/settings/#notifications")
    button(tab, "Turn on").click()
    expect(button(tab, "Turn off the notifications of open pages")).to_be_visible()
    return tab


def leave(tab: Page) -> None:
    """Let the page believe that nobody sees it, nor another one of this browser."""
    tab.evaluate(TURN, True)


def expect_told(tab: Page, *told: list[str]) -> None:
    tab.wait_for_function("(count) => told.length >= count", arg=len(told))
    assert tab.evaluate("told") == list(told)


def ask_slowly(tab: Page, visit: Visit, question: str) -> str:
    """Ask what takes a second to answer. Return the path of the chat."""
    ask_in_new_chat(tab, visit.house.model.answers(question, SLOW))
    return str(tab.evaluate("location.pathname"))


@both_looks
def test_a_hidden_page_says_that_its_answer_is_finished(visit: Visit) -> None:
    tab = turn_on(visit)
    ask_in_new_chat(tab, visit.house.model.answers("Count at length", Answer(text="One.")))
    expect_over(tab)
    assert tab.evaluate("told") == []
    ask(tab, visit.house.model.answers("Count on", SLOW))
    leave(tab)
    expect_told(tab, [FINISHED, "Count at length", tab.evaluate("location.pathname")])


def test_a_hidden_page_says_what_waits_and_what_ended_elsewhere(visit: Visit) -> None:
    tab = turn_on(visit)
    tab.goto("/usage/")
    leave(tab)
    phone = visit.tab()
    call = Tool(name="things_delete_thing", arguments={"name": "notes"}, id="call_1")
    refused = Answer(status=400, error={"message": "Not like this."})
    ask_in_new_chat(
        phone, visit.house.model.answers("Delete notes", Answer(tools=(call,)), refused)
    )
    chat = phone.evaluate("location.pathname")
    expect_told(tab, [ONE_WAITS, "", "/approvals/"])
    tick_as_read(phone)
    button(card(phone, "delete thing"), "Allow once").click()
    phone.goto("/usage/")
    expect(phone.locator("#sidebar-list [data-state=failed]")).to_be_visible()
    tab.evaluate("htmx.trigger('#sidebar-list', 'refresh')")
    # That one request fewer waits is no news.
    expect_told(tab, [ONE_WAITS, "", "/approvals/"], [FAILED, "Delete notes", chat])


def test_while_a_page_is_visible_no_other_says_anything(visit: Visit) -> None:
    tab = turn_on(visit)
    ask_slowly(tab, visit, "Count unseen")
    seen = tab.context.new_page()
    seen.goto("/usage/")
    tab.evaluate("isAway = true; dispatchEvent(new Event('visibilitychange'));")
    expect_over(tab)
    tab.evaluate("() => navigator.locks.query()")
    assert tab.evaluate("told") == []
    leave(seen)
    ask(tab, visit.house.model.answers("Count unseen too", SLOW))
    expect_told(tab, [FINISHED, "Count unseen", tab.evaluate("location.pathname")])


def test_it_says_what_its_person_chose(visit: Visit) -> None:
    tab = turn_on(visit)
    tab.get_by_role("checkbox", name="Hide chat titles").check()
    button(tab, "Save notifications").click()
    path = ask_slowly(tab, visit, "A secret plan")
    leave(tab)
    expect_told(tab, [FINISHED, "", path])
    tab.goto("/settings/#notifications")
    tab.get_by_role("checkbox", name="Hide chat titles").uncheck()
    tab.get_by_role("checkbox", name="Push when an answer is finished").uncheck()
    button(tab, "Save notifications").click()
    ask_slowly(tab, visit, "A dull plan")
    leave(tab)
    expect_over(tab)
    phone = visit.tab()
    call = Tool(name="things_delete_thing", arguments={"name": "plans"}, id="call_1")
    ask_in_new_chat(phone, visit.house.model.answers("Delete plans", Answer(tools=(call,))))
    expect_told(tab, [ONE_WAITS, "", "/approvals/"])
    button(card(phone, "delete thing"), "Deny").click()
    tab.goto("/settings/#notifications")
    tab.get_by_role("checkbox", name="Push when an answer is finished").check()
    button(tab, "Save notifications").click()


def test_turned_off_it_says_nothing(visit: Visit) -> None:
    tab = turn_on(visit)
    assert tab.locator("script[data-notify]").count() == 1
    button(tab, "Turn off the notifications of open pages").click()
    expect(button(tab, "Turn on")).to_be_visible()
    assert tab.locator("script[data-notify]").count() == 0


def test_the_browser_shows_it_and_takes_it_away_when_its_person_returns(
    whole_visit: Visit,
) -> None:
    tab = turn_on(whole_visit, SHOW_AND_RECORD)
    path = ask_slowly(tab, whole_visit, "Count for real")
    leave(tab)
    expect_told(tab, [FINISHED, "Count for real", path])
    tab.evaluate(TURN, False)
    tab.wait_for_function(
        "async () => !(await (await navigator.serviceWorker.ready).getNotifications()).length"
    )
