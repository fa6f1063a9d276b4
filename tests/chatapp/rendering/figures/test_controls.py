"""The headers of code blocks and tables: their controls, while the answer grows and afterwards."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatapp.rendering.figures.cell_numbers import read_column
from chatapp.rendering.figures.controls import SHOWN_LINES, add_controls
from chatapp.rendering.figures.figure_reader import read_figure
from chatapp.rendering.figures.values import CodeBlock, TableData
from chatapp.rendering.markdown.stream import MarkdownStream, count_figures, render_markdown
from tests.chatapp.rendering.documents import SNIPPETS
from tests.dom_tree import Element, parse

PLACE = (uuid.uuid4(), 1, 2)
TABLE = "| a | b |\n|---|---|\n| **x** | `1` |\n"
CODE = "```python\nprint(1 < 2)\n```\n"


def draw(text: str) -> Element:
    return parse(add_controls(render_markdown(text), PLACE))


def test_each_figure_has_the_address_with_its_number() -> None:
    page = draw(f"{TABLE}\n- in a list\n\n  {CODE.replace(chr(10), chr(10) + '  ')}\n\n{TABLE}")
    addresses = [link["href"] for link in page.all("a") if "download" in link]
    base = f"/messages/{PLACE[0]}/figures/1/2"
    assert addresses == [f"{base}/0/", f"{base}/1/", f"{base}/2/"]


def test_text_without_a_figure_is_left_as_it_is() -> None:
    html = render_markdown('Some `<figure class="code"><header>` *text*.')
    assert add_controls(html, PLACE) == html


def test_what_looks_like_a_figure_in_code_gets_no_controls() -> None:
    page = draw('```html\n<figure class="code"><header>x</header></figure>\n```\n')
    assert len(page.with_class("controls")) == 1


def test_long_code_is_folded_and_says_how_long_it_is() -> None:
    short, long = ("```\n" + "x\n" * lines + "```" for lines in (40, 41))
    assert SHOWN_LINES == 40
    assert draw(short).with_class("rest") == []
    (label,) = draw(long).with_class("unfold")
    assert label.text == "Show all 41 lines"


def test_a_long_table_is_not_folded() -> None:
    assert draw(TABLE + "| x | 1 |\n" * 100).with_class("rest") == []


@given(st.lists(st.sampled_from([*SNIPPETS, TABLE, f"\n{TABLE}\n", f"\n{CODE}\n"]), max_size=12))
def test_a_stream_numbers_figures_as_the_whole_answer_does(pieces: list[str]) -> None:
    stream, shown = MarkdownStream(), ""
    for piece in pieces:
        stream.feed(piece)
        first = stream.closed_figures
        shown += add_controls(stream.frame().closed, PLACE, first)
    first = stream.closed_figures
    update = stream.finish()
    shown += add_controls(update.closed, PLACE, first)
    if update.whole is not None:
        shown = add_controls(update.whole, PLACE)
    assert shown == add_controls(render_markdown("".join(pieces)), PLACE)


# --- reading a figure back ---------------------------------------------------------------------
def test_cells_are_read_as_the_text_that_the_page_shows() -> None:
    text = "| *a* | b |\n|---|---|\n| [link](https://e.example) & `<b>` | a \\| b |\n"
    assert read_figure(render_markdown(text), 0) == TableData(
        head=("a", "b"), rows=(("link & <b>", "a | b"),)
    )


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("12[^1]", "12[1]"),
        ("$10^6$", "10^6"),
        ("$10^{-6}$", "10^(−6)"),  # noqa: RUF001
        ("$x_1^2$", "x_1^2"),
        (r"$\frac{1}{2}$", "1/2"),
        (r"$3\frac{1+2}{4}$", "3 (1+2)/4"),
        (r"$\sqrt{1}234$", "√1 234"),
        (r"$\sqrt[3]{8}$", "3√8"),
        (r"$\overline{1}234$", "1^̲ 234"),
        (r"$\begin{matrix}1 & 234\end{matrix}$", "1 & 234"),
        (r"$\begin{matrix}1\\234\end{matrix}$", "1 ; 234"),
    ],
)
def test_raised_and_stacked_text_is_not_read_as_one_number(cell: str, text: str) -> None:
    table = read_figure(render_markdown(f"| a |\n|---|\n| {cell} |\n\n[^1]: Why.\n"), 0)
    assert isinstance(table, TableData)
    assert table.rows == ((text,),)
    assert read_column(table.rows[0]) is None


@pytest.mark.parametrize(
    ("cell", "number"),
    [("$12$", 12), ("$1,234$", 1234), (r"$12\%$", 12), (r"$\$12$", 12), ("$-3$", -3)]
    + [(r"$12\,\text{ms}$", 12), (r"$\phantom{1}234$", 234)],
)
def test_a_number_in_a_formula_is_a_number(cell: str, number: float) -> None:
    table = read_figure(render_markdown(f"| a |\n|---|\n| {cell} |\n"), 0)
    assert isinstance(table, TableData)
    column = read_column(table.rows[0])
    assert column is not None
    assert column.numbers == (number,)


def test_code_is_read_as_it_was_written() -> None:
    code = read_figure(render_markdown(f"{TABLE}\n{CODE}"), 1)
    assert code == CodeBlock(language="python", text="print(1 < 2)\n")


def test_there_is_no_figure_with_a_number_that_is_too_high() -> None:
    assert read_figure(render_markdown(TABLE), 1) is None
    assert read_figure(render_markdown(TABLE), 10**30) is None


@given(st.lists(st.sampled_from([*SNIPPETS, TABLE, f"\n{CODE}\n"]), max_size=12).map("".join))
def test_every_figure_can_be_read(text: str) -> None:
    html = render_markdown(text)
    found = [read_figure(html, number) for number in range(count_figures(html) + 1)]
    assert None not in found[:-1]
    assert found[-1] is None
