"""Two servers on one PostgreSQL without Redis: LISTEN and NOTIFY carry the hints between them.

The servers look for changes once an hour, so what a tab at the other server shows came by a hint.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from psycopg.rows import scalar_row

from .journey import Journey, installation
from .person import THREAD, Line, Person, find_conversation_id, is_over
from .server import Installation, Server, eventually
from .story import World, world

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
LISTENERS = (
    "SELECT pid FROM pg_stat_activity "
    "WHERE datname = current_database() AND application_name = 'countersign messages'"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    installation: Installation
    world: World
    person: Person
    works: Server
    shows: Server

    def watch(self) -> tuple[Journey, Line]:
        """An answer that one server makes, in a tab at the other one, to its end."""
        journey = Journey(person=self.person, world=self.world, verb="Tell", server=self.works)
        sent = self.person.send(self.works, journey.text, journey.client_id)
        journey.conversation = find_conversation_id(sent)
        line = Line(self.person, self.shows, journey.conversation)
        line.read(is_over)
        return journey, line

    def assert_shown(self, journey: Journey, line: Line) -> None:
        """The tab shows what a reload shows, and more than the page had when it was loaded."""
        page = self.person.page(self.works, journey.conversation)
        assert line.tab.text(THREAD) == page.text(THREAD)
        assert line.closings == 0
        assert len(line.frames) > 20
        line.close()

    def query(self, statement: str) -> list[int]:
        with psycopg.connect(self.installation.environment["DATABASE_URL"]) as connection:
            return connection.cursor(row_factory=scalar_row).execute(statement.encode()).fetchall()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder: Path = tmp_path_factory.mktemp("notify")
    with world(folder) as parties, installation("postgresql", folder, parties) as made:
        assert "REDIS_URL" not in made.environment
        works, shows = (made.server(name, HINT_POLL_SECONDS="3600") for name in ("works", "shows"))
        works.start()
        shows.start()
        person = Person(made, "openai-chat:scripted")
        person.sign_in(works)
        yield Place(installation=made, world=parties, person=person, works=works, shows=shows)


def test_a_tab_at_another_server_is_shown_everything_by_hints_alone(place: Place) -> None:
    place.assert_shown(*place.watch())


def test_listening_connections_that_are_broken_come_back(place: Place) -> None:
    broken = set(place.query(LISTENERS))
    assert len(broken) == 2
    place.query(LISTENERS.replace("pid", "pg_terminate_backend(pid)::int", 1))
    eventually(lambda: len(set(place.query(LISTENERS)) - broken) == 2, "new connections")
    place.assert_shown(*place.watch())
    for server in (place.works, place.shows):
        assert server.log.count("messages is away") == 1


def test_hints_that_are_lost_doubled_and_reordered_change_nothing(place: Place) -> None:
    works, shows = (
        place.installation.server(name, LOSSY_LAYER="1") for name in ("lossy-works", "lossy-shows")
    )
    works.start()
    shows.start()
    lossy = Place(
        installation=place.installation,
        world=place.world,
        person=place.person,
        works=works,
        shows=shows,
    )
    lossy.assert_shown(*lossy.watch())
    assert works.log.count("hint lost") > 5
    assert works.log.count("hint doubled") > 5
    works.end()
    shows.end()


def test_two_workers_serve_one_port(place: Place) -> None:
    both = place.installation.server("both", HINT_POLL_SECONDS="3600")
    both.workers = 2
    both.start()
    eventually(lambda: len(place.query(LISTENERS)) == 4, "a connection of each worker")
    assert place.person.browser.get(f"{both.address}/readyz").text == "ready\n"
    served = Place(
        installation=place.installation,
        world=place.world,
        person=place.person,
        works=both,
        shows=both,
    )
    served.assert_shown(*served.watch())
    both.end()
