"""axe-core looks at every page, light and dark, wide and narrow, and finds nothing to object to.

The rules of the page's content policy stay in force: axe is evaluated by the test, not by the page.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.peers.installing import npm_package

from .all_states import TITLE
from .browser import House, Visit, expect_blocked, forget_framed, region

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
SIZES = {"laptop": {"width": 1280, "height": 800}, "phone": {"width": 390, "height": 844}}
SCHEMES = ["light", "dark"]
# Without the box in which Django's admin searches for a person, and the head of a column that it
# keeps for deleting where nothing is deleted: both are Django's own.
FIND = """async () => {
  const about = { exclude: [".select2-container", ".tabular thead th:last-child"] };
  const found = await axe.run(about, { resultTypes: ["violations"] });
  return found.violations.flatMap((rule) => rule.nodes.map((node) =>
    `${rule.id}: ${node.target.join(" ")}: ${node.failureSummary.split("\\n")[1]?.trim()}`));
}"""
AXE_STYLES = (
    "PVzkX5V53gzEJESP13ov1vsi/WyIhvV5cKj4S0Cntfg=",
    "0XfUZ8CNH08NhVnr3GGEDZ9WQxJ3/k/ZCpsYWb+954M=",
)
OPEN_ALL = """() => document.querySelectorAll("details").forEach((each) => { each.open = true; })"""
PAGES = [
    "/",
    "/approvals/",
    "/consents/",
    "/usage/",
    "/log/",
    "/services/",
    "/tools/",
    "/memory/",
    "/archived/",
    "/search/?q=the",
    "/search/?select=all",
    "/assistants/",
    "/assistants/new/",
    "/projects/",
    "/projects/new/",
    "/prompts/",
    "/prompts/new/",
    "/settings/",
    "/settings/app/",
    "/settings/confirm/",
    "/settings/delete/",
    "/settings/passkeys/add/",
    "/tokens/",
    "/shared-links/",
    "/imports/",
    "/stand-ins/",
    "/services/add/",
    "/services/own/garden/",
    "/services/own/garden/change/",
    "/services/told/things/",
]
ADMIN_PAGES = [
    "/admin/",
    "/admin/checks/",
    "/admin/system/",
    "/admin/system/settings/",
    "/admin/system/keys/",
    "/admin/chatapp/toolcall/",
    "/admin/chatapp/policyrule/who-can/",
    "/admin/chatapp/policyrule/who-can/?service={things}&kind=all",
    "/admin/chatapp/policyrule/as-member/",
    "/admin/chatapp/policyrule/as-member/?person=1",
    "/admin/chatapp/policyrule/",
    "/admin/chatapp/policyrule/add/",
    "/admin/chatapp/policyrule/simulator/",
    "/admin/chatapp/policyrule/questions/",
    "/admin/chatapp/housepolicy/1/change/",
    "/admin/chatapp/embeddingsettings/1/change/",
    "/admin/chatapp/policytest/add/",
    "/admin/chatapp/secondsignature/",
    "/admin/chatapp/secondsignature/add/",
    "/admin/chatapp/standin/add/",
    "/admin/mcpconfig/service/",
    "/admin/mcpconfig/service/connect/",
    "/admin/mcpconfig/service/connect/?template=github",
    "/admin/mcpconfig/service/import/",
    "/admin/mcpconfig/service/health/",
    "/admin/mcpconfig/service/{things}/change/",
    "/admin/mcpconfig/service/{things}/status/",
    "/admin/mcpconfig/service/{things}/tools/",
    "/admin/mcpconfig/service/{things}/tools/review/",
    "/admin/mcpconfig/service/{things}/people/",
    "/admin/mcpconfig/service/{things}/changes/",
    "/admin/mcpconfig/service/{things}/resources/",
    "/admin/mcpconfig/service/{things}/prompts/",
    "/admin/mcpconfig/service/{waits}/tools/",
    "/admin/mcpconfig/service/{waits}/sign-ins/",
    "/admin/chatapp/logentry/",
    "/admin/chatapp/toollimit/add/",
    "/admin/chatapp/accesstoken/",
    "/admin/chatapp/member/1/person/",
    "/admin/chatapp/member/1/off-board/",
    "/admin/chatapp/member/1/change/",
    "/admin/chatapp/invitation/",
    "/admin/chatapp/invitation/add/",
    "/admin/chatapp/webhook/",
    "/admin/chatapp/webhook/add/",
]
# What a person lands on who followed a link that does not count any more.
LATE = {
    "owner": ["/approvals/from-mail/late/", "/oauth/mcp/waits/callback?state=late&code=late"],
    "": ["/sign-in/late/"],
}
# Calls that have something to answer on their own page, and one that is over.
ON_THEIR_OWN = ("awaiting_approval", "awaiting_input", "unknown", "succeeded")


@pytest.fixture(scope="module")
def axe() -> str:
    return (npm_package("axe", "axe-core") / "axe.min.js").read_text()


@pytest.fixture(scope="module")
def filled(house: House) -> str:
    """The address of the chat with a call in every state."""
    script = "from tests.flows.all_states import fill; print(fill().pk)"
    return f"/c/{house.installation.manage('shell', '-v', '0', '-c', script).split()[-1]}/"


@pytest.fixture(scope="module")
def signed(house: House) -> list[str]:
    """The pages of calls that somebody else signed, in each state that such a one can have."""
    script = "from tests.flows.all_states import fill_for_signer as fill; " + (
        "print(*(each.pk for each in fill()))"
    )
    said = house.installation.manage("shell", "-v", "0", "-c", script)
    return [f"/approvals/{each}/" for each in said.splitlines()[-1].split()]


@pytest.fixture(scope="module")
def project(house: House) -> list[str]:
    """The pages of a project with a member and files, one of which could not be read."""
    script = "from tests.flows.all_states import fill_project as fill; print(*fill())"
    said = house.installation.manage("shell", "-v", "0", "-c", script)
    project, file = said.splitlines()[-1].split()
    address = f"/projects/{project}/"
    return [address, f"{address}edit/", f"{address}files/{file}/", f"/?project={project}"]


@pytest.fixture(scope="module")
def own_service(house: House) -> Iterator[None]:
    """Taken back afterwards: other flows share the house."""
    script = "from tests.flows.all_states import fill_service, take_service_back; {}()"
    house.installation.manage("shell", "-v", "0", "-c", script.format("fill_service"))
    yield
    house.installation.manage("shell", "-v", "0", "-c", script.format("take_service_back"))


@pytest.fixture(scope="module")
def things(house: House) -> str:
    """The number of the service."""
    script = "from mcpconfig.models import Service; print(Service.objects.get(name='things').pk)"
    return house.installation.manage("shell", "-v", "0", "-c", script).split()[-1]


@pytest.fixture(scope="module")
def waits(house: House) -> Iterator[str]:
    """The number of a service that people sign in to, with tools that wait for an admin. Taken back
    afterwards."""
    script = "from tests.flows.all_states import fill_waiting, take_service_back; {}"
    fill = script.format("print(fill_waiting().pk)")
    yield house.installation.manage("shell", "-v", "0", "-c", fill).split()[-1]
    take_back = script.format("take_service_back('waits')")
    house.installation.manage("shell", "-v", "0", "-c", take_back)


@pytest.fixture(scope="module")
def admin_models(house: House, filled: str, waits: str) -> list[str]:
    """Of each model in the admin: its list, the form to add one, and the page of one."""
    script = "from tests.flows.all_states import list_admin_pages as pages; print(*pages())"
    said = house.installation.manage("shell", "-v", "0", "-c", script)
    return said.splitlines()[-1].split()


@pytest.fixture(scope="module")
def own_pages(house: House, filled: str) -> list[str]:
    """The own page of a call in each of these states."""
    script = (
        "from chatapp.models import ToolCall; "
        f"calls = ToolCall.objects.filter(turn__conversation_id={filled.split('/')[2]!r}); "
        f"print(*(calls.filter(state=each).first().pk for each in {ON_THEIR_OWN}))"
    )
    said = house.installation.manage("shell", "-v", "0", "-c", script)
    return [f"/approvals/{each}/" for each in said.splitlines()[-1].split()]


@pytest.fixture(scope="module")
def doors(house: House) -> dict[str, str]:
    """The page of each error, and each page that ends a way in, by its template."""
    script = "import json; from tests.flows.all_states import render_doors as render; " + (
        "print(json.dumps(render()))"
    )
    said = house.installation.manage("shell", "-v", "0", "-c", script)
    pages: dict[str, str] = json.loads(said.splitlines()[-1])
    return pages


# What rises into view is half transparent on its way. Some turn for ever.
AT_REST = """() => Promise.allSettled(document.getAnimations()
  .filter((each) => each.effect.getComputedTiming().endTime < Infinity)
  .map((each) => each.finished))"""


def objections(tab: Page, axe: str) -> list[str]:
    """What axe finds on the page as it is, and with all that folds unfolded."""
    tab.evaluate(axe)
    tab.evaluate(AT_REST)
    folded: list[str] = tab.evaluate(FIND)
    tab.evaluate(OPEN_ALL)
    tab.evaluate(AT_REST)
    unfolded: list[str] = tab.evaluate(FIND)
    return sorted({*folded, *unfolded})


def expect_blocked_of_axe_alone(visit: Visit) -> None:
    """axe tries two styles of its own to measure with, which the page's policy blocks. The browser
    tells of each block twice, and once with the hash of the style."""
    others = [
        said
        for said in visit.witness.violations
        if "style-src-elem inline" not in said and not any(each in said for each in AXE_STYLES)
    ]
    assert others == []
    visit.witness.violations.clear()


def test_a_style_that_is_not_of_axe_is_found(visit: Visit, axe: str) -> None:
    tab = visit.tab()
    tab.goto("/usage/")
    objections(tab, axe)
    expect_blocked_of_axe_alone(visit)
    tab.evaluate("document.head.innerHTML += '<style>p { color: red }</style>'")
    expect_blocked(visit, tab, "unsafe-inline")
    with pytest.raises(AssertionError):
        expect_blocked_of_axe_alone(visit)
    forget_framed(visit)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", SIZES)
def test_every_state_of_a_card_is_fit_for_everybody(
    visit: Visit, axe: str, filled: str, size: str, scheme: Any
) -> None:
    tab = visit.tab(viewport=SIZES[size], color_scheme=scheme)
    tab.goto(filled)
    expect(region(tab)).to_contain_text(TITLE)
    assert objections(tab, axe) == []


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", SIZES)
def test_a_chart_is(visit: Visit, axe: str, filled: str, size: str, scheme: Any) -> None:
    tab = visit.tab(viewport=SIZES[size], color_scheme=scheme)
    tab.goto(filled)
    link = tab.locator(".prose").get_by_role("link", name="Chart")
    page = link.get_attribute("href")
    link.click()
    expect(tab.get_by_role("img", name="Bar chart")).to_be_visible()
    assert objections(tab, axe) == []
    tab.goto(str(page))
    expect(tab.get_by_role("img", name="Bar chart")).to_be_visible()
    assert objections(tab, axe) == []


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", SIZES)
def test_a_chat_to_export_and_to_print_is(
    visit: Visit, axe: str, filled: str, size: str, scheme: Any
) -> None:
    tab = visit.tab(viewport=SIZES[size], color_scheme=scheme)
    for address in (f"{filled}export", f"{filled}print"):
        tab.goto(address)
        expect(tab.get_by_role("main")).to_be_visible()
        assert objections(tab, axe) == [], address


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", SIZES)
def test_every_state_of_a_second_signature_is(
    visit: Visit, axe: str, signed: list[str], size: str, scheme: Any
) -> None:
    tab = visit.tab(viewport=SIZES[size], color_scheme=scheme)
    found = {}
    for address in signed:
        tab.goto(address)
        name = "Second approval of a request by stranger"
        expect(tab.get_by_role("heading", name=name)).to_be_visible()
        found[address] = objections(tab, axe)
    assert {address: words for address, words in found.items() if words} == {}


@pytest.mark.parametrize("size", SIZES)
def test_words_for_screen_readers_do_not_make_the_page_longer_than_the_window(
    visit: Visit, filled: str, size: str
) -> None:
    tab = visit.tab(viewport=SIZES[size])
    for address in (filled, "/log/"):
        tab.goto(address)
        expect(tab.locator(".scroller")).to_be_visible()
        assert tab.evaluate("document.scrollingElement.scrollHeight - innerHeight") == 0, address


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.usefixtures("signed", "own_service")
def test_the_pages_of_members_are(
    visit: Visit,
    axe: str,
    filled: str,
    own_pages: list[str],
    project: list[str],
    size: str,
    scheme: Any,
) -> None:
    tab = visit.tab(viewport=SIZES[size], color_scheme=scheme)
    found = {}
    own = (f"{filled}instructions", f"{filled}project/", *own_pages, *project)
    for address in (*PAGES, *own):
        answer = tab.goto(address)
        assert answer is not None and answer.ok, address
        found[address] = objections(tab, axe)
    assert {address: words for address, words in found.items() if words} == {}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", SIZES)
def test_the_tools_menu_is(visit: Visit, axe: str, filled: str, size: str, scheme: Any) -> None:
    tab = visit.tab(viewport=SIZES[size], color_scheme=scheme)
    tab.goto(filled)
    tab.locator("#tools-open").click()
    expect(tab.locator("#tools-open-things")).to_be_visible()
    tab.locator("#tools-open-own").click()
    expect(tab.get_by_role("list", name="Built-in tools")).to_be_visible()
    assert objections(tab, axe) == []
    tab.locator("#tools-open-things").click()
    expect(tab.get_by_role("list", name="Tools of")).to_be_visible()
    assert objections(tab, axe) == []


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", SIZES)
def test_the_button_that_quotes_is(
    visit: Visit, axe: str, filled: str, size: str, scheme: Any
) -> None:
    tab = visit.tab(viewport=SIZES[size], color_scheme=scheme)
    tab.goto(filled)
    tab.locator(".bubble").first.evaluate("(it) => getSelection().selectAllChildren(it)")
    expect(tab.get_by_role("button", name="Quote", exact=True)).to_be_visible()
    assert objections(tab, axe) == []


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", SIZES)
def test_the_command_palette_is(
    visit: Visit, axe: str, filled: str, size: str, scheme: Any
) -> None:
    tab = visit.tab(viewport=SIZES[size], color_scheme=scheme)
    tab.goto(filled)
    tab.keyboard.press("Control+k")
    expect(tab.get_by_role("dialog").get_by_role("button", name="Pin this chat")).to_be_visible()
    assert objections(tab, axe) == []


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", SIZES)
def test_the_pages_of_admins_are(
    visit: Visit, axe: str, things: str, waits: str, size: str, scheme: Any
) -> None:
    tab = visit.tab("admin", viewport=SIZES[size], color_scheme=scheme)
    found = {}
    for address in ADMIN_PAGES:
        answer = tab.goto(address.format(things=things, waits=waits))
        assert answer is not None and answer.ok, address
        found[address] = objections(tab, axe)
    expect_blocked_of_axe_alone(visit)
    assert {address: words for address, words in found.items() if words} == {}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", SIZES)
def test_the_admin_pages_of_every_model_are(
    visit: Visit, axe: str, admin_models: list[str], size: str, scheme: Any
) -> None:
    tab = visit.tab("admin", viewport=SIZES[size], color_scheme=scheme)
    found = {}
    for address in admin_models:
        answer = tab.goto(address)
        assert answer is not None and answer.ok, address
        found[address] = objections(tab, axe)
    expect_blocked_of_axe_alone(visit)
    assert len(found) > 50
    assert {address: words for address, words in found.items() if words} == {}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", LATE)
@pytest.mark.usefixtures("waits")
def test_the_page_behind_a_link_that_is_too_late_is(
    visit: Visit, axe: str, name: str, scheme: Any
) -> None:
    tab = visit.tab(name, viewport=SIZES["phone"], color_scheme=scheme)
    visit.witness.excuse("status of 4")
    found = {}
    for address in LATE[name]:
        answer = tab.goto(address)
        assert answer is not None and answer.status in (404, 409, 410), address
        found[address] = objections(tab, axe)
    assert {address: words for address, words in found.items() if words} == {}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", SIZES)
def test_the_page_of_an_error_and_of_a_way_in_that_ended_is(
    visit: Visit, axe: str, doors: dict[str, str], size: str, scheme: Any
) -> None:
    tab = visit.tab("", viewport=SIZES[size], color_scheme=scheme)
    tab.route(
        "**/broken/**",
        lambda route: route.fulfill(
            body=doors[route.request.url.rpartition("/broken/")[2]], content_type="text/html"
        ),
    )
    found = {}
    for name in doors:
        tab.goto(f"/broken/{name}")
        expect(tab.get_by_role("heading", level=1)).to_be_visible()
        found[name] = objections(tab, axe)
    assert {name: words for name, words in found.items() if words} == {}
    assert {"500.html", "sign_in/provider_problem.html", "shared/busy.html"} <= found.keys()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_door_is(visit: Visit, axe: str, scheme: Any) -> None:
    tab = visit.tab("", color_scheme=scheme)
    visit.witness.excuse("status of 403")
    for address in ("/sign-in/", "/sign-in/deactivated/"):
        tab.goto(address)
        assert objections(tab, axe) == [], address


def test_a_label_that_is_missing_is_found(visit: Visit, axe: str, filled: str) -> None:
    tab = visit.tab()
    tab.goto(filled)
    tab.evaluate("() => document.querySelectorAll('.approval label').forEach((l) => l.remove())")
    assert any("label" in found for found in objections(tab, axe))
