"""The serving process is killed at each point of a turn: nothing accepted is lost, nothing that was
sent is sent again without a person's word, and the page ends as if nothing had happened."""

import contextlib
import signal
import threading
from collections.abc import Iterator

import httpx2
import pytest

from chatapp.journal.fault_points import FaultPoint

from .journey import installation
from .person import THREAD, find_conversation_id, states
from .places import Place, assert_at_most_once_without_a_word, assert_well_ended, start_place
from .server import REDIS, eventually
from .story import SENTENCES, World, world

pytestmark = [pytest.mark.gate, pytest.mark.timeout(300)]
VERBS = ("Delete", "Read")
SIDE_BY_SIDE = {"REDIS_URL": f"{REDIS}/11"}

# Where the process is killed, what was asked, and whether the person is asked about the outcome.
# The gate has points beside a commit and before the network; the long lane has all.
POINTS = [
    (FaultPoint.MESSAGE_STORED_UNCOMMITTED, 1, "Delete", False),
    pytest.param(FaultPoint.TURN_FOUND, 1, "Delete", False, marks=pytest.mark.long),
    pytest.param(FaultPoint.FIRST_STEP_CHOSEN, 1, "Delete", False, marks=pytest.mark.long),
    pytest.param(FaultPoint.MODEL_REQUEST_BUILT, 1, "Delete", False, marks=pytest.mark.long),
    pytest.param(FaultPoint.TEXT_BATCH_COLLECTED, 1, "Delete", False, marks=pytest.mark.long),
    pytest.param(FaultPoint.TEXT_BATCH_COMMITTED, 1, "Delete", False, marks=pytest.mark.long),
    pytest.param(FaultPoint.TOOL_CALL_RECEIVED, 1, "Delete", False, marks=pytest.mark.long),
    pytest.param(FaultPoint.DECISION_COMMITTED, 1, "Delete", False, marks=pytest.mark.long),
    pytest.param(FaultPoint.TURN_PARKED, 1, "Delete", False, marks=pytest.mark.long),
    pytest.param(FaultPoint.APPROVAL_ANSWERED, 1, "Delete", False, marks=pytest.mark.long),
    (FaultPoint.CALL_STORED_AS_SENDING, 1, "Delete", True),
    pytest.param(FaultPoint.CALL_STORED_AS_SENDING, 1, "Read", True, marks=pytest.mark.long),
    pytest.param(FaultPoint.CALL_ANSWERED, 1, "Delete", True, marks=pytest.mark.long),
    pytest.param(FaultPoint.CALL_ANSWERED, 1, "Read", True, marks=pytest.mark.long),
    pytest.param(FaultPoint.NEXT_STEP_CHOSEN, 1, "Delete", False, marks=pytest.mark.long),
    pytest.param(
        FaultPoint.TEXT_BATCH_COMMITTED, 3, "Delete", False, marks=pytest.mark.long
    ),  # in the stream that follows the call
    pytest.param(FaultPoint.TURN_END_CHOSEN, 1, "Delete", False, marks=pytest.mark.long),
]

# The turn is locked first, so that the engine adds nothing that refers to it meanwhile.
LOSE_CHAT = """
from django.db import transaction
from chatapp.models import Conversation, Turn
with transaction.atomic():
    list(Turn.objects.select_for_update(of=["self"]).filter(conversation__title__contains="{0}"))
    Conversation.objects.filter(title__contains="{0}").delete()
"""


@pytest.fixture(scope="module")
def parties(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("world")) as made:
        yield made


@pytest.fixture(
    scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.long)]
)
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, parties: World
) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp(request.param)
    with installation(request.param, folder, parties) as made:
        yield start_place(request.param, made, parties, VERBS)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, parties: World) -> Iterator[Place]:
    """Servers side by side: one database, one Redis."""
    folder = tmp_path_factory.mktemp("pair")
    with installation("postgresql", folder, parties, **SIDE_BY_SIDE) as made:
        yield start_place("postgresql", made, parties, VERBS)


