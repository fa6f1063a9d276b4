"""A person at a browser: signs in, sends, decides and stops over HTTP; a tab reads the socket."""

import json
import time
import uuid
from collections.abc import Callable

import httpx2
from bs4 import Tag
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from tests.dom import Tab

from .server import Installation, Server

READING_SECONDS = 0.45
THREAD = "thread"
CONNECT = "form[action^='/oauth/mcp/']"
OVER = {"done", "stopped", "failed"}


class Person:
    """The same person whichever server answers: the cookies are good at all of them."""

    def __init__(self, installation: Installation, model: str) -> None:
        self.password = installation.password
        self.model = model
        self.browser = httpx2.Client(
            timeout=60, limits=httpx2.Limits(max_keepalive_connections=0), trust_env=False
        )

    def sign_in(self, server: Server) -> None:
        given = {"username": "owner", "password": self.password}
        answer = self._post(server, "/sign-in/", load_page(self.html(server, "/sign-in/")), given)
        assert answer.status_code == 302, answer.text

    def cookie_header(self) -> str:
        return "; ".join(f"{cookie.name}={cookie.value}" for cookie in self.browser.cookies.jar)

    # --- reading -----------------------------------------------------------------------------
    def html(self, server: Server, path: str) -> str:
        answer = self.browser.get(server.address + path)
        assert answer.status_code == 200, f"{path}: {answer.status_code}"
        return answer.text

    def page(self, server: Server, conversation: str) -> Tab:
        return load_page(self.html(server, f"/c/{conversation}/"))

    def conversations(self, server: Server, words: str) -> list[str]:
        """The ids of this person's conversations whose title holds these words."""
        links = load_page(self.html(server, "/")).soup.select("a[href^='/c/']")
        return [str(link["href"]).split("/")[2] for link in links if words in link.get_text()]

    # --- acting ------------------------------------------------------------------------------
    def _post(
        self, server: Server, path: str, page: Tab, fields: dict[str, str], seconds: float = 20
    ) -> httpx2.Response:
        token = page.soup.select_one("[name=csrfmiddlewaretoken]")
        assert token is not None
        data = {"csrfmiddlewaretoken": str(token["value"]), **fields}
        return self.browser.post(server.address + path, data=data, timeout=seconds)

    def send(
        self, server: Server, text: str, client_id: uuid.UUID, page: Tab | None = None
    ) -> httpx2.Response:
        """Begin a conversation with this message, on the page for a new chat."""
        fields = {"text": text, "model": self.model, "client_id": str(client_id)}
        page = page or load_page(self.html(server, "/"))
        return self._post(server, "/c/new/messages", page, fields)

    def stop(self, server: Server, conversation: str) -> httpx2.Response:
        page = self.page(server, conversation)
        return self._post(server, f"/c/{conversation}/stop", page, {})

    def answer(
        self, server: Server, page: Tab, fields: dict[str, str], seconds: float = 20
    ) -> httpx2.Response:
        """Press a button of the card on `page`, after the time that reading it takes."""
        card = page.soup.select_one("form.decision")
        assert isinstance(card, Tag)
        time.sleep(READING_SECONDS)
        return self._post(
            server, str(card["action"]), page, {**_read_fields(card), **fields}, seconds
        )

    def connect(self, server: Server, page: Tab) -> None:
        """Press *Connect* on the card, follow the link that it leads to, and come back."""
        card = page.soup.select_one(CONNECT)
        assert isinstance(card, Tag)
        answer = self._post(server, str(card["action"]), page, _read_fields(card))
        link = load_page(answer.text).soup.select_one("a[rel=noreferrer]")
        assert link is not None, answer.text
        sent_back = self.browser.get(str(link["href"]))
        self.browser.get(sent_back.headers["location"])


def _read_fields(card: Tag) -> dict[str, str]:
    """What the form on a card holds before anybody has typed."""
    return {str(each["name"]): str(each["value"]) for each in card.select("input[value]")}


