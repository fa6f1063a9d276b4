"""What it costs the server to relay answers: many at the same time, each stored, rendered and read
by a tab.

Run `python -m benchmarks.relay [--answers 20] [--chunks 400] [--rounds 3] [--database sqlite]`.
The figures are CPU time of the server process alone, the least of all rounds, because other load
only adds to it. Short answers are measured beside long ones, which separates the cost of a message
from the cost of a chunk. Two other processes are measured at the same time, to compare with: the
model server that sends the chunks, and a reader that drops them with the SDK of the provider.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.flows.person import Person
from tests.flows.server import Installation, Server, database

from .machine import read_busy_seconds, read_cpu_seconds, read_resident_mb
from .model import CHUNKS_A_SECOND, ModelServer, measure_reader
from .report import Figure, print_figures, read_options
from .tabs import TabTimes, send_at_once

SHORT_CHUNKS = 40
MODEL = "openai-chat:bench"
REAL = {
    "DJANGO_SETTINGS_MODULE": "chatapp.settings",
    "LEASE_SECONDS": "15",
    "SWEEP_SECONDS": "5",
    "SOCKETS_PER_PERSON": "1000",  # all tabs are those of one person
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """CPU seconds of one round of answers that all had this many chunks."""

    chunks: int
    answers: int
    server: float
    model: float
    reader: float
    tabs: list[TabTimes]


@dataclass(slots=True, kw_only=True)
class Relay:
    """A server between the tabs of a person and a model server."""

    person: Person
    server: Server
    model: ModelServer
    answers: int

    def answer_all(self, chunks: int) -> list[TabTimes]:
        self.model.prepare_answers(self.answers, chunks)
        return send_at_once(self.person, self.server, self.answers)

    def measure_round(self, chunks: int) -> Round:
        assert self.server.process is not None
        before = read_cpu_seconds(self.server.process.pid), self.model.read_cpu_seconds()
        tabs = self.answer_all(chunks)
        server = read_cpu_seconds(self.server.process.pid) - before[0]
        model = self.model.read_cpu_seconds() - before[1]
        reader = measure_reader(self.model, self.answers, chunks)
        return Round(
            chunks=chunks,
            answers=self.answers,
            server=server,
            model=model,
            reader=reader,
            tabs=tabs,
        )


def run(options: argparse.Namespace, folder: Path, database_url: str) -> None:
    with ModelServer() as model:
        settings = {"OPENAI_BASE_URL": model.url, "DATABASE_URL": database_url, **REAL}
        installation = Installation(folder, **settings)
        server = installation.server("bench")
        try:
            installation.manage("member", "add", "owner", "--password-env", "PASSWORD")
            server.start()
            person = Person(installation, MODEL)
            person.sign_in(server)
            relay = Relay(person=person, server=server, model=model, answers=options.answers)
            relay.answer_all(SHORT_CHUNKS)  # imports, caches and the first connections
            started, busy = time.monotonic(), read_busy_seconds()
            rounds = [
                relay.measure_round(chunks)
                for _ in range(options.rounds)
                for chunks in (SHORT_CHUNKS, options.chunks)
            ]
            load = (read_busy_seconds() - busy) / (time.monotonic() - started)
            assert server.process is not None
            memory = read_resident_mb(server.process.pid)
        finally:
            installation.close()
    print_figures(
        f"{options.answers} answers of {options.chunks} chunks at once, "
        f"{CHUNKS_A_SECOND} a second each, {options.database}",
        [
            *list_costs(rounds, options.chunks),
            *list_times(rounds, options.chunks),
            ("memory of the server", memory, "MB"),
            ("load of the whole machine", load, "cores"),
        ],
    )


def list_costs(rounds: list[Round], chunks: int) -> Iterator[Figure]:
    """CPU time. What a chunk costs is the difference between long and short answers."""
    short = [each for each in rounds if each.chunks == SHORT_CHUNKS]
    long = [each for each in rounds if each.chunks != SHORT_CHUNKS]
    further = (chunks - SHORT_CHUNKS) / 1000
    chunk, model, reader = (
        (least(long, process) - least(short, process)) / further
        for process in ("server", "model", "reader")
    )
    whole = least(long, "server") / chunks * 1000
    message = least(short, "server") - chunk * SHORT_CHUNKS / 1000
    yield "CPU of a message, without its chunks", 1000 * message, "ms"
    yield "CPU of 1,000 more chunks", 1000 * chunk, "ms"
    yield "CPU of 1,000 chunks, messages included", 1000 * whole, "ms"
    yield "CPU of 1,000 more chunks in the model server", 1000 * model, "ms"
    yield "CPU of 1,000 more chunks in the SDK", 1000 * reader, "ms"
    # Too few chunks cost less than the clock of a process can tell.
    if model > 0 and reader > 0:
        yield "ratio to the model server", chunk / model, "×"
        yield "ratio to the SDK", chunk / reader, "×"


def list_times(rounds: list[Round], chunks: int) -> Iterator[Figure]:
    """What people see."""
    firsts = sorted(tab.first_words for each in rounds for tab in each.tabs)
    yield "first words, median", firsts[len(firsts) // 2], "s"
    yield "first words, 95th percentile", firsts[len(firsts) * 19 // 20], "s"
    last = max(tab.whole for each in rounds if each.chunks == chunks for tab in each.tabs)
    yield "delay of the last tab", last - chunks / CHUNKS_A_SECOND, "s"


def least(rounds: list[Round], process: str) -> float:
    """CPU seconds of one answer in the round in which it took least."""
    return min(float(getattr(each, process)) / each.answers for each in rounds)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.relay", description=__doc__)
    parser.add_argument("--answers", type=int, default=20)
    parser.add_argument("--chunks", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    options = read_options(parser, answers=2, chunks=SHORT_CHUNKS + 20, rounds=1)
    with tempfile.TemporaryDirectory() as folder, database(options.database, Path(folder)) as url:
        run(options, Path(folder), url)


if __name__ == "__main__":
    main()
