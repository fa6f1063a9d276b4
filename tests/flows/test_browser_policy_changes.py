"""A policy change in a real browser: drafted, simulated, approved by a second admin, applied and
undone."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.peers.bench import Bench, at_bench
from tests.peers.serving import Served

from .browser import House, Visit, button, fill_house
from .test_browser_looks import LAPTOP, PHONE, SIDEWAYS

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
SECOND = """
from chatapp.models import HousePolicy, Member
HousePolicy.objects.update_or_create(pk=1, defaults={"changes_need_second": %s})
Member.objects.filter(username="stranger").update(is_staff=%s, rights=%s)
"""


@pytest.fixture(scope="module")
def shop(house: House) -> Iterator[None]:
    """A service with confirmed tools; policy changes need a second admin, and the stranger is
    one."""
    manage = house.installation.manage
    with Served(at_bench(Bench())) as served:
        add = ["mcp", "add", "shop", served.url, "--allow-private"]
        fill_house(house.installation, add, ["mcp", "confirm", "shop"])
        manage("shell", "-v", "0", "-c", SECOND % (True, True, ["policy"]))
        yield
        manage("shell", "-v", "0", "-c", SECOND % (False, False, []))
        fill_house(house.installation, ["mcp", "remove", "shop"])


def draft_rule(tab: Page) -> str:
    """Draft a rule with the form of rules, and return the address of its change."""
    tab.goto("/admin/chatapp/policyrule/add/")
    expect(tab.get_by_text("Policy changes need a second admin.")).to_be_visible()
    tab.get_by_label("Name:").fill("Orders are never deleted")
    tab.get_by_role("radio", name="refuse").check()
    tab.get_by_label("Tool:").fill("delete_order")
    tab.get_by_label("Service:").select_option("shop")
    button(tab, "Save as a change").click()
    expect(tab.get_by_text("Saved in this change.")).to_be_visible()
    return tab.url


def test_a_change_is_drafted_approved_by_a_second_admin_applied_and_undone(
    visit: Visit, shop: None
) -> None:
    author = visit.tab("admin", viewport=LAPTOP)
    address = draft_rule(author)
    difference = author.get_by_role("region", name="Changes", exact=True)
    expect(difference).to_contain_text("Refuses “delete_order” of shop.")
    expect(author.get_by_role("region", name="Simulation")).to_be_visible()
    button(author, "Send for approval").click()
    expect(author.get_by_text("Sent. It applies as soon as another admin")).to_be_visible()
    expect(button(author, "Approve and apply")).to_have_count(0)

    second = visit.tab("stranger", viewport=LAPTOP)
    second.goto("/admin/")
    need = second.get_by_role("listitem").filter(has_text="needs your approval")
    need.get_by_role("link", name="Review").click()
    expect(second.get_by_text("Refuses “delete_order” of shop.").first).to_be_visible()
    second.get_by_label("Note to the author").fill("Agreed.")
    button(second, "Approve and apply").click()
    expect(second.get_by_text("You approved the change, and it is applied.")).to_be_visible()
    second.goto("/admin/chatapp/policyrule/")
    expect(second.get_by_role("link", name="Orders are never deleted")).to_be_visible()

    author.goto(address)
    expect(author.get_by_text("Agreed.")).to_be_visible()
    button(author, "Undo").click()
    expect(author.get_by_text("waits for another admin.").first).to_be_visible()
    second.goto(author.url)
    button(second, "Approve and apply").click()
    expect(second.get_by_text("You approved the change, and it is applied.")).to_be_visible()
    second.goto("/admin/chatapp/policyrule/")
    expect(second.get_by_role("link", name="Orders are never deleted")).to_have_count(0)
    second.goto(address)
    expect(second.get_by_text("Undone by")).to_be_visible()


@pytest.mark.parametrize("size", [PHONE, LAPTOP], ids=["phone", "laptop"])
def test_the_page_of_a_change_does_not_scroll_sideways(
    visit: Visit, shop: None, size: dict[str, int]
) -> None:
    tab = visit.tab("admin", viewport=size)
    draft_rule(tab)
    assert tab.evaluate(SIDEWAYS) == []
    button(tab, "Send for approval").click()
    second = visit.tab("stranger", viewport=size)
    second.goto(tab.url)
    assert second.evaluate(SIDEWAYS) == []
    button(tab, "Discard").click()
    expect(tab.get_by_text("The change is discarded.")).to_be_visible()
