"""The figures of docs/security.md and docs/reliability.md, collected in docs/figures.json, and the
tables of the two pages.

Run `python -m benchmarks.figures [--junit FILE]… [--risk FILE] [--cost]`. Counts come from the
project itself: tests as pytest collects them, tables, and lists in the code. Outcomes of tests come
from the reports of real runs (`.pytest_cache/*.xml` after `make test-all`), and how well risk is
recognised from a file of labelled tools (see `benchmarks.risk`). Figures whose source is not given
stay as they were, like those that `benchmarks.endurance --json docs/figures.json` added.
"""

import argparse
import ast
import json
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from pathlib import Path

from chatapp.journal.fault_points import FaultPoint

from .endurance import add_to_file
from .report import Figure, print_figures, read_options
from .risk import EXAMPLES, classify_all, percent, read_rows

ROOT = Path(__file__).resolve().parents[1]
ATTACKS = "tests/chatapp/approvals/attacks/test_approval_attacks.py"
ADVERSARIAL = "tests/chatapp/permissions/test_risk_adversarial.py"
SAFETY = "tests/chatapp/rendering/markdown/test_safety.py"
MISDEEDS = "tests/mcpconfig/operations/hostile_table.py"
TWO_TABS = "tests/chatapp/approvals/test_two_tabs.py"
SHOWN_IS_SENT = "tests/chatapp/calls/test_shown_is_sent.py"
COLLECTED = (ATTACKS, ADVERSARIAL, SAFETY)
KINDS = ("error", "failure")
# What each page shows. All other figures are those of the endurance of servers.
SECURITY = (
    *("attacks", "random runs", "misleading tools", "risk", "hostile texts", "services"),
    *("access", "threats", "decision"),
)
PAGES = ("docs/security.md", "docs/reliability.md")
MEASURES = ("%", "s", "ms", "µs", "MB", "minutes")
Kept = dict[str, dict[str, tuple[float, str]]]
BEGIN, END = "<!-- figures -->\n", "<!-- end of figures -->"


# --- what can be counted without running a test ------------------------------------------------
def count_threats() -> list[Figure]:
    rows = re.findall(
        r"^\| `[^`|]+` \|(?:[^|]+\|){2} ([^|]+) \|$", read("docs/threats.md"), re.MULTILINE
    )
    return [
        ("threats", len(rows), "threats"),
        ("threats that are open", sum(row.startswith("open: ") for row in rows), "threats"),
    ]


def count_addresses() -> list[Figure]:
    tables = {
        name: len(value.keys)
        for name, value in find_assignments("tests/route_table.py")
        if isinstance(value, ast.Dict)
    }
    return [
        ("addresses in the access sweep", tables["ROUTES"], "addresses"),
        ("kinds of admin pages in the access sweep", tables["ADMIN_PAGES"], "kinds"),
    ]


def count_misdeeds() -> list[Figure]:
    tables = [
        value.value
        for _, value in find_assignments(MISDEEDS)
        if isinstance(value, ast.Constant) and isinstance(value.value, str)
    ]
    rows = sum(len(table.strip().splitlines()) for table in tables if "\n" in table)
    return [("misdeeds of services", rows, "misdeeds")]


def count_fault_points() -> list[Figure]:
    return [("fault points", len(FaultPoint), "points")]


def find_assignments(path: str) -> Iterable[tuple[str, ast.expr]]:
    """Return the names and values of a module's assignments."""
    for node in ast.parse(read(path)).body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value


def count_random_runs() -> list[Figure]:
    return [
        ("interleavings of two tabs, a worker, an admin and time", find_bound(TWO_TABS), "runs"),
        ("random calls, shown and sent", find_bound(SHOWN_IS_SENT), "calls"),
    ]


def find_bound(path: str) -> int:
    """Return the number of seeds of a test that tries them in ranges."""
    [bound] = re.findall(r"for n in range\(\d+, ([\d_]+), [\d_]+\)", read(path))
    return int(bound)


QUICK = {
    "threats": count_threats,
    "access": count_addresses,
    "services": count_misdeeds,
    "faults": count_fault_points,
    "random runs": count_random_runs,
}


