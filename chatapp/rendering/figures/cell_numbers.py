"""Numbers in the cells of a table, as people write them: `1,234.5`, `1.234,5`, `1 234`, `63 %`,
`$12`, `−3`, `12 ms`."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

CURRENCIES: Final = "$€£¥₹₽₩₺₴₫₪₱฿¢"
MAX_CELL_CHARACTERS: Final = 60
# Sums and differences of larger numbers would not be finite.
MAX_NUMBER: Final = 1e100
GAPS: Final = frozenset(
    {"", "-", "–", "—", "−", "…", "?", "n/a", "na", "nan", "none", "null", "inf", "-inf", "∞", "-∞"}
)

_CELL: Final = re.compile(
    rf"(?P<sign>[+\-−]?)\s?(?P<before>[{CURRENCIES}]?)\s?(?P<sign_after>[\-−]?)"
    r"(?P<digits>\d[\d.,'’\s]*|\.\d+)(?P<exponent>[eE][+\-]?\d{1,3})?"
    rf"\s?(?P<after>[%‰{CURRENCIES}]|[^\W\d_]{{1,4}}(?:/[^\W\d_]{{1,4}})?|)"
)
_GROUP_MARKS: Final = re.compile(r"['’\s]")
# `0.912` is a decimal in each style.
_GROUPED: Final = re.compile(r"[1-9]\d{0,2}(?:[.,'’\s]\d{3})+")


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberColumn:
    """The numbers of a column; None where a cell is empty. `unit` is what stands beside each of
    them, such as `%`, before the number if `is_prefix`."""

    numbers: tuple[float | None, ...]
    unit: str = ""
    is_prefix: bool = False


def read_column(cells: Sequence[str], decimal_mark: str = ".") -> NumberColumn | None:
    """Return the numbers of a column, or None if a cell is neither a number nor empty.

    All cells are read in the same style. `decimal_mark` decides where both styles are possible,
    as in `1.234`.
    """
    for mark in (decimal_mark, "," if decimal_mark == "." else "."):
        found = _read_in_style(cells, mark)
        if found is not None:
            return found
    return None


def is_number(cell: str) -> bool:
    """Return whether a cell is one number, in either style."""
    return cell.strip().lower() not in GAPS and read_column([cell]) is not None


def _read_in_style(cells: Sequence[str], mark: str) -> NumberColumn | None:
    numbers: list[float | None] = []
    units: set[tuple[str, bool]] = set()
    for cell in cells:
        text = cell.strip()
        if text.lower() in GAPS:
            numbers.append(None)
            continue
        match = _CELL.fullmatch(text) if len(text) <= MAX_CELL_CHARACTERS else None
        number = _read_number(match, mark) if match else None
        if match is None or number is None:
            return None
        numbers.append(number)
        units.add((match["before"] or match["after"], bool(match["before"])))
    # Numbers of different units cannot be compared.
    if len(units) != 1:
        return None
    unit, is_prefix = units.pop()
    return NumberColumn(numbers=tuple(numbers), unit=unit, is_prefix=is_prefix)


def _read_number(match: re.Match[str], mark: str) -> float | None:
    if match["before"] and match["after"]:
        return None
    whole, point, fraction = match["digits"].strip().partition(mark)
    plain = _read_whole(whole, "," if mark == "." else ".")
    if plain is None or (point and not fraction.isdecimal()):
        return None
    number = float(f"{plain or '0'}.{fraction or '0'}{match['exponent'] or ''}")
    if not math.isfinite(number) or abs(number) > MAX_NUMBER:
        return None
    is_negative = match["sign"] in ("-", "−") or bool(match["sign_after"])
    return -number if is_negative else number


def _read_whole(whole: str, group_mark: str) -> str | None:
    """Return the digits without the marks between thousands, or None if these are in other
    places."""
    marks = {each for each in _GROUP_MARKS.sub(" ", whole) if not each.isdecimal()}
    if not marks:
        return whole
    if len(marks) > 1 or not marks <= {group_mark, " "} or not _GROUPED.fullmatch(whole):
        return None
    return "".join(each for each in whole if each.isdecimal())
