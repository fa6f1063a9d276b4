"""Formulas in a browser: their font is our own, and only pages with a formula load it."""

import pytest

from tests.wire.script import Answer

from .browser import Visit, ask_in_new_chat, expect_over

pytestmark = pytest.mark.long
FONT = "stix-two-math"
LOADED = """async () => {
    await document.fonts.ready;
    const loaded = [...document.fonts].filter((font) => font.status === "loaded");
    return loaded.map((font) => font.family);
}"""


@pytest.mark.parametrize(
    ("question", "text", "is_loaded"),
    [
        ("What is a sum?", "A sum: $$a = \\sum_{n=1}^{9} \\frac{1}{n^2} \\in \\mathbb{R}$$", True),
        ("What is no formula?", "It costs $5, *really*.", False),
    ],
)
def test_only_a_page_with_a_formula_loads_the_font(
    visit: Visit, question: str, text: str, is_loaded: bool
) -> None:
    tab = visit.tab()
    fonts: list[str] = []
    tab.on("request", lambda each: fonts.append(each.url) if FONT in each.url else None)
    tab.goto("/")
    assert fonts == []
    ask_in_new_chat(tab, visit.house.model.answers(question, Answer(text=text)))
    expect_over(tab)
    assert len(fonts) == is_loaded
    assert set(tab.evaluate(LOADED)) == {"Geist", *(["Formulas"] if is_loaded else [])}
    if is_loaded:
        assert (
            tab.locator("math")
            .evaluate("(math) => getComputedStyle(math).fontFamily")
            .startswith("Formulas")
        )
