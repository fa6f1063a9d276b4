"""Where stories are told whose servers are killed, and how such a story must end."""

from collections.abc import Iterable
from dataclasses import dataclass

from tests.dom import Tab

from .journey import Journey
from .person import Person, states
from .server import Installation, Server
from .story import World

MODELS = {"sqlite": "openai-chat:scripted", "postgresql": "openai:scripted"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An installation with a server that runs, and how its stories read when nothing happens."""

    installation: Installation
    world: World
    person: Person
    server: Server
    undisturbed: dict[str, str]
    words: list[str]

    def journey(self, verb: str, spare: Server | None = None) -> Journey:
        return Journey(
            person=self.person, world=self.world, verb=verb, server=self.server, spare=spare
        )


def start_place(kind: str, made: Installation, parties: World, verbs: Iterable[str]) -> Place:
    """A place where each story has been told once undisturbed."""
    server = made.server("first")
    server.start()
    person = Person(made, MODELS[kind])
    person.sign_in(server)
    place = Place(
        installation=made, world=parties, person=person, server=server, undisturbed={}, words=[]
    )
    for verb in verbs:
        journey = place.journey(verb)
        page = journey.to_the_end()
        place.undisturbed[verb] = journey.told(page)
        place.words[:] = journey.said(page)
        assert (journey.deaths, journey.executions) == (0, 1), journey.told(page)
        assert ("approval" in journey.saw) == (verb == "Delete")
    return place


def assert_at_most_once_without_a_word(journey: Journey) -> None:
    """Every execution beyond the first needs somebody who said “run again”."""
    assert journey.executions <= 1 + journey.verdicts.count("again")


def assert_well_ended(place: Place, journey: Journey, page: Tab, *, is_asked: bool) -> None:
    assert journey.deaths == 1, "The process was not killed where it was ordered to be."
    assert journey.executions == 1
    assert_at_most_once_without_a_word(journey)
    assert ("unknown" in journey.saw) == is_asked, journey.saw
    assert states(page) == ["done"]
    assert journey.said(page) == place.words
    if not journey.verdicts:  # else the card also says who answered for the outcome
        assert journey.told(page) == place.undisturbed[journey.verb]
    found = journey.person.conversations(journey.server, journey.name)
    assert found == [journey.conversation], "One message made several conversations."
