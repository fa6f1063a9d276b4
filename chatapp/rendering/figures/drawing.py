"""A chart as shapes with positions, for the template of the SVG. Positions are text, so that no
language changes their decimal point."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from .charts import Chart, Series
from .scales import Scale, build_scale

WIDE: Final = 680
NARROW: Final = 330
PLOT_HEIGHT: Final = 220
MARGIN: Final = 8
LETTER: Final = 7.0  # the width of a letter of 12 px, on average
LINE: Final = 18
MAX_BAR: Final = 46
MAX_ROW_BARS: Final = 60  # bars that lie, each with its own label
MAX_NAMED: Final = 40  # bars or points that can have their number beside them
MAX_DOTS: Final = 60
# In a downloaded file. A page sets its own colours by class.
COLOURS: Final = (
    *("#3c55b5", "#c05a17", "#157a66", "#9a3f9f"),
    *("#8a6a00", "#b4304f", "#4d6c8c", "#5c7a1e"),
)

Anchor = Literal["start", "middle", "end"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    x: str
    y: str
    text: str
    anchor: Anchor = "middle"
    role: str = "label"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    x1: str
    y1: str
    x2: str
    y2: str
    role: str = "grid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A bar, a point, or with `path` a line. `about` says what it stands for."""

    series: int
    x: str = ""
    y: str = ""
    width: str = ""
    height: str = ""
    path: str = ""
    about: str = ""

    @property
    def colour(self) -> str:
        return COLOURS[(self.series - 1) % len(COLOURS)]


@dataclass(slots=True, kw_only=True)
class Drawing:
    """All shapes of a chart of one width."""

    width: int
    height: int = 0
    rules: list[Rule] = field(default_factory=list)
    bars: list[Mark] = field(default_factory=list)
    lines: list[Mark] = field(default_factory=list)
    dots: list[Mark] = field(default_factory=list)
    keys: list[Mark] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)


def draw_chart(chart: Chart, width: int) -> Drawing:
    drawing = Drawing(width=width)
    top = _draw_legend(drawing, chart)
    numbers = [each for series in chart.series for each in series.numbers if each is not None]
    scale = build_scale(numbers, from_zero=chart.kind == "bar")
    if chart.kind == "bar" and _needs_rows(chart, width):
        _draw_rows(drawing, chart, scale, top)
    else:
        _draw_columns(drawing, chart, scale, top)
    return drawing


def _draw_legend(drawing: Drawing, chart: Chart) -> int:
    """Draw the names of several series, and return the height of what is above the plot."""
    if len(chart.series) < 2:  # noqa: PLR2004
        return LINE + 10
    x, y = 0.0, 12.0
    for number, series in enumerate(chart.series, start=1):
        name = _fit(_name_series(series, chart), drawing.width - 20)
        size = _measure(name) + 34
        if x and x + size - 18 > drawing.width:
            x, y = 0.0, y + LINE
        drawing.keys.append(Mark(series=number, x=_at(x), y=_at(y - 9)))
        drawing.texts.append(Text(x=_at(x + 15), y=_at(y), text=name, anchor="start", role="key"))
        x += size
    return int(y) + LINE + 10


def _needs_rows(chart: Chart, width: int) -> bool:
    """Whether the bars lie: their labels are too long to stand side by side."""
    if len(chart.labels) * len(chart.series) > MAX_ROW_BARS:
        return False
    slot = (width - 50) / len(chart.labels)
    return max(map(_measure, chart.labels)) + 6 > slot


