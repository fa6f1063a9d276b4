"""The hostile server in a process of its own, so that measurements contain the client alone."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Self
from urllib.request import urlopen

from .hostile import Hostile

ROOT = Path(__file__).parents[2]


class HostileProcess:
    """`with HostileProcess() as hostile:` misbehaves at `hostile.url(how)`."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.peers.hostile_process"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait(timeout=10)

    def url(self, misdeed: str, *, way: str = "") -> str:
        return f"http://127.0.0.1:{self.port}/{misdeed}{f'/{way}' if way else ''}"

    def counts(self) -> tuple[int, list[str]]:
        """Return the effects and requests since the last call."""
        with urlopen(f"http://127.0.0.1:{self.port}/counts", timeout=10) as answer:  # noqa: S310
            effects, requests = json.load(answer)
        return effects, requests


def main() -> None:
    with Hostile() as hostile:
        print(hostile.port, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
