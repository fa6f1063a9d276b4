"""Axes: from numbers to positions, with round numbers at the lines."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django.utils.formats import number_format

STEPS: Final = 4
ROUND: Final = (1, 2, 2.5, 5, 10)
# Closer numbers are drawn as equal: between them are no other floating point numbers to name.
MIN_SPAN: Final = 1e-90
MIN_RELATIVE_SPAN: Final = 1e-9
# A line may begin above zero if the numbers would otherwise fill less than this part of it.
MIN_SHARE: Final = 0.5
# Other numbers are written as powers of ten. Above the limit, a float has no decimals left.
MAX_PLAIN: Final = 1e15
MAX_DECIMALS: Final = 6
MIN_DIGITS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """An axis from `low` to `high` with a line at each of `ticks`."""

    low: float
    high: float
    ticks: tuple[float, ...]
    decimals: int

    def place(self, number: float) -> float:
        """Return the position between 0 (low) and 1 (high)."""
        return (number - self.low) / (self.high - self.low)

    def write(self, number: float) -> str:
        if self.decimals > MAX_DECIMALS or max(abs(self.low), abs(self.high)) >= MAX_PLAIN:
            return f"{number:.{self._count_digits()}g}"
        # Formatting cuts decimals off, and a product of floats may be slightly too small.
        return number_format(round(number, self.decimals), self.decimals, force_grouping=True)

    def _count_digits(self) -> int:
        """Return how many significant digits make the names of all lines different."""
        digits = MIN_DIGITS
        while len({f"{tick:.{digits}g}" for tick in self.ticks}) < len(set(self.ticks)):
            digits += 1
        return digits


def build_scale(numbers: Sequence[float], *, from_zero: bool) -> Scale:
    """Return an axis for the numbers. There may be none, and all may be equal."""
    low, high = min(numbers, default=0.0), max(numbers, default=0.0)
    size = max(abs(low), abs(high))
    is_flat = high - low <= size * MIN_RELATIVE_SPAN
    if from_zero or is_flat or high - low > size * MIN_SHARE:
        low, high = min(low, 0.0), max(high, 0.0)
    if high - low < MIN_SPAN:
        low, high = 0.0, 1.0
    step = _find_step((high - low) / STEPS)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple(index * step for index in range(first, last + 1))
    return Scale(low=ticks[0], high=ticks[-1], ticks=ticks, decimals=_count_decimals(step))


def _find_step(least: float) -> float:
    """Return the first round number that is not smaller."""
    power = 10.0 ** math.floor(math.log10(least))
    return next((each * power for each in ROUND if each * power >= least), 10 * power)


def _count_decimals(step: float) -> int:
    power = math.floor(math.log10(step) + 1e-9)
    is_round = math.isclose(step / 10.0**power, round(step / 10.0**power))
    return max(0, -power + (not is_round))
