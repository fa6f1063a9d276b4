"""Debian's Firefox, driven over WebDriver BiDi (https://www.w3.org/TR/webdriver-bidi/).

Playwright needs a Firefox of its own build, so this is a small client for what the flows need:
pages, real keys and clicks, and elements by their accessible name.
"""

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from websockets.sync.client import ClientConnection, connect

from tests.peers.installing import Unavailable, debian_program

START_SECONDS = 60
PATIENCE_SECONDS = 45
PAUSE_SECONDS = 0.05
LISTENING = re.compile(r"WebDriver BiDi listening on (ws://\S+)")
EVENTS = ["log.entryAdded", "network.beforeRequestSent"]
ENTER = "\ue007"
TAB = "\ue004"
CONTROL = "\ue009"
NEVER_SENT = {"data", "moz-extension", "chrome", "resource", "about", "blob"}
REPORT_VIOLATIONS = """() => addEventListener("securitypolicyviolation", (event) =>
  console.error("Broken rule of the page: " + event.violatedDirective + " " + event.blockedURI))"""


@dataclass
class Firefox:
    """One session with one tab."""

    socket: ClientConnection
    host: str
    tab: str = ""
    errors: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=count)

    def command(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of a command; an error of the browser fails the test."""
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.recv(timeout=PATIENCE_SECONDS))
            if message["type"] == "event":
                self._note(message["method"], message["params"])
            elif message["id"] == number:
                assert message["type"] == "success", message
                result: dict[str, Any] = message["result"]
                return result

    def _note(self, event: str, params: dict[str, Any]) -> None:
        if event == "log.entryAdded":
            if params["level"] == "error":
                self.errors.append(str(params["text"]))
            return
        address = urlsplit(params["request"]["url"])
        if address.scheme not in NEVER_SENT and address.netloc != self.host:
            self.strangers.append(params["request"]["url"])

    def open_session(self, *, dark: bool, width: int, height: int) -> None:
        self.command("session.new", capabilities={})
        self.tab = self.command("browsingContext.getTree")["contexts"][0]["context"]
        self.command("session.subscribe", events=EVENTS, contexts=[self.tab])
        self.command("script.addPreloadScript", functionDeclaration=REPORT_VIOLATIONS)
        self.command(
            "browsingContext.setViewport",
            context=self.tab,
            viewport={"width": width, "height": height},
        )
        assert self.read("matchMedia('(prefers-color-scheme: dark)').matches") is dark

    def visit(self, path: str) -> None:
        url = f"http://{self.host}{path}"
        self.command("browsingContext.navigate", context=self.tab, url=url, wait="complete")

    def read(self, expression: str, context: str = "") -> Any:
        """The value of an expression of JavaScript: a string, number, boolean or null."""
        answer = self.command(
            "script.evaluate",
            expression=expression,
            target={"context": context or self.tab},
            awaitPromise=True,
        )
        assert answer["type"] == "success", answer
        return answer["result"].get("value")

    def find_frames(self) -> list[str]:
        """The contexts of the frames in the page."""
        tree = self.command("browsingContext.getTree", root=self.tab)["contexts"][0]
        return [child["context"] for child in tree["children"]]

    def find(self, role: str, name: str) -> str:
        """The shared id of the one element of this role and name, once it is there."""
        locator = {"type": "accessibility", "value": {"role": role, "name": name}}
        found: list[str] = []

        def is_there() -> bool:
            answer = self.command("browsingContext.locateNodes", context=self.tab, locator=locator)
            found[:] = [node["sharedId"] for node in answer["nodes"]]
            return len(found) == 1

        self.wait(is_there, f"one {role} {name!r}")
        return found[0]

    def click(self, role: str, name: str) -> None:
        origin = {"type": "element", "element": {"sharedId": self.find(role, name)}}
        self._act(
            "pointer",
            {"type": "pointerMove", "x": 0, "y": 0, "origin": origin},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerUp", "button": 0},
        )

    def type(self, text: str) -> None:
        """Press these keys, one after another, where the focus is."""
        strokes = [(way, key) for key in text for way in ("keyDown", "keyUp")]
        self._act("key", *({"type": way, "value": key} for way, key in strokes))

    def press_with_control(self, key: str) -> None:
        strokes = [("keyDown", CONTROL), ("keyDown", key), ("keyUp", key), ("keyUp", CONTROL)]
        self._act("key", *({"type": way, "value": value} for way, value in strokes))

    def _act(self, kind: str, *actions: dict[str, Any]) -> None:
        source = {"type": kind, "id": kind, "actions": list(actions)}
        self.command("input.performActions", context=self.tab, actions=[source])

    def fill(self, name: str, text: str) -> None:
        self.click("textbox", name)
        self.type(text)

    def wait(self, holds: Callable[[], bool], what: str) -> None:
        """Return once `holds`; fail, saying `what` did not happen, when the time is over."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            assert time.monotonic() < end, f"{what} did not come. The page: {self.text[-2_000:]}"
            time.sleep(PAUSE_SECONDS)

    @property
    def text(self) -> str:
        return str(self.read("document.body?.innerText ?? ''"))

    def expect_text(self, words: str) -> None:
        self.wait(lambda: words in self.text, words)

    def assert_clean(self) -> None:
        # Firefox calls it an error that a request ends with its page.
        errors = [each for each in self.errors if "htmx:error: NetworkError" not in each]
        assert (errors, self.strangers) == ([], [])


@contextmanager
def open_firefox(
    folder: Path, host: str, *, dark: bool = False, width: int = 1280, height: int = 800
) -> Iterator[Firefox]:
    """A browser with a new profile in `folder`; skips where there is none."""
    try:
        program = debian_program("firefox-esr")
    except Unavailable as reason:
        pytest.skip(str(reason))
    folder.mkdir(parents=True)
    dark_mode = 0 if dark else 1
    (folder / "user.js").write_text(
        f'user_pref("layout.css.prefers-color-scheme.content-override", {dark_mode});\n'
        'user_pref("intl.accept_languages", "en");\n'
    )
    log_path = folder / "firefox.log"
    with log_path.open("w") as log:
        process = subprocess.Popen(
            [
                *(program, "--headless", "--no-remote", "--profile", str(folder)),
                *("--remote-debugging-port", "0"),
            ],
            stdout=log,
            stderr=log,
        )
    try:
        with connect(f"{_find_address(process, log_path)}/session", max_size=None) as socket:
            opened = Firefox(socket, host)
            opened.open_session(dark=dark, width=width, height=height)
            yield opened
            opened.command("browser.close")
    finally:
        process.kill()
        process.wait()


def _find_address(process: subprocess.Popen[bytes], log: Path) -> str:
    end = time.monotonic() + START_SECONDS
    while not (found := LISTENING.search(log.read_text())):
        assert process.poll() is None and time.monotonic() < end, log.read_text()[-2_000:]
        time.sleep(PAUSE_SECONDS)
    return found[1]
