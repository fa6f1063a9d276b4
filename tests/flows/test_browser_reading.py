"""Reading a long chat in a browser: the page follows new text until a person scrolls up, and a
button leads back."""

from typing import Literal

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.wire.script import Answer, Tool

from .browser import (
    Visit,
    ask,
    ask_in_new_chat,
    both_looks,
    box,
    button,
    card,
    expect_over,
    tick_as_read,
)

pytestmark = pytest.mark.long
LONG = "\n\n".join(f"Paragraph {number} of a long answer." for number in range(60))
# The distance to the end, in CSS pixels.
LEFT = """() => {
  const box = document.querySelector("[data-stream]");
  return Math.round(box.scrollHeight - box.clientHeight - box.scrollTop);
}"""
PLACE = "() => document.querySelector('[data-stream]').scrollTop"
AT_END = f"() => ({LEFT})() <= 1"

MANY_CHATS = """() => {
  const list = document.querySelector("#sidebar-list ul");
  for (let n = 0; n < 30; n++) list.append(list.firstElementChild.cloneNode(true));
}"""
DRAWN = """```diff
-a = 1
-b = 2
+a = 2
 c = 3
```

$$
\\begin{aligned} f(x) &= 1 \\\\ &= 2 \\end{aligned}
$$

- [ ] one
  - [x] two
"""
# The upper edges of the lines of a diff, and the left edges of the signs of a formula and of boxes.
EDGES = """() => {
  const range = document.createRange(), tops = [], code = document.querySelector(".code code");
  const walker = document.createTreeWalker(code, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    range.selectNodeContents(walker.currentNode);
    const lines = [...range.getClientRects()].filter((each) => each.width > 1);
    tops.push(...lines.map((each) => each.top));
  }
  const lefts = (css) => [...document.querySelectorAll(css)].map((each) =>
    Math.round(each.getBoundingClientRect().left));
  const signs = lefts(".prose mtd > mo:first-child");
  return { tops: new Set(tops).size, signs, boxes: lefts(".box") };
}"""

ARABIC = """هذه إجابة.

- واحد
- اثنان

1. أول

- [ ] مهمة

> اقتباس

| اسم | عدد |
|---|---|
| بركة | ثلاثة |

```python
x = 1
```
"""
# Where text from right to left has its markers, lines and cells, as distances from the right edge.
RIGHT_TO_LEFT = """() => {
  const one = (css) => document.querySelector(".prose " + css);
  const right = (each) => each.getBoundingClientRect().right;
  const edge = right(document.querySelector(".prose"));
  const range = document.createRange();
  range.selectNodeContents(one("td"));
  return {
    bullet: edge - right(one("ul > li")),
    number: edge - right(one("ol > li")),
    box: edge - right(one(".box")),
    line: getComputedStyle(one("blockquote")).borderRightWidth,
    cell: Math.round(right(one("td")) - right(range)),
    code: getComputedStyle(one("pre")).direction,
  };
}"""

DIRECTIONS = """() => {
  const read = (at) => getComputedStyle(at).direction;
  const [all, quotation] = [".prose", ".prose blockquote"].map((css) =>
    read(document.querySelector(css)));
  return { lists: [...document.querySelectorAll(".prose ul")].map(read), quotation, all };
}"""

BREATHES = """() => document.getAnimations()
  .filter((each) => each.animationName === "breathe")
  .map((each) => each.effect.pseudoElement ?? each.effect.target.className).sort()"""


def find_link(tab: Page) -> Locator:
    return tab.get_by_role("link", name="Jump to latest")


def scroll_up(tab: Page, pixels: int) -> None:
    tab.get_by_text("Paragraph 50 of").hover()
    tab.mouse.wheel(0, -pixels)
    tab.wait_for_function(f"() => ({LEFT})() >= {pixels - 1}")


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)], ids=["laptop", "phone"])
def test_a_button_leads_back_to_the_latest_text(visit: Visit, size: tuple[int, int]) -> None:
    tab = visit.tab(viewport={"width": size[0], "height": size[1]})
    ask_in_new_chat(tab, visit.house.model.answers(f"Tell me much {size}", Answer(text=LONG)))
    expect_over(tab)
    tab.wait_for_function(AT_END)
    expect(find_link(tab)).not_to_be_visible()
    scroll_up(tab, 300)
    expect(find_link(tab)).to_be_visible()
    find_link(tab).focus()
    tab.keyboard.press("Enter")
    tab.wait_for_function(AT_END)
    expect(find_link(tab)).not_to_be_visible()
    ask(tab, visit.house.model.answers(f"More {size}", Answer(text=LONG)))
    expect_over(tab)
    tab.wait_for_function(AT_END)


