"""Pages in every language fit the window: no text is cut off or lies over another, and no page
scrolls sideways. Two languages are made by code: one is longer, one runs from right to left."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from tests.pseudo_locales import LONG, RTL
from translations.pseudo_locales import write_pseudo_locales

from .browser import House, Visit

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
SIZES = [{"width": 1280, "height": 800}, {"width": 390, "height": 844}]
LANGUAGES = {"en": "ltr", "de": "ltr", LONG: "ltr", RTL: "rtl"}
PEOPLE: dict[str, list[str]] = {
    "": ["/sign-in/", "/sign-in/late/"],
    "stranger": [
        *("/", "{chat}", "{chat}instructions", "{call}"),
        *("/approvals/", "/consents/", "/usage/", "/log/", "/services/"),
        *(
            "/tools/",
            "/memory/",
            "/archived/",
            "/search/?q=the",
            "/tokens/",
            "/shared-links/",
            "/imports/",
            "/language/",
            "/settings/",
            "/settings/confirm/",
            "/password/",
        ),
    ],
    "admin": [
        *("/admin/", "/admin/chatapp/member/", "/admin/chatapp/policyrule/"),
        *("/admin/chatapp/policyrule/add/", "/admin/chatapp/housepolicy/1/change/"),
        *("/admin/mcpconfig/service/", "/admin/mcpconfig/service/health/"),
        *("/admin/chatapp/logentry/", "/admin/chatapp/modelprovider/add/"),
        "/admin/chatapp/usageofday/",
    ],
}
# A service that fails has the longest row of the page of health.
FAILING = "archive-of-letters-and-drawings"
FILL = f"""
from django.utils import timezone
from mcpconfig.models import Service
from tests.flows.all_states import fill
from chatapp.models import ToolCall
chat = fill("stranger")
call = ToolCall.objects.filter(turn__conversation=chat, state="awaiting_approval").first()
Service.objects.create(
    name="{FAILING}", title="Archive of letters and drawings", url="https://archive.example/mcp",
    last_error=dict(
        kind="connection", message="No connection to the archive. " * 4, hint="Wait.",
        at=timezone.now().isoformat(),
    ),
    next_retry_at=timezone.now() + timezone.timedelta(days=1),
)
print(chat.pk, call.pk)
"""
CLEAN = f"""
from mcpconfig.models import Service
Service.objects.filter(name="{FAILING}").delete()
"""
# Text that a screen alone shows, line by line. What is drawn above the page, such as a menu, may
# lie over text; what is there for screen readers, or scrolls on purpose, may be cut off.
FIND = """() => {
  const found = [], lines = [], SCROLLS = ["auto", "scroll"];
  const sticksOut = (each, edge) => each.right > edge.right + 1 || each.left < edge.left - 1;
  const intersect = (each, edge) => ({
    left: Math.max(each.left, edge.left), right: Math.min(each.right, edge.right),
    top: Math.max(each.top, edge.top), bottom: Math.min(each.bottom, edge.bottom),
  });
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) {
    found.push(`the page scrolls sideways by ${root.scrollWidth - root.clientWidth}`);
  }
  const styles = new Map();
  const style = (box) => styles.get(box)
    ?? styles.set(box, getComputedStyle(box)).get(box);
  const name = (box) => box.localName + (box.id ? `#${box.id}` : "")
    + [...box.classList].map((each) => `.${each}`).join("");
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode, inner = text.parentElement;
    const words = text.data.trim();
    if (!words || inner.closest("script, style, template, svg, select, textarea, [hidden], .vh, "
      + ".visually-hidden")) {
      continue;
    }
    if (!inner.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    const range = document.createRange();
    range.selectNodeContents(text);
    let rects = [...range.getClientRects()].filter((each) => each.width > 1 && each.height > 1);
    let isAbove = false;
    for (let box = inner; box && box !== root && rects.length; box = box.parentElement) {
      const { position, overflowX, textOverflow } = style(box);
      const { clipPath, display, webkitLineClamp } = style(box);
      if (["absolute", "fixed", "sticky"].includes(position)) isAbove = true;
      if (["inline", "contents"].includes(display) || overflowX === "visible") continue;
      const edge = box.getBoundingClientRect();
      const isShort = textOverflow === "ellipsis" || webkitLineClamp !== "none";
      const mayCut = isShort || clipPath !== "none" || SCROLLS.includes(overflowX);
      if (!mayCut && rects.some((each) => sticksOut(each, edge))) {
        found.push(`cut off in ${name(box)}: ${words.slice(0, 60)}`);
      }
      // What is left of each line is what can be seen.
      rects = rects.map((each) => intersect(each, edge))
        .filter((each) => each.right - each.left > 1 && each.bottom - each.top > 1);
    }
    if (!isAbove) {
      for (const each of rects) lines.push({ each, inner, words: words.slice(0, 40) });
    }
  }
  lines.sort((one, other) => one.each.top - other.each.top);
  lines.forEach((one, place) => {
    for (let next = place + 1; next < lines.length; next += 1) {
      const other = lines[next];
      const high = Math.min(one.each.bottom, other.each.bottom) - other.each.top;
      if (other.each.top >= one.each.bottom) break;
      const wide = Math.min(one.each.right, other.each.right)
        - Math.max(one.each.left, other.each.left);
      // Lines of one text may touch.
      if (wide > 2 && high > (one.each.bottom - one.each.top) / 3 && one.inner !== other.inner) {
        found.push(`“${one.words}” in ${name(one.inner)} lies over “${other.words}”`);
      }
    }
  });
  return [...new Set(found)];
}"""


@pytest.fixture(scope="module")
def places(house: House) -> Iterator[dict[str, str]]:
    """The addresses of a chat with a call in every state, and of a call that waits."""
    write_pseudo_locales(house.installation.folder / "pseudo_locales")
    chat, call = house.installation.manage("shell", "-v", "0", "-c", FILL).split()[-2:]
    yield {"chat": f"/c/{chat}/", "call": f"/approvals/{call}/"}
    house.installation.manage("shell", "-v", "0", "-c", CLEAN)


def find_faults(tab: Page) -> dict[str, list[str]]:
    """The faults of the page at each width."""
    found = {}
    for size in SIZES:
        tab.set_viewport_size(size)  # type: ignore[arg-type]  # a dict of the same form
        found[str(size["width"])] = tab.evaluate(FIND)
    return {width: faults for width, faults in found.items() if faults}


@pytest.mark.parametrize("language", LANGUAGES)
def test_pages_fit_the_window(visit: Visit, places: dict[str, str], language: str) -> None:
    visit.witness.excuse("status of 410")
    found = {}
    for name, addresses in PEOPLE.items():
        tab = visit.tab(name, locale=language)
        for address in addresses:
            answer = tab.goto(address.format(**places), wait_until="domcontentloaded")
            assert answer is not None
            assert answer.status in (200, 410), address
            root = tab.locator("html")
            assert root.get_attribute("lang") == language, address
            assert root.get_attribute("dir") == LANGUAGES[language], address
            if language in (LONG, RTL):
                assert "[" in tab.inner_text("body"), address
            if faults := find_faults(tab):
                found[address] = faults
    assert found == {}


def test_text_that_does_not_fit_is_found(visit: Visit, places: dict[str, str]) -> None:
    tab = visit.tab("stranger")
    tab.goto("/memory/")
    assert find_faults(tab) == {}
    tab.evaluate("""() => {
      const lead = document.querySelector(".lead");
      lead.textContent = "W".repeat(400);
      lead.style.overflow = "hidden";
    }""")
    assert "cut off" in str(find_faults(tab))
    tab.evaluate("() => { document.querySelector('.lead').style.overflow = 'visible'; }")
    tab.evaluate("() => { document.querySelector('.lead').textContent = 'Words'; }")
    tab.evaluate("() => { document.querySelector('#add-fact').style.translate = '0 -2em'; }")
    assert "lies over" in str(find_faults(tab))
    tab.evaluate("() => { document.body.style.width = '3000px'; }")
    assert "sideways" in str(find_faults(tab))
