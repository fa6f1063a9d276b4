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
# Here the browser takes every page for visible. One that is hidden has no frames.
HIDE = """
window.isAway = false;
Object.defineProperty(document, "hidden", { get: () => window.isAway });
const frame = requestAnimationFrame;
window.requestAnimationFrame = (act) => frame((time) => isAway || act(time));
"""
# Chromium without its window may not show any.
RECORD = """
window.told = [];
const record = async (title, { body, data }) => told.push([title, body, data]);
if (isSecureContext) {
  ServiceWorkerRegistration.prototype.showNotification = record;
  Object.defineProperty(Notification, "permission", { value: "granted" });
}
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
HIDDEN = "isAway = true; dispatchEvent(new Event('visibilitychange'));"
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


def leave_together(first: Page, last: Page) -> None:
    first.evaluate(HIDDEN)
    leave(last)


def wait_for(tab: Page, condition: str) -> None:
    """Wait without frames, which a hidden page has none of."""
    tab.wait_for_function(f"() => {condition}", polling=50)


def expect_told(tab: Page, *told: list[str]) -> None:
    wait_for(tab, f"told.length >= {len(told)}")
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
    tab.evaluate(HIDDEN)
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
    tab.get_by_role("checkbox", name="Notification when an answer is finished").uncheck()
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
    tab.get_by_role("checkbox", name="Notification when an answer is finished").check()
    button(tab, "Save notifications").click()


def test_every_open_page_follows_the_settings(visit: Visit) -> None:
    settings = turn_on(visit)
    tab = settings.context.new_page()
    ask_in_new_chat(tab, visit.house.model.answers("Count in secret", Answer(text="One.")))
    expect_over(tab)
    settings.get_by_role("checkbox", name="Hide chat titles").check()
    button(settings, "Save notifications").click()
    wait_for(tab, "!document.querySelector('[data-notify]').dataset.titles")
    leave_together(settings, tab)
    ask(tab, visit.house.model.answers("Count on in secret", SLOW))
    expect_told(tab, [FINISHED, "", tab.evaluate("location.pathname")])
    settings.get_by_role("checkbox", name="Hide chat titles").uncheck()
    button(settings, "Save notifications").click()
    button(settings, "Turn off the notifications of open pages").click()
    expect(button(settings, "Turn on")).to_be_visible()
    expect(settings.locator("script[data-notify]")).to_have_count(0)
    settings.goto("about:blank")
    ask(tab, visit.house.model.answers("Count unheard", SLOW))
    expect_over(tab)
    tab.evaluate("() => navigator.locks.query()")
    assert len(tab.evaluate("told")) == 1


def test_a_browser_whose_push_service_never_answers_is_not_waited_for(visit: Visit) -> None:
    tab = visit.tab()
    tab.add_init_script("PushManager.prototype.subscribe = () => new Promise(() => {});")
    tab.context.grant_permissions(["notifications"])
    tab.goto("/settings/#notifications")
    button(tab, "Turn on").click()
    expect(button(tab, "Turn off the notifications of open pages")).to_be_visible()


def test_a_browser_that_keeps_no_worker_says_what_it_lacks(visit: Visit) -> None:
    tab = visit.tab()
    tab.add_init_script("ServiceWorkerContainer.prototype.register = () => Promise.reject();")
    tab.context.grant_permissions(["notifications"])
    tab.goto("/settings/#notifications")
    button(tab, "Turn on").click()
    said = "This browser does not allow notifications here."
    expect(tab.locator("[data-announcements]")).to_contain_text(said)


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
