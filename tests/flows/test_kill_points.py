"""The serving process is killed at each point of a turn: nothing accepted is lost, nothing that was
sent is sent again without a person's word, and the page ends as if nothing had happened."""

import contextlib
import signal
import threading
from collections.abc import Iterator

import httpx2
import pytest

from .journey import installation
from .person import THREAD, conversation_in, states
from .places import Place, assert_at_most_once_without_a_word, assert_well_ended, placed
from .server import REDIS, eventually
from .story import SENTENCES, World, world

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
VERBS = ("Delete", "Read")
SIDE_BY_SIDE = {"REDIS_URL": f"{REDIS}/11"}

# Where the process is killed, what was asked, and whether the person is asked about the outcome.
POINTS = [
    ("K1:1", "Delete", False),
    ("K2:1", "Delete", False),
    ("K3:1", "Delete", False),
    ("K4:1", "Delete", False),
    ("K5:1", "Delete", False),
    ("K6:1", "Delete", False),
    ("K7:1", "Delete", False),
    ("K8:1", "Delete", False),
    ("K9:1", "Delete", False),
    ("K10:1", "Delete", False),
    ("K11:1", "Delete", True),
    ("K11:1", "Read", True),
    ("K13:1", "Delete", True),
    ("K13:1", "Read", True),
    ("K14:1", "Delete", False),
    ("K6:3", "Delete", False),  # K15: in the stream that follows the call
    ("K16:1", "Delete", False),
]


@pytest.fixture(scope="module")
def parties(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("world")) as made:
        yield made


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, parties: World
) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp(request.param)
    with installation(request.param, folder, parties) as made:
        yield placed(request.param, made, parties, VERBS)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, parties: World) -> Iterator[Place]:
    """Servers side by side: one database, one Redis."""
    folder = tmp_path_factory.mktemp("pair")
    with installation("postgresql", folder, parties, **SIDE_BY_SIDE) as made:
        yield placed("postgresql", made, parties, VERBS)


@pytest.mark.parametrize(("point", "verb", "is_asked"), POINTS)
def test_a_server_killed_anywhere_loses_nothing_and_sends_nothing_twice(
    place: Place, point: str, verb: str, is_asked: bool
) -> None:
    where, count = point.split(":")
    place.server.strike(where, int(count))
    journey = place.journey(verb)
    page = journey.to_the_end()
    assert_well_ended(place, journey, page, is_asked=is_asked)
    assert where != "K1" or journey.messages_sent == 2, "It died before it had accepted anything."


def test_a_server_killed_while_the_service_works_shows_an_unknown_outcome(place: Place) -> None:
    """K12: the call was sent, its effect is on the service's disk, and its answer never comes."""
    journey = place.journey("Change")

    def kill_once_it_took_effect() -> None:
        eventually(lambda: journey.executions == 1, "the effect")
        place.server.send(signal.SIGKILL)

    killer = threading.Thread(target=kill_once_it_took_effect)
    killer.start()
    page = journey.to_the_end()
    killer.join()
    assert journey.verdicts == ["worked"]
    assert_well_ended(place, journey, page, is_asked=True)


def test_only_a_persons_word_sends_a_call_again(place: Place) -> None:
    place.server.strike("K13")
    journey = place.journey("Read")
    journey.always_says = "again"
    page = journey.to_the_end()
    assert states(page) == ["done"]
    assert journey.verdicts == ["again"]
    assert journey.executions == 2
    assert_at_most_once_without_a_word(journey)


def test_stop_is_not_forgotten_by_a_server_that_dies_of_it(place: Place) -> None:
    """K20: what was said is kept, and the next server ends the turn instead of going on."""
    journey = place.journey("Tell")
    person, server = place.person, place.server
    sent = person.send(server, journey.text, journey.client_id)
    journey.conversation = conversation_in(sent)
    beginning = "Paragraph 2 of the tale"
    eventually(
        lambda: beginning in person.page(server, journey.conversation).text(THREAD), "some words"
    )
    server.strike("K20")
    with contextlib.suppress(httpx2.TransportError):
        person.stop(server, journey.conversation)
    assert server.wait() == -signal.SIGKILL
    page = journey.to_the_end()
    assert states(page) == ["stopped"]
    text = page.text(THREAD)
    assert "Stopped by you." in text
    assert beginning in text
    assert f"Paragraph {SENTENCES} " not in text


def test_a_call_that_the_ledger_is_told_to_repeat_is_caught_by_the_count(place: Place) -> None:
    """The planted fault: with the one setting that lets the engine repeat by itself, the same
    story runs twice, and the assertion that guards all the others says so."""
    setting = "ToolSetting.objects.filter(name='read_thing').update(is_safe_to_repeat={})"
    change = f"from mcpconfig.models import ToolSetting; {setting}"
    place.installation.manage("shell", "-c", change.format(True))
    try:
        place.server.strike("K13")
        journey = place.journey("Read")
        journey.to_the_end()
    finally:
        place.installation.manage("shell", "-c", change.format(False))
    assert journey.deaths == 1
    assert journey.executions == 2
    with pytest.raises(AssertionError):
        assert_at_most_once_without_a_word(journey)


@pytest.mark.parametrize("point", ["K3", "K9", "K12"])
def test_a_second_server_takes_over_from_one_that_was_killed(pair: Place, point: str) -> None:
    """K12 as seen by another worker is K13: sent, and nothing stored of what came of it."""
    spare = pair.installation.server(f"spare-{point}")
    spare.start()
    pair.server.strike("K13" if point == "K12" else point)
    journey = pair.journey("Delete", spare)
    page = journey.to_the_end()
    assert journey.server is spare
    assert_well_ended(pair, journey, page, is_asked=point == "K12")
    spare.end()
    pair.server.start()


def test_a_message_that_is_lost_after_all_would_be_noticed(pair: Place) -> None:
    """The planted fault: the accepted message is taken away, and the journey fails."""
    journey = pair.journey("Read")
    journey.conversation = conversation_in(
        pair.person.send(pair.server, journey.text, journey.client_id)
    )
    lost = f"Conversation.objects.filter(title__contains='{journey.name}').delete()"
    pair.installation.manage(
        "shell", "-c", f"from chatapp.models import Conversation; print({lost})"
    )
    with pytest.raises(AssertionError, match="404"):
        journey.to_the_end()
