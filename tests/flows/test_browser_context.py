"""The ring in the message box: it fills as the chat does, and its figures open above it."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.wire.script import Answer

from .browser import Visit, ask, ask_in_new_chat, expect_over

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


@pytest.mark.parametrize("device", [{}, PHONE], ids=["desk", "phone"])
def test_the_ring_says_how_full_the_context_is_and_follows_the_chat(
    visit: Visit, device: dict[str, Any]
) -> None:
    tab = visit.tab(**device)
    tab.goto("/")
    ring = tab.locator("#gauge")
    expect(ring).to_be_hidden()
    ask_in_new_chat(tab, visit.house.model.answers("Good day", Answer(text="Good day to you.")))
    expect_over(tab)
    opener = ring.locator("summary")
    opener.focus()
    tab.keyboard.press("Enter")
    figures = ring.locator(".figures")
    expect(figures).to_contain_text(re.compile(r"[\d,]+ tokens in total"))
    before = figures.inner_text()
    # Nothing of the figures is outside of the screen.
    placed = figures.bounding_box()
    width, height = tab.evaluate("[innerWidth, innerHeight]")
    assert placed and placed["x"] >= 0 and placed["x"] + placed["width"] <= width
    assert placed["y"] >= 0 and placed["y"] + placed["height"] <= height
    # It stays open, with new figures, while the chat goes on.
    ask(tab, visit.house.model.answers("And good night", Answer(text="Sleep well.")))
    expect_over(tab)
    expect(ring).to_have_attribute("open", "")
    expect(figures).not_to_have_text(before)
