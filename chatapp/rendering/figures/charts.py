"""What of a table can be drawn as a chart: its labels, its columns of numbers, and the choice of a
person."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final, Literal

from django.utils.formats import get_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from chatapp.rendering.hidden_characters import write_hidden

from .cell_numbers import NumberColumn, read_column
from .values import TableData

MAX_ROWS: Final = 500
MAX_SERIES: Final = 8
MIN_ROWS: Final = 2
MAX_LABEL_CHARACTERS: Final = 60

Kind = Literal["bar", "line", "points"]
# Characters that neither HTML nor an SVG file can contain.
_INVALID: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_YEARS: Final = range(1900, 2101)
_GERMAN_DATE: Final = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})")
_MONTH: Final = re.compile(r"\d{4}-\d{2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The columns of a table by their index: the names of all, and the numbers of some."""

    names: tuple[str, ...]
    numbers: Mapping[int, NumberColumn]

    def choose_labels(self) -> int:
        """Return the first column, unless it has measured numbers and another has text."""
        first = self.numbers.get(0)
        if first is None or _are_years(first):
            return 0
        texts = (index for index in range(len(self.names)) if index not in self.numbers)
        return next(texts, 0)

    def choose_values(self, labels: int) -> tuple[int, ...]:
        """Return the columns of numbers with the unit of the first one, which share a scale."""
        found = [index for index in self.numbers if index != labels] or [*self.numbers]
        unit = self.numbers[found[0]].unit
        return tuple(index for index in found if self.numbers[index].unit == unit)[:MAX_SERIES]


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A column of numbers and the cells that they were read from; None where one is empty."""

    name: str
    unit: str
    numbers: tuple[float | None, ...]
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    kind: Kind
    label_name: str
    labels: tuple[str, ...]
    series: tuple[Series, ...]

    @property
    def unit(self) -> str:
        """The unit of all series, or an empty text."""
        units = {each.unit for each in self.series}
        return units.pop() if len(units) == 1 else ""


def read_columns(table: TableData) -> Columns:
    width = max((len(row) for row in (table.head, *table.rows)), default=0)
    head = table.head or (_("Name"), _("Value"))
    names = [
        _shorten(head[index] if index < len(head) else "")
        or _("Column %(number)d") % {"number": index + 1}
        for index in range(width)
    ]
    mark = str(get_format("DECIMAL_SEPARATOR"))
    read = {index: read_column(_get_column(table, index), mark) for index in range(width)}
    numbers = {index: column for index, column in read.items() if column is not None}
    return Columns(names=tuple(names), numbers=numbers)


def describe_problem(table: TableData, columns: Columns) -> str:
    """Return why the table cannot be drawn, or an empty text."""
    count = len(table.rows)
    if count < MIN_ROWS:
        return _("A chart needs at least two rows.")
    if count > MAX_ROWS:
        sentence = ngettext(
            "This table has %(count)d row. A chart can show up to %(most)d.",
            "This table has %(count)d rows. A chart can show up to %(most)d.",
            count,
        )
        return sentence % {"count": count, "most": MAX_ROWS}
    if not columns.numbers:
        return _("No column can be drawn: a chart needs a column with only numbers of one unit.")
    return ""


def build_chart(
    table: TableData, columns: Columns, kind: Kind, labels: int, values: Sequence[int]
) -> Chart:
    """Return the chosen columns. Rows with dates are sorted by date."""
    names = _get_column(table, labels)
    order = _sort_by_date(names) or range(len(names))
    return Chart(
        kind=kind,
        label_name=columns.names[labels],
        labels=tuple(_shorten(names[row]) for row in order),
        series=tuple(_build_series(table, columns, index, order) for index in values),
    )


def are_dates(cells: Sequence[str]) -> bool:
    return _sort_by_date(cells) is not None


def _build_series(table: TableData, columns: Columns, index: int, order: Sequence[int]) -> Series:
    column, cells = columns.numbers[index], _get_column(table, index)
    return Series(
        name=columns.names[index],
        unit=_shorten(column.unit),
        numbers=tuple(column.numbers[row] for row in order),
        cells=tuple(_shorten(cells[row]) for row in order),
    )


def _get_column(table: TableData, index: int) -> list[str]:
    return [row[index] if index < len(row) else "" for row in table.rows]


def _shorten(text: str) -> str:
    clean = _INVALID.sub("", write_hidden(" ".join(text.split())))
    if len(clean) <= MAX_LABEL_CHARACTERS:
        return clean
    return clean[: MAX_LABEL_CHARACTERS - 1].rstrip() + "…"


def _are_years(column: NumberColumn) -> bool:
    return not column.unit and all(number in _YEARS for number in column.numbers)


def _sort_by_date(cells: Sequence[str]) -> Sequence[int] | None:
    """Return the rows in the order of their dates, or None if a cell is no date."""
    dates = [_read_date(cell.strip()) for cell in cells]
    known = [each for each in dates if each is not None]
    if len(known) < len(dates) or not known:
        return None
    return sorted(range(len(known)), key=known.__getitem__)


def _read_date(text: str) -> datetime | None:
    """Return the moment of an ISO date, month or time, or of a date such as `28.11.2026`."""
    try:
        if german := _GERMAN_DATE.fullmatch(text):
            day, month, year = map(int, german.groups())
            return datetime(year, month, day)  # noqa: DTZ001
        if _MONTH.fullmatch(text):
            text += "-01"
        if len(text) < len("2026-11-28") or text[4] != "-":
            return None
        if len(text) == len("2026-11-28"):
            day_only = date.fromisoformat(text)
            return datetime(day_only.year, day_only.month, day_only.day)  # noqa: DTZ001
        return datetime.fromisoformat(text).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None
