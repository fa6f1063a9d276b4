"""What relaying answers costs the server: N at once, each stored, rendered and watched by a tab.

Run `python -m benchmarks.relay [--answers 20] [--chunks 400] [--rounds 3] [--database sqlite]`.
Figures are CPU time of the server process alone, the least of all rounds, since other work on the
machine only adds to it. Short answers are asked beside long ones, which separates what a message
costs from what a chunk costs. Two yardsticks are measured in the same minutes: the model server
that sends the chunks, and a reader that takes them with the provider's SDK and throws them away.
"""

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.machine import busy_cores, cpu_seconds, resident_mb
from benchmarks.model import CHUNKS_A_SECOND, ModelServer, seconds_of_reader
from benchmarks.tabs import Seen, ask_at_once
from tests.flows.person import Person
from tests.flows.server import Installation, Server, database

SHORT_CHUNKS = 40
SHORT = "short"
MODEL = "openai-chat:bench"
REAL = {
    "DJANGO_SETTINGS_MODULE": "chatapp.settings",
    "LEASE_SECONDS": "15",
    "SWEEP_SECONDS": "5",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """CPU seconds of one round of answers that all had this many chunks."""

    chunks: int
    answers: int
    server: float
    model: float
    reader: float
    seen: list[Seen]

    @property
    def a_message(self) -> float:
        return self.server / self.answers


@dataclass(slots=True, kw_only=True)
class Relay:
    """A server with a person's tabs before it and a model server behind it."""

    person: Person
    server: Server
    model: ModelServer
    answers: int

    def play(self, chunks: int) -> Round:
        assert self.server.process is not None
        self.model.load(self.answers, chunks)
        before = cpu_seconds(self.server.process.pid), self.model.cpu_seconds()
        seen = ask_at_once(self.person, self.server, self.answers)
        server = cpu_seconds(self.server.process.pid) - before[0]
        model = self.model.cpu_seconds() - before[1]
        reader = seconds_of_reader(self.model, self.answers, chunks)
        return Round(
            chunks=chunks,
            answers=self.answers,
            server=server,
            model=model,
            reader=reader,
            seen=seen,
        )


def run(options: argparse.Namespace, folder: Path, database_url: str) -> None:
    with ModelServer(folder) as model:
        settings = {"OPENAI_BASE_URL": model.url, "DATABASE_URL": database_url, **REAL}
        installation = Installation(folder, **settings)
        server = installation.server("bench")
        try:
            server.start()
            installation.manage("member", "add", "owner", "--password-env", "PASSWORD")
            person = Person(installation, MODEL)
            person.sign_in(server)
            relay = Relay(person=person, server=server, model=model, answers=options.answers)
            relay.play(SHORT_CHUNKS)  # imports, caches and the first connections
            began, others = time.monotonic(), busy_cores()
            rounds = [
                relay.play(chunks)
                for _ in range(options.rounds)
                for chunks in (SHORT_CHUNKS, options.chunks)
            ]
            load = (busy_cores() - others) / (time.monotonic() - began)
            report(rounds, options, load)
            assert server.process is not None
            print(f"Memory: {resident_mb(server.process.pid):.0f} MB resident")
        finally:
            installation.close()


def report(rounds: list[Round], options: argparse.Namespace, load: float) -> None:
    short = [each for each in rounds if each.chunks == SHORT_CHUNKS]
    long = [each for each in rounds if each.chunks != SHORT_CHUNKS]
    thousands = (options.chunks - SHORT_CHUNKS) / 1000
    chunk, model, reader = (
        (least(long, what) - least(short, what)) / thousands
        for what in ("server", "model", "reader")
    )
    whole = least(long, "server") / options.chunks * 1000
    fixed = least(short, "server") - chunk * SHORT_CHUNKS / 1000
    print(f"{options.answers} answers of {options.chunks} chunks at once, ", end="")
    print(f"{CHUNKS_A_SECOND} a second each, ", end="")
    print(f"{options.database}; the whole machine was using {load:.1f} cores")
    print(f"CPU a message, before its chunks:  {1000 * fixed:.0f} ms")
    print(f"CPU for 1,000 further chunks:      {1000 * chunk:.0f} ms")
    print(f"  {chunk / model:.1f} times the model server that sends them ({1000 * model:.0f} ms)")
    print(f"  {chunk / reader:.1f} times the SDK that reads them ({1000 * reader:.0f} ms)")
    print(f"CPU for 1,000 chunks, messages included:  {1000 * whole:.0f} ms")
    firsts = sorted(seen.first_words for each in rounds for seen in each.seen)
    print(f"First words, {options.answers} posts at once: ", end="")
    print(f"{firsts[len(firsts) // 2]:.2f} s median, {firsts[len(firsts) * 19 // 20]:.2f} s p95")
    late = max(seen.whole for each in long for seen in each.seen)
    said = options.chunks / CHUNKS_A_SECOND
    print(f"The last tab was whole {late - said:.1f} s after the {said:.0f} s that it takes to say")


def least(rounds: list[Round], what: str) -> float:
    """CPU seconds of one answer in the round where it took least."""
    return min(float(getattr(each, what)) / each.answers for each in rounds)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.relay", description=__doc__)
    parser.add_argument("--answers", type=int, default=20)
    parser.add_argument("--chunks", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, database(options.database, Path(folder)) as url:
        run(options, Path(folder), url)


if __name__ == "__main__":
    main()
