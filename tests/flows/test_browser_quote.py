"""A person selects text of a message, and quotes it in the next one."""

from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.wire.script import Answer

from .browser import Visit, ask, ask_in_new_chat, box, button, expect_over, region

pytestmark = pytest.mark.long
PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 844},
    "has_touch": True,
    "is_mobile": True,
}
HANDLE = 24  # what hangs below a selection that was made with a finger, in CSS pixels
LIFT = "The lift is broken since Monday."
SAID = """The lift is **broken** since Monday.

The stairs are open, and they lead to all floors of the house but the cellar.

```python
for floor in floors:
    climb(floor)
```
"""
# Selects from the first words to the end of the last ones, wherever they are in the chat.
SELECT = """(thread, [first, last]) => {
  const walker = document.createTreeWalker(thread, NodeFilter.SHOW_TEXT), found = [];
  while (walker.nextNode()) {
    const { data } = walker.currentNode;
    if (!found.length && data.includes(first)) found.push(walker.currentNode, data.indexOf(first));
    if (found.length === 2 && data.includes(last))
      found.push(walker.currentNode, data.indexOf(last) + last.length);
  }
  getSelection().setBaseAndExtent(...found);
}"""
SELECTION = """() => {
  const { left, right, bottom } = getSelection().getRangeAt(0).getBoundingClientRect();
  return { left, right, bottom };
}"""
CARET_IN_SIGHT = """() => {
  const box = document.getElementById("message");
  return box.scrollHeight - box.clientHeight - box.scrollTop < 30;
}"""
HAS_SELECTION = "() => !getSelection().isCollapsed"


def begin(visit: Visit, question: str, said: str = SAID, **options: Any) -> Page:
    tab = visit.tab(**options)
    ask_in_new_chat(tab, visit.house.model.answers(question, Answer(text=said)))
    expect_over(tab)
    return tab


def select(tab: Page, first: str, last: str = "") -> None:
    tab.locator("#thread").evaluate(SELECT, [first, last or first])


def offer(tab: Page) -> Locator:
    return button(tab, "Quote")


def test_a_selected_paragraph_follows_what_was_typed_and_is_kept_with_it(visit: Visit) -> None:
    tab = begin(visit, "Does the lift work")
    box(tab).fill("I saw that:")
    tab.get_by_text("since Monday").click(click_count=3)
    expect(offer(tab)).to_be_visible()
    expect(box(tab)).not_to_be_focused()
    expect(offer(tab)).not_to_be_focused()
    with tab.expect_response("**/draft/"):
        offer(tab).click()
    expect(box(tab)).to_have_value(f"I saw that:\n\n> {LIFT}\n\n")
    expect(box(tab)).to_be_focused()
    expect(offer(tab)).to_be_hidden()
    with tab.expect_response("**/draft/"):
        tab.keyboard.type("Until when?")
    tab.reload()
    expect(box(tab)).to_have_value(f"I saw that:\n\n> {LIFT}\n\nUntil when?")


def test_a_quote_is_put_where_the_caret_is_and_replaces_nothing(visit: Visit) -> None:
    tab = begin(visit, "Are the stairs open")
    box(tab).fill("before after")
    box(tab).evaluate("(it) => it.setSelectionRange(0, 7)")
    region(tab).focus()
    select(tab, "The stairs are open")
    offer(tab).click()
    expect(box(tab)).to_be_focused()
    tab.keyboard.type("between ")
    expect(box(tab)).to_have_value("before \n\n> The stairs are open\n\nbetween after")
    tab.keyboard.press("Control+Z")
    tab.keyboard.press("Control+Z")
    expect(box(tab)).to_have_value("before after")


def test_a_quote_is_made_with_the_keyboard_alone(visit: Visit) -> None:
    tab = begin(visit, "Is there a keyboard")
    region(tab).focus()
    tab.keyboard.press("Control+A")
    expect(offer(tab)).to_be_visible()
    tab.keyboard.press("Control+Shift+Period")
    expect(box(tab)).to_have_value("> Is there a keyboard\n\n")
    expect(box(tab)).to_be_focused()
    # As a caret in the text leaves it, which some browsers and screen readers have.
    region(tab).focus()
    select(tab, "stairs")
    tab.keyboard.press("Shift+End")
    tab.keyboard.press("Control+Shift+Period")
    expect(box(tab)).to_have_value(
        "> Is there a keyboard\n\n"
        "> stairs are open, and they lead to all floors of the house but the cellar.\n\n"
    )
    tab.keyboard.press("Control+Shift+Period")
    expect(box(tab)).to_be_focused()


