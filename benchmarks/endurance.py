"""What real servers withstand: kills at random moments, stops while tools run, many answers at the
same time, and hours of work.

Run `python -m benchmarks.endurance [--kills 60] [--stops 20] [--answers 200] [--soak-minutes 30]
[--people 4] [--pause 0] [--pace 60] [--database sqlite|postgresql] [--workers 1] [--redis URL]
[--json FILE] [--seed N]`. A size of 0 leaves a part out. The model and the service of these stories
are those of the tests: the service writes down each effect, so that a call that ran twice is seen.
The process fails where something is lost, repeated or unknown without need.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import httpx2

from tests.dom import Tab
from tests.flows.journey import Journey, installation
from tests.flows.person import (
    THREAD,
    Line,
    Person,
    find_card,
    find_conversation_id,
    is_over,
    load_page,
    states,
)
from tests.flows.places import MODELS
from tests.flows.server import Server, eventually
from tests.flows.story import World, world

from .machine import read_resident_mb
from .report import Figure, print_figures, read_options

STOP_WAIT_SECONDS = 20
MOST_TOOL_SECONDS = 15
TABS_SECONDS = 900
# The first messages of many people are spread over this time. Their answers take much longer.
STARTS_SECONDS = 10.0
SAMPLE_SECONDS = 5


@dataclass(slots=True, kw_only=True)
class WatchedJourney(Journey):
    """Also counts the decisions that the server confirmed."""

    confirmed: int = 0

    def _act(self) -> Tab | None:
        before = self.decisions
        # A decision whose answer did not arrive raises here and is not confirmed.
        page = Journey._act(self)
        self.confirmed += self.decisions - before
        return page


@dataclass(slots=True, kw_only=True)
class Place:
    """A running installation."""

    world: World
    server: Server
    person: Person
    random: random.Random
    people: int
    pause: float
    problems: list[str] = field(default_factory=list)

    def start_journey(self, verb: str) -> WatchedJourney:
        return WatchedJourney(person=self.person, world=self.world, verb=verb, server=self.server)

    def check(self, is_right: bool, problem: str) -> bool:
        if not is_right:
            self.problems.append(problem)
        return is_right

    def list_processes(self) -> list[int]:
        """Return the process ids of the server: its parent and its workers."""
        assert self.server.process is not None
        parent = self.server.process.pid
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        serving = [int(child) for child in children if _is_worker(int(child))]
        return [parent, *serving]


def _is_worker(pid: int) -> bool:
    try:
        return b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


@contextmanager
def open_place(options: argparse.Namespace) -> Iterator[Place]:
    more = {
        "SHUTDOWN_SECONDS": str(STOP_WAIT_SECONDS),
        # All tabs are those of one person.
        "SOCKETS_PER_PERSON": str(options.answers + options.people + 10),
    }
    if options.redis:
        more["REDIS_URL"] = options.redis
    with (
        tempfile.TemporaryDirectory() as folder,
        world(Path(folder)) as parties,
        installation(options.database, Path(folder), parties, **more) as made,
    ):
        server = made.server("endurance")
        server.workers = options.workers
        server.start()
        person = Person(made, MODELS[options.database])
        person.sign_in(server)
        chance = random.Random(options.seed)  # noqa: S311 - the moments of a run can be repeated
        yield Place(
            world=parties,
            server=server,
            person=person,
            random=chance,
            people=options.people,
            pause=options.pause,
        )


# --- kills -----------------------------------------------------------------------------------
def kill_at_random(place: Place, kills: int) -> list[Figure]:
    """Kill a process of the server while a person's turn with an approval goes on."""
    words = _tell_undisturbed(place)
    started = time.monotonic()
    place.start_journey("Delete").to_the_end()
    usual = time.monotonic() - started
    asked = repeated = lost = deaths = 0
    for _ in range(kills):
        journey = place.start_journey("Delete")
        killer = threading.Timer(place.random.uniform(0, usual), _kill_one, [place])
        killer.start()
        page = journey.to_the_end()
        killer.join()
        deaths += 1
        asked += "unknown" in journey.saw
        name = journey.name
        again = journey.verdicts.count("again")
        repeated += not place.check(
            1 <= journey.executions <= 1 + again, f"{name} ran {journey.executions} times"
        )
        found = _find_conversations(place, name)
        is_whole = (
            place.check(found == [journey.conversation], f"{name} is in {found}")
            & place.check(journey.confirmed <= 1, f"{name} was decided {journey.confirmed} times")
            & place.check(states(page) == ["done"], f"{name} ended as {states(page)}")
            & place.check(journey.said(page) == words, f"{name} says {journey.said(page)}")
        )
        lost += not is_whole
    return [
        ("kills at random moments", deaths, "kills"),
        ("calls that ran twice", repeated, "calls"),
        ("messages, decisions or answers lost", lost, "turns"),
        ("outcomes that a person was asked for", asked, "calls"),
    ]


