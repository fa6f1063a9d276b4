"""The serving process is killed around the pauses of a call: what was asked, answered or begun is
still there, and nothing is done twice."""

from collections.abc import Iterator

import pytest

from chatapp.journal.fault_points import FaultPoint

from .journey import Journey, installation
from .pausing_services import PausingServices, pausing_services
from .person import states
from .places import Place, assert_well_ended, start_place
from .server import REDIS, Server
from .story import World, world

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
VERBS = ("Ask", "Push", "Run", "Open")
SIDE_BY_SIDE = {"REDIS_URL": f"{REDIS}/12"}

CARDS = {"approval", "question", "sign-in", "unknown"}

# Where the process is killed, what was asked, and which cards the person meets.
POINTS = [
    pytest.param(
        FaultPoint.QUESTION_PAUSE_COMMITTED, 1, "Ask", {"question"}, id="a question is open"
    ),
    pytest.param(
        FaultPoint.QUESTION_ANSWERED,
        1,
        "Ask",
        {"question"},
        id="it is answered",
    ),
    pytest.param(
        FaultPoint.CALL_STORED_AS_SENDING,
        2,
        "Ask",
        {"question", "unknown"},
        id="the next leg begins",
    ),
    pytest.param(
        FaultPoint.CALL_ANSWERED,
        2,
        "Ask",
        {"question", "unknown"},
        id="the next leg is answered",
    ),
    pytest.param(
        FaultPoint.LIVE_QUESTION_COMMITTED,
        1,
        "Push",
        {"question", "unknown"},
        id="a question in the middle of a call",
    ),
    pytest.param(
        FaultPoint.QUESTION_ANSWERED,
        1,
        "Push",
        {"question", "unknown"},
        id="that is answered",
    ),
    pytest.param(
        FaultPoint.CALL_ANSWERED,
        1,
        "Run",
        {"unknown"},
        id="a task has begun",
    ),
    pytest.param(FaultPoint.TASK_PAUSE_COMMITTED, 1, "Run", set(), id="a task is stored"),
    pytest.param(
        FaultPoint.SIGN_IN_PAUSE_COMMITTED, 1, "Open", {"sign-in"}, id="a sign-in is wanted"
    ),
]
AT_ANOTHER = [
    pytest.param(FaultPoint.QUESTION_PAUSE_COMMITTED, 1, "Ask", {"question"}, id="it asks there"),
    pytest.param(
        FaultPoint.QUESTION_ANSWERED, 1, "Ask", {"question"}, id="it goes on there with the answer"
    ),
    pytest.param(
        FaultPoint.TASK_PAUSE_COMMITTED, 1, "Run", set(), id="it asks after the task there"
    ),
    pytest.param(
        FaultPoint.SIGN_IN_PAUSE_COMMITTED, 1, "Open", {"sign-in"}, id="it signs in there"
    ),
]


@pytest.fixture(scope="module")
def parties(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("world")) as made:
        yield made


@pytest.fixture(scope="module")
def services(parties: World) -> Iterator[PausingServices]:
    with pausing_services(parties.effects) as made:
        yield made


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def place(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    parties: World,
    services: PausingServices,
) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp(request.param)
    with installation(request.param, folder, parties) as made:
        services.add_to(made)
        yield start_place(request.param, made, parties, VERBS)


@pytest.fixture(scope="module")
def pair(
    tmp_path_factory: pytest.TempPathFactory, parties: World, services: PausingServices
) -> Iterator[Place]:
    """Servers side by side: one database, one Redis."""
    folder = tmp_path_factory.mktemp("pair")
    with installation("postgresql", folder, parties, **SIDE_BY_SIDE) as made:
        services.add_to(made)
        yield start_place("postgresql", made, parties, VERBS)


def strike(
    place: Place,
    services: PausingServices,
    point: FaultPoint,
    count: int,
    verb: str,
    spare: Server | None = None,
) -> Journey:
    """The journey through a story in which the server is killed at this point."""
    services.forget_sign_ins()
    place.server.strike(point, count)
    return place.journey(verb, spare)


@pytest.mark.parametrize(("point", "count", "verb", "cards"), POINTS)
def test_a_server_killed_around_a_pause_loses_nothing_and_does_nothing_twice(
    place: Place,
    services: PausingServices,
    point: FaultPoint,
    count: int,
    verb: str,
    cards: set[str],
) -> None:
    journey = strike(place, services, point, count, verb)
    page = journey.to_the_end()
    assert CARDS & set(journey.saw) == cards
    assert_well_ended(place, journey, page, is_asked="unknown" in cards)


@pytest.mark.parametrize(("point", "count", "verb", "cards"), AT_ANOTHER)
def test_a_second_server_goes_on_with_what_one_that_was_killed_has_begun(
    pair: Place,
    services: PausingServices,
    point: FaultPoint,
    count: int,
    verb: str,
    cards: set[str],
) -> None:
    spare = pair.installation.server(f"spare-{point}-{verb}")
    spare.start()
    journey = strike(pair, services, point, count, verb, spare)
    page = journey.to_the_end()
    assert journey.server is spare
    assert CARDS & set(journey.saw) == cards
    assert_well_ended(pair, journey, page, is_asked=False)
    spare.end()
    pair.server.start()


def test_a_task_is_begun_once_however_many_servers_ask_after_it(
    pair: Place, services: PausingServices
) -> None:
    """Both live: one asks at a time, so two looks are enough for the end."""
    spare = pair.installation.server("beside")
    spare.start()
    looks = sum(services.errands.looks.values())
    journey = pair.journey("Run")
    page = journey.to_the_end()
    assert (states(page), journey.executions) == (["done"], 1)
    assert sum(services.errands.looks.values()) - looks == 2
    spare.end()
