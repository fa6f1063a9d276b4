"""What the page's own script makes of a bad line: resets again and again, hints that are lost,
doubled and shuffled. The DOM at the end is the one of a page that was just loaded."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page

from .breaking_proxy import BreakingProxy
from .browser import House, Visit, Witness, ask_in_new_chat, expect_over, region
from .server import REDIS, Server
from .test_browser_tabs import assert_streaming, has_come_to, is_complete, tale

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
LIFE_SECONDS = 2.0
# What the answer said, to the last space of its code. Times of day stand outside.
SAID = "() => [...document.querySelectorAll('.prose')].map((each) => each.innerHTML)"
# Takes away the next change that adds a block: the planted fault.
SWALLOW = """() => addEventListener("changes", function swallow(event) {
  if (!JSON.stringify(event.detail).includes('["a","blocks-')) return;
  removeEventListener("changes", swallow, true);
  event.stopPropagation();
}, true)"""


@contextmanager
def visit_through(chromium: Browser, house: House, address: str) -> Iterator[Visit]:
    """Tabs of somebody who knows the house by another address."""
    made = Visit(chromium, house, Witness(urlsplit(address).netloc))
    made.witness.excuse("WebSocket connection to .* failed", "net::ERR_CONNECTION_RESET")
    yield made
    made.close()
    made.witness.assert_clean()


def get_thread(tab: Page) -> list[str]:
    words: list[str] = tab.evaluate(SAID)
    return words


def assert_as_loaded(tab: Page, name: str, direct: Page) -> None:
    is_complete(tab, name)
    expect_over(tab)
    direct.reload()
    is_complete(direct, name)
    assert get_thread(tab) == get_thread(direct)
    assert region(tab).inner_text() == region(direct).inner_text()


def test_a_tab_whose_line_is_reset_every_two_seconds(
    visit: Visit, chromium: Browser, house: House
) -> None:
    stays = visit.tab()
    with BreakingProxy(house.server.port, LIFE_SECONDS) as proxy:
        address = f"http://127.0.0.1:{proxy.port}"
        with visit_through(chromium, house, address) as broken:
            ask_in_new_chat(stays, tale(visit, "resets"))
            tab = broken.tab()
            tab.goto(address + urlsplit(stays.url).path)
            has_come_to(tab, 1)
            assert_streaming(tab)
            assert_as_loaded(tab, "resets", stays)
            assert proxy.resets >= 2


@pytest.fixture
def lossy(house: House) -> Iterator[Callable[[str], Server]]:
    """More servers of the house, between which hints are lost, doubled and shuffled."""
    made: list[Server] = []

    def started(name: str) -> Server:
        settings = {
            "DJANGO_SETTINGS_MODULE": "tests.flows.kill_settings",
            "LOSSY_LAYER": "1",
            "REDIS_URL": f"{REDIS}/13",
        }
        server = house.installation.server(name, **settings)
        made.append(server)
        server.start()
        return server

    yield started
    for server in made:
        server.end()


def test_a_tab_at_another_server_that_hears_few_hints(
    visit: Visit, chromium: Browser, house: House, lossy: Callable[[str], Server]
) -> None:
    works, shows = lossy("works"), lossy("shows")
    with (
        visit_through(chromium, house, works.address) as there,
        visit_through(chromium, house, shows.address) as here,
    ):
        asking, tab, direct = there.context(), here.tab(), visit.tab()
        asks = asking.new_page()
        asks.goto(works.address)
        question = tale(visit, "hints")
        asks.get_by_role("textbox", name="Message").fill(question)
        asks.get_by_role("textbox", name="Message").press("Enter")
        asks.wait_for_url("**/c/*/")
        path = urlsplit(asks.url).path
        tab.goto(shows.address + path)
        has_come_to(tab, 1)
        assert_streaming(tab)
        direct.goto(path)
        assert_as_loaded(tab, "hints", direct)
    assert works.log.count("hint lost") > 5
    assert works.log.count("hint doubled") > 5


def test_a_change_that_is_missing_would_be_noticed(visit: Visit) -> None:
    stays, misses = visit.tab(), visit.tab()
    ask_in_new_chat(stays, tale(visit, "missing"))
    misses.goto(stays.url)
    has_come_to(misses, 1)
    misses.evaluate(SWALLOW)
    for tab in (stays, misses):
        is_complete(tab, "missing")
        expect_over(tab)
    assert get_thread(stays) != get_thread(misses)