def _tell_undisturbed(place: Place) -> list[str]:
    journey = place.start_journey("Delete")
    page = journey.to_the_end()
    assert (journey.deaths, journey.executions) == (0, 1), journey.told(page)
    return journey.said(page)


def _kill_one(place: Place) -> None:
    os.kill(place.random.choice(place.list_processes()), signal.SIGKILL)


def _find_conversations(place: Place, words: str) -> list[str]:
    """Return the ids of the chats with these words, once a server answers again: the kill may have
    come after the end of the turn."""
    found: list[list[str]] = []

    def look() -> bool:
        if not place.server.is_alive:
            place.server.end()
            place.server.start()
        with contextlib.suppress(httpx2.TransportError):
            found.append(place.person.conversations(place.server, words))
        return bool(found)

    eventually(look, "an answer of the server")
    return found[0]


# --- stops -----------------------------------------------------------------------------------
def stop_during_tools(place: Place, stops: int) -> list[Figure]:
    """Send SIGTERM while tools of 1 to 15 s run; all end within the wait of 20 s."""
    unknown = repeated = calls = 0
    for _ in range(stops):
        journeys = []
        for seconds in sorted(
            (place.random.uniform(1, MOST_TOOL_SECONDS) for _ in range(2)), reverse=True
        ):
            with mock.patch("tests.flows.story.HELD_SECONDS", seconds):
                journeys.append(_begin_call(place))
        place.server.send(signal.SIGTERM)
        code = place.server.wait()
        place.check(code == 0, f"The server ended with {code}")
        place.server.start()
        for journey in journeys:
            page = journey.to_the_end()
            calls += 1
            unknown += not place.check(
                "unknown" not in journey.saw, f"{journey.name}: outcome unknown"
            )
            repeated += not place.check(
                journey.executions == 1, f"{journey.name} ran {journey.executions} times"
            )
            place.check(states(page) == ["done"], f"{journey.name} ended as {states(page)}")
    return [
        ("SIGTERMs during tools of 1 to 15 s", stops, "stops"),
        ("tool calls that ran meanwhile", calls, "calls"),
        ("unknown outcomes among them", unknown, "calls"),
        ("calls that ran twice", repeated, "calls"),
    ]


def _begin_call(place: Place) -> WatchedJourney:
    """Return a journey whose tool call runs at the service."""
    journey = place.start_journey("Change")
    sent = place.person.send(place.server, journey.text, journey.client_id)
    journey.conversation = find_conversation_id(sent)

    def asks() -> bool:
        return find_card(place.person.page(place.server, journey.conversation)) == "approval"

    eventually(asks, "the question")
    page = place.person.page(place.server, journey.conversation)
    place.person.answer(place.server, page, {"decision": "run"})
    eventually(lambda: journey.executions == 1, "the effect")
    return journey


# --- many answers ----------------------------------------------------------------------------
def answer_many(place: Place, answers: int) -> list[Figure]:
    """Let so many answers stream at the same time, each to a tab; what a tab shows after its last
    frame must be what a page shows that is loaded then."""
    page = load_page(place.person.html(place.server, "/"))
    started = time.monotonic()
    with ThreadPoolExecutor(answers) as tabs:
        following = [
            tabs.submit(_follow, place, page, STARTS_SECONDS * number / answers)
            for number in range(answers)
        ]
        lines = [each.result() for each in following]
    took = time.monotonic() - started
    lost = closings = 0
    for line, conversation in lines:
        fresh = place.person.page(place.server, conversation)
        tab = load_page(line.html)
        for frame in line.frames:
            tab.take(frame)
        lost += not place.check(
            tab.text(THREAD) == fresh.text(THREAD) and is_over(tab),
            f"A tab of {conversation} differs from its page",
        )
        closings += line.closings
    return [
        ("answers at the same time", answers, "answers"),
        ("tabs that lost a frame", lost, "tabs"),
        ("sockets that closed and came back", closings, "sockets"),
        ("time until the last answer was complete", took, "s"),
    ]


