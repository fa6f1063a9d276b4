"""Formulas: what is one, what is money, and what happens to those that cannot be converted."""

import pytest

from chatapp.rendering.markdown.formulas import MAX_BRACES, MAX_CHARS, render_mathml
from chatapp.rendering.markdown.stream import render_markdown
from tests.chatapp.rendering.inspection import Inspection


@pytest.mark.parametrize("source", ["$x^2$", "\\(x^2\\)", "so $x^2$.", "($x^2$)", "a $$x^2$$ b"])
def test_a_formula_in_a_line(source: str) -> None:
    assert "<msup><mi>x</mi><mn>2</mn></msup></math>" in render_markdown(source)


@pytest.mark.parametrize(
    "source",
    [
        "$$\nx^2\n$$",
        "$$x^2$$",
        "\\[\nx^2\n\\]",
        "\\[ x^2 \\]",
        "words:\n$$\nx^2\n$$\nwords",
        "- item\n  $$\n  x^2\n  $$",
        "> \\[\n> x^2\n> \\]",
    ],
)
def test_a_formula_of_its_own(source: str) -> None:
    html = render_markdown(source)
    assert '<math display="block"><msup><mi>x</mi><mn>2</mn></msup></math>' in html
    assert "$" not in html


@pytest.mark.parametrize(
    "source",
    [
        "it costs $5 and $6",
        "between $5-$10",
        "US$5 or US$",
        "$HOME/$PATH",
        "echo $ x $",
        r"\$x\$",
        "`$x$`",
        "a $ b",
        "$",
        "$$",
        "$5 for `a$`",
    ],
)
def test_money_and_variables_are_no_formulas(source: str) -> None:
    assert "<math" not in render_markdown(source)


def test_a_line_of_a_sum_is_no_list_and_no_heading() -> None:
    html = render_markdown("$$\na\n- b\n+ c\n= d\n$$")
    assert Inspection(html).tags[:2] == ["p", "math"]


def test_a_formula_that_is_never_closed_is_a_paragraph() -> None:
    html = render_markdown("$$\na *b*\n\n- item")
    assert html.startswith("<p>$$\na <em>b</em></p>")
    assert "<li>item</li>" in html


def test_what_cannot_be_converted_is_shown_as_its_source() -> None:
    assert (
        render_mathml(r"\nonsense{<x>}", is_display=False) == r"<code>\nonsense{&lt;x&gt;}</code>"
    )


def test_cells_are_aligned_by_class_not_by_style() -> None:
    html = render_markdown("$$\n\\begin{aligned}a &= b\\end{aligned}\n$$")
    assert '<mtd class="right">' in html and '<mtd class="left">' in html
    assert " style=" not in html


def test_equations_have_no_numbers() -> None:
    assert "(1)" not in render_markdown("$$\n\\begin{align}a &= b\\end{align}\n$$")


@pytest.mark.parametrize(
    "source", ["x" * (MAX_CHARS + 1), "{" * 31 + "x" + "}" * 31, "\\left(" * 31]
)
def test_a_formula_that_is_too_long_or_too_deep_is_shown_as_its_source(source: str) -> None:
    assert render_mathml(source, is_display=True).startswith("<code>")
    assert MAX_BRACES == 30


def test_a_dollar_far_away_closes_no_formula() -> None:
    assert "<math" in render_markdown(f"${'x' * 900}$")
    assert "<math" not in render_markdown(f"${'x' * 1_100}$")


def test_a_macro_cannot_blow_up() -> None:
    bomb = r"\newcommand{\d}[1]{#1#1}" + r"\d{" * 25 + "x" + "}" * 25
    assert len(render_mathml(bomb, is_display=False)) < 1_000