@pytest.mark.parametrize(("point", "count", "verb", "is_asked"), POINTS)
def test_a_server_killed_anywhere_loses_nothing_and_sends_nothing_twice(
    place: Place, point: FaultPoint, count: int, verb: str, is_asked: bool
) -> None:
    place.server.strike(point, count)
    journey = place.journey(verb)
    page = journey.to_the_end()
    assert_well_ended(place, journey, page, is_asked=is_asked)
    is_accepted = point != FaultPoint.MESSAGE_STORED_UNCOMMITTED
    assert is_accepted or journey.messages_sent > 1, "It died before it had accepted anything."


@pytest.mark.long
def test_a_server_killed_while_the_service_works_shows_an_unknown_outcome(place: Place) -> None:
    """The call was sent, its effect is on the service's disk, and its answer never comes."""
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


@pytest.mark.long
def test_only_a_persons_word_sends_a_call_again(place: Place) -> None:
    place.server.strike(FaultPoint.CALL_ANSWERED)
    journey = place.journey("Read")
    journey.always_says = "again"
    page = journey.to_the_end()
    assert states(page) == ["done"]
    assert journey.verdicts == ["again"]
    assert journey.executions == 2
    assert_at_most_once_without_a_word(journey)


def test_stop_is_not_forgotten_by_a_server_that_dies_of_it(place: Place) -> None:
    """What was said is kept, and the next server ends the turn instead of going on."""
    journey = place.journey("Tell-slowly")
    person, server = place.person, place.server
    sent = person.send(server, journey.text, journey.client_id)
    journey.conversation = find_conversation_id(sent)
    beginning = "Paragraph 2 of the tale"
    eventually(
        lambda: beginning in person.page(server, journey.conversation).text(THREAD), "some words"
    )
    server.strike(FaultPoint.STOP_RECEIVED)
    with contextlib.suppress(httpx2.TransportError):
        person.stop(server, journey.conversation)
    assert server.wait() == -signal.SIGKILL
    page = journey.to_the_end()
    assert states(page) == ["stopped"]
    text = page.text(THREAD)
    assert "You stopped this answer." in text
    assert beginning in text
    assert f"Paragraph {SENTENCES} " not in text


@pytest.mark.long
def test_a_call_that_the_ledger_is_told_to_repeat_is_caught_by_the_count(place: Place) -> None:
    """The planted fault: with the one setting that lets the engine repeat by itself, the same
    story runs twice, and the assertion that guards all the others says so."""
    setting = "ToolSetting.objects.filter(name='read_thing').update(is_safe_to_repeat={})"
    change = f"from mcpconfig.models import ToolSetting; {setting}"
    place.installation.manage("shell", "-c", change.format(True))
    try:
        place.server.strike(FaultPoint.CALL_ANSWERED)
        journey = place.journey("Read")
        journey.to_the_end()
    finally:
        place.installation.manage("shell", "-c", change.format(False))
    assert journey.deaths == 1
    assert journey.executions == 2
    with pytest.raises(AssertionError):
        assert_at_most_once_without_a_word(journey)


@pytest.mark.long
@pytest.mark.parametrize(
    ("point", "is_asked"),
    [
        (FaultPoint.FIRST_STEP_CHOSEN, False),
        (FaultPoint.TURN_PARKED, False),
        (FaultPoint.CALL_ANSWERED, True),  # to another worker: sent, and no outcome is stored
    ],
)
def test_a_second_server_takes_over_from_one_that_was_killed(
    pair: Place, point: FaultPoint, is_asked: bool
) -> None:
    spare = pair.installation.server(f"spare-{point}")
    spare.start()
    pair.server.strike(point)
    journey = pair.journey("Delete", spare)
    page = journey.to_the_end()
    assert journey.server is spare
    assert_well_ended(pair, journey, page, is_asked=is_asked)
    spare.end()
    pair.server.start()


@pytest.mark.long
def test_a_message_that_is_lost_after_all_would_be_noticed(pair: Place) -> None:
    """The planted fault: the accepted message is taken away, and the journey fails."""
    journey = pair.journey("Read")
    journey.conversation = find_conversation_id(
        pair.person.send(pair.server, journey.text, journey.client_id)
    )
    pair.installation.manage("shell", "-c", LOSE_CHAT.format(journey.name))
    with pytest.raises(AssertionError, match="404"):
        journey.to_the_end()
