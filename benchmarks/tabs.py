"""The people of a benchmark: each sends a message and watches it being answered.

Their work is cheap, so that it takes nothing from the server: no page is parsed.
"""

import re
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier

from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from benchmarks.model import FIRST_WORDS
from tests.flows.person import Person, conversation_in
from tests.flows.server import Server

TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')
OVER = 'data-state=\\"done\\"'


@dataclass(frozen=True, slots=True)
class Seen:
    """What one tab saw, in seconds from its post on."""

    first_words: float
    whole: float


def ask_at_once(person: Person, server: Server, answers: int) -> list[Seen]:
    """So many messages in the same moment, each in a chat of its own."""
    together = Barrier(answers)
    with ThreadPoolExecutor(answers) as tabs:
        asked = [tabs.submit(_ask, person, server, together) for _ in range(answers)]
        return [each.result() for each in asked]


def _ask(person: Person, server: Server, together: Barrier) -> Seen:
    """Load the page, send, and watch."""
    token = token_of(person, server)
    together.wait()
    began = time.monotonic()
    conversation = _send(person, server, token)
    address = f"ws://127.0.0.1:{server.port}/ws/c/{conversation}/?after=3"
    cookies = {"Cookie": person.cookie_header()}
    with connect(
        address, origin=Origin(server.address), additional_headers=cookies, proxy=None
    ) as socket:
        _until(socket, FIRST_WORDS)
        first = time.monotonic() - began
        _until(socket, OVER)
    return Seen(first_words=first, whole=time.monotonic() - began)


def token_of(person: Person, server: Server) -> str:
    found = TOKEN.search(person.html(server, "/"))
    assert found is not None
    return found[1]


def _send(person: Person, server: Server, token: str) -> str:
    """The conversation that this message began."""
    fields = {
        "csrfmiddlewaretoken": token,
        "text": "Tell me",
        "model": person.model,
        "client_id": str(uuid.uuid4()),
    }
    return conversation_in(person.browser.post(f"{server.address}/c/new/messages", data=fields))


def _until(socket: ClientConnection, words: str) -> None:
    while words not in str(socket.recv(timeout=120)):
        continue
