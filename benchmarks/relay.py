"""What it costs to relay answers from a model to open pages: ours, a bare relay under the same
server, and Chainlit if wanted, in turn within one session.

Run `python -m benchmarks.relay [--rounds 3] [--answers 1,20,100] [--chainlit uv] [--json FILE]`.
`--quick` measures 20 answers of 400 chunks only, in a minute.

Each answer has a page of its own, opened before the round, and starts are spread over a second. Our
chats begin with a message whose answer is one chunk; that and the load of the page are "opening a
chat". CPU is user and system time of the server's whole process tree, from the first message to
half a second after the last answer; a PostgreSQL server is not in it. The model server and the
pages run in processes of their own. "Over the model's own" is the time from the message to its
first visible text, without the time in which the model server had the request and had not answered.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx2
import uvloop

from tests.flows.server import database

from .machine import read_busy_seconds, read_tree_mb, read_tree_seconds
from .report import Figure, print_figures, read_options
from .tabs import Reading, Tab
from .targets import Ours, Target, open_bare, open_chainlit, open_ours

ROOT = Path(__file__).parents[1]
RATE = 40
SHORT, USUAL, LONG = 40, 400, 1_600
MANY = 20  # answers at once, where not said
START_SPREAD_SECONDS = 1.0
SETTLE_SECONDS = 0.5
Sections = dict[str, list[Figure]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What one round of answers cost one server. Times of single answers are in milliseconds."""

    target: str
    answers: int
    chunks: int
    finished: int
    cpu_seconds: float
    wall_seconds: float
    firsts: list[float]
    gaps: list[float]
    lags: list[float]
    opening_seconds: float  # CPU of opening the pages before the round
    statements: float = 0.0

    @property
    def cpu_ms_for_1000(self) -> float:
        return 1e6 * self.cpu_seconds / (self.answers * self.chunks)

    @property
    def cpu_ms_an_answer(self) -> float:
        return 1e3 * self.cpu_seconds / self.answers


class ModelTimes:
    """Asks the model server when it did what."""

    def __init__(self, url: str) -> None:
        self.url = url
        address = url.removesuffix("/v1")
        self._browser = httpx2.AsyncClient(base_url=address, trust_env=False)

    async def read(self, key: str) -> list[float] | None:
        """Return when it received the request, and wrote the first and the last chunk."""
        found: list[float] | None = (await self._browser.get(f"/times/{key}")).json()
        return found

    async def close(self) -> None:
        await self._browser.aclose()


@contextmanager
def run_model() -> Iterator[str]:
    """Within, the model server runs at this address."""
    program = ROOT / "benchmarks/fast_model.py"
    process = subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


# --- rounds ------------------------------------------------------------------------------------
async def measure_round(
    target: Target, model: ModelTimes, answers: int, chunks: int, lost: int = -1
) -> Round:
    """Let so many pages get an answer of so many chunks each."""
    before_opening = read_tree_seconds(target.pid)
    tabs = await target.open_tabs(answers)
    await asyncio.sleep(SETTLE_SECONDS)
    statements = await target.count_statements()
    before, started = read_tree_seconds(target.pid), time.monotonic()

    async def run(number: int, tab: Tab) -> Reading:
        await asyncio.sleep(START_SPREAD_SECONDS * number / answers)
        reading = Reading(key=uuid.uuid4().hex, chunks=chunks)
        return await tab.read_answer(reading, RATE, lost)

    try:
        readings = await asyncio.gather(*(run(number, tab) for number, tab in enumerate(tabs)))
        wall = time.monotonic() - started
        await asyncio.sleep(SETTLE_SECONDS)
        cpu = read_tree_seconds(target.pid) - before
        statements = await target.count_statements() - statements
        if readings[0].is_whole:
            assert await tabs[0].shows_words(chunks), "A loaded page lacks some text."
    finally:
        for tab in tabs:
            tab.close()
    firsts, gaps, lags = await compare_times(model, readings)
    return Round(
        target=target.name,
        answers=answers,
        chunks=chunks,
        finished=sum(reading.is_whole for reading in readings),
        cpu_seconds=cpu,
        wall_seconds=wall,
        firsts=firsts,
        gaps=gaps,
        lags=lags,
        opening_seconds=before - before_opening,
        statements=statements,
    )


async def compare_times(
    model: ModelTimes, readings: list[Reading]
) -> tuple[list[float], list[float], list[float]]:
    """Return first texts, gaps and end lags in milliseconds."""
    firsts: list[float] = []
    gaps: list[float] = []
    lags: list[float] = []
    for reading in readings:
        times = await model.read(reading.key)
        if times is None or not reading.arrivals:
            continue
        received, first, last = times
        arrivals = reading.arrivals
        firsts.append(1e3 * ((arrivals[0] - reading.sent) - (first - received)))
        gaps.extend(1e3 * (b - a) for a, b in zip(arrivals, arrivals[1:], strict=False))
        if reading.is_whole:
            lags.append(1e3 * (arrivals[-1] - last))
    return firsts, gaps, lags


