"""The model server of a benchmark, and a reader that shows the least that its chunks can cost.

`python -m benchmarks.model URL ANSWERS` is that reader: so many streams at once, requested and read
with the SDK of the provider, whose chunks are dropped.
"""

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx2
import openai
import uvloop

from .machine import read_cpu_seconds

ROOT = Path(__file__).parents[1]
WORDS = (
    "## Findings\n\nThe **pool** ran out: `10` connections for 91 requests a second.\n\n- one\n"
    "- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```python\nx = pool(20)\n```\n\nThat is all. "
)
FIRST_WORDS = "Findings"
CHUNK_CHARACTERS = 4
CHUNKS_A_SECOND = 40
MESSAGES = [{"role": "user", "content": "Hello"}]


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

    def read_cpu_seconds(self) -> float:
        """CPU seconds of the process so far."""
        return read_cpu_seconds(self._process.pid)


def measure_reader(model: ModelServer, answers: int, chunks: int) -> float:
    """CPU seconds of a process that only reads these answers."""
    model.prepare_answers(answers, chunks)
    command = [sys.executable, "-m", "benchmarks.model", model.url, str(answers)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return float(done.stdout)


async def measure_reading(url: str, answers: int) -> float:
    async with openai.AsyncOpenAI(api_key="none", base_url=url, max_retries=0) as client:
        started = time.process_time()
        await asyncio.gather(*(_read_one(client) for _ in range(answers)))
        return time.process_time() - started


async def _read_one(client: openai.AsyncOpenAI) -> None:
    stream = await client.post(
        "/chat/completions",
        body={"model": "bench", "messages": MESSAGES, "stream": True},
        cast_to=object,
        stream=True,
        stream_cls=openai.AsyncStream[object],
    )
    async for _ in stream:
        pass


if __name__ == "__main__":
    print(uvloop.run(measure_reading(sys.argv[1], int(sys.argv[2]))))