def load_page(html: str) -> Tab:
    """A tab that has just loaded this page."""
    tab = Tab(html, 0)
    stream = tab.soup.select_one("[data-after]")
    if stream is not None:
        tab.last = int(str(stream["data-after"]))
    return tab


def find_conversation_id(answer: httpx2.Response) -> str:
    """Where a message that was sent went to."""
    assert answer.status_code == 302, answer.text
    return str(answer.headers["location"]).split("/")[2]


def find_card(page: Tab) -> str:
    """What is asked: `approval`, `question`, `sign-in`, `unknown` or nothing."""
    if page.soup.select_one(CONNECT):
        return "sign-in"
    form = page.soup.select_one("form.decision")
    if form is None:
        return ""
    action = str(form["action"])
    if action.startswith("/questions/"):
        return "question"
    return "unknown" if action.endswith("/resolve") else "approval"


def states(page: Tab) -> list[str]:
    """The state of each answer on the page."""
    return [str(status["data-state"]) for status in page.soup.select(".status[data-state]")]


def is_over(page: Tab) -> bool:
    found = states(page)
    return bool(found) and set(found) <= OVER


class Line:
    """A tab's socket. It comes back after the last number that it has seen, as the script does."""

    def __init__(self, person: Person, server: Server, conversation: str, port: int = 0) -> None:
        self.html = person.html(server, f"/c/{conversation}/")
        self.tab = load_page(self.html)
        self.closings = 0
        self.frames: list[str] = []
        self.arrivals: list[float] = []
        host = f"127.0.0.1:{port or server.port}"
        self._origin = Origin(f"http://{host}")
        self._address = f"ws://{host}/ws/c/{conversation}/"
        self._cookies = person.cookie_header()
        self._socket: ClientConnection | None = None

    def read(self, until: Callable[[Tab], bool], seconds: float = 60) -> None:
        """Take frames until the tab is as wanted."""
        end = time.monotonic() + seconds
        while not until(self.tab):
            assert time.monotonic() < end, f"The tab shows {states(self.tab)} after {seconds} s"
            try:
                self._take(min(1.0, end - time.monotonic()))
            except (OSError, ConnectionClosed, InvalidHandshake):
                self.closings += 1
                self.close()
                time.sleep(0.02)  # the server may be away for a while

    def read_raw(self, until: Callable[[str], bool], seconds: float) -> None:
        """Take frames without painting them, which costs less, until one is as wanted."""
        end = time.monotonic() + seconds
        while not (self.frames and until(self.frames[-1])):
            assert time.monotonic() < end, f"Not within {seconds} s"
            try:
                frame = self._receive(min(1.0, end - time.monotonic()))
            except (OSError, ConnectionClosed, InvalidHandshake):
                self.closings += 1
                self.close()
                time.sleep(0.02)
                continue
            if frame:
                self.tab.last = max(self.tab.last, int(json.loads(frame).get("n") or 0))

    def _take(self, seconds: float) -> None:
        if frame := self._receive(seconds):
            self.tab.take(frame)

    def _receive(self, seconds: float) -> str:
        """The next frame, or nothing in this time."""
        if self._socket is None:
            self._socket = self._opened()
        try:
            frame = str(self._socket.recv(timeout=max(0.01, seconds)))
        except TimeoutError:
            return ""
        self.frames.append(frame)
        self.arrivals.append(time.monotonic())
        return frame

    def _opened(self) -> ClientConnection:
        return connect(
            f"{self._address}?after={self.tab.last}",
            origin=self._origin,
            additional_headers={"Cookie": self._cookies},
            open_timeout=30,
            close_timeout=1,
            proxy=None,
            legacy=True,
        )

    @property
    def longest_silence(self) -> float:
        """Seconds between two frames that followed one another."""
        pairs = zip(self.arrivals, self.arrivals[1:], strict=False)
        return max((after - before for before, after in pairs), default=0.0)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
