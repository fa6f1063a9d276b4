"""Servers that are told to end while tool calls run: what ends in time keeps its outcome."""

import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from .journey import Journey, installation
from .person import THREAD, Person, find_card, find_conversation_id, states
from .server import REDIS, Server, eventually
from .story import World, world

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
WAIT = {"SHUTDOWN_SECONDS": "60"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A server and the parties that it talks to."""

    world: World
    person: Person
    server: Server

    def begin_call(self) -> Journey:
        """A journey whose tool call is running at the service."""
        journey = Journey(person=self.person, world=self.world, verb="Change", server=self.server)
        sent = self.person.send(self.server, journey.text, journey.client_id)
        journey.conversation = find_conversation_id(sent)
        eventually(lambda: self._asks(journey), "the question")
        page = self.person.page(self.server, journey.conversation)
        self.person.answer(self.server, page, {"decision": "run"})
        eventually(lambda: journey.executions == 1, "the effect")
        return journey

    def _asks(self, journey: Journey) -> bool:
        page = self.person.page(self.server, journey.conversation)
        return bool(find_card(page) == "approval")


@pytest.fixture(
    scope="module",
    params=[
        "sqlite",
        "postgresql",
    ],
)
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    """One process on SQLite, two workers on PostgreSQL."""
    folder: Path = tmp_path_factory.mktemp("shutdown")
    workers = {"sqlite": 1, "postgresql": 2}[request.param]
    more = {"REDIS_URL": f"{REDIS}/9"} if workers > 1 else {}
    with world(folder) as parties, installation(request.param, folder, parties, **more) as made:
        server = made.server("first", **WAIT)
        server.workers = workers
        server.start()
        person = Person(made, "openai-chat:scripted")
        person.sign_in(server)
        yield Place(world=parties, person=person, server=server)


@pytest.mark.parametrize("lengths", [(2,), (1, 4, 9)])
def test_calls_that_end_in_time_keep_their_outcome(
    place: Place, monkeypatch: pytest.MonkeyPatch, lengths: tuple[int, ...]
) -> None:
    journeys = []
    for seconds in sorted(lengths, reverse=True):
        monkeypatch.setattr("tests.flows.story.HELD_SECONDS", seconds)
        journeys.append(place.begin_call())
    place.server.send(signal.SIGTERM)
    assert place.server.wait() == 0
    place.server.start()
    for journey in journeys:
        page = journey.to_the_end()
        assert states(page) == ["done"]
        assert "is changed" in page.text(THREAD)
        assert ("unknown" in journey.saw, journey.executions) == (False, 1), journey.saw


def test_a_call_that_takes_longer_than_the_wait_is_unknown(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted fault: without the wait the same story ends with a question."""
    monkeypatch.setattr("tests.flows.story.HELD_SECONDS", 25)
    place.server.send(signal.SIGTERM)
    assert place.server.wait() == 0
    place.server.environment["SHUTDOWN_SECONDS"] = "1"
    place.server.start()
    journey = place.begin_call()
    place.server.send(signal.SIGTERM)
    assert place.server.wait() == 0
    place.server.environment.update(WAIT)
    place.server.start()
    journey.to_the_end()
    assert (journey.verdicts, journey.executions) == (["worked"], 1)


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)  # a terminal interrupts workers itself
def test_a_second_interrupt_ends_the_wait(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.flows.story.HELD_SECONDS", 25)
    journey = place.begin_call()
    place.server.send(signal.SIGINT)
    eventually(lambda: not is_listening(place.server), "the end of listening")
    place.server.send(signal.SIGINT)
    place.server.wait()
    place.server.start()
    journey.to_the_end()
    assert (journey.verdicts, journey.executions) == (["worked"], 1), "It waited for the call."


def is_listening(server: Server) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", server.port)) == 0
