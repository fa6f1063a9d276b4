"""An admin tries tools in a real browser: by keyboard, under policy, once, in any width. The
overview leads to the sign-in page when the session is over."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.peers.bench import Bench, at_bench
from tests.peers.reading_room import ReadSwitch, at_room
from tests.peers.serving import Served

from .browser import Visit, button, fill_house, tick_as_read
from .test_browser_looks import LAPTOP, PHONE, SIDEWAYS

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def bench() -> Iterator[tuple[Bench, str]]:
    bench = Bench()
    with Served(at_bench(bench)) as served:
        yield bench, served.url


@pytest.fixture
def shop(visit: Visit, bench: tuple[Bench, str]) -> Iterator[Bench]:
    """A service with tools to try, of which an admin has confirmed one."""
    made, url = bench
    made.ran.clear()
    add = ["mcp", "add", "shop", url, "--allow-private", "--trusted"]
    fill_house(visit.house.installation, add, ["mcp", "confirm", "shop", "list_orders"])
    yield made
    fill_house(visit.house.installation, ["mcp", "remove", "shop"])


def to_tools(tab: Page) -> None:
    tab.goto("/admin/")
    menu = button(tab, "Open menu")
    if menu.is_visible():
        menu.click()
    tab.get_by_role("navigation", name="Admin").get_by_text("Services and tools").click()
    tab.get_by_role("link", name="Service health", exact=True).click()
    row = tab.get_by_role("row").filter(has=tab.get_by_role("link", name="shop", exact=True))
    row.get_by_role("link", name=re.compile(r"^\d tools$")).click()


def field(tab: Page, name: str) -> Locator:
    return tab.get_by_label(re.compile(rf"^{name}\b"))


def test_a_tool_is_tried_by_keyboard_from_the_overview_to_its_result(
    visit: Visit, shop: Bench
) -> None:
    visit.witness.excuse("422")
    tab = visit.tab("admin", viewport=LAPTOP)
    to_tools(tab)
    tab.get_by_role("link", name="Try it delete_order").press("Enter")
    field(tab, "reason").fill("Twice")
    tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")  # the first button after the fields
    expect(tab.get_by_role("alert")).to_contain_text("Missing: name.")
    expect(field(tab, "reason")).to_have_value("Twice")

    field(tab, "name").fill("A-17")
    button(tab, "Review request").press("Enter")
    asked = tab.get_by_role("group", name=re.compile("^Approve: Delete order"))
    expect(asked).to_contain_text("A-17")
    assert shop.ran == []
    tick_as_read(tab)
    button(asked, "Allow once").press("Enter")

    expect(tab.get_by_text("A-17 is deleted")).to_be_visible()
    tab.reload()
    expect(tab.get_by_text("A-17 is deleted")).to_be_visible()
    assert shop.ran == ["delete_order A-17"]


def test_a_button_that_is_pressed_twice_runs_once(visit: Visit, shop: Bench) -> None:
    tab = visit.tab("admin", viewport=LAPTOP)
    to_tools(tab)
    tab.get_by_role("link", name="Try it list_orders").click()
    field(tab, "limit").fill("2")
    # The second press may come while it runs.
    tab.add_locator_handler(tab.get_by_role("link", name="Refresh"), lambda link: link.click())
    button(tab, "Run tool").dblclick()
    expect(tab.get_by_role("cell", name="A-1")).to_be_visible()
    assert len(shop.ran) == 1


def test_proposals_come_as_one_types(visit: Visit) -> None:
    with Served(at_room(ReadSwitch())) as served:
        add = ["mcp", "add", "study", served.url, "--allow-private"]
        fill_house(visit.house.installation, add)
        tab = visit.tab("admin", viewport=LAPTOP)
        tab.goto("/admin/mcpconfig/service/")
        tab.get_by_role("link", name="study", exact=True).click()
        pages = tab.get_by_role("navigation", name="Pages of study")
        pages.get_by_role("link", name="Prompts").click()
        with tab.expect_navigation():  # what is typed before the scripts run asks for nothing
            tab.get_by_role("link", name="Fill in Plan a trip").click()
        tab.get_by_label("town").press_sequentially("Berg")
        expect(tab.locator("datalist option")).to_have_count(1)
        tab.get_by_label("town").fill("Bergen")
        button(tab, "Preview").click()
        expect(tab.get_by_text("Plan 2 days in Bergen.")).to_be_visible()
        fill_house(visit.house.installation, ["mcp", "remove", "study"])


@pytest.mark.parametrize("size", [PHONE, LAPTOP], ids=["phone", "laptop"])
def test_no_page_of_the_workbench_scrolls_sideways(
    visit: Visit, shop: Bench, size: dict[str, int]
) -> None:
    tab = visit.tab("admin", viewport=size)
    to_tools(tab)
    tools = tab.url
    tab.get_by_role("link", name="Try it delete_order").click()
    tried = tab.url
    field(tab, "name").fill("a-lamp-" * 60)
    button(tab, "Review request").click()
    expect(tab.get_by_role("group", name=re.compile("^Approve"))).to_be_visible()
    assert tab.evaluate(SIDEWAYS) == [], "the question"
    tick_as_read(tab)
    button(tab, "Allow once").click()
    expect(tab.get_by_text("Done")).to_be_visible()
    service = tools.removesuffix("tools/")
    others = [f"{service}{page}/" for page in ("resources", "prompts", "sign-ins", "change")]
    for address in (tab.url, tools, tried, "/admin/mcpconfig/service/health/", *others):
        tab.goto(address)
        assert tab.evaluate(SIDEWAYS) == [], address


REFRESH_MS = 31_000


def test_the_overview_leads_to_the_sign_in_page_when_the_session_is_over(visit: Visit) -> None:
    tab = visit.tab("admin", viewport=LAPTOP)
    tab.clock.install()
    tab.goto("/admin/")
    tab.context.clear_cookies()
    tab.clock.fast_forward(REFRESH_MS)
    tab.wait_for_url("**/sign-in/?next=/admin/")
    expect(tab.get_by_label("Username")).to_be_visible()