# --- bars that lie -----------------------------------------------------------------------------
def _draw_rows(drawing: Drawing, chart: Chart, scale: Scale, top: int) -> None:
    cells = [cell for series in chart.series for cell in series.cells]
    room = min(max(map(_measure, cells)), 90) + 8
    is_below_zero = scale.low < 0
    left = min(max(map(_measure, chart.labels)), drawing.width * 0.38) + 10
    start = left + (room if is_below_zero else 0)
    span = drawing.width - start - room
    bar = min(18, max(9, 40 / len(chart.series)))
    row_height = bar * len(chart.series) + 10
    y = float(top) - 8
    _name_number_axis(drawing, chart, top)
    zero = start + span * scale.place(0)
    for row, label in enumerate(chart.labels):
        middle = y + row_height / 2
        shown = _fit(label, left - 10)
        drawing.texts.append(Text(x=_at(left - 10), y=_at(middle + 4), text=shown, anchor="end"))
        for number, series in enumerate(chart.series, start=1):
            value = series.numbers[row]
            if value is None:
                continue
            end = start + span * scale.place(value)
            bar_top = y + 5 + (number - 1) * bar
            drawing.bars.append(
                Mark(
                    series=number,
                    x=_at(min(zero, end)),
                    y=_at(bar_top + 1),
                    width=_at(abs(end - zero)),
                    height=_at(bar - 2),
                    about=_describe(chart, series, row),
                )
            )
            drawing.texts.append(
                Text(
                    x=_at(end - 5 if value < 0 else end + 5),
                    y=_at(bar_top + bar / 2 + 4),
                    text=_fit(series.cells[row], room),
                    anchor="end" if value < 0 else "start",
                    role="value",
                )
            )
        y += row_height
    drawing.rules.append(Rule(x1=_at(zero), y1=_at(top - 8), x2=_at(zero), y2=_at(y), role="axis"))
    drawing.height = int(y) + MARGIN


# --- bars that stand, lines, points ------------------------------------------------------------
def _draw_columns(drawing: Drawing, chart: Chart, scale: Scale, top: int) -> None:
    names = [scale.write(tick) for tick in scale.ticks]
    left = max(map(_measure, names)) + 10
    bottom = top + PLOT_HEIGHT
    slot = (drawing.width - left - MARGIN) / len(chart.labels)
    for tick, name in zip(scale.ticks, names, strict=True):
        y = bottom - PLOT_HEIGHT * scale.place(tick)
        role = "axis" if tick == 0 or (tick == scale.low and scale.low > 0) else "grid"
        drawing.rules.append(
            Rule(x1=_at(left), y1=_at(y), x2=_at(drawing.width), y2=_at(y), role=role)
        )
        drawing.texts.append(Text(x=_at(left - 8), y=_at(y + 4), text=name, anchor="end"))
    _name_number_axis(drawing, chart, top)
    _name_label_axis(drawing, chart, bottom)
    _draw_labels(drawing, chart, left, slot, bottom)
    if chart.kind == "bar":
        _draw_bars(drawing, chart, scale, (left, slot, bottom))
    else:
        _draw_points(drawing, chart, scale, (left, slot, bottom))
    drawing.height = bottom + 2 * LINE + 12


def _name_number_axis(drawing: Drawing, chart: Chart, top: int) -> None:
    """Name the only series, or the unit that all series share."""
    only, unit = chart.series[0], chart.unit
    if len(chart.series) == 1:
        name, y = f"{only.name} ({unit})" if unit else only.name, 12
    else:
        name, y = unit, top - 9
    shown = _fit(name, drawing.width)
    drawing.texts.append(Text(x="0", y=_at(y), text=shown, anchor="start", role="axis-name"))


def _name_label_axis(drawing: Drawing, chart: Chart, bottom: int) -> None:
    shown, y = _fit(chart.label_name, drawing.width), bottom + 2 * LINE + 4
    drawing.texts.append(Text(x=_at(drawing.width / 2), y=_at(y), text=shown, role="axis-name"))


def _draw_labels(drawing: Drawing, chart: Chart, left: float, slot: float, bottom: int) -> None:
    """Draw as many labels as there is room for, from the first one at equal distances."""
    widest = min(max(map(_measure, chart.labels)), 96)
    every = max(1, math.ceil((widest + 8) / slot))
    for row in range(0, len(chart.labels), every):
        middle = left + slot * (row + 0.5)
        text = _fit(chart.labels[row], widest + 2)
        half = _measure(text) / 2
        x = min(max(middle, half), drawing.width - half)
        drawing.texts.append(Text(x=_at(x), y=_at(bottom + LINE), text=text))


