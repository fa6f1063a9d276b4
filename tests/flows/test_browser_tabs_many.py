"""Ten tabs on one conversation: whatever each of them missed, all end as a reload does."""

import pytest
from playwright.sync_api import Page, expect

from tests.wire.script import Answer, Tool

from .browser import Visit, ask_in_new_chat, button, card, expect_over, region, tick_as_read

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
TABS = 10
PARAGRAPHS = 40
BYTES = """() => {
  const thread = document.getElementById("thread").cloneNode(true);
  // Forms that a frame brought have no token: htmx sends it as a header.
  for (const token of thread.querySelectorAll("[name=csrfmiddlewaretoken]")) token.remove();
  thread.normalize();
  const texts = document.createTreeWalker(thread, NodeFilter.SHOW_TEXT), idle = [];
  while (texts.nextNode()) {
    const { data, parentElement } = texts.currentNode;
    if (!data.trim() && !parentElement.closest("pre")) idle.push(texts.currentNode);
  }
  for (const text of idle) text.remove();
  return thread.innerHTML;
}"""
OFFLINE_SECONDS = 2


def tale() -> str:
    """Prose, lists, tables and code: everything that is streamed in a way of its own."""
    parts = []
    for number in range(1, PARAGRAPHS + 1):
        parts.append(f"Paragraph {number} of *it*, with `code {number}` and $x^{{{number}}}$.")
        if number % 8 == 0:
            parts.append(f"- one of {number}\n- two\n  1. deep\n- three")
        if number % 10 == 0:
            parts.append(f"| a | b |\n|---|--:|\n| {number} | 1 |")
        if number % 13 == 0:
            lines = "\n".join(f"value_{n} = {n}  # as before" for n in range(12))
            parts.append(f"```python\n{lines}\n```")
    return "\n\n".join([*parts, "That is all."])


def question(visit: Visit) -> str:
    """Two calls that wait for a person, a third that fails, and a long answer."""
    calls = tuple(
        Tool(name="things_delete_thing", arguments={"name": f"many-{n}"}, id=f"call_many_{n}")
        for n in range(2)
    )
    nowhere = Tool(name="things_that_are_not_there", arguments={}, id="call_many_nowhere")
    return visit.house.model.answers(
        "Delete many",
        Answer(text="First I **look**.", tools=(*calls, nowhere)),
        Answer(text=tale(), chunk=9, delay_ms=6),
    )


def bytes_of(tab: Page) -> str:
    found: str = tab.evaluate(BYTES)
    return found


def test_ten_tabs_end_with_the_bytes_of_a_reload(visit: Visit) -> None:
    contexts = [visit.context() for _ in range(3)]
    tabs = [contexts[n % 3].new_page() for n in range(TABS)]
    first, early, late = tabs[0], tabs[1:5], tabs[5:]
    ask_in_new_chat(first, question(visit))
    for tab in early:
        tab.goto(first.url)
        expect(card(tab, "delete thing")).to_have_count(2)
    tick_as_read(first)
    button(card(first, "delete thing").first, "Deny").click()
    expect(card(early[0], "delete thing")).to_have_count(1)
    tick_as_read(early[0])
    button(card(early[0], "delete thing"), "Allow once").click()
    for number, tab in enumerate(late):
        tab.goto(first.url)
        expect(region(tab)).to_contain_text(f"Paragraph {3 + 2 * number} of")
    for tab in (early[1], late[1]):
        tab.reload()
    # A list that refreshes itself just then cannot: the page stays as it was and tries again.
    visit.witness.excuse("ERR_INTERNET_DISCONNECTED", "^htmx: htmx:error")
    contexts[2].set_offline(True)
    first.wait_for_timeout(OFFLINE_SECONDS * 1_000)
    contexts[2].set_offline(False)
    for tab in tabs:
        expect(region(tab)).to_contain_text("That is all.")
        expect_over(tab)
    shown = {bytes_of(tab) for tab in tabs}
    first.reload()
    expect_over(first)
    assert shown == {bytes_of(first)}
