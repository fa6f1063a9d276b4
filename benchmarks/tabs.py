"""The tabs of a benchmark: each sends a message and reads the socket until the answer is complete.

They take little CPU time, so that the server has it: no page is parsed.
"""

import re
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier

from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from tests.flows.person import Person, find_conversation_id
from tests.flows.server import Server

from .model import FIRST_WORDS

TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')
DONE = 'data-state=\\"done\\"'


@dataclass(frozen=True, slots=True)
class TabTimes:
    """Seconds from the post of a tab until its first words and until the whole answer."""

    first_words: float
    whole: float


def send_at_once(person: Person, server: Server, answers: int) -> list[TabTimes]:
    """Send so many messages at the same time, each in a new chat."""
    together = Barrier(answers)
    with ThreadPoolExecutor(answers) as tabs:
        asked = [tabs.submit(_send_and_read, person, server, together) for _ in range(answers)]
        return [each.result() for each in asked]


def _send_and_read(person: Person, server: Server, together: Barrier) -> TabTimes:
    """Load the page, send, and read the socket."""
    token = read_token(person, server)
    together.wait()
    started = time.monotonic()
    conversation = _send(person, server, token)
    address = f"ws://127.0.0.1:{server.port}/ws/c/{conversation}/?after=3"
    cookies = {"Cookie": person.cookie_header()}
    with connect(
        address, origin=Origin(server.address), additional_headers=cookies, proxy=None
    ) as socket:
        _wait_for(socket, FIRST_WORDS)
        first = time.monotonic() - started
        _wait_for(socket, DONE)
    return TabTimes(first_words=first, whole=time.monotonic() - started)


def read_token(person: Person, server: Server) -> str:
    found = TOKEN.search(person.html(server, "/"))
    assert found is not None
    return found[1]


def _send(person: Person, server: Server, token: str) -> str:
    """The id of the conversation that this message started."""
    fields = {
        "csrfmiddlewaretoken": token,
        "text": "Tell me",
        "model": person.model,
        "client_id": str(uuid.uuid4()),
    }
    return find_conversation_id(
        person.browser.post(f"{server.address}/c/new/messages", data=fields)
    )


def _wait_for(socket: ClientConnection, words: str) -> None:
    while words not in str(socket.recv(timeout=120)):
        continue
