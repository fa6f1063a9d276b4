"""Apps that others wrote, as they come from npm, in a real browser."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import FrameLocator, Page, expect

from tests.peers.installing import Unavailable
from tests.peers.programs import app, running
from tests.wire.script import Answer, Tool

from .browser import (
    House,
    Visit,
    ask_in_new_chat,
    box,
    button,
    cards,
    fill_house,
    region,
    tick_as_read,
)

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

NAMES = {"clock": "basic-vanillajs", "budget": "budget-allocator"}
ALLOW = (
    "from mcpconfig.models import Service; "
    "Service.objects.filter(name__in=['clock', 'budget']).update(allows_apps=True)"
)


@pytest.fixture(scope="module", autouse=True)
def services(house: House, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("apps")
    try:
        with (
            running(app(NAMES["clock"]), folder) as clock,
            running(app(NAMES["budget"]), folder) as budget,
        ):
            added = [
                ["mcp", "add", name, url, "--allow-private"]
                for name, url in (("clock", clock), ("budget", budget))
            ]
            fill_house(house.installation, *added, ["shell", "-v", "0", "-c", ALLOW])
            fill_house(house.installation, *(["mcp", "confirm", name] for name in NAMES))
            yield
            fill_house(house.installation, *(["mcp", "remove", name] for name in NAMES))
    except Unavailable as reason:
        pytest.skip(str(reason))


def get_frame(visit: Visit, tool: str) -> Page:
    """A tab with the app that this tool brings, once a person has allowed the call if asked."""
    tab = visit.tab()
    asked = Tool(name=tool, arguments={}, id=f"call_{tool}")
    answers = (Answer(tools=(asked,)), Answer(text="The end."))
    ask_in_new_chat(tab, visit.house.model.answers(f"Show {tool}", *answers))
    expect(cards(tab).or_(tab.locator("iframe")).first).to_be_visible()
    if cards(tab).count():
        tick_as_read(tab)
        button(cards(tab), "Allow once").click()
    expect(region(tab)).to_contain_text("The end.")
    return tab


@pytest.fixture(autouse=True)
def eval_is_excused(visit: Visit) -> Iterator[None]:
    """The library that both use looks whether it may compile code, and goes on where it may not."""
    yield
    said = visit.witness.violations
    visit.witness.violations = [words for words in said if "script-src eval" not in words]


def find_in_app(tab: Page) -> FrameLocator:
    return tab.frame_locator(".app-frame iframe")


def test_the_example_clock_shows_asks_and_speaks(visit: Visit) -> None:
    tab = get_frame(visit, "clock_get-time")
    clock = find_in_app(tab).locator("#server-time")
    expect(clock).to_contain_text("Z")
    before = clock.inner_text()

    button_in = find_in_app(tab).get_by_role("button", name="Get Server Time")
    button_in.click()
    answers = tab.locator(".turn[data-role=assistant]")
    expect(answers).to_have_count(2)
    expect(cards(tab).or_(answers.last.locator(".acts")).first).to_be_visible()
    if cards(tab).count():
        tick_as_read(tab)
        button(cards(tab), "Allow once").click()
    expect(clock).not_to_have_text(before)
    expect(tab.locator("iframe")).to_have_count(1)

    find_in_app(tab).get_by_role("button", name="Send Message").click()
    expect(box(tab)).to_have_value("This is message text.")
    find_in_app(tab).get_by_role("button", name="Open Link").click()
    expect(tab.get_by_role("link", name="https://modelcontextprotocol.io/")).to_be_visible()


def test_the_example_budget_shows_what_its_tool_answered(visit: Visit) -> None:
    tab = get_frame(visit, "budget_get-budget-data")
    expect(find_in_app(tab).locator("body")).to_contain_text("$")
    tab.reload()
    expect(find_in_app(tab).locator("body")).to_contain_text("$")
