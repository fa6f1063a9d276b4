"""A model server that speaks the format of each provider, in a process of its own."""

import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx2

ROOT = Path(__file__).parents[1]
WORDS = (
    "## Findings\n\nThe **pool** ran out: `10` connections for 91 requests a second.\n\n- one\n"
    "- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```python\nx = pool(20)\n```\n\nThat is all. "
)
CHUNK_CHARACTERS = 4
CHUNKS_A_SECOND = 40


class ModelServer:
    """`tests.wire` in a process of its own."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.wire"], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().split()[-1]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()

    def prepare_answers(self, answers: int, chunks: int) -> None:
        """Let the next answers, so many, have so many chunks each."""
        text = (WORDS * (1 + chunks * CHUNK_CHARACTERS // len(WORDS)))[: chunks * CHUNK_CHARACTERS]
        scene = {"text": text, "chunk": CHUNK_CHARACTERS, "delay_ms": 1000 / CHUNKS_A_SECOND}
        address = self.url.removesuffix("/v1") + "/_wire/script"
        httpx2.post(address, json=[scene] * answers, trust_env=False).raise_for_status()
