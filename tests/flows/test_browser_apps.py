"""Apps of tools in a real browser: shown sealed off, and kept there whatever they try."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import FrameLocator, Page, expect

from tests.peers.effects import Effects
from tests.peers.gallery import ACTS, application, page
from tests.peers.serving import Served
from tests.wire.script import Answer, Tool

from .browser import (
    House,
    Visit,
    ask_in_new_chat,
    box,
    button,
    card,
    expect_blocked,
    fill_house,
    forget_framed,
    region,
    tick_as_read,
)

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

ALLOW = (
    "from mcpconfig.models import Service; "
    "Service.objects.filter(name='gallery').update(allows_apps=True)"
)


async def _taking_all(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"taken"})


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Served]:
    """Somebody who waits for what an app sends out."""
    with Served(_taking_all, path="/") as served:
        yield served


@pytest.fixture(scope="module")
def effects(tmp_path_factory: pytest.TempPathFactory) -> Effects:
    return Effects(tmp_path_factory.mktemp("gallery") / "effects")


@pytest.fixture(scope="module", autouse=True)
def gallery(house: House, elsewhere: Served, effects: Effects) -> Iterator[None]:
    site = house.server.address + "/"
    pages = {name: page(name, elsewhere.url, site) for name in ACTS}
    pages["huge"] = "<p>" + "x" * 3_000_000
    asked = [elsewhere.url.rstrip("/")]  # by all of them, and allowed to none
    app = application(effects, pages, connectDomains=asked, resourceDomains=asked)
    with Served(app) as served:
        added = ["mcp", "add", "gallery", served.url, "--allow-private"]
        fill_house(house.installation, added, ["shell", "-v", "0", "-c", ALLOW])
        fill_house(house.installation, ["mcp", "confirm", "gallery"])
        yield
        fill_house(house.installation, ["mcp", "remove", "gallery"])


def open_app(visit: Visit, name: str, tab: Page | None = None) -> Page:
    """A tab in whose conversation a tool has brought this app."""
    tab = tab or visit.tab()
    tool = Tool(name=f"gallery_show_{name}", arguments={"words": "hi"}, id=f"call_{name}")
    question = visit.house.model.answers(
        f"Show {name}", Answer(tools=(tool,)), Answer(text="The end.")
    )
    ask_in_new_chat(tab, question)
    expect(region(tab)).to_contain_text("The end.")
    return tab


def find_in_app(tab: Page) -> FrameLocator:
    return tab.frame_locator(".app-frame iframe")


def expect_said(tab: Page, words: str) -> None:
    expect(find_in_app(tab).locator("#out")).to_contain_text(words)


# --- what an app may -----------------------------------------------------------------------------
def test_an_app_is_told_its_call_and_looks_the_same_after_a_reload(visit: Visit) -> None:
    tab = open_app(visit, "nothing")
    for _ in range(2):
        expect_said(tab, "host countersign")
        expect_said(tab, 'ui/notifications/tool-input {"arguments":{"words":"hi"}}')
        expect_said(tab, "Shown: hi")
        expect_said(tab, "acted")
        tab.reload()


def test_a_chat_with_an_app_opens_inside_another_page(visit: Visit) -> None:
    """Without a load of the whole page, also for the second time."""
    tab = open_app(visit, "nothing")
    chat = tab.url.removeprefix(visit.house.server.address)
    tab.goto("/usage/")
    tab.evaluate("window.stays = true")
    for _ in range(2):
        tab.locator(f"#sidebar-list a[href='{chat}']").click()
        expect_said(tab, "Shown: hi")
        tab.get_by_role("link", name="Assistants").click()
        expect(tab.get_by_role("heading", name="Assistants", level=1)).to_be_visible()
    assert tab.evaluate("window.stays")


def test_the_tools_own_words_are_there_beside_its_app(visit: Visit) -> None:
    tab = open_app(visit, "nothing")
    tab.locator("details.tool > summary").click()
    expect(tab.locator("details.tool")).to_contain_text("Shown: hi")


def test_without_javascript_the_result_is_there_and_the_app_says_why_it_is_not(
    visit: Visit,
) -> None:
    address = open_app(visit, "nothing").url
    tab = visit.tab(java_script_enabled=False)
    tab.goto(address)
    expect(region(tab)).to_contain_text("has an app. It needs JavaScript")
    tab.locator("details.tool > summary").click()
    expect(tab.locator("details.tool")).to_contain_text("Shown: hi")
    expect(tab.locator("iframe")).to_be_hidden()
    assert len(tab.frames) == 1 or tab.frames[1].url == "about:blank"


def test_an_app_may_say_how_high_it_is_within_bounds(visit: Visit) -> None:
    tab = open_app(visit, "size")
    expect_said(tab, "acted")
    expect(tab.locator("iframe")).to_have_css("height", "333px")
    tab = open_app(visit, "huge_size", tab)
    expect_said(tab, "acted")
    expect(tab.locator("iframe")).to_have_css("height", "800px")


def test_a_link_is_shown_whole_and_opens_only_at_a_persons_click(
    visit: Visit, elsewhere: Served
) -> None:
    elsewhere.arrivals.clear()
    tab = open_app(visit, "link")
    expect_said(tab, 'script {"jsonrpc":"2.0","id":2,"result":{"isError":true}}')
    expect_said(tab, 'link {"jsonrpc":"2.0","id":3,"result":{}}')
    link = tab.get_by_role("link", name=elsewhere.url + "link")
    expect(link).to_be_visible()
    assert elsewhere.arrivals.seen == []
    with tab.context.expect_page() as opened:
        link.click()
    expect(opened.value.locator("body")).to_have_text("taken")
    assert opened.value.evaluate("opener") is None
    expect(link).to_be_hidden()
    opened.value.close()
    forget_framed(visit)


def test_an_apps_words_are_put_into_an_empty_box_and_never_sent(visit: Visit) -> None:
    tab = open_app(visit, "message")
    expect_said(tab, '"id":2,"result":{}')
    expect_said(tab, '"id":3,"result":{"isError":true}')
    expect(box(tab)).to_have_value("Buy milk")
    expect(tab.locator("[data-app-note]")).to_contain_text("Only you can send it")
    expect(tab.locator(".turn[data-role=user]")).to_have_count(1)


# --- tools ---------------------------------------------------------------------------------------
def test_a_low_risk_tool_runs_for_an_app_and_is_seen_in_the_chat(
    visit: Visit, effects: Effects
) -> None:
    tab = open_app(visit, "low")
    expect_said(tab, "one is 1")
    expect(region(tab)).to_contain_text("The app of gallery_show_low asks for gallery_read_counter")
    assert "read_counter one" in effects.lines
    visit.witness.excuse("409")


def test_a_tool_that_needs_approval_waits_for_the_person_whoever_asks(
    visit: Visit, effects: Effects
) -> None:
    tab = open_app(visit, "high")
    asked = card(tab, "Delete counter", "gallery")
    expect(asked).to_be_visible()
    assert "delete_counter two" not in effects.lines
    tick_as_read(tab)
    button(asked, "Allow once").click()
    expect_said(tab, "two is gone")
    assert effects.lines.count("delete_counter two") == 1
    visit.witness.excuse("409")


@pytest.mark.parametrize("name", ["stranger_tool", "model_tool"])
def test_an_app_gets_no_tool_of_another_service_or_of_the_models(
    visit: Visit, effects: Effects, name: str
) -> None:
    things = list(visit.house.effects.lines)
    tab = open_app(visit, name)
    expect_said(tab, "error: The app’s service offers apps no tool with this name.")
    assert "only_model" not in effects.lines
    assert visit.house.effects.lines == things
    visit.witness.excuse("403")


# --- what no app may -----------------------------------------------------------------------------
def test_an_app_reads_nothing_of_the_page_around_it(visit: Visit) -> None:
    tab = open_app(visit, "parent")
    expect_said(tab, "origin null")
    said = find_in_app(tab).locator("#out").inner_text()
    assert said.count("kept out by") == 5
    assert "stolen" not in tab.title()
    forget_framed(visit)


@pytest.mark.parametrize(
    ("name", "blocked"),
    [
        ("top", "navigat.*sandbox|sandbox.*navigat"),
        ("self", "frame-src"),
        ("form", "form-action|submission.*sandbox|sandbox.*submi"),
        ("popup", "Blocked opening"),
    ],
)
def test_an_app_leads_nobody_away(visit: Visit, elsewhere: Served, name: str, blocked: str) -> None:
    # Said beside the violation, and sometimes later.
    visit.witness.excuse("permission to navigate the target frame")
    elsewhere.arrivals.clear()
    tab = open_app(visit, name)
    expect_blocked(visit, tab, blocked)
    expect(region(tab)).to_be_visible()
    assert len(tab.context.pages) == 1
    assert elsewhere.arrivals.seen == []
    forget_framed(visit)


def test_an_app_sends_nothing_out_and_nothing_to_us(visit: Visit, elsewhere: Served) -> None:
    elsewhere.arrivals.clear()
    tab = open_app(visit, "fetch")
    expect_said(tab, "acted")
    assert find_in_app(tab).locator("#out").inner_text().count("not fetched") == 2
    expect_blocked(visit, tab, "connect-src")
    expect_blocked(visit, tab, "img-src")
    assert elsewhere.arrivals.seen == []
    forget_framed(visit)


def test_an_app_reaches_what_it_asked_for_once_an_admin_allows_it(
    visit: Visit, elsewhere: Served
) -> None:
    elsewhere.arrivals.clear()
    allow = (
        "from mcpconfig.models import Service; "
        "Service.objects.filter(name='gallery').update(app_origins='{}')"
    )
    installation = visit.house.installation
    fill_house(installation, ["shell", "-v", "0", "-c", allow.format(elsewhere.url)])
    try:
        tab = open_app(visit, "fetch")
        expect_said(tab, "acted")
        said = find_in_app(tab).locator("#out").inner_text()
    finally:
        fill_house(installation, ["shell", "-v", "0", "-c", allow.format("")])
    assert (said.count("not fetched"), said.count("fetched")) == (1, 2)  # ours stays closed
    assert {arrival.path for arrival in elsewhere.arrivals.seen} == {"/fetch", "/image"}
    forget_framed(visit)


def test_an_app_opens_no_dialog(visit: Visit) -> None:
    tab = open_app(visit, "dialog")
    expect_said(tab, "asked")
    assert visit.witness.dialogs == []
    forget_framed(visit)


def test_an_app_that_floods_the_page_is_stopped(visit: Visit) -> None:
    tab = open_app(visit, "flood")
    expect(tab.locator("[data-app-note]")).to_contain_text("sent too many messages")
    expect(tab.locator("iframe")).to_have_count(0)
    box(tab).fill("still here")
    forget_framed(visit)


def test_what_is_no_message_of_the_protocol_is_not_heard(visit: Visit) -> None:
    tab = open_app(visit, "nonsense")
    expect_said(tab, "no/such -32601")
    expect_said(tab, "constructor -32601")
    assert "answered" not in find_in_app(tab).locator("#out").inner_text()


def test_an_app_that_is_too_large_is_not_shown_and_says_so(visit: Visit) -> None:
    tab = open_app(visit, "huge")
    expect(find_in_app(tab).locator("body")).to_contain_text("The app cannot be shown.")


def test_an_app_that_is_opened_by_itself_has_no_rights_either(visit: Visit) -> None:
    tab = open_app(visit, "parent")
    address = tab.locator("[data-app]").get_attribute("data-app") or ""
    tab.goto(address)
    assert tab.evaluate("origin") == "null"
    forget_framed(visit)


def test_no_other_page_can_frame_an_app_or_anything_of_ours(visit: Visit) -> None:
    tab = open_app(visit, "nothing")
    for opened in (tab.reload(), tab.goto("/")):
        policy = (opened or pytest.fail()).headers["content-security-policy"]
        assert "frame-src 'self'" in policy and "frame-ancestors 'none'" in policy