def test_the_button_comes_when_the_mouse_is_let_go_and_leaves_with_the_selection(
    visit: Visit,
) -> None:
    tab = begin(visit, "Is there a mouse")
    place = tab.get_by_text("since Monday").bounding_box()
    assert place is not None
    y = place["y"] + place["height"] / 2
    with tab.expect_response("**/js/quote*.js"):
        tab.mouse.move(place["x"] + 2, y)
        tab.mouse.down()
        tab.mouse.move(place["x"] + 120, y, steps=4)
    tab.wait_for_function(HAS_SELECTION)
    expect(offer(tab)).to_be_hidden()
    tab.mouse.up()
    expect(offer(tab)).to_be_visible()
    tab.mouse.click(place["x"] + 60, y)
    expect(offer(tab)).to_be_hidden()


def test_a_selection_over_messages_quotes_the_first_one(visit: Visit) -> None:
    tab = begin(visit, "First question")
    ask(tab, visit.house.model.answers("Second question", Answer(text="Second answer")))
    expect_over(tab)
    select(tab, "all floors", "Second answer")
    offer(tab).click()
    expect(box(tab)).to_have_value(
        "> all floors of the house but the cellar.\n>\n"
        "> for floor in floors:\n>     climb(floor)\n\n"
    )


def test_every_line_of_code_and_a_formula_is_quoted_as_plain_text(visit: Visit) -> None:
    tab = begin(visit, "How do I climb", f"{SAID}\nThere are $n + 1$ floors.")
    tab.locator(".prose").evaluate("(it) => getSelection().selectAllChildren(it)")
    offer(tab).click()
    expect(box(tab)).to_have_value(
        f"> {LIFT}\n"
        ">\n> The stairs are open, and they lead to all floors of the house but the cellar.\n"
        ">\n> for floor in floors:\n>     climb(floor)\n"
        "> There are 𝑛+1 floors.\n\n"
    )


def test_only_messages_are_quoted(visit: Visit) -> None:
    tab = begin(visit, "What else is on the page")
    select(tab, "What else")
    expect(offer(tab)).to_be_visible()
    for place in (".fineprint", ".status .num"):
        tab.locator(place).evaluate("(it) => getSelection().selectAllChildren(it)")
        expect(offer(tab)).to_be_hidden()
    select(tab, "What else")
    expect(offer(tab)).to_be_visible()
    tab.get_by_role("link", name="Edit message").click()
    editor = tab.locator(".edit textarea")
    expect(offer(tab)).to_be_hidden()
    editor.select_text()
    expect(offer(tab)).to_be_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_the_button_is_below_the_selection_and_in_the_window(
    visit: Visit, scheme: Any
) -> None:
    tab = begin(visit, f"Is there a phone, {scheme}", color_scheme=scheme, **PHONE)
    select(tab, "since", "cellar.")
    expect(offer(tab)).to_be_visible()
    place, selection = offer(tab).bounding_box(), tab.evaluate(SELECTION)
    assert place is not None
    assert place["height"] >= 44
    assert place["y"] >= selection["bottom"] + HANDLE
    assert place["x"] >= 0 and place["x"] + place["width"] <= 390
    offer(tab).tap()
    expect(box(tab)).to_be_focused()
    expect(box(tab)).to_have_value(
        "> since Monday.\n>\n"
        "> The stairs are open, and they lead to all floors of the house but the cellar.\n\n"
    )


def test_text_from_right_to_left_is_quoted(visit: Visit) -> None:
    said = "المصعد معطل منذ يوم الاثنين."
    tab = begin(visit, "Does it work in Arabic", said, viewport={"width": 390, "height": 844})
    tab.get_by_text(said).click(click_count=3)
    place, selection = offer(tab).bounding_box(), tab.evaluate(SELECTION)
    assert place is not None
    assert selection["left"] <= place["x"] + place["width"] / 2 <= selection["right"]
    offer(tab).click()
    expect(box(tab)).to_have_value(f"> {said}\n\n")


def test_a_selection_that_ends_below_the_window_has_its_button_in_the_window(visit: Visit) -> None:
    long = "\n\n".join(f"Paragraph {number} of a long answer." for number in range(60))
    tab = begin(visit, "Tell it at length", long)
    tab.locator(".prose").evaluate("(it) => it.scrollIntoView()")
    tab.locator(".prose").evaluate("(it) => getSelection().selectAllChildren(it)")
    expect(offer(tab)).to_be_in_viewport(ratio=1)
    offer(tab).click()
    quoted = "\n".join(f"> {line}".strip() for line in long.split("\n"))
    expect(box(tab)).to_have_value(f"{quoted}\n\n")
    # The caret is in sight, below the quote.
    tab.wait_for_function(CARET_IN_SIGHT)