@both_looks
def test_lines_of_a_diff_signs_of_a_formula_and_boxes_of_tasks_stand_in_order(
    visit: Visit,
) -> None:
    tab = visit.tab()
    ask_in_new_chat(tab, visit.house.model.answers("Draw it", Answer(text=DRAWN)))
    expect_over(tab)
    edges = tab.evaluate(EDGES)
    assert edges["tops"] == 4
    first, second = edges["signs"]
    assert first == second
    outer, inner = edges["boxes"]
    assert inner > outer + 10


def test_an_arabic_answer_has_its_markers_lines_and_cells_at_the_right(visit: Visit) -> None:
    tab = visit.tab()
    ask_in_new_chat(tab, visit.house.model.answers("In Arabic", Answer(text=ARABIC)))
    expect_over(tab)
    found = tab.evaluate(RIGHT_TO_LEFT)
    # What lies outside of the column is clipped, so a marker needs its space inside.
    assert min(found["bullet"], found["number"]) > 15
    assert 0 <= found["box"] < 5
    assert (found["line"], found["cell"], found["code"]) == ("2px", 14, "ltr")


def test_lists_and_quotations_of_an_english_answer_begin_where_their_text_does(
    visit: Visit,
) -> None:
    tab = visit.tab()
    text = "In Arabic:\n\n- واحد\n\n> اقتباس\n\nIn English:\n\n- one\n"
    ask_in_new_chat(tab, visit.house.model.answers("In both", Answer(text=text)))
    expect_over(tab)
    found = tab.evaluate(DIRECTIONS)
    assert found == {"lists": ["rtl", "ltr"], "quotation": "rtl", "all": "ltr"}


@pytest.mark.parametrize(
    ("motion", "moves"), [("no-preference", ["::after", "dot"]), ("reduce", [])]
)
def test_nothing_breathes_for_those_who_want_less_motion(
    visit: Visit, motion: Literal["no-preference", "reduce"], moves: list[str]
) -> None:
    tab = visit.tab(reduced_motion=motion)
    slow = Answer(text=LONG, delay_ms=40)
    ask_in_new_chat(tab, visit.house.model.answers(f"Slowly with {motion}", slow))
    expect(tab.get_by_text("Paragraph 3 of")).to_be_visible()
    expect(tab.locator(".dot[data-state=running]")).to_be_visible()
    expect(tab.locator(".tail > :last-child")).to_be_visible()
    assert tab.evaluate(BREATHES) == moves
    tab.get_by_role("button", name="Stop").click()
    expect_over(tab)


@both_looks
def test_a_person_who_scrolled_up_is_left_where_they_read(visit: Visit) -> None:
    tab = visit.tab()
    ask_in_new_chat(tab, visit.house.model.answers("Tell me all", Answer(text=LONG)))
    expect_over(tab)
    more = visit.house.model.answers("Go on slowly", Answer(text=LONG, delay_ms=5))
    ask(tab, more)
    expect(tab.get_by_text("Paragraph 1 of").nth(1)).to_be_visible()
    tab.get_by_text("Paragraph 50 of").first.hover()
    place = tab.evaluate(PLACE)
    tab.mouse.wheel(0, -3)
    expect_over(tab)
    assert abs(tab.evaluate(PLACE) - place) < 300
    assert tab.evaluate(LEFT) > 1_000
    expect(find_link(tab)).to_be_visible()