def _follow(place: Place, page: Tab, delay: float) -> tuple[Line, str]:
    name = f"tale{uuid.uuid4().hex[:8]}"
    time.sleep(delay)
    sent = place.person.send(place.server, f"Tell-slowly {name}", uuid.uuid4(), page)
    conversation = find_conversation_id(sent)
    line = Line(place.person, place.server, conversation)
    line.read_raw(lambda frame: 'data-state=\\"done\\"' in frame, TABS_SECONDS)
    line.close()
    return line, conversation


# --- a soak ----------------------------------------------------------------------------------
def soak(place: Place, minutes: float) -> list[Figure]:
    """Let people work all the time, and compare the memory of the workers over time."""
    end = time.monotonic() + 60 * minutes
    turns = [0] * place.people

    def work(number: int) -> None:
        while time.monotonic() < end:
            for verb in ("Delete", "Read", "Tell"):
                journey = place.start_journey(verb)
                line_page = journey.to_the_end()
                place.check(states(line_page) == ["done"], f"{journey.name} did not end well")
                place.check(
                    journey.executions == (verb != "Tell"), f"{journey.name} ran differently"
                )
                turns[number] += 1
                time.sleep(place.pause)

    samples: list[float] = []
    with ThreadPoolExecutor(place.people) as people:
        working = [people.submit(work, number) for number in range(place.people)]
        while not all(each.done() for each in working):
            samples.append(sum(map(read_resident_mb, place.list_processes())))
            time.sleep(min(SAMPLE_SECONDS, 2 * minutes))
        for each in working:
            each.result()
    # The first third fills caches.
    third = max(1, len(samples) // 3)
    middle, last = samples[third : 2 * third] or samples, samples[-third:]
    return [
        ("people who work all the time", place.people, "people"),
        ("time of their work", minutes, "minutes"),
        ("turns meanwhile", sum(turns), "turns"),
        ("memory in the second third", sum(middle) / len(middle), "MB"),
        ("memory in the last third", sum(last) / len(last), "MB"),
        ("most memory", max(samples), "MB"),
    ]


PARTS = {
    "kills": kill_at_random,
    "stops": stop_during_tools,
    "answers": answer_many,
    "soak_minutes": soak,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.endurance", description=__doc__)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--stops", type=int, default=0)
    parser.add_argument("--answers", type=int, default=0)
    parser.add_argument("--soak-minutes", type=float, default=0)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--redis", default="", help="address of a Redis server; none by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="add the figures to this file")
    parser.add_argument("--people", type=int, default=4, help="people of the soak")
    parser.add_argument("--pause", type=float, default=0, help="seconds between their messages")
    parser.add_argument("--pace", type=int, default=60, help="milliseconds between two chunks")
    options = read_options(parser, kills=1, stops=0, answers=2, soak_minutes=0.02, pace=1)
    paces = {"Tell": options.pace, "Tell-slowly": options.pace}
    with mock.patch.dict("tests.flows.story.PACES_MS", paces):
        problems = run_parts(options)
    if problems:
        raise SystemExit("\n".join(problems))


def run_parts(options: argparse.Namespace) -> list[str]:
    """Run each part that has a size, all with one server, and return what went wrong."""
    with open_place(options) as place:
        for part, run in PARTS.items():
            if not (size := getattr(options, part)):
                continue
            figures = run(place, size)
            name = f"{part.removesuffix('_minutes')}, {options.database}"
            print_figures(f"{name}, processes: {options.workers}", figures)
            if options.json:
                add_to_file(options.json, name, figures)
    return place.problems


def add_to_file(path: Path, name: str, figures: list[Figure]) -> None:
    """Store the figures of one run under its name, beside those of other runs."""
    kept: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    kept[name] = {what: [round(number, 2), unit] for what, number, unit in figures}
    path.write_text(json.dumps(kept, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
