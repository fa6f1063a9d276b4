"""Push in a browser: turning it on, and what the service worker keeps. The push service itself is
on the internet, so the browser is given a subscription."""

import re
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, Worker, expect

from chatapp.notifications.push_messages import PushMessage
from tests.wire.script import Answer

from .browser import (
    Visit,
    ask_in_new_chat,
    both_looks,
    button,
    expect_over,
)

pytestmark = pytest.mark.long
# An address that this server may not send to, and one that it may: nothing is sent in this test.
PRIVATE, PUBLIC = "https://127.0.0.1/push/1", "https://1.1.1.1/push/1"
SUBSCRIBE = """([endpoint, permission]) => {
  Notification.requestPermission = async () => permission;
  PushManager.prototype.subscribe = async ({ applicationServerKey: key, userVisibleOnly }) => {
    if (!key || !userVisibleOnly) throw new Error("not as browsers want it");
    const p256dh = "BNcRdreALRFXTkOOUHK1EtK2wtaz5Ry4YfYCA_0QTpQtUbVlUls0VJXg7A8u-"
      + "Ts1XbjhazAkj7I99e8QcYP7DkM";
    return { endpoint, keys: { p256dh, auth: "tBHItJI5svbpez7KI4CCXg" } };
  };
}"""

# On a machine without a desktop the browser may take a notification away again, so the worker keeps
# it as soon as it is shown.
KEEP = """() => {
  self.kept = new Promise((done) => {
    const show = registration.showNotification.bind(registration);
    registration.showNotification = async (...all) => {
      await show(...all);
      const [notification, ...others] = await registration.getNotifications();
      if (others.length) throw new Error("more than one");
      notification.close = () => { notification.wasClosed = true; };
      done(notification);
    };
  });
}"""
READ_KEPT = """async () => {
  const { title, body, tag } = await self.kept;
  return [title, body, tag];
}"""
# No protocol clicks a notification. Only a real click may open a window, so the path is read.
CLICK = """async () => {
  const notification = await self.kept;
  return new Promise((done) => {
    clients.openWindow = async (path) => done(path);
    const event = new NotificationEvent("notificationclick", { notification });
    event.waitUntil = () => {};
    dispatchEvent(event);
  });
}"""
# Likewise, only a real click may focus a window.
FOCUS_OR_OPEN = """async (path) => {
  const notification = await self.kept;
  return new Promise((done) => {
    WindowClient.prototype.focus = async () => done(["focused", path]);
    clients.openWindow = async (path) => done(["opened", path]);
    const event = new NotificationEvent("notificationclick", { notification });
    event.waitUntil = () => {};
    dispatchEvent(event);
  });
}"""
WAS_CLOSED = "async () => (await self.kept).wasClosed"


def open_section(visit: Visit, **options: Any) -> Page:
    tab = visit.tab(**options)
    tab.goto("/settings/#notifications")
    # The tests share a session, in which an earlier one may have turned push on.
    turned_on = tab.get_by_role("button", name=re.compile("^Turn off push on"))
    if turned_on.count():
        turned_on.first.click()
    expect(button(tab, "Turn on")).to_be_visible()
    return tab


def turn_on(tab: Page, endpoint: str = PUBLIC, permission: str = "granted") -> None:
    tab.evaluate(SUBSCRIBE, [endpoint, permission])
    button(tab, "Turn on").click()


def deliver(tab: Page, text: str) -> None:
    """Let the browser deliver a push message to the worker of this page."""
    session = tab.context.new_cdp_session(tab)
    found: list[str] = []
    session.on(
        "ServiceWorker.workerRegistrationUpdated",
        lambda told: found.extend(each["registrationId"] for each in told["registrations"]),
    )
    session.send("ServiceWorker.enable")
    tab.evaluate("async () => { await navigator.serviceWorker.ready; }")
    session.send(
        "ServiceWorker.deliverPushMessage",
        {"origin": tab.evaluate("origin"), "registrationId": found[-1], "data": text},
    )


@both_looks
def test_push_is_turned_on_shown_and_turned_off(visit: Visit) -> None:
    tab = open_section(visit)
    turn_on(tab)
    section = tab.locator("#notifications")
    expect(section.get_by_text("This device", exact=True)).to_be_visible()
    expect(button(section, "Turn on")).to_have_count(0)
    section.get_by_role("button", name=re.compile("^Turn off push on")).click()
    expect(button(section, "Turn on")).to_be_visible()


def test_a_browser_that_does_not_allow_it_says_so(visit: Visit) -> None:
    tab = open_section(visit)
    turn_on(tab, permission="denied")
    said = "This browser does not allow notifications here."
    expect(tab.locator("[data-announcements]")).to_contain_text(said)


