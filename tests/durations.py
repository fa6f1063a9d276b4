"""Writes `tests/durations.json`, the seconds of each file of tests, from reports of pytest.

`make test test-gate test-long && python -m tests.durations .pytest_cache/*.xml`
"""

import json
import sys
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
# Files below this many seconds are not worth a line.
LEAST_SECONDS = 2.0


def seconds_by_file(reports: list[Path]) -> dict[str, float]:
    """Add up the seconds of all cases of each file, longest file first."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for report in reports:
        for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 - our own report
            # A test that was cut off has no name, and a file may have been moved since.
            if file := find_file(case.get("classname", "")):
                seconds[file] += float(case.attrib["time"])
    longest_first = sorted(seconds.items(), key=lambda found: -found[1])
    return {file: round(each, 1) for file, each in longest_first if each >= LEAST_SECONDS}


def find_file(classname: str) -> str | None:
    """Return the path of the file that holds the test, also for a test in a class."""
    names = classname.split(".")
    for count in range(len(names), 0, -1):
        path = Path(*names[:count]).with_suffix(".py")
        if (ROOT / path).exists():
            return path.as_posix()
    return None


if __name__ == "__main__":
    found = seconds_by_file([Path(name) for name in sys.argv[1:]])
    (ROOT / "tests/durations.json").write_text(json.dumps(found, indent=1) + "\n")
