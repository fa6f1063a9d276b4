"""Every page keeps the content policy, asks nobody else for anything, and weighs little."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import Browser, Page, Response, Route, expect

from tests.wire.script import Answer, Tool

from .browser import (
    DEMO_MODEL,
    House,
    Visit,
    Witness,
    ask,
    ask_in_new_chat,
    card,
    expect_over,
    region,
)

pytestmark = [pytest.mark.gate, pytest.mark.timeout(300)]
ASSET_BYTES = 45 * 1024
ASSETS = 6  # a font, a sheet, htmx, a script, the module that copies, the icon
POLICY = {
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "form-action 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "object-src 'none'",
}
HEADERS = {
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
SAFE_BLOCKS = {"application/json", "speculationrules"}


def find_inline_code(html: str) -> list[str]:
    """What of a page is style or script and stands in the page itself."""
    soup = BeautifulSoup(html, "html.parser")
    found = [str(tag) for tag in soup.select("style, [style]")]
    for script in soup.select("script:not([src])"):
        if str(script.get("type")) not in SAFE_BLOCKS:
            found.append(str(script))
    for tag in soup.find_all(True):
        names = [name for name in tag.attrs if name.startswith(("on", "hx-on"))]
        runs = str(tag.get("href", "")).strip().lower().startswith("javascript:")
        if names or runs:
            found.append(str(tag)[:200])
    return found


def find_broken_rules(answer: Response) -> list[str]:
    """The security headers that this answer lacks."""
    headers = answer.all_headers()
    given = {rule.strip() for rule in headers.get("content-security-policy", "").split(";")}
    lacking = sorted(POLICY - given)
    return lacking + [name for name, value in HEADERS.items() if headers.get(name) != value]


def assert_sound(answer: Response | None, status: int = 200) -> None:
    assert answer is not None
    assert answer.status == status, answer.url
    assert find_broken_rules(answer) == [], answer.url
    assert find_inline_code(answer.text()) == [], answer.url


@pytest.fixture(scope="module")
def lived_in(chromium: Browser, house: House) -> Iterator[str]:
    """The address of a conversation of the admin's with everything in it, a card at its end."""
    visit = Visit(chromium, house, Witness(urlsplit(house.server.address).netloc))
    tab = visit.tab("admin")
    ask_in_new_chat(tab, "Show me everything you can do", DEMO_MODEL)
    expect_over(tab)
    for text in ("What notes are there?", "Read the locked note", "Think about lighthouses"):
        ask(tab, text)
        expect_over(tab)
    ask(tab, "Delete Ideas and Groceries")
    expect(card(tab, "delete a note", "notebook")).to_have_count(2)
    yield urlsplit(tab.url).path
    visit.close()


def test_the_pages_of_the_chat_keep_the_policy(visit: Visit, lived_in: str) -> None:
    tab = visit.tab("admin")
    for path in ("/", lived_in, "/approvals/", "/password/"):
        assert_sound(tab.goto(path))
    tab.goto("/approvals/")
    asked = tab.locator(".open-calls a", has_text="Delete a note")
    expect(asked.nth(1)).to_be_visible()
    assert_sound(tab.goto(asked.first.get_attribute("href") or ""))
    expect(card(tab, "delete a note", "notebook")).to_be_visible()


@pytest.mark.long
def test_what_streams_into_a_page_keeps_the_policy(visit: Visit) -> None:
    tab = visit.tab()
    ask_in_new_chat(tab, "Show me everything you can do", DEMO_MODEL)
    expect_over(tab)
    for selector in ("table", "figure.code", "math", "blockquote, ul, ol"):
        expect(tab.locator(f".prose {selector}").first).to_be_visible()


@pytest.mark.long
def test_the_door_and_its_refusals_keep_the_policy(visit: Visit) -> None:
    visit.witness.excuse("status of 4")
    tab = visit.tab("")
    for path, status in (("/sign-in/", 200), ("/sign-in/no-such-link/", 410), ("/nowhere/", 404)):
        assert_sound(tab.goto(path), status)
    link = visit.house.installation.manage("sign_in_link", "stranger").strip().splitlines()[-1]
    assert_sound(tab.goto(urlsplit(link).path))
    for status in (422, 422, 429):
        tab.goto("/sign-in/")
        tab.get_by_label("Name").fill("nobody")
        tab.get_by_label("Password").fill("a guess")
        with tab.expect_navigation() as arrived:
            tab.get_by_role("button", name="Sign in").click()
        assert_sound(arrived.value, status)
    expect(tab.get_by_role("heading", name="Too many attempts")).to_be_visible()


def test_the_pages_that_refuse_keep_the_policy_and_say_where_to_go(visit: Visit) -> None:
    visit.witness.excuse("status of 40")
    tab = visit.tab()
    for path, status in (("/admin/", 403), ("/nowhere/", 404)):
        assert_sound(tab.goto(path), status)
        expect(tab.get_by_role("link", name="Go to your chats")).to_be_visible()
    tab.goto("/password/")
    tab.locator("[name=csrfmiddlewaretoken]").evaluate("(field) => { field.value = 'x'; }")
    with tab.expect_navigation() as arrived:
        tab.get_by_role("button", name="Save password").click()
    assert_sound(arrived.value, 403)
    expect(tab.get_by_text("Nothing was changed.")).to_be_visible()


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("lived_in")
def test_every_page_of_the_admin_keeps_the_policy(visit: Visit) -> None:
    """Every kind of page that links of the admin lead to."""
    tab = visit.tab("admin")
    assert_sound(tab.goto("/admin/login/?next=/admin/"))
    waiting, kinds = ["/admin/"], {"/admin/"}
    while waiting:
        path = waiting.pop()
        if "text/html" not in tab.request.get(path).headers["content-type"]:
            continue  # a download
        assert_sound(tab.goto(path))
        for found in sorted(addresses_on(tab, r"^/admin/")):
            kind = re.sub(r"/[0-9a-f-]*\d[0-9a-f-]*(?=/)", "/N", found)
            if kind not in kinds:
                kinds.add(kind)
                waiting.append(found)
    assert len([kind for kind in kinds if kind.endswith("/change/")]) >= 12
    assert len(kinds) >= 90


