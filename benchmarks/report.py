"""What all benchmarks share on the command line: the option `--smoke` and the table of figures."""

import argparse
import math
from collections.abc import Iterable

Figure = tuple[str, float, str]


def read_options(parser: argparse.ArgumentParser, **smoke_sizes: object) -> argparse.Namespace:
    """Parse the command line. With `--smoke` the options have these sizes instead."""
    parser.add_argument(
        "--smoke",
        action="store_true",
        help="use the smallest sizes, to check in seconds that the benchmark runs",
    )
    options = parser.parse_args()
    if options.smoke:
        vars(options).update(smoke_sizes)
    return options


def print_figures(title: str, figures: Iterable[Figure]) -> None:
    """Print a title, then a line for each figure: what it is, the number and its unit."""
    rows = list(figures)
    assert rows, "The benchmark measured nothing."
    assert all(math.isfinite(number) for _, number, _ in rows), f"Not a number: {rows}"
    width = max(len(what) for what, _, _ in rows)
    print(title)
    for what, number, unit in rows:
        print(f"  {what:<{width}}  {_format_number(number):>10} {unit}", flush=True)


def _format_number(number: float) -> str:
    """The number with three digits that count."""
    digits = 0 if abs(number) >= 100 or number == int(number) else 1 if abs(number) >= 10 else 2
    return f"{number:,.{digits}f}"
