"""How long `serve` takes to start: the first time, when it sets everything up, and later.

Run `python -m benchmarks.start` on a machine that is not busy. Each later figure is the least of
several.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2

from tests.flows.server import Installation
from tests.migrated import make_sqlite

from .report import Figure, print_figures, read_options

# A first start runs all migrations, which takes long on a busy machine.
START_SECONDS = 110.0
# What a start cannot take less than: Python, Django and all imports, without serving.
LOADING = ("shell", "-v", "0", "-c", "import chatapp.asgi")


def measure_start(installation: Installation) -> tuple[float, float]:
    """Seconds from the command to the line `Serving on`, and to the first page."""
    started = time.monotonic()
    server = installation.server("start")
    server.start(START_SECONDS)
    try:
        serving = time.monotonic() - started
        httpx2.get(f"{server.address}/sign-in/", trust_env=False).raise_for_status()
        return serving, time.monotonic() - started
    finally:
        server.end()


def measure_command(installation: Installation, *words: str) -> float:
    started = time.monotonic()
    installation.manage(*words)
    return time.monotonic() - started


def measure(starts: int, *, with_first: bool) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        settings = {"DJANGO_SETTINGS_MODULE": "chatapp.settings", "DEMO": "1"}
        if not with_first:
            settings["DATABASE_URL"] = make_sqlite(Path(folder) / "start.sqlite3")
        installation = Installation(Path(folder), **settings)
        if with_first:
            serving, page = measure_start(installation)
            yield "first start with migrations, serving", serving, "s"
            yield "first start with migrations, first page", page, "s"
        later = [measure_start(installation) for _ in range(starts)]
        loading = min(measure_command(installation, *LOADING) for _ in range(starts))
        check = min(measure_command(installation, "check") for _ in range(starts))
    page = min(each for _, each in later)
    yield "later start, serving", min(each for each, _ in later), "s"
    yield "later start, first page", page, "s"
    yield "loading all modules", loading, "s"
    yield "later start against loading", page / loading, "×"
    yield "`manage.py check`", check, "s"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.start", description=__doc__)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--only-later", action="store_true", help="leave out the first start")
    options = read_options(parser, starts=1, only_later=True)
    figures = measure(options.starts, with_first=not options.only_later)
    print_figures("starting the server", figures)


if __name__ == "__main__":
    main()
