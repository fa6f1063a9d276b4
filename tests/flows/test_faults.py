"""Frozen servers, broken lines, a channel layer that loses, doubles and shuffles, no Redis at all,
deploys and impatient people: the page ends the same, and everything happens once."""

import contextlib
import signal
import subprocess
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from chatapp.journal.fault_points import FaultPoint
from tests.dom import Tab

from .breaking_proxy import BreakingProxy
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
from .server import REDIS, Installation, Server, eventually, free_port
from .story import World, world

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
NOBODY = "redis://127.0.0.1:1"
LOST_LEASE = ("belongs to another worker", "lease.LeaseLost")
# The slow poll looks every second; the rest is the time of two busy cores.
POLL_SECONDS = 4.0
DRAIN_SECONDS = 25.0


@dataclass(slots=True, kw_only=True)
class Place:
    """An installation, its person, and the long tale as it reads when nothing happens."""

    installation: Installation
    world: World
    person: Person
    first: Server
    second: Server | None = None
    tale: str = ""

    def journey(self, verb: str, server: Server | None = None) -> Journey:
        return Journey(person=self.person, world=self.world, verb=verb, server=server or self.first)

    def begun(self, verb: str, server: Server | None = None) -> Journey:
        """A journey whose message was accepted."""
        journey = self.journey(verb, server)
        sent = self.person.send(journey.server, journey.text, journey.client_id)
        journey.conversation = find_conversation_id(sent)
        return journey

    def page(self, journey: Journey, server: Server | None = None) -> Tab:
        return self.person.page(server or journey.server, journey.conversation)

    def pair(self) -> tuple[Server, Server]:
        """Both servers, running."""
        assert self.second is not None
        for server in (self.first, self.second):
            if not server.is_alive:
                server.start()
        return self.first, self.second


@pytest.fixture(scope="module")
def parties(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("world")) as made:
        yield made


@contextlib.contextmanager
def start_place(kind: str, folder: Path, parties: World, redis: str) -> Iterator[Place]:
    with installation(kind, folder, parties, REDIS_URL=redis) as made:
        person, first = Person(made, "openai-chat:scripted"), made.server("first")
        place = Place(installation=made, world=parties, person=person, first=first)
        first.start()
        person.sign_in(first)
        journey = place.journey("Tell")
        place.tale = journey.told(journey.to_the_end())
        yield place


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory, parties: World) -> Iterator[Place]:
    """Two servers on one PostgreSQL and one Redis."""
    folder = tmp_path_factory.mktemp("beside")
    with start_place("postgresql", folder, parties, f"{REDIS}/12") as place:
        place.second = place.installation.server("second")
        yield place


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, parties: World) -> Iterator[Place]:
    """One server on SQLite whose REDIS_URL leads nowhere."""
    with start_place("sqlite", tmp_path_factory.mktemp("alone"), parties, NOBODY) as place:
        yield place


def assert_same_as_reload(place: Place, journey: Journey, line: Line, server: Server) -> None:
    """The tab that was disturbed shows what a reload shows, and what an undisturbed one showed."""
    page = place.page(journey, server)
    assert line.tab.text(THREAD) == page.text(THREAD)
    assert line.tab.last == page.last
    assert journey.told(page) == place.tale


def read_frames(line: Line, frames: list[str]) -> Tab:
    """A tab that loaded the same page and was given these frames."""
    tab = load_page(line.html)
    for frame in frames:
        tab.take(frame)
    return tab


def find_notices(server: Server, heard: int) -> bool:
    """Whether its log says, after the first `heard` characters, that it lost a turn."""
    return any(words in server.log[heard:] for words in LOST_LEASE)


# --- frozen servers ----------------------------------------------------------------------------
def test_a_server_that_was_frozen_while_it_streamed_writes_nothing_when_it_wakes(
    beside: Place,
) -> None:
    frozen, other = beside.pair()
    other.end()  # or it may take the turn before the first has begun
    frozen.strike(FaultPoint.TEXT_BATCH_COMMITTED, 5, signal.SIGSTOP)
    journey = beside.begun("Tell", frozen)
    eventually(lambda: frozen.is_frozen, "the freeze")
    other.start()
    eventually(lambda: is_over(beside.page(journey, other)), "the end at the other server")
    before = beside.page(journey, other)
    heard = len(frozen.log)
    frozen.send(signal.SIGCONT)
    eventually(lambda: find_notices(frozen, heard), "the frozen server noticing")
    after = beside.page(journey, frozen)
    assert after.last == before.last, "A stale worker wrote to the journal."
    assert after.text(THREAD) == before.text(THREAD)
    assert journey.told(after) == beside.tale


