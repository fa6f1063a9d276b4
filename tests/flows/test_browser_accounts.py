"""Passkeys, the authenticator app, sessions and the settings page, in a browser."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value
from playwright.sync_api import BrowserContext, Page, expect

from .browser import Visit, both_looks, button, sign_in

pytestmark = pytest.mark.long


def add_member(visit: Visit, name: str) -> None:
    visit.house.installation.manage("member", "add", name, "--password-env", "PASSWORD")


def open_context(visit: Visit) -> BrowserContext:
    """A browser at localhost, because an IP address cannot have passkeys."""
    visit.witness.host = visit.witness.host.replace("127.0.0.1", "localhost")
    address = visit.house.server.address.replace("127.0.0.1", "localhost")
    context = visit.chromium.new_context(base_url=address)
    visit.witness.watch(context)
    visit.contexts.append(context)
    return context


@contextmanager
def security_key(tab: Page) -> Iterator[None]:
    """A passkey in the device of this tab, which answers without a person."""
    session = tab.context.new_cdp_session(tab)
    session.send("WebAuthn.enable")
    options = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": True,
        "automaticPresenceSimulation": True,
    }
    made = session.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    yield
    session.send(
        "WebAuthn.removeVirtualAuthenticator", {"authenticatorId": made["authenticatorId"]}
    )


def open_settings(tab: Page) -> None:
    tab.goto("/settings/")
    expect(tab.get_by_role("heading", name="Security")).to_be_visible()


def sign_out(tab: Page) -> None:
    tab.context.clear_cookies()
    tab.goto("/sign-in/")


@both_looks
def test_a_passkey_signs_in_alone_and_as_second_factor(visit: Visit) -> None:
    name = f"keyholder-of-{visit.owner}"
    add_member(visit, name)
    tab = open_context(visit).new_page()
    password = visit.house.installation.password
    sign_in(tab, name, password)
    with security_key(tab):
        open_settings(tab)
        tab.get_by_role("link", name="Add passkey").click()
        tab.get_by_label("Name").fill("My laptop")
        button(tab, "Add passkey").click()
        expect(tab.get_by_role("heading", name="Recovery codes")).to_be_visible()
        expect(tab.locator(".codes code")).to_have_count(10)
        open_settings(tab)
        expect(tab.get_by_text("My laptop")).to_be_visible()

        sign_out(tab)
        button(tab, "Use a passkey").click()
        expect(tab.get_by_role("heading", name=f"Hello, {name}.")).to_be_visible()

        sign_out(tab)
        tab.get_by_label("Username").fill(name)
        tab.get_by_label("Password").fill(password)
        button(tab, "Sign in").click()
        expect(tab.get_by_role("heading", name="Enter your code")).to_be_visible()
        button(tab, "Use a passkey").click()
        expect(tab.get_by_role("heading", name=f"Hello, {name}.")).to_be_visible()

        open_settings(tab)
        tab.get_by_role("link", name="Remove passkey My laptop").click()
        button(tab, "Remove passkey").click()
        expect(tab.get_by_text("My laptop")).to_have_count(0)
        sign_out(tab)
        button(tab, "Use a passkey").click()
        expect(tab.get_by_role("alert")).to_be_visible()


@both_looks
def test_an_app_is_set_up_from_its_picture_by_keyboard(visit: Visit) -> None:
    name = f"phoner-of-{visit.owner}"
    add_member(visit, name)
    tab = visit.tab("")
    sign_in(tab, name, visit.house.installation.password)
    open_settings(tab)
    tab.get_by_role("link", name="Set up").focus()
    tab.keyboard.press("Enter")
    picture = tab.get_by_role("img", name=re.compile("QR code"))
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.complete && image.naturalWidth > 0")
    tab.get_by_text("Enter the key by hand instead").press("Enter")
    secret = tab.locator(".secret code").inner_text()
    tab.get_by_label("code").fill(format_hotp_value(hotp_value(secret, int(time.time()) // 30)))
    tab.keyboard.press("Enter")
    expect(tab.locator(".codes code")).to_have_count(10)
    code = tab.locator(".codes code").first.inner_text()
    sign_out(tab)
    tab.get_by_label("Username").fill(name)
    tab.get_by_label("Password").fill(visit.house.installation.password)
    tab.keyboard.press("Enter")
    tab.get_by_label("Code").fill("000000000000")
    tab.keyboard.press("Enter")
    expect(tab.get_by_text("This code is wrong")).to_be_visible()
    tab.get_by_label("Code").fill(code)
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("heading", name=f"Hello, {name}.")).to_be_visible()


@both_looks
def test_signing_out_everywhere_closes_the_open_pages_of_other_devices(visit: Visit) -> None:
    """The socket of the other device ends at once, without a click there."""
    name = f"traveller-of-{visit.owner}"
    add_member(visit, name)
    password = visit.house.installation.password
    other, mine = visit.tab(""), visit.tab("")
    closed: list[object] = []
    other.on("websocket", lambda socket: socket.on("close", lambda it: closed.append(it)))
    sign_in(other, name, password)
    sign_in(mine, name, password)
    open_settings(mine)
    expect(mine.get_by_text("This device", exact=True)).to_have_count(1)
    devices = mine.get_by_role("button", name=re.compile("^Sign out Chrome on Linux"))
    expect(devices).to_have_count(1)
    visit.witness.excuse("WebSocket connection", "status of 4")
    button(mine, "Sign out everywhere else").click()
    expect(devices).to_have_count(0)
    ends_at = time.monotonic() + 20
    while not closed and time.monotonic() < ends_at:
        other.wait_for_timeout(100)
    assert closed
    other.goto("/memory/")
    expect(other.get_by_role("heading", name="Sign in")).to_be_visible()
    mine.reload()
    expect(mine.get_by_text("This device", exact=True)).to_be_visible()


def test_the_theme_is_there_with_the_first_byte(visit: Visit) -> None:
    add_member(visit, "painter")
    tab = visit.tab("", color_scheme="light")
    sign_in(tab, "painter", visit.house.installation.password)
    open_settings(tab)
    tab.get_by_text("Dark", exact=True).click()
    button(tab, "Save appearance").click()
    expect(tab.locator("html")).to_have_attribute("data-theme", "dark")
    answer = tab.context.request.get("/memory/")
    assert '<html lang="en" dir="ltr" data-theme="dark">' in answer.text()
    tab.goto("/")
    colour = "() => getComputedStyle(document.documentElement).colorScheme"
    assert tab.evaluate(colour) == "dark"