def test_an_address_inside_the_network_is_refused_with_a_sentence(visit: Visit) -> None:
    visit.witness.excuse("422")
    tab = open_section(visit)
    turn_on(tab, PRIVATE)
    expect(tab.locator("#notifications").get_by_role("alert")).to_contain_text("is not allowed")


def test_without_javascript_the_page_says_what_it_needs(visit: Visit) -> None:
    visit.witness.excuse("422")
    tab = open_section(visit, java_script_enabled=False)
    button(tab, "Turn on").click()
    alert = tab.locator("#notifications").get_by_role("alert")
    expect(alert).to_contain_text("Notifications need JavaScript.")


def test_the_worker_keeps_static_files_only(visit: Visit) -> None:
    tab = open_section(visit)
    tab.context.grant_permissions(["notifications"])
    turn_on(tab)
    expect(tab.locator("#notifications").get_by_text("This device", exact=True)).to_be_visible()
    tab.wait_for_load_state()
    for address in ("/consents/", "/usage/"):  # the worker serves the pages from the next one on
        tab.goto(address)
    tab.wait_for_function("() => navigator.serviceWorker.controller")
    kept = tab.evaluate("""async () => {
      const names = await caches.keys(), cache = await caches.open(names[0]);
      return [names.length, (await cache.keys()).map(({ url }) => new URL(url).pathname)];
    }""")
    assert kept[0] == 1
    assert kept[1]
    assert all(re.fullmatch(r"/static/.+\.[0-9a-f]{12}\.\w+", path) for path in kept[1]), kept


def show_message(tab: Page, path: str) -> Worker:
    """Show a notification that leads to this path, and return the worker that shows it."""
    message = PushMessage(
        title="Needs your approval",
        body="Old ideas",
        path=path,
        topic="topic",
        ttl=60,
        is_urgent=True,
    )
    (worker,) = tab.context.service_workers
    worker.evaluate(KEEP)
    deliver(tab, message.to_json())
    return worker


def test_the_worker_shows_a_message_and_a_click_opens_its_path(whole_visit: Visit) -> None:
    """Chromium delivers the message to the real worker, as after it arrived and was decrypted."""
    tab = open_section(whole_visit)
    tab.context.grant_permissions(["notifications"])
    turn_on(tab)
    expect(tab.locator("#notifications").get_by_text("This device", exact=True)).to_be_visible()
    tab.wait_for_load_state()
    tab.goto("/usage/")
    worker = show_message(tab, "/approvals/1/")
    assert worker.evaluate(READ_KEPT) == ["Needs your approval", "Old ideas", "topic"]
    assert worker.evaluate(CLICK) == "/approvals/1/"
    assert worker.evaluate(WAS_CLOSED)


@pytest.mark.parametrize("is_open", [True, False])
def test_a_click_focuses_the_window_that_shows_the_chat_now(
    whole_visit: Visit, is_open: bool
) -> None:
    """The chat was opened in place, so the browser knows the window by its first address."""
    tab = open_section(whole_visit)
    tab.context.grant_permissions(["notifications"])
    turn_on(tab)
    expect(tab.locator("#notifications").get_by_text("This device", exact=True)).to_be_visible()
    tab.wait_for_load_state()
    name = f"First chat, {is_open}"
    for question in (name, f"Second chat, {is_open}"):
        asked = whole_visit.house.model.answers(question, Answer(text="Noted."))
        ask_in_new_chat(tab, asked)
        expect_over(tab)
    second = urlsplit(tab.url).path
    tab.evaluate("document.documentElement.dataset.marked = ''")
    tab.get_by_role("navigation", name="Chats").get_by_role("link", name=name).click()
    expect(tab.get_by_role("heading", name=name, level=1)).to_be_visible()
    expect(tab.locator("html[data-marked]")).to_have_count(1)
    first = urlsplit(tab.url).path
    worker = show_message(tab, first if is_open else second)
    told = ["focused", first] if is_open else ["opened", second]
    assert worker.evaluate(FOCUS_OR_OPEN, first) == told
    assert worker.evaluate(WAS_CLOSED)


def test_static_files_load_where_the_browser_has_no_room_for_them(visit: Visit) -> None:
    tab = open_section(visit)
    tab.context.grant_permissions(["notifications"])
    turn_on(tab)
    expect(tab.locator("#notifications").get_by_text("This device", exact=True)).to_be_visible()
    tab.wait_for_load_state()
    tab.goto("/usage/")
    (worker,) = tab.context.service_workers
    worker.evaluate("() => { caches.open = async () => { throw new Error('full'); }; }")
    tab.goto("/consents/")
    assert tab.evaluate("() => Boolean(navigator.serviceWorker.controller)")
    style = "() => getComputedStyle(document.documentElement).getPropertyValue('--canvas')"
    assert tab.evaluate(style)
