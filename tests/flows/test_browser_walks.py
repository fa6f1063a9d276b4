"""How many clicks an admin needs from the overview to the answer of a frequent question, and that
none of this needs JavaScript."""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from .browser import Visit, button
from .test_browser_looks import LAPTOP, PHONE, SIDEWAYS

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
FILL = """
from chatapp.models import Member
from tests.turns.past_turns import past, shop
leaver, _ = Member.objects.update_or_create(username="leaver", defaults={"is_active": True})
past([leaver], shop(), 60, reasons=["Its name says that it changes labels."])
"""
EMPTY = """
from chatapp.models import Conversation, Member, PolicyChange, PolicyRule
from mcpconfig.models import Service
PolicyChange.objects.all().delete()
PolicyRule.objects.all().delete()
Conversation.objects.filter(owner__username="leaver").delete()
Service.objects.filter(name="shop").delete()
"""
SIZES = {"laptop": LAPTOP, "phone": PHONE}


# Counts what is pressed with the mouse or a finger. A click that Enter makes has no detail.
COUNT = """
addEventListener('click', (event) => {
  if (event.isTrusted && event.detail)
    sessionStorage.clicks = Number(sessionStorage.clicks ?? 0) + 1;
}, true);
"""


@dataclass(frozen=True, slots=True)
class Walk:
    """A tab of an admin, in which the browser counts the clicks if it runs scripts."""

    tab: Page
    has_scripts: bool = True

    def press(self, target: Locator) -> None:
        target.click()

    def assert_short(self, clicks: int) -> None:
        if self.has_scripts:
            assert 0 < self.tab.evaluate("Number(sessionStorage.clicks ?? 0)") <= clicks

    def search(self, words: str) -> None:
        field = self.tab.get_by_role("searchbox", name="Search people")
        field.fill(words)
        field.press("Enter")


@pytest.fixture
def filled(visit: Visit) -> Iterator[None]:
    installation = visit.house.installation
    installation.manage("shell", "-v", "0", "-c", FILL)
    yield
    installation.manage("shell", "-v", "0", "-c", EMPTY)


LOOKS = [*itertools.product(SIZES, ("light", "dark")), ("laptop", "no scripts")]


@pytest.fixture(params=LOOKS, ids="-".join)
def walk(request: pytest.FixtureRequest, visit: Visit, filled: None) -> Walk:
    size, look = request.param
    has_scripts = look != "no scripts"
    options: dict[str, Any] = {"java_script_enabled": has_scripts}
    if has_scripts:
        options["color_scheme"] = look
    tab = visit.tab("admin", viewport=SIZES[size], **options)
    tab.add_init_script(COUNT)
    tab.goto("/admin/")
    return Walk(tab, has_scripts)


def expect_fits(tab: Page) -> None:
    tab.wait_for_load_state()  # its styles, too
    assert tab.evaluate(SIDEWAYS) == []


def test_why_was_this_call_asked(walk: Walk) -> None:
    tab = walk.tab
    walk.press(tab.get_by_role("link", name="View tool calls"))
    walk.press(tab.get_by_role("link", name=re.compile("delete_label")).first)
    expect(tab.get_by_role("heading", name="Why it asked")).to_be_visible()
    expect(tab.get_by_text("Its name says that it changes labels.")).to_be_visible()
    expect_fits(tab)
    walk.assert_short(3)


def test_who_can_delete_in_a_service(walk: Walk) -> None:
    tab = walk.tab
    walk.search("shop")
    walk.press(tab.get_by_role("link", name="Who can delete something with shop?"))
    expect(tab.get_by_text("can use at least one of these tools of shop.")).to_be_visible()
    expect(tab.get_by_role("rowheader", name="leaver")).to_be_visible()
    expect_fits(tab)
    walk.assert_short(3)


def test_a_member_who_leaves_is_off_boarded(walk: Walk) -> None:
    tab = walk.tab
    walk.search("leaver")
    walk.press(tab.get_by_role("link", name=re.compile("^leaver")).first)
    walk.press(tab.get_by_role("link", name="Off-board"))
    expect(tab.get_by_role("button", name="Off-board")).to_be_visible()
    expect_fits(tab)
    walk.press(tab.get_by_role("button", name="Off-board"))
    expect(tab.get_by_text("off-boarded").first).to_be_visible()
    walk.assert_short(3)


def test_a_suggested_rule_is_applied(walk: Walk) -> None:
    tab = walk.tab
    walk.press(tab.get_by_role("link", name="See who is asked, and how often"))
    expect(tab.get_by_role("link", name="Add as a change")).to_be_visible()
    expect_fits(tab)
    walk.press(tab.get_by_role("link", name="Add as a change"))
    tab.get_by_label("Name:").fill("Labels may be changed")
    walk.press(button(tab, "Save as a change"))
    expect(tab.get_by_role("region", name="Simulation")).to_be_visible()
    expect_fits(tab)
    walk.press(button(tab, "Apply"))
    expect(tab.get_by_text("applied").first).to_be_visible()
    walk.assert_short(5)


def test_charts_change_on_an_open_overview_and_an_open_table_stays(
    visit: Visit, filled: None
) -> None:
    tab = visit.tab("admin")
    tab.clock.install()
    tab.goto("/admin/")
    chart = tab.get_by_role("region", name="Calls and decisions a day")
    chart.get_by_text("Show as table").click()
    tab.evaluate("() => { document.querySelector('.chart .big').textContent = 'Old'; }")
    with tab.expect_response("**/admin/live/"):
        tab.clock.run_for(30_500)
    tab.clock.run_for(1_000)
    expect(chart.locator(".big")).not_to_have_text("Old")
    expect(chart.get_by_role("table")).to_be_visible()
