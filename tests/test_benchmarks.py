"""Every benchmark runs: with its smallest sizes, in a process of its own."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BENCHMARKS = sorted(
    path.stem for path in ROOT.glob("benchmarks/*.py") if "\ndef main()" in path.read_text()
)
# As `benchmarks.report` prints it: two spaces, what it is, a number and its unit.
FIGURE = re.compile(r"^  \S.*  +-?\d[\d,.]* \S+", re.MULTILINE)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_prints_figures(name: str) -> None:
    command = [sys.executable, "-m", f"benchmarks.{name}", "--smoke"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert FIGURE.search(done.stdout), done.stdout


def test_every_file_that_is_run_is_tested() -> None:
    """The model server is a process that the relay benchmark starts."""
    run = {path.stem for path in ROOT.glob("benchmarks/*.py") if "__main__" in path.read_text()}
    assert run - {"fast_model"} == set(BENCHMARKS)
