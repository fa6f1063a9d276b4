"""PostgreSQL ends its connections or goes away while a turn runs: the turn goes on by itself, what
a service answered is kept, and nothing is sent twice."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import psycopg
import pytest

from tests.migrated import POSTGRESQL

from .journey import Journey, installation
from .person import (
    THREAD,
    Line,
    Person,
    find_card,
    find_conversation_id,
    is_over,
    load_page,
    states,
)
from .server import Installation, Server, eventually
from .story import SENTENCES, World, world

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
# Long enough that a worker may try again for a while, short enough to see what it does after that.
LEASE = {"LEASE_SECONDS": "10"}


class Cluster:
    """The PostgreSQL that the installation's database is in, seen from beside it."""

    def __init__(self, url: str) -> None:
        self.name = url.rpartition("/")[2]

    def _do(self, statement: str, *values: str) -> int:
        """How many rows it gave."""
        with psycopg.connect(f"{POSTGRESQL}/postgres", autocommit=True) as connection:
            done = connection.execute(statement.encode(), values or None)
            return len(done.fetchall()) if done.description else 0

    def end_connections(self) -> int:
        """As a restart, a failover or an impatient operator does; how many there were."""
        return self._do(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", self.name
        )

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        """Nobody gets a connection to this database, and those that were there are ended."""
        self._do(f"ALTER DATABASE {self.name} WITH ALLOW_CONNECTIONS false")
        try:
            self.end_connections()
            yield
        finally:
            self._do(f"ALTER DATABASE {self.name} WITH ALLOW_CONNECTIONS true")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A running server on PostgreSQL, and the tale as it reads when nothing happens."""

    installation: Installation
    world: World
    person: Person
    server: Server
    cluster: Cluster

    def begun(self, verb: str) -> Journey:
        """A journey whose message was accepted."""
        journey = Journey(person=self.person, world=self.world, verb=verb, server=self.server)
        sent = self.person.send(self.server, journey.text, journey.client_id)
        journey.conversation = find_conversation_id(sent)
        return journey

    def text(self, journey: Journey) -> str:
        return self.person.page(self.server, journey.conversation).text(THREAD)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder: Path = tmp_path_factory.mktemp("trouble")
    with world(folder) as parties, installation("postgresql", folder, parties, **LEASE) as made:
        server = made.server("first")
        server.start()
        person = Person(made, "openai-chat:scripted")
        person.sign_in(server)
        cluster = Cluster(made.environment["DATABASE_URL"])
        yield Place(installation=made, world=parties, person=person, server=server, cluster=cluster)


def assert_told_to_the_end(place: Place, journey: Journey) -> None:
    page = journey.to_the_end()
    assert states(page) == ["done"]
    text = page.text(THREAD)
    for number in range(1, SENTENCES + 1):
        assert text.count(f"Paragraph {number} of the tale") == 1, f"paragraph {number}"


def test_connections_that_are_ended_again_and_again_do_not_end_an_answer(place: Place) -> None:
    journey = place.begun("Tell")
    ended = []
    for paragraph in (3, 12, 25):
        eventually(
            lambda paragraph=paragraph: (  # type: ignore[misc]
                f"Paragraph {paragraph} of" in place.text(journey)
            ),
            f"paragraph {paragraph}",
        )
        ended.append(place.cluster.end_connections())
    assert all(ended), ended
    assert_told_to_the_end(place, journey)


def test_a_database_that_is_away_for_seconds_costs_no_word_of_an_answer(place: Place) -> None:
    """The same attempt goes on: what was said meanwhile was kept, and is shown afterwards."""
    journey = place.begun("Tell")
    line = Line(place.person, place.server, journey.conversation)
    line.read(lambda tab: "Paragraph 5 of" in tab.text(THREAD))
    asked = place.world.model.asked_about(journey.name)
    with place.cluster.away():
        time.sleep(2.5)  # how long it is away
    line.read(is_over)
    line.close()
    assert_told_to_the_end(place, journey)
    assert line.tab.text(THREAD) == place.text(journey), "The tab and a reload differ."
    assert place.world.model.asked_about(journey.name) == asked, "The model was asked anew."


@pytest.mark.parametrize("seconds", [4, 14], ids=["briefly", "longer than a lease"])
def test_a_result_that_comes_while_the_database_is_away_is_kept(
    place: Place, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    monkeypatch.setattr("tests.flows.story.HELD_SECONDS", 2)
    journey = place.begun("Change")
    eventually(
        lambda: find_card(place.person.page(place.server, journey.conversation)) == "approval",
        "the question",
    )
    page = place.person.page(place.server, journey.conversation)
    place.person.answer(place.server, page, {"decision": "run"})
    eventually(lambda: journey.executions == 1, "the effect")
    with place.cluster.away():
        time.sleep(seconds)  # the service answers in the middle of it
    page = journey.to_the_end()
    assert states(page) == ["done"]
    assert "unknown" not in journey.saw
    assert journey.executions == 1
    assert "is changed" in page.text(THREAD)


def test_a_database_that_is_away_for_longer_than_a_lease_ends_no_turn(place: Place) -> None:
    journey = place.begun("Tell")
    eventually(lambda: "Paragraph 3 of" in place.text(journey), "some words")
    with place.cluster.away():
        time.sleep(14)
    assert_told_to_the_end(place, journey)


def test_a_message_that_is_sent_while_the_database_is_away_is_kept_in_the_answer(
    place: Place,
) -> None:
    journey = Journey(person=place.person, world=place.world, verb="Tell", server=place.server)
    page = load_page(place.person.html(place.server, "/"))
    with place.cluster.away():
        refused = place.person.send(place.server, journey.text, journey.client_id, page)
        ready = place.person.browser.get(f"{place.server.address}/readyz")
    assert (refused.status_code, ready.status_code) == (503, 503)
    assert journey.text in refused.text
    assert_told_to_the_end(place, journey)


def test_two_people_write_while_the_connections_are_ended(place: Place) -> None:
    journeys = [place.begun("Tell") for _ in range(3)]

    def trouble() -> None:
        for _ in range(4):
            time.sleep(0.4)
            place.cluster.end_connections()

    troubling = Thread(target=trouble)
    troubling.start()
    troubling.join(30)
    for journey in journeys:
        assert_told_to_the_end(place, journey)
