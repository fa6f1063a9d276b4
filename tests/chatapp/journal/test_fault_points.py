"""The page on reliability lists the fault points, and each of them is passed somewhere."""

import re
from pathlib import Path

from chatapp.journal.fault_points import FaultPoint

ROOT = Path(__file__).parents[3]


def test_the_page_on_reliability_lists_the_fault_points_in_their_order() -> None:
    page = (ROOT / "docs/reliability.md").read_text()
    assert re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE) == list(FaultPoint)


def test_each_fault_point_is_passed() -> None:
    source = "".join(path.read_text() for path in (ROOT / "chatapp").rglob("*.py"))
    passed = set(re.findall(r"FaultPoint\.([A-Z_]+)", source))
    assert passed == {point.name for point in FaultPoint}
