"""How long a newcomer waits for `serve`: at a first start, which sets all up, and at a warm one.

Run `python -m benchmarks.start` on a quiet machine. Each warm figure is the quickest of several.
"""

import tempfile
import time
from pathlib import Path

import httpx2

from tests.flows.server import Installation

WARM_STARTS = 5


def seconds_to_serve(installation: Installation) -> tuple[float, float]:
    """From the command to the line `Serving on`, and to the first page."""
    began = time.monotonic()
    server = installation.server("start")
    server.start()
    try:
        is_serving = time.monotonic()
        httpx2.get(f"{server.address}/sign-in/", trust_env=False).raise_for_status()
        return is_serving - began, time.monotonic() - began
    finally:
        server.end()


def seconds_to_run(installation: Installation, *words: str) -> float:
    began = time.monotonic()
    installation.manage(*words)
    return time.monotonic() - began


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        installation = Installation(
            Path(folder), DJANGO_SETTINGS_MODULE="chatapp.settings", DEMO="1"
        )
        first = seconds_to_serve(installation)
        warm = [seconds_to_serve(installation) for _ in range(WARM_STARTS)]
        # The floor: Python, Django and everything that is imported, without serving.
        load = ("shell", "-v", "0", "-c", "import chatapp.asgi")
        floor = min(seconds_to_run(installation, *load) for _ in range(WARM_STARTS))
        check = min(seconds_to_run(installation, "check") for _ in range(WARM_STARTS))
    serving, page = min(seconds for seconds, _ in warm), min(seconds for _, seconds in warm)
    print(
        f"First start, with migrations: serving after {first[0]:.2f} s, a page at {first[1]:.2f} s"
    )
    print(f"Warm start: serving after {serving:.2f} s, a page at {page:.2f} s")
    print(f"Loading alone takes {floor:.2f} s: a warm start is {page / floor:.1f} times that")
    print(f"`manage.py check` takes {check:.2f} s")


if __name__ == "__main__":
    main()