def find_percentile(values: Iterable[float], percent: int) -> float:
    known = sorted(values)
    return known[min(len(known) - 1, len(known) * percent // 100)] if known else 0.0


def take_median(rounds: Iterable[Round], value: Callable[[Round], float]) -> float:
    return statistics.median(map(value, rounds))


# --- what is at rest ---------------------------------------------------------------------------
async def count_idle_statements(ours: Ours, pages: int, seconds: float) -> float:
    """Return the statements a second of a server whose open pages, so many, do nothing."""
    tabs = await ours.open_tabs(pages)
    await asyncio.sleep(2 * SETTLE_SECONDS)
    before = await ours.count_statements()
    await asyncio.sleep(seconds)
    count = await ours.count_statements() - before
    for tab in tabs:
        tab.close()
    return count / seconds


async def measure_rest(ours: Ours, pages: int, seconds: float) -> list[Figure]:
    """Return the load with open pages that nothing happens on, and the memory of a page."""
    figures: list[Figure] = []
    tabs: list[Tab] = []
    memory = read_tree_mb(ours.pid)
    for count in (0, pages // 2, pages):
        tabs += await ours.open_pages(count - len(tabs))
        await asyncio.sleep(2 * SETTLE_SECONDS)
        before = read_tree_seconds(ours.pid)
        await asyncio.sleep(seconds)
        load = 100 * (read_tree_seconds(ours.pid) - before) / seconds
        figures.append((f"load of a core with {count} open pages", load, "%"))
    page = (read_tree_mb(ours.pid) - memory) / max(1, pages)
    for tab in tabs:
        tab.close()
    return [*figures, ("memory of an open page", 1024 * page, "KB")]


# --- a session ---------------------------------------------------------------------------------
async def run_session(options: argparse.Namespace, folder: Path, database_url: str) -> list[Round]:
    """Measure all rounds, the targets in turn, and print and store what comes out."""
    async with AsyncExitStack() as opened:
        model = ModelTimes(opened.enter_context(run_model()))
        opened.push_async_callback(model.close)
        ours = await opened.enter_async_context(open_ours(folder, model.url, database_url))
        targets: list[Target] = [ours, await opened.enter_async_context(open_bare(model.url))]
        if options.chainlit:
            server = open_chainlit(options.chainlit, folder, model.url)
            targets.append(await opened.enter_async_context(server))
        rest: list[Figure] = [("memory after the start", read_tree_mb(ours.pid), "MB")]
        for target in targets:  # imports, caches and the first connections
            await measure_round(target, model, 1, SHORT)
        rest.append(("memory after the first answer", read_tree_mb(ours.pid), "MB"))
        many = 2 if options.smoke else MANY
        idle = await count_idle_statements(ours, many, options.idle_seconds)
        rest.append((f"statements a second with {many} open pages", idle, "statements"))
        warm = read_tree_mb(ours.pid)
        rest.append((f"memory with {many} open pages", warm, "MB"))
        started, busy = time.monotonic(), read_busy_seconds()
        rounds: list[Round] = []
        for answers, chunks, repeats in plan(options):
            for _ in range(repeats):
                for target in targets:
                    rounds.append(await measure_round(target, model, answers, chunks))
            if chunks == SHORT:
                grown = read_tree_mb(ours.pid) - warm
                rest.append((f"memory after {answers * repeats} answers more", grown, "MB more"))
        load = (read_busy_seconds() - busy) / (time.monotonic() - started)
        rest.append(("load of the whole machine during the rounds", load, "cores"))
        if options.pages:
            await asyncio.sleep(options.settle_seconds)
            rest += await measure_rest(ours, options.pages, options.idle_seconds)
        lost = await measure_round(ours, model, 1, SHORT, lost=SHORT // 2)
        assert not lost.finished, "A lost chunk was not noticed."
    sections = summarise(rounds, targets, idle)
    sections["at rest, ours"] = rest
    for title, figures in sections.items():
        print_figures(f"{title}, {options.database}", figures)
    if options.json:
        store(options, sections, rounds)
    return rounds


def plan(options: argparse.Namespace) -> list[tuple[int, int, int]]:
    """Return answers at once, chunks of each, and rounds; the answers whose memory is measured come
    first."""
    if options.smoke:
        return [(2, SHORT, 1), (2, SHORT + 20, 1)]
    if options.quick:
        return [(MANY, SHORT, options.rounds), (MANY, USUAL, options.rounds)]
    usual = [(number, USUAL, options.rounds) for number in options.answers]
    return [(MANY, SHORT, 5), *usual, (MANY, LONG, 1)]


def store(options: argparse.Namespace, sections: Sections, rounds: list[Round]) -> None:
    kept = {
        "database": options.database,
        "figures": {
            title: {what: [round(number, 2), unit] for what, number, unit in figures}
            for title, figures in sections.items()
        },
        "rounds": [
            {
                name: value
                for name, value in asdict(each).items()
                if name not in ("firsts", "gaps", "lags")
            }
            for each in rounds
        ],
    }
    options.json.write_text(json.dumps(kept, indent=1) + "\n")


# --- figures -----------------------------------------------------------------------------------
def summarise(rounds: list[Round], targets: list[Target], idle: float) -> Sections:
    """Return the figures of each size, of costs apart, and of ratios."""
    sections: Sections = {}
    sizes = list(dict.fromkeys((each.answers, each.chunks) for each in rounds))
    for answers, chunks in sizes:
        figures: list[Figure] = []
        cost: dict[str, float] = {}
        for target in targets:
            some = choose(rounds, target, answers, chunks)
            cost[target.name] = take_median(some, lambda each: each.cpu_ms_for_1000)
            figures += list_figures(target.name, some)
        figures += list_ratios("1,000 chunks", cost)
        if answers == rounds[0].answers:  # whose statements at rest were counted
            some = choose(rounds, targets[0], answers, chunks)
            figures.append(("ours: SQL statements a turn", count_a_turn(some, idle), "statements"))
        sections[f"{answers} answers at once, {chunks} chunks each"] = figures
    sections["costs apart"] = separate(rounds, targets)
    return sections


def choose(rounds: list[Round], target: Target, answers: int, chunks: int) -> list[Round]:
    wanted = (target.name, answers, chunks)
    return [each for each in rounds if (each.target, each.answers, each.chunks) == wanted]


def list_figures(name: str, rounds: list[Round]) -> list[Figure]:
    """Return what one server cost and what people saw, in rounds of one size."""
    firsts = [value for each in rounds for value in each.firsts]
    gaps = [value for each in rounds for value in each.gaps]
    lags = [value for each in rounds for value in each.lags]
    cores = take_median(rounds, lambda each: each.cpu_seconds / each.wall_seconds)
    return [
        (f"{name}: whole answers", sum(each.finished for each in rounds), "answers"),
        (f"{name}: of", sum(each.answers for each in rounds), "answers"),
        (f"{name}: CPU", take_median(rounds, lambda each: each.cpu_ms_for_1000), "ms/1,000 chunks"),
        (f"{name}: load", cores, "cores"),
        (f"{name}: first text over the model's own, median", find_percentile(firsts, 50), "ms"),
        (f"{name}: first text over the model's own, p95", find_percentile(firsts, 95), "ms"),
        (f"{name}: gap between texts, p95", find_percentile(gaps, 95), "ms"),
        (f"{name}: behind at the end, median", find_percentile(lags, 50), "ms"),
    ]


def list_ratios(what: str, cost: dict[str, float]) -> list[Figure]:
    return [
        (f"{what}: ours to {name}", cost["ours"] / other, "×")
        for name, other in cost.items()
        # Too few chunks cost less than the clock of a process can tell.
        if name != "ours" and other > 0
    ]


def count_a_turn(rounds: list[Round], idle: float) -> float:
    """Return the statements of a turn, without those that a server at rest sends meanwhile."""
    return take_median(
        rounds,
        lambda each: (each.statements - idle * (each.wall_seconds + SETTLE_SECONDS)) / each.answers,
    )


def separate(rounds: list[Round], targets: list[Target]) -> list[Figure]:
    """Return what a message and what a chunk costs: short answers beside the longest ones."""
    answers = rounds[0].answers
    longest = max(each.chunks for each in rounds if each.answers == answers)
    figures: list[Figure] = []
    chunk: dict[str, float] = {}
    for target in targets:
        short, long = (
            take_median(choose(rounds, target, answers, chunks), lambda each: each.cpu_ms_an_answer)
            for chunks in (SHORT, longest)
        )
        opening = take_median(
            (each for each in rounds if each.target == target.name),
            lambda each: 1e3 * each.opening_seconds / each.answers,
        )
        chunk[target.name] = 1e3 * (long - short) / (longest - SHORT)
        figures += [
            (f"{target.name}: CPU of 1,000 more chunks", chunk[target.name], "ms"),
            (
                f"{target.name}: CPU of a message without its chunks",
                short - chunk[target.name] * SHORT / 1e3,
                "ms",
            ),
            (f"{target.name}: CPU of opening a chat", opening, "ms"),
        ]
    return [*figures, *list_ratios("1,000 more chunks", chunk)]


def read_numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.relay", description=__doc__)
    parser.add_argument("--answers", type=read_numbers, default=[1, 20, 100])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="only 20 answers, to compare")
    parser.add_argument("--pages", type=int, default=100, help="open pages at rest; 0: none")
    parser.add_argument("--idle-seconds", type=float, default=20.0)
    # Until the server has deleted the events of the rounds.
    parser.add_argument("--settle-seconds", type=float, default=130.0)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument(
        "--chainlit", default="", help="a Python that has Chainlit, or `uv` to install it"
    )
    parser.add_argument("--json", type=Path, help="store the figures in this file")
    options = read_options(parser, pages=2, idle_seconds=0.1, settle_seconds=0.0)
    if options.quick:
        options.pages, options.idle_seconds, options.settle_seconds = MANY, 5.0, 0.0
    with tempfile.TemporaryDirectory() as folder, database(options.database, Path(folder)) as url:
        rounds = uvloop.run(run_session(options, Path(folder), url))
    if any(each.finished < each.answers for each in rounds if each.target != "chainlit"):
        raise SystemExit("Not all answers came whole.")


if __name__ == "__main__":
    main()