@pytest.mark.parametrize("means", ["wheel", "keys"])
def test_a_person_who_scrolled_up_from_an_open_card_is_left_where_they_read(
    visit: Visit, means: str
) -> None:
    tab, model = visit.tab(), visit.house.model
    ask_in_new_chat(tab, model.answers(f"Tell me all by {means}", Answer(text=LONG)))
    expect_over(tab)
    calls = [
        Tool(name="things_delete_thing", arguments={"name": f"{means} {n}"}, id=f"call_{n}")
        for n in (1, 2)
    ]
    answers = [Answer(tools=(calls[0],)), Answer(tools=(calls[1],)), Answer(text=f"Done. {LONG}")]
    ask(tab, model.answers(f"Delete two by {means}", *answers))
    expect(card(tab, "delete thing")).to_be_in_viewport()
    if means == "wheel":
        tab.get_by_text("Paragraph 59 of").hover()
        tab.mouse.wheel(0, -400)
    else:
        tab.get_by_role("region", name="Conversation").focus()
        tab.keyboard.press("PageUp")
    tab.wait_for_function(f"() => ({LEFT})() > 250")
    other = visit.tab()
    other.goto(tab.url)
    place = tab.evaluate(PLACE)
    for count, _ in enumerate(calls, start=1):
        expect(card(other, "delete thing")).to_be_visible()
        tick_as_read(other)
        button(card(other, "delete thing"), "Allow once").click()
        expect(other.locator(".tool[data-state=succeeded]")).to_have_count(count)
    expect_over(tab)
    assert abs(tab.evaluate(PLACE) - place) < 10
    expect(find_link(tab)).to_be_visible()


@both_looks
def test_escape_stops_the_answer_but_first_closes_what_is_open(visit: Visit) -> None:
    tab = visit.tab()
    ask_in_new_chat(
        tab, visit.house.model.answers("Tell it slowly", Answer(text=LONG, delay_ms=40))
    )
    expect(tab.get_by_text("Paragraph 1 of")).to_be_visible()
    tab.get_by_role("button", name="Chat menu").click()
    tab.keyboard.press("Escape")
    expect(tab.get_by_role("group", name="Chat menu")).not_to_be_visible()
    box(tab).fill("@no")
    expect(tab.locator("#picker > *")).not_to_have_count(0)
    tab.keyboard.press("Escape")
    expect(tab.locator("#picker > *")).to_have_count(0)
    expect(tab.get_by_role("button", name="Stop")).to_be_visible()
    tab.keyboard.press("Escape")
    expect(tab.locator(".status").last).to_contain_text("Stopped")
    expect(box(tab)).to_have_value("@no")


@both_looks
def test_messages_are_copied_as_they_were_written(visit: Visit) -> None:
    tab = visit.tab(permissions=["clipboard-write"])
    said = "Some **bold** words.\n\n- one\n- two\n\n```python\nx = 1\n```"
    ask_in_new_chat(tab, visit.house.model.answers("Write *something*", Answer(text=said)))
    expect_over(tab)
    for name, text in (
        ("Copy answer", said),
        ("Copy message", "Write *something*"),
        ("Copy", "x = 1\n"),
    ):
        pressed = tab.get_by_role("button", name=name, exact=True)
        pressed.click()
        expect(pressed).to_have_attribute("data-copied", "")
        box(tab).fill("")
        # The page may not read the clipboard, but a person may paste.
        box(tab).press("Control+V")
        expect(box(tab)).to_have_value(text)


@pytest.mark.parametrize(
    "size", [(844, 390), (667, 375), (320, 256)], ids=["side", "small", "zoom"]
)
def test_a_low_window_leaves_half_of_its_height_to_the_conversation(
    visit: Visit, size: tuple[int, int]
) -> None:
    """A phone on its side, and 1280×1024 with a zoom of 400 %."""
    width, height = size
    tab = visit.tab(viewport={"width": width, "height": height})
    ask_in_new_chat(tab, visit.house.model.answers(f"Low {height}", Answer(text=LONG)))
    expect_over(tab)
    shown = tab.get_by_role("region", name="Conversation").bounding_box()
    assert shown and shown["height"] >= height / 2
    tab.evaluate(MANY_CHATS)
    assert tab.evaluate("document.documentElement.scrollHeight <= innerHeight")
    tab.locator(".gauge summary").click()
    figures = tab.locator(".gauge .figures").bounding_box()
    assert figures and figures["y"] >= 0 and figures["x"] >= 0
    assert figures["y"] + figures["height"] <= height
    tab.locator(".gauge summary").click()
    box(tab).fill(visit.house.model.answers(f"Again {height}", Answer(text="Noted.")))
    tab.get_by_role("button", name="Send").click()
    expect(tab.get_by_text("Noted.")).to_be_visible()
    plan = tab.get_by_role("button", name="Turn on plan mode")
    plan.scroll_into_view_if_needed()
    expect(plan).to_be_in_viewport()
