"""What an operation cost the process that did it: time, the event loop's longest pause, memory."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

# What a quiet machine keeps with room to spare, a shared one keeps only at times: another process
# may hold the only core. Whoever has a slow one may set a factor; the memory needs none.
SLACK = float(os.environ.get("TIME_SLACK", "1"))
TICK_SECONDS = 0.005


@dataclass(slots=True)
class Cost:
    """Seconds it took, the longest wait of a task that was ready, and bytes beyond the start."""

    seconds: float = 0.0
    lag_seconds: float = 0.0
    extra_bytes: int = 0


@asynccontextmanager
async def measured() -> AsyncIterator[Cost]:
    """Counts while its block runs; the cost is complete after it."""
    cost = Cost()
    ticking = asyncio.create_task(_tick(cost))
    await asyncio.sleep(0)  # or what the block does before it first waits goes unseen
    before = _reset_peak()
    started = time.perf_counter()
    try:
        yield cost
    finally:
        cost.seconds = time.perf_counter() - started
        cost.extra_bytes = _peak() - before
        ticking.cancel()


async def _tick(cost: Cost) -> None:
    """A pause in which this process did little was the machine's: what counts is the smaller of
    the time that passed and the work that was done in it."""
    while True:
        due, worked = time.perf_counter() + TICK_SECONDS, time.process_time()
        await asyncio.sleep(TICK_SECONDS)
        late = min(time.perf_counter() - due, time.process_time() - worked)
        cost.lag_seconds = max(cost.lag_seconds, late)


def _reset_peak() -> int:
    """The resident size now; from here on its peak is counted anew."""
    Path("/proc/self/clear_refs").write_text("5")
    return _of_status("VmRSS")


def _peak() -> int:
    return _of_status("VmHWM")


def _of_status(name: str) -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{name}:")[1].split()[0]) * 1024