@pytest.mark.long
def test_no_form_of_the_admin_is_cut_off_on_a_phone(visit: Visit) -> None:
    tab = visit.tab("admin", viewport={"width": 390, "height": 844})
    for model in ("chatapp/member", "mcpconfig/service"):
        tab.goto(f"/admin/{model}/1/change/")
        cut = tab.locator(".form-row > div").evaluate_all(
            """all => all.filter((row) => row.getBoundingClientRect().right
                 > row.closest(".module").getBoundingClientRect().right).length"""
        )
        assert tab.locator(".form-row > div").count() > 5
        assert cut == 0, model


def addresses_on(tab: Page, pattern: str) -> set[str]:
    """The paths of the links on this page that fit."""
    hrefs: list[str] = tab.locator("a[href]").evaluate_all("all => all.map((a) => a.pathname)")
    return {href for href in hrefs if re.search(pattern, href)}


def test_a_planted_offence_is_found_by_these_checks(chromium: Browser, house: House) -> None:
    witness = Witness(urlsplit(house.server.address).netloc)
    visit = Visit(chromium, house, witness)
    tab = visit.tab()
    tab.goto("/")
    tab.evaluate(
        """() => document.body.insertAdjacentHTML("beforeend",
           '<p style="color: red">x</p><img src="https://elsewhere.example/x.png">')"""
    )
    expect(tab.locator("body > img")).to_have_js_property("complete", True)
    tab.goto(house.server.address.replace("127.0.0.1", "localhost") + "/sign-in/")
    visit.close()
    assert any("style-src" in each for each in witness.violations)
    assert any("img-src" in each for each in witness.violations)
    assert any("localhost" in each for each in witness.strangers)
    with pytest.raises(AssertionError):
        witness.assert_clean()
    assert (
        len(find_inline_code("<p style=x></p><style></style><script>1</script><a onclick=x>")) == 4
    )


@pytest.mark.parametrize("which", ["new chat", "conversation"])
def test_what_a_page_of_the_chat_needs_is_light(visit: Visit, lived_in: str, which: str) -> None:
    tab = visit.tab("admin")
    answers: list[Response] = []
    tab.on("response", lambda answer: answers.append(answer))
    tab.goto("/" if which == "new chat" else lived_in)
    tab.wait_for_load_state("networkidle")
    # Formulas outside the window are not drawn, and how far they are depends on the system's font.
    for formula in tab.locator("math").all()[:1]:
        formula.scroll_into_view_if_needed()
        tab.wait_for_function("() => [...document.fonts].some((each) => each.status === 'loaded')")
    files = [each for each in answers if "/static/" in each.url]
    # A page with a formula has the font for it, which then stays in the cache.
    fonts = [each for each in files if "stix" in each.url]
    assert len(fonts) == (which == "conversation")
    assets = [each for each in files if each not in fonts]
    sizes = {each.url: each.request.sizes()["responseBodySize"] for each in assets}
    assert len(assets) <= ASSETS, sizes
    assert 10_000 < sum(sizes.values()) <= ASSET_BYTES, sizes
    kept = {each.headers.get("cache-control", "") for each in assets}
    assert all("immutable" in value for value in kept), kept
    assert region(tab).count() == 1


def test_a_page_beside_the_chat_is_shown_with_its_sheet(visit: Visit) -> None:
    tab = visit.tab()
    held: list[Route] = []
    tab.route("**/css/pages.*.css", lambda route: held.append(route))
    tab.goto("/")
    projects, heading = tab.get_by_role("link", name="Projects"), tab.locator("main h1.title")
    with tab.expect_request("**/css/pages.*.css"):
        projects.click()
    expect(heading).to_have_count(1)
    assert heading.evaluate("(it) => getComputedStyle(it).visibility") == "hidden"
    held.pop().continue_()
    expect(heading).to_be_visible()
    assert heading.evaluate("(it) => it.getAnimations({ subtree: true }).length") == 0
    # The sheet stays for the pages that come next.
    expect(tab.locator("head > link[href*='css/pages']")).to_have_count(1)
    tab.get_by_role("link", name="Assistants").click()
    expect(tab.get_by_role("searchbox", name="Search assistants")).to_be_visible()
    expect(tab.locator("head > link[href*='css/pages']")).to_have_count(1)


def test_a_page_is_shown_without_its_sheet_if_it_does_not_come(visit: Visit) -> None:
    visit.witness.excuse("net::ERR_FAILED")
    tab = visit.tab()
    tab.route("**/css/pages.*.css", lambda route: route.abort())
    tab.goto("/projects/")
    expect(tab.locator("main h1.title")).to_be_visible()


def test_a_card_is_named_after_what_it_asks(visit: Visit) -> None:
    call = Tool(name="things_delete_thing", arguments={"name": "x"}, id="call_named")
    tab = visit.tab()
    ask_in_new_chat(tab, visit.house.model.answers("Delete it", Answer(tools=(call,))))
    expect(card(tab, "delete thing")).to_have_accessible_name("Approve: Delete thing · things")