def test_a_server_that_was_frozen_before_the_first_byte_never_sends_it(beside: Place) -> None:
    frozen, other = beside.pair()
    other.end()
    journey = beside.begun("Delete", frozen)
    eventually(lambda: find_card(beside.page(journey)) == "approval", "the question")
    frozen.strike(FaultPoint.CALL_STORED_AS_SENDING, 1, signal.SIGSTOP)
    with contextlib.suppress(httpx2.TransportError):  # the answer may freeze with the server
        beside.person.answer(frozen, beside.page(journey), {"decision": "run"}, seconds=3)
    eventually(lambda: frozen.is_frozen, "the freeze")
    other.start()
    eventually(lambda: find_card(beside.page(journey, other)) == "unknown", "the other server")
    heard = len(frozen.log)
    frozen.send(signal.SIGCONT)
    eventually(lambda: find_notices(frozen, heard), "the frozen server noticing")
    assert journey.executions == 0
    journey.server = other
    page = journey.to_the_end()
    assert states(page) == ["done"]
    assert (journey.verdicts, journey.executions) == (["again"], 1)


# --- what tabs see -------------------------------------------------------------------------------
def test_a_tab_at_another_server_is_whole_though_hints_are_lost_doubled_and_shuffled(
    beside: Place,
) -> None:
    works, shows = (
        beside.installation.server(name, LOSSY_LAYER="1") for name in ("works", "shows")
    )
    works.start()
    shows.start()
    journey = beside.begun("Tell", works)
    line = Line(beside.person, shows, journey.conversation)
    line.read(is_over)
    assert_same_as_reload(beside, journey, line, shows)
    assert works.log.count("hint lost") > 5
    assert works.log.count("hint doubled") > 5
    works.end()
    shows.end()
    line.close()


@pytest.mark.parametrize(("life_seconds", "least"), [(2.0, 2), (0.3, 8)])
def test_a_tab_whose_line_is_reset_again_and_again_is_whole(
    beside: Place, life_seconds: float, least: int
) -> None:
    server = beside.pair()[0]
    with BreakingProxy(server.port, life_seconds) as proxy:
        journey = beside.begun("Tell", server)
        line = Line(beside.person, server, journey.conversation, port=proxy.port)
        line.read(is_over)
        line.close()
        assert_same_as_reload(beside, journey, line, server)
        assert line.closings >= least
        assert proxy.resets >= least


