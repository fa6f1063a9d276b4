"""Small charts of the overview as shapes with positions, for the template of the SVG. Positions are
text, so that no language changes their decimal point."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from chatapp.rendering.figures.scales import Scale, build_scale

WIDTH: Final = 432
HEIGHT: Final = 134
LEFT: Final = 40
RIGHT: Final = 430
TOP: Final = 10
BOTTOM: Final = 112
LABELS: Final = 5
ROW_HEIGHT: Final = 22
NAME_WIDTH: Final = 92
NAME_CHARACTERS: Final = 14
NUMBER_WIDTH: Final = 42


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    role: str
    x: str
    y: str
    width: str
    height: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    x: str
    y: str
    text: str
    anchor: str = "middle"
    role: str = ""


@dataclass(slots=True, kw_only=True)
class Plot:
    """The shapes of one chart. `line` are the points of a line, `area` those of what is below."""

    boxes: list[Box] = field(default_factory=list)
    words: list[Words] = field(default_factory=list)
    grid: list[str] = field(default_factory=list)
    line: str = ""
    area: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Numbers of one kind, in the order of the labels. `role` names their colour."""

    role: str
    numbers: Sequence[float]


def draw_stacks(
    labels: Sequence[str], stacks: Sequence[Series], write: Callable[[float], str]
) -> Plot:
    """Draw a column for each label, with the series upon each other."""
    sums = [sum(numbers) for numbers in zip(*(each.numbers for each in stacks), strict=True)]
    scale = build_scale(sums, from_zero=True)
    plot = _draw_axes(labels, scale, write)
    slot = (RIGHT - LEFT) / len(labels)
    width = min(slot * 0.66, 20)
    for index in range(len(labels)):
        below = 0.0
        for series in stacks:
            number = series.numbers[index]
            top, bottom = _place(scale, below + number), _place(scale, below)
            below += number
            if number:
                box = Box(
                    role=series.role,
                    x=_at(LEFT + slot * (index + 0.5) - width / 2),
                    y=_at(top),
                    width=_at(width),
                    height=_at(max(bottom - top - 0.8, 0.8)),
                )
                plot.boxes.append(box)
    return plot


def draw_line(
    labels: Sequence[str], numbers: Sequence[float], write: Callable[[float], str]
) -> Plot:
    scale = build_scale(numbers, from_zero=True)
    plot = _draw_axes(labels, scale, write)
    slot = (RIGHT - LEFT) / len(labels)
    points = [
        f"{_at(LEFT + slot * (index + 0.5))},{_at(_place(scale, number))}"
        for index, number in enumerate(numbers)
    ]
    plot.line = " ".join(points)
    first, last = _at(LEFT + slot / 2), _at(RIGHT - slot / 2)
    plot.area = f"{first},{BOTTOM} {plot.line} {last},{BOTTOM}"
    return plot


def draw_rows(rows: Sequence[tuple[str, float]], write: Callable[[float], str]) -> Plot:
    """Draw a bar for each name, from left to right."""
    plot = Plot()
    most = max((number for _name, number in rows), default=0) or 1
    room = RIGHT - NUMBER_WIDTH - NAME_WIDTH
    for index, (name, number) in enumerate(rows):
        top = index * ROW_HEIGHT + 4
        shown = name if len(name) <= NAME_CHARACTERS else f"{name[: NAME_CHARACTERS - 1]}…"
        plot.words.append(Words(x="0", y=_at(top + 10), text=shown, anchor="start", role="ink"))
        for role, width in (("track", room), ("bar", room * number / most)):
            box = Box(role=role, x=_at(NAME_WIDTH), y=_at(top), width=_at(width), height="12")
            plot.boxes.append(box)
        plot.words.append(
            Words(x=_at(RIGHT), y=_at(top + 10), text=write(number), anchor="end", role="ink")
        )
    return plot


def _draw_axes(labels: Sequence[str], scale: Scale, write: Callable[[float], str]) -> Plot:
    plot = Plot()
    ticks = scale.ticks if len(scale.ticks) <= LABELS else scale.ticks[:: len(scale.ticks) // 2]
    for tick in ticks:
        y = _at(_place(scale, tick))
        plot.grid.append(y)
        text_y = _at(_place(scale, tick) + 3.5)
        plot.words.append(Words(x=_at(LEFT - 6), y=text_y, text=write(tick), anchor="end"))
    slot = (RIGHT - LEFT) / len(labels)
    every = max(1, -(-len(labels) // LABELS))
    for index in range((len(labels) - 1) % every, len(labels), every):
        plot.words.append(Words(x=_at(LEFT + slot * (index + 0.5)), y="128", text=labels[index]))
    return plot


def _place(scale: Scale, number: float) -> float:
    return BOTTOM - (BOTTOM - TOP) * scale.place(number)


def _at(number: float) -> str:
    return f"{number:.1f}"
