"""What a browser, or whoever holds its cookie, sends to a real server's socket: nothing of it has
an effect, and what is too large closes the line."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from .journey import Journey, installation
from .person import THREAD, Person
from .server import Server, eventually
from .story import World, world

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
LIMIT = 262_144
TOO_BIG = 1009


@pytest.fixture(scope="module")
def party(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Person, Server, World]]:
    folder = tmp_path_factory.mktemp("input")
    with (
        world(folder) as parties,
        installation("sqlite", folder, parties) as made,
    ):
        person, server = Person(made, "openai-chat:scripted"), made.server("only")
        server.start()
        person.sign_in(server)
        yield person, server, parties


@pytest.fixture
def journey(party: tuple[Person, Server, World]) -> Journey:
    """A conversation whose turn is over."""
    person, server, parties = party
    made = Journey(person=person, world=parties, verb="Read", server=server)
    made.to_the_end()
    return made


def line_to(journey: Journey, after: int = 0) -> ClientConnection:
    host = f"127.0.0.1:{journey.server.port}"
    return connect(
        f"ws://{host}/ws/c/{journey.conversation}/?after={after}",
        origin=Origin(f"http://{host}"),
        additional_headers={"Cookie": journey.person.cookie_header()},
        open_timeout=30,
        close_timeout=1,
        max_size=None,
        proxy=None,
        legacy=True,
    )


def state_of(line: ClientConnection) -> int:
    """The number of the state frame that a tab from nowhere is sent first."""
    return int(json.loads(line.recv(timeout=30))["n"])


@pytest.mark.parametrize(
    "junk",
    [
        "",
        "null",
        '{"n": 999999, "f": [["d", "thread", ""]]}',
        '{"type": "websocket.disconnect"}',
        "[" * 10_000,
        b"\xff\x00\xfe",
        "x" * (LIMIT - 1),
    ],
    ids=["empty", "null", "frame", "disconnect", "deep", "binary", "largest"],
)
def test_junk_is_passed_over(journey: Journey, junk: str | bytes) -> None:
    with line_to(journey) as line:
        last = state_of(line)
        line.send(junk)
        pong = line.ping()
        assert pong.wait(60)
        with line_to(journey, last) as second:
            assert second.ping().wait(60)
    page = journey.person.page(journey.server, journey.conversation)
    assert page.last == last
    assert journey.name in page.text(THREAD)


@pytest.mark.parametrize(
    "large",
    ["x" * (LIMIT + 1), b"x" * (LIMIT + 1), "x" * (40 * LIMIT)],
    ids=["text", "bytes", "bomb"],
)
def test_a_frame_that_is_too_large_closes_the_line_and_only_that(
    journey: Journey, large: str | bytes
) -> None:
    """The last one is small on the wire: it is compressed."""
    with line_to(journey) as stays:
        last = state_of(stays)
        with line_to(journey, last) as line, pytest.raises(ConnectionClosed):
            line.send(large)
            while True:
                line.recv(timeout=30)
        assert line.close_code == TOO_BIG
        assert stays.ping().wait(60)
    with line_to(journey, last) as back:
        assert back.ping().wait(60)


def test_a_large_message_in_pieces_is_too_large_as_well(journey: Journey) -> None:
    with line_to(journey) as line, pytest.raises(ConnectionClosed):
        state_of(line)
        line.send(["x" * 65_536] * 5)
        while True:
            line.recv(timeout=30)
    assert line.close_code == TOO_BIG


def test_bytes_that_are_no_frame_end_the_line(journey: Journey) -> None:
    with line_to(journey) as stays:
        last = state_of(stays)
        with line_to(journey, last) as line:
            line.socket.sendall(b"\xff\xff\xff\xff garbage that is no frame")
            with pytest.raises(ConnectionClosed):
                line.recv(timeout=30)
        assert stays.ping().wait(60)


def test_a_browser_that_vanishes_without_a_word_leaves_the_server_well(journey: Journey) -> None:
    lines = [line_to(journey) for _ in range(20)]
    for line in lines:
        state_of(line)
        line.socket.shutdown(socket.SHUT_RDWR)
        line.socket.close()
    with line_to(journey) as back:
        assert state_of(back) == journey.person.page(journey.server, journey.conversation).last
    log = Path(journey.server.log_path)
    eventually(lambda: "Traceback" not in log.read_text(), "a log without traces", 2)


def test_many_frames_at_once_do_not_keep_frames_from_coming(journey: Journey) -> None:
    with line_to(journey) as line:
        state_of(line)
        for _ in range(2_000):
            line.send('{"approve": "everything"}')
        assert line.ping().wait(60)
