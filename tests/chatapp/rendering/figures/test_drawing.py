"""Charts of any numbers: every shape has a place inside the picture."""

import math
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from chatapp.rendering.figures.charts import (
    MAX_SERIES,
    Chart,
    Kind,
    Series,
    build_chart,
    describe_problem,
    read_columns,
)
from chatapp.rendering.figures.drawing import NARROW, PLOT_HEIGHT, WIDE, Drawing, draw_chart
from chatapp.rendering.figures.scales import build_scale
from chatapp.rendering.figures.values import TableData

numbers = (
    st.floats(-1e100, 1e100) | st.integers(-10, 10).map(float) | st.sampled_from([5e-324, 0.0])
)
# Close to each other, so that the axis does not begin at zero.
close_numbers = st.tuples(
    st.floats(1e-12, 1e20), st.lists(st.floats(1, 1.5) | st.floats(1, 1.000001), max_size=9)
).map(lambda drawn: [drawn[0] * share for share in drawn[1]])
kinds: Any = st.sampled_from(["bar", "line", "points"])
cells = st.text(max_size=8) | st.sampled_from(
    ["", "NaN", "inf", "1e999", "-1e99", "1e-320", "0", "-5", "1,234.5", "1.234,5", "63 %", "$4"]
)


def make_chart(kind: Kind, columns: list[list[float | None]], labels: list[str]) -> Chart:
    series = [
        Series(
            name=f"Series {index}",
            unit="",
            numbers=tuple(column),
            cells=tuple("" if each is None else str(each) for each in column),
        )
        for index, column in enumerate(columns)
    ]
    return Chart(kind=kind, label_name="Label", labels=tuple(labels), series=tuple(series))


@st.composite
def charts(draw: Any) -> Chart:
    count = draw(st.integers(2, 40))
    column = st.lists(st.none() | numbers, min_size=count, max_size=count)
    columns = draw(st.lists(column, min_size=1, max_size=MAX_SERIES))
    labels = draw(st.lists(st.text(max_size=60), min_size=count, max_size=count))
    return make_chart(draw(kinds), columns, labels)


def find_positions(drawing: Drawing) -> list[tuple[float, float]]:
    found = [(rule.x1, rule.y1) for rule in drawing.rules]
    found += [(rule.x2, rule.y2) for rule in drawing.rules]
    found += [(each.x, each.y) for each in (*drawing.bars, *drawing.dots, *drawing.keys)]
    found += [(text.x, text.y) for text in drawing.texts if text.role != "value"]
    for line in drawing.lines:
        found += re.findall(r"[ML](\S+) ([^ML]+)", line.path)
    return [(float(x), float(y)) for x, y in found]


@given(charts(), st.sampled_from([WIDE, NARROW]))
def test_every_shape_is_inside_the_picture(chart: Chart, width: int) -> None:
    drawing = draw_chart(chart, width)
    for x, y in find_positions(drawing):
        assert -1 <= x <= width + 1
        assert -1 <= y <= drawing.height + 1
    for bar in drawing.bars:
        assert 0 <= float(bar.width) <= width
        assert 0 <= float(bar.height) <= drawing.height


@given(st.lists(numbers, max_size=20) | close_numbers, st.booleans())
def test_a_scale_has_few_lines_around_all_numbers(found: list[float], from_zero: bool) -> None:
    scale = build_scale(found, from_zero=from_zero)
    assert 2 <= len(scale.ticks) <= 8
    for number in found:
        assert -1e-6 <= scale.place(number) <= 1 + 1e-6
    assert all(math.isfinite(tick) and scale.write(tick) for tick in scale.ticks)
    assert not from_zero or scale.low <= 0 <= scale.high
    assert len({scale.write(tick) for tick in scale.ticks}) == len(scale.ticks)


@given(st.lists(st.lists(cells, min_size=3, max_size=3).map(tuple), max_size=12), kinds)
def test_any_table_is_drawn_or_gets_a_sentence(rows: list[tuple[str, ...]], kind: Kind) -> None:
    table = TableData(head=("a", "", "b"), rows=tuple(rows))
    columns = read_columns(table)
    if describe_problem(table, columns):
        return
    labels = columns.choose_labels()
    chart = build_chart(table, columns, kind, labels, columns.choose_values(labels))
    assert draw_chart(chart, WIDE).height > 0


def test_a_scale_has_round_numbers() -> None:
    assert build_scale([6, 63], from_zero=True).ticks == (0, 20, 40, 60, 80)
    assert build_scale([-3, 9], from_zero=True).ticks == (-5, 0, 5, 10)
    assert build_scale([], from_zero=True).ticks == (0, 0.25, 0.5, 0.75, 1)
    assert build_scale([98, 99], from_zero=False).low > 90


def test_lines_close_to_each_other_have_different_names() -> None:
    moments = build_scale([1764300000000, 1764300120000], from_zero=False)
    assert moments.write(moments.low) == "1,764,300,000,000"
    large = build_scale([1.2345678e20, 1.2345679e20], from_zero=False)
    assert large.write(large.low) == "1.2345678e+20"
    assert len(set(map(large.write, large.ticks))) == len(large.ticks)


def test_equal_numbers_have_a_scale_with_zero() -> None:
    assert build_scale([7, 7], from_zero=False).low == 0
    assert build_scale([-7, -7], from_zero=False).high == 0


def test_a_bar_is_as_high_as_its_number() -> None:
    drawing = draw_chart(make_chart("bar", [[20.0, 80.0, -80.0]], ["a", "b", "c"]), WIDE)
    first, second, third = drawing.bars
    assert float(second.height) == 4 * float(first.height) == float(third.height)
    assert float(third.y) == float(second.y) + float(second.height)
    # 80 on an axis from -100 to 100.
    assert float(second.height) == PLOT_HEIGHT * 0.4


def test_a_gap_parts_a_line_and_a_number_between_gaps_is_a_dot() -> None:
    numbers_with_gaps: list[float | None] = [1.0, 2.0, None, 3.0, None, 4.0, 5.0]
    chart = make_chart("line", [numbers_with_gaps], list("abcdefg"))
    drawing = draw_chart(chart, WIDE)
    assert drawing.lines[0].path.count("M") == 3
    assert drawing.lines[0].path.count("L") == 2
    many = make_chart("line", [[1.0, None] * 50], ["x"] * 100)
    assert len(draw_chart(many, WIDE).dots) == 50


def test_long_labels_turn_bars_on_their_side() -> None:
    labels = ["A long name of a service", "Another long name", "Short"]
    narrow = draw_chart(make_chart("bar", [[1.0, 2.0, 3.0]], labels), NARROW)
    assert len({bar.x for bar in narrow.bars}) == 1
    wide = draw_chart(make_chart("bar", [[1.0, 2.0, 3.0]], labels), WIDE)
    assert len({bar.x for bar in wide.bars}) == 3


def test_many_labels_are_thinned_out() -> None:
    chart = make_chart("line", [[float(each) for each in range(500)]], ["2026-11-28"] * 500)
    labels = [text for text in draw_chart(chart, NARROW).texts if text.text == "2026-11-28"]
    assert 2 <= len(labels) <= 5