# --- tests -------------------------------------------------------------------------------------
def collect_tests(paths: Iterable[str]) -> list[str]:
    """Return the ids of the tests in these files, as pytest finds them."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, *paths], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if "::" in line]


def count_tests(found: list[str]) -> dict[str, list[Figure]]:
    def count(path: str, name: str = "") -> int:
        return sum(test.startswith(f"{path}::{name}") for test in found)

    attacks = count(ATTACKS, "test_it_runs_nothing[")
    without = count(ATTACKS, "test_without_the_defence_it_runs[")
    return {
        "attacks": [
            ("attacks on approvals", attacks, "attacks"),
            ("attacks repeated without their defence", without, "attacks"),
        ],
        "misleading tools": [("tests with misleading tools", count(ADVERSARIAL), "tests")],
        "hostile texts": [("tests with hostile Markdown", count(SAFETY), "tests")],
    }


def read_outcomes(reports: Iterable[Path]) -> list[Figure]:
    """Return how the attacks ended in the runs that these reports are of."""
    ran = failed = 0
    for report in reports:
        for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 - our own file
            if case.get("name", "").startswith("test_it_runs_nothing["):
                ran += 1
                failed += any(case.find(kind) is not None for kind in KINDS)
    assert ran, "These reports have no attacks on approvals."
    return [("attacks that ran", ran, "attacks"), ("attacks that succeeded", failed, "attacks")]


def measure_risk(path: Path | None) -> list[Figure]:
    """Return how well the risk of labelled tools is recognised."""
    tools = classify_all(EXAMPLES if path is None else read_rows(path))
    high = [tool for tool in tools if tool.label == "high"]
    low = [tool for tool in tools if tool.label == "low"]
    return [
        ("labelled tools", len(tools), "tools"),
        ("tools of high risk found", percent(tool.is_right for tool in high), "%"),
        ("tools of high risk called low", sum(tool.found == "low" for tool in high), "tools"),
        ("tools of low risk kept low", percent(tool.is_right for tool in low), "%"),
    ]


def measure_decision(*words: str) -> list[Figure]:
    """Return what one decision costs with hundreds of rules, from the benchmark of its own."""
    command = [sys.executable, "-m", "benchmarks.decisions", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    number = re.search(r"one decision +([\d.,]+) µs", done.stdout)
    assert number, done.stdout
    return [("CPU time of a decision with 600 rules", float(number[1].replace(",", "")), "µs")]


# --- pages -------------------------------------------------------------------------------------
def choose_sections(page: str, kept: Kept) -> list[str]:
    if page == "docs/security.md":
        return [name for name in SECURITY if name in kept]
    return sorted(set(kept) - set(SECURITY))


def render_table(page: str, kept: Kept) -> str:
    """Return the table of figures of this page."""
    rows = ["| | figure | |", "|---|---|--:|"]
    for section in choose_sections(page, kept):
        for what, (number, unit) in kept[section].items():
            rows.append(f"| {section} | {what} | {format_number(number, unit)} |")
    return "\n".join(rows) + "\n"


def format_number(number: float, unit: str) -> str:
    shown = f"{int(number):,}" if number == int(number) else f"{number:,.1f}"
    return f"{shown} {unit}" if unit in MEASURES else shown


def write_tables(kept: Kept) -> None:
    for page in PAGES:
        before, _, rest = read(page).partition(BEGIN)
        _, _, after = rest.partition(END)
        (ROOT / page).write_text(f"{before}{BEGIN}{render_table(page, kept)}{END}{after}")


def collect(options: argparse.Namespace) -> dict[str, list[Figure]]:
    found = {name: count() for name, count in QUICK.items()}
    found |= count_tests(collect_tests(COLLECTED))
    if options.junit:
        found["attacks"] += read_outcomes(options.junit)
    if options.risk or options.smoke:
        found["risk"] = measure_risk(options.risk)
    if options.cost or options.smoke:
        found["decision"] = measure_decision(*["--smoke"] * options.smoke)
    return found


def read(path: str) -> str:
    return (ROOT / path).read_text()


def keep_others(path: Path, name: str, figures: list[Figure]) -> list[Figure]:
    """Add the figures of this section that were not made this time."""
    if not path.exists():
        return figures
    made = {what for what, _, _ in figures}
    kept = json.loads(path.read_text()).get(name, {})
    return [*figures, *((what, *rest) for what, rest in kept.items() if what not in made)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.figures", description=__doc__)
    parser.add_argument("--json", type=Path, default=ROOT / "docs/figures.json")
    parser.add_argument("--junit", type=Path, action="append", default=[])
    parser.add_argument("--cost", action="store_true", help="measure what a decision costs")
    parser.add_argument("--risk", type=Path, help="a file of labelled tools")
    options = read_options(parser)
    with tempfile.TemporaryDirectory() as folder:
        if options.smoke:
            options.json = Path(folder) / "figures.json"
        for name, figures in collect(options).items():
            print_figures(name, figures)
            add_to_file(options.json, name, keep_others(options.json, name, figures))
        if not options.smoke:
            write_tables(json.loads(options.json.read_text()))


if __name__ == "__main__":
    main()