def test_a_frame_that_is_missing_would_be_noticed(alone: Place) -> None:
    """The planted fault behind the tests above: a tab that misses one frame reads differently."""
    journey = alone.begun("Tell")
    line = Line(alone.person, alone.first, journey.conversation)
    line.read(is_over)
    line.close()
    whole = alone.page(journey).text(THREAD)
    assert read_frames(line, line.frames).text(THREAD) == whole
    # A frame that only repaints the open block is made good by the next.
    lasting = [place for place, frame in enumerate(line.frames) if '["a","blocks-' in frame]
    middle = lasting[len(lasting) // 2]
    assert read_frames(line, line.frames[:middle] + line.frames[middle + 1 :]).text(THREAD) != whole


# --- Redis ---------------------------------------------------------------------------------------
def test_without_redis_a_tab_is_shown_everything_at_once(alone: Place) -> None:
    journey = alone.begun("Tell")
    line = Line(alone.person, alone.first, journey.conversation)
    line.read(is_over)
    assert_same_as_reload(alone, journey, line, alone.first)
    assert line.closings == 0
    assert len(line.frames) > 20
    line.close()


def test_without_redis_a_tab_at_another_server_is_shown_everything_within_the_poll(
    alone: Place,
) -> None:
    other = alone.installation.server("other")
    other.start()
    journey = alone.begun("Tell")
    line = Line(alone.person, other, journey.conversation)
    line.read(is_over)
    assert_same_as_reload(alone, journey, line, other)
    assert line.closings == 0
    assert line.longest_silence < POLL_SECONDS
    line.close()
    other.end()


def test_redis_that_dies_while_an_answer_streams_closes_no_socket(beside: Place) -> None:
    port = free_port()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    words = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    redis = subprocess.Popen(words, **quiet)  # type: ignore[call-overload]
    works, shows = (
        beside.installation.server(name, REDIS_URL=f"redis://127.0.0.1:{port}/0")
        for name in ("works-on", "shows-on")
    )
    try:
        works.start()
        shows.start()
        journey = beside.begun("Tell", works)
        line = Line(beside.person, shows, journey.conversation)
        line.read(lambda tab: "Paragraph 9 of" in tab.text(THREAD))
        assert not is_over(line.tab)
        redis.kill()
        line.read(is_over)
        assert_same_as_reload(beside, journey, line, shows)
        assert line.closings == 0
        assert line.longest_silence < POLL_SECONDS
        line.close()
    finally:
        redis.kill()
        redis.wait(10)
        works.end()
        shows.end()


# --- deploys -------------------------------------------------------------------------------------
@pytest.mark.parametrize("others", ["nobody", "another server"])
def test_a_deploy_in_the_middle_of_an_answer_loses_nothing(beside: Place, others: str) -> None:
    old, other = beside.pair()
    if others == "nobody":
        other.end()
    journey = beside.begun("Tell", old)
    line = Line(beside.person, old, journey.conversation)
    line.read(lambda tab: "Paragraph 9 of" in tab.text(THREAD))
    old.send(signal.SIGTERM)
    assert old.wait(DRAIN_SECONDS) == 0
    assert not is_over(line.tab)
    old.start()
    line.read(is_over)
    assert line.closings > 0
    assert_same_as_reload(beside, journey, line, old)
    line.close()


# --- impatient people ----------------------------------------------------------------------------
def all_at_once(
    count: int, servers: tuple[Server, ...], act: Callable[[int, Server], httpx2.Response]
) -> list[httpx2.Response]:
    """The same act `count` times in parallel, by turns at each server."""
    with ThreadPoolExecutor(count) as pool:
        asked = [pool.submit(act, n, servers[n % len(servers)]) for n in range(count)]
        return [each.result(60) for each in asked]


def conversations_from(place: Place, journey: Journey, client_ids: list[uuid.UUID]) -> set[str]:
    """Where the same words end up when they are sent with each of these ids at once."""
    sent = all_at_once(
        len(client_ids),
        place.pair(),
        lambda n, server: place.person.send(server, journey.text, client_ids[n]),
    )
    return {find_conversation_id(answer) for answer in sent}


def test_a_message_that_is_sent_ten_times_at_once_is_one_turn(beside: Place) -> None:
    journey = beside.journey("Read")
    found = conversations_from(beside, journey, [journey.client_id] * 10)
    assert len(found) == 1
    journey.conversation = found.pop()
    page = journey.to_the_end()
    assert page.count("#thread > li") == 2
    assert journey.executions == 1
    assert beside.world.model.asked_about(journey.name) == 2
    assert beside.person.conversations(beside.first, journey.name) == [journey.conversation]


def test_ten_messages_with_ids_of_their_own_would_be_ten_turns(beside: Place) -> None:
    """The planted fault: without the shared id the same count finds all ten."""
    journey = beside.journey("Read")
    found = conversations_from(beside, journey, [uuid.uuid4() for _ in range(10)])
    assert len(found) == 10
    eventually(lambda: journey.executions == 10, "ten executions")


@pytest.mark.parametrize("denials", [0, 10])
def test_an_approval_that_is_answered_twenty_times_at_once_is_decided_once(
    beside: Place, denials: int
) -> None:
    servers = beside.pair()
    journey = beside.begun("Delete")
    eventually(lambda: find_card(beside.page(journey)) == "approval", "the question")
    card = beside.page(journey)
    words = ["deny"] * denials + ["run"] * (20 - denials)
    # Denials and runs alternate, and so do the servers that are asked.
    words = [words[(n * 11) % 20] for n in range(20)]
    answers = all_at_once(
        20,
        servers,
        lambda n, server: beside.person.answer(server, card, {"decision": words[n]}),
    )
    counted = [word for word, answer in zip(words, answers, strict=True) if answer.is_redirect]
    assert len(counted) == 1
    assert sorted({answer.status_code for answer in answers}) == [302, 409]
    page = journey.to_the_end()
    assert states(page) == ["done"]
    assert journey.executions == (1 if counted == ["run"] else 0), page.text(THREAD)