def _draw_bars(
    drawing: Drawing, chart: Chart, scale: Scale, plot: tuple[float, float, int]
) -> None:
    left, slot, bottom = plot
    width = min(slot * 0.78 / len(chart.series), MAX_BAR)
    zero = bottom - PLOT_HEIGHT * scale.place(0)
    has_names = _has_names(chart, slot / len(chart.series) if len(chart.series) > 1 else slot)
    for number, series in enumerate(chart.series, start=1):
        for row, value in _iterate_numbers(series):
            middle = left + slot * (row + 0.5)
            x = middle + width * (number - 1 - len(chart.series) / 2)
            y = bottom - PLOT_HEIGHT * scale.place(value)
            drawing.bars.append(
                Mark(
                    series=number,
                    x=_at(x + min(0.5, width / 10)),
                    y=_at(min(y, zero)),
                    width=_at(max(width - min(1, width / 5), 0.4)),
                    height=_at(abs(y - zero)),
                    about=_describe(chart, series, row),
                )
            )
            if has_names:
                text_y = y + 15 if value < 0 else y - 6
                drawing.texts.append(
                    Text(x=_at(x + width / 2), y=_at(text_y), text=series.cells[row], role="value")
                )


def _draw_points(
    drawing: Drawing, chart: Chart, scale: Scale, plot: tuple[float, float, int]
) -> None:
    left, slot, bottom = plot
    has_dots = chart.kind == "points" or len(chart.labels) <= MAX_DOTS
    has_names = len(chart.series) == 1 and _has_names(chart, slot)
    for number, series in enumerate(chart.series, start=1):
        path: list[str] = []
        last = None
        for row, value in _iterate_numbers(series):
            x, y = left + slot * (row + 0.5), bottom - PLOT_HEIGHT * scale.place(value)
            is_joined = last is not None and last == row - 1
            path.append(f"{'L' if is_joined else 'M'}{_at(x)} {_at(y)}")
            is_alone = not is_joined and series.numbers[row + 1 : row + 2] in ((), (None,))
            if has_dots or is_alone:
                about = _describe(chart, series, row)
                drawing.dots.append(Mark(series=number, x=_at(x), y=_at(y), about=about))
            if has_names:
                drawing.texts.append(
                    Text(x=_at(x), y=_at(y - 10), text=series.cells[row], role="value")
                )
            last = row
        if chart.kind == "line" and path:
            drawing.lines.append(Mark(series=number, path="".join(path), about=series.name))


def _has_names(chart: Chart, room: float) -> bool:
    """Whether each bar or point has room for its number."""
    cells = [cell for series in chart.series for cell in series.cells]
    return len(cells) <= MAX_NAMED and max(map(_measure, cells)) + 4 <= room


def _iterate_numbers(series: Series) -> Iterator[tuple[int, float]]:
    for row, value in enumerate(series.numbers):
        if value is not None:
            yield row, value


def _describe(chart: Chart, series: Series, row: int) -> str:
    return f"{chart.labels[row]}, {series.name}: {series.cells[row]}"


def _name_series(series: Series, chart: Chart) -> str:
    """Name the unit where series have different ones."""
    return f"{series.name} ({series.unit})" if series.unit and not chart.unit else series.name


def _measure(text: str) -> float:
    """Return the width of the text in pixels, as far as it can be known without its font."""
    return sum(2 * LETTER if ord(letter) >= 0x2E80 else LETTER for letter in text)  # noqa: PLR2004


def _fit(text: str, width: float) -> str:
    if _measure(text) <= width:
        return text
    while text and _measure(text) + LETTER > width:
        text = text[:-1]
    return text.rstrip() + "…"


def _at(position: float) -> str:
    return f"{position:.1f}".removesuffix(".0")
