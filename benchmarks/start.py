"""How long a newcomer waits: from `serve` to the first page, at a first start and at a warm one.

Run `python -m benchmarks.start` on a quiet machine.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import httpx2

from tests.flows.server import ROOT, Installation

WARM_STARTS = 5


def seconds_to_first_page(installation: Installation) -> float:
    """Start a server, fetch the sign-in page, end the server."""
    began = time.monotonic()
    server = installation.server("start")
    server.start()
    try:
        httpx2.get(f"{server.address}/sign-in/", trust_env=False).raise_for_status()
        return time.monotonic() - began
    finally:
        server.end()


def seconds_to_import() -> float:
    """The floor: Python, Django and everything that is imported, without serving."""
    began = time.monotonic()
    subprocess.run(
        [sys.executable, "manage.py", "check"], cwd=ROOT, check=True, capture_output=True
    )
    return time.monotonic() - began


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        installation = Installation(Path(folder), DEMO="1")
        first = seconds_to_first_page(installation)
        warm = median(seconds_to_first_page(installation) for _ in range(WARM_STARTS))
    floor = median(seconds_to_import() for _ in range(WARM_STARTS))
    print(f"First start with migrations: {first:.1f} s")
    print(f"Warm start: {warm:.1f} s, {warm / floor:.1f} times `manage.py check` ({floor:.1f} s)")


if __name__ == "__main__":
    main()
