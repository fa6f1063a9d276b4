"""An admin governs in a real browser: a test, a rule that would break it, a draft on past calls."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.peers.bench import Bench, at_bench
from tests.peers.serving import Served

from .browser import Visit, button, fill_house
from .test_browser_looks import LAPTOP, PHONE, SIDEWAYS

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


@pytest.fixture
def shop(visit: Visit) -> Iterator[None]:
    """A service with confirmed tools, and no policy of anybody."""
    with Served(at_bench(Bench())) as served:
        add = ["mcp", "add", "shop", served.url, "--allow-private"]
        fill_house(visit.house.installation, add, ["mcp", "confirm", "shop"])
        yield
        fill_house(visit.house.installation, ["mcp", "remove", "shop"])


def add_test(tab: Page, expected: str) -> None:
    tab.goto("/admin/chatapp/policytest/add/")
    tab.get_by_label("Name:").fill("Orders are asked about")
    tab.get_by_role("combobox").first.click()
    tab.get_by_role("searchbox").last.fill("admin")
    tab.get_by_role("option", name="admin", exact=True).click()
    tab.get_by_label("Service:").select_option("shop")
    tab.get_by_label("Tool:").fill("delete_order")
    tab.get_by_label("Expected decision:").select_option(expected)
    button(tab, "Save").first.click()


def test_a_rule_that_would_break_a_test_is_held_back_and_then_tried_as_a_draft(
    visit: Visit, shop: None
) -> None:
    tab = visit.tab("admin", viewport=LAPTOP)
    add_test(tab, "ask")
    expect(tab.get_by_text("passes", exact=True)).to_be_visible()

    tab.goto("/admin/chatapp/policyrule/add/")
    tab.get_by_label("Name:").fill("All run")
    tab.get_by_role("radio", name="allow").check()
    tab.get_by_label("Condition:").fill("amount <")
    tab.get_by_label("Condition:").press("Tab")
    button(tab, "Save").first.click()
    expect(tab.get_by_text("This is not a condition.")).to_be_visible()
    tab.get_by_label("Condition:").fill("")
    button(tab, "Save").first.click()
    expect(tab.get_by_text("“Orders are asked about”. Expected: needs approval.")).to_be_visible()
    expect(tab.get_by_label("Name:")).to_have_value("All run")

    tab.get_by_role("checkbox", name="Enabled").uncheck()
    button(tab, "Save and continue editing").click()
    tab.get_by_role("link", name="Try it on past calls").click()
    expect(tab.get_by_role("checkbox", name=re.compile("^All run"))).to_be_checked()
    button(tab, "Replay past calls").click()
    expect(tab.get_by_role("region", name="Changes")).to_be_visible()


@pytest.mark.parametrize("size", [PHONE, LAPTOP], ids=["phone", "laptop"])
def test_no_page_of_policy_scrolls_sideways(visit: Visit, shop: None, size: dict[str, int]) -> None:
    tab = visit.tab("admin", viewport=size)
    places = ["", "add/", "simulator/", "simulator/?days=30", "questions/"]
    addresses = [f"/admin/chatapp/policyrule/{place}" for place in places]
    for address in (*addresses, "/admin/chatapp/housepolicy/1/change/"):
        tab.goto(address)
        assert tab.evaluate(SIDEWAYS) == [], address
