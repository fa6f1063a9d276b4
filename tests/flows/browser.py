"""A real browser beside a real server: tabs whose every error, request and broken rule is noted."""

import asyncio
import re
import shutil
import sqlite3
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Locator,
    Page,
    StorageState,
    expect,
    sync_playwright,
)

from tests.migrated import make_sqlite
from tests.peers.effects import Effects, application
from tests.peers.installing import Unavailable, debian_program
from tests.peers.serving import Served
from tests.wire.http import Request
from tests.wire.script import Answer
from tests.wire.server import WireServer

from .model_server import answering
from .server import Installation, Server
from .story import question_in

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SLOWEST_MS = 45_000
WHOLE_ANSWER_MS = 120_000  # the longest of the demo assistant took 15 s on a busy machine
READING_MS = 500  # longer than the 400 ms in which no card may be answered
MODEL = "openai-chat:scripted"
DEMO_MODEL = "demo:assistant"
DATABASE = "house.sqlite3"
VIOLATION = "Broken rule of the page: "
Look = dict[str, Any]
PHONE: Look = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
LAPTOP: Look = {"viewport": {"width": 1280, "height": 800}}
# A test with this mark runs on a light laptop, and in the long lane also on a dark phone.
both_looks = pytest.mark.parametrize(
    "look",
    [
        pytest.param({**LAPTOP, "color_scheme": "light"}, id="light laptop"),
        pytest.param({**PHONE, "color_scheme": "dark"}, id="dark phone", marks=pytest.mark.long),
    ],
)
REPORT_VIOLATIONS = f"""
addEventListener("securitypolicyviolation", (event) =>
  console.error("{VIOLATION}" + event.violatedDirective + " " + event.blockedURI + " "
    + event.sample));
"""


# --- what happened in the tabs -----------------------------------------------------------------
@dataclass  # without slots: Playwright writes on the objects whose methods it calls
class Witness:
    """Notes what the tabs of some contexts did and what went wrong in them."""

    host: str
    errors: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    excused: list[str] = field(default_factory=list)

    def watch(self, context: BrowserContext) -> None:
        context.add_init_script(REPORT_VIOLATIONS)
        context.on("request", lambda request: self.requests.append(request.url))
        context.on("console", self._hear)
        context.on("dialog", self._dismiss)
        context.on("weberror", lambda error: self.errors.append(str(error.error)))

    def _hear(self, message: ConsoleMessage) -> None:
        if VIOLATION in message.text or "Content Security Policy" in message.text:
            self.violations.append(message.text)
        elif message.type == "error":
            self.errors.append(message.text)

    def _dismiss(self, dialog: Dialog) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def excuse(self, *patterns: str) -> None:
        """Errors that a test provokes: Chromium writes one for each answer of 400 and above."""
        self.excused += patterns

    @property
    def strangers(self) -> list[str]:
        """Requests that went to another host."""
        schemes = {"http", "https", "ws", "wss"}
        addresses = [(url, urlsplit(url)) for url in self.requests]
        return [url for url, to in addresses if to.scheme in schemes and to.netloc != self.host]

    def assert_clean(self) -> None:
        unexpected = [
            error
            for error in self.errors
            if not any(re.search(pattern, error) for pattern in self.excused)
        ]
        found = (unexpected, self.violations, self.dialogs, self.strangers)
        assert found == ([], [], [], [])


@dataclass(slots=True)
class Visit:
    """The people at their browsers in one test. Each has a context of their own, with the window
    and the colours of the `look` where the test names no others."""

    chromium: Browser
    house: "House"
    witness: Witness
    look: Look = field(default_factory=dict)
    contexts: list[BrowserContext] = field(default_factory=list)
    effects_before: int = field(init=False)

    def __post_init__(self) -> None:
        self.effects_before = len(self.house.effects.lines)

    @property
    def is_on_phone(self) -> bool:
        """Whether the `look` is that of a phone."""
        return bool(self.look.get("has_touch"))

    @property
    def owner(self) -> str:
        """The name of the owner. The run on a phone has another, whose chats are not those of the
        first run."""
        return "phone" if self.is_on_phone else "owner"

    def executions(self, name: str) -> int:
        """How often a service did something to this thing since the visit began."""
        lines = self.house.effects.lines[self.effects_before :]
        return sum(line.endswith(f" {name}") for line in lines)

    def context(self, name: str = "owner", **options: Any) -> BrowserContext:
        """A browser in which `name` is signed in; nobody is when the name is empty."""
        name = self.owner if name == "owner" else name
        state = self.house.signed_in(self.chromium, name) if name else None
        made = self.chromium.new_context(
            base_url=self.house.server.address, storage_state=state, **{**self.look, **options}
        )
        made.set_default_timeout(SLOWEST_MS)
        self.witness.watch(made)
        self.contexts.append(made)
        return made

    def tab(self, name: str = "owner", **options: Any) -> Page:
        return self.context(name, **options).new_page()

    def close(self) -> None:
        for context in self.contexts:
            context.close()


# --- the other parties -------------------------------------------------------------------------
class Scribe(WireServer):
    """Answers with what a test wrote for the question: one answer a step. A question is known by
    its first line, for a browser may change the line ends."""

    def __init__(self) -> None:
        super().__init__()
        self.scenes: dict[str, deque[Answer]] = defaultdict(deque)

    def answers(self, question: str, *answers: Answer) -> str:
        """What is said, step by step, to whoever asks this; returns the question."""
        self.scenes[first_line(question)] = deque(answers)
        return question

    async def _play(self, answer: Answer, request: Request, writer: asyncio.StreamWriter) -> None:
        scene = self.scenes[first_line(question_in(request.body))]
        await super()._play(scene.popleft() if scene else answer, request, writer)


def first_line(text: str) -> str:
    return text.strip().partition("\n")[0].strip()


@dataclass(slots=True, kw_only=True)
class House:
    """An installation with a server that runs, four people, a scripted model and a service whose
    effects are counted."""

    installation: Installation
    server: Server
    model: Scribe
    effects: Effects
    states: dict[str, StorageState] = field(default_factory=dict)

    def clear_drafts(self) -> None:
        """Empty the message boxes of new chats, in which earlier tests may have left something."""
        path = self.installation.folder / DATABASE
        with closing(sqlite3.connect(path, timeout=SLOWEST_MS / 1_000)) as database, database:
            database.execute("DELETE FROM chatapp_messagedraft WHERE conversation_id IS NULL")

    def signed_in(self, chromium: Browser, name: str) -> StorageState:
        """The cookies of this person, who signed in on the page once."""
        if name not in self.states:
            with chromium.new_context(base_url=self.server.address) as context:
                tab = context.new_page()
                sign_in(tab, name, self.installation.password)
                self.states[name] = context.storage_state()
        return self.states[name]


def sign_in(tab: Page, name: str, password: str) -> None:
    tab.goto("/sign-in/")
    tab.get_by_label("Name").fill(name)
    tab.get_by_label("Password").fill(password)
    tab.get_by_role("button", name="Sign in").click()
    expect(tab.get_by_role("heading", name=f"Hello, {name}.")).to_be_visible()


PEOPLE = [["owner"], ["stranger"], ["admin", "--admin"], ["phone"]]


def fill_house(installation: Installation, *commands: list[str]) -> None:
    """Run several commands in one process, which costs a third of as many processes."""
    lines = [f"call_command(*{words})" for words in commands]
    script = ["from django.core.management import call_command", *lines]
    installation.manage("shell", "-v", "0", "-c", "\n".join(script))


def openai_alone(model: Scribe) -> dict[str, str]:
    """Settings that lead one provider to the scripted model."""
    return {"OPENAI_BASE_URL": model.url}


@dataclass(slots=True, kw_only=True)
class Furniture:
    """What a house is made of: an installation without a server, to be copied for each file of
    flows, so that none finds what another one left. The model and the service are shared."""

    installation: Installation
    model: Scribe
    effects: Effects

    @contextmanager
    def open_house(self, folder: Path) -> Iterator[House]:
        """Serve a copy in this folder."""
        shutil.copytree(self.installation.folder, folder, dirs_exist_ok=True)
        database = f"sqlite:///{folder / DATABASE}"
        installation = self.installation.copy(folder, DATABASE_URL=database)
        server = installation.server("house")
        try:
            server.start()
            yield House(
                installation=installation, server=server, model=self.model, effects=self.effects
            )
        finally:
            installation.close()


@contextmanager
def furnish(
    folder: Path, providers: Callable[[Scribe], dict[str, str]] = openai_alone
) -> Iterator[Furniture]:
    folder.mkdir(exist_ok=True)
    effects = Effects(folder / "effects")
    with answering(Scribe()) as model, Served(application(effects)) as served:
        installation = Installation(
            folder,
            DJANGO_SETTINGS_MODULE="chatapp.settings",
            DATABASE_URL=make_sqlite(folder / DATABASE),
            DEFAULT_MODEL=MODEL,
            SIGN_IN_FAILURE_LIMIT="3",
            MCP_IDLE_SECONDS="5",
            LEASE_SECONDS="15",
            DEMO="1",
            PSEUDO_LOCALES="1",  # a test writes their catalogs before it asks for them
            **providers(model),
        )
        people = [["member", "add", *words, "--password-env", "PASSWORD"] for words in PEOPLE]
        things = ["mcp", "add", "things", served.url, "--allow-private"]
        confirm = ["mcp", "confirm", "things"]
        fill_house(installation, *people, things, confirm)
        yield Furniture(installation=installation, model=model, effects=effects)


@contextmanager
def open_house(
    folder: Path, providers: Callable[[Scribe], dict[str, str]] = openai_alone
) -> Iterator[House]:
    """Serve a house of its own, with its own model and service."""
    with (
        furnish(folder / "furniture", providers) as made,
        made.open_house(folder / "house") as house,
    ):
        yield house


def find_chromium() -> str | None:
    """The path of Chromium. Without its window a page takes a quarter of the CPU time."""
    return shutil.which("chromium-headless-shell") or shutil.which("chromium")


# --- fixtures ----------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One a module: Playwright keeps an event loop running in this thread, and async tests of
    other modules could not start theirs beside it."""
    path = find_chromium()
    if path is None:
        pytest.skip("There is no chromium.")
    expect.set_options(timeout=SLOWEST_MS)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def furniture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Furniture]:
    with furnish(tmp_path_factory.mktemp("furniture")) as made:
        yield made


@pytest.fixture(scope="module")
def house(furniture: Furniture, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with furniture.open_house(tmp_path_factory.mktemp("house")) as made:
        yield made


@pytest.fixture
def look() -> Look:
    """What `both_looks` gives a test."""
    return {}


@pytest.fixture
def visit(chromium: Browser, house: House, look: Look) -> Iterator[Visit]:
    """Tabs that may do nothing wrong: at the end there was no error, no broken rule of the content
    policy, no dialog, and no request to another host."""
    assert house.server.is_alive, f"It ended with {house.server.code}. {house.server.log[-2_000:]}"
    house.clear_drafts()
    made = Visit(chromium, house, Witness(urlsplit(house.server.address).netloc), look)
    yield made
    made.close()
    made.witness.assert_clean()


@pytest.fixture
def whole_visit(chromium: Browser, house: House) -> Iterator[Visit]:
    """A visit in Chromium with its window, which alone shows notifications."""
    try:
        path = debian_program("chromium")
    except Unavailable as reason:
        pytest.skip(str(reason))
    browser = chromium.browser_type.launch(executable_path=path, args=ARGUMENTS)
    visit = Visit(browser, house, Witness(urlsplit(house.server.address).netloc))
    yield visit
    visit.close()
    browser.close()
    visit.witness.assert_clean()


# --- pasting and dragging ------------------------------------------------------------------------
PASTE = """(text) => {
  const data = new DataTransfer();
  data.setData("text/plain", text);
  const given = { clipboardData: data, bubbles: true, cancelable: true };
  const event = new ClipboardEvent("paste", given);
  document.getElementById("message").dispatchEvent(event);
}"""
PASTE_PICTURE = """() => {
  const data = new DataTransfer();
  const bytes = Uint8Array.from(atob("%s"), (each) => each.charCodeAt(0));
  data.items.add(new File([bytes], "screen.png", { type: "image/png" }));
  const given = { clipboardData: data, bubbles: true, cancelable: true };
  const event = new ClipboardEvent("paste", given);
  document.getElementById("message").dispatchEvent(event);
  // As Firefox does after each paste.
  data.items.clear();
}"""


def drag(tab: Page, kind: str, *paths: Path, at: tuple[int, int] = (700, 300)) -> None:
    """Drag files from outside of the browser over the page."""
    data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
    session = tab.context.new_cdp_session(tab)
    place = {"x": at[0], "y": at[1], "data": data}
    session.send("Input.dispatchDragEvent", {"type": kind, **place})
    session.detach()


# --- what a person finds on the page, by its accessible name ------------------------------------
def box(tab: Page) -> Locator:
    return tab.get_by_role("textbox", name="Message")


def region(tab: Page) -> Locator:
    return tab.get_by_role("region", name="Conversation")


def cards(tab: Page) -> Locator:
    return tab.get_by_role("group", name=re.compile("^Approve"))


def card(tab: Page, tool: str, service: str = "things") -> Locator:
    return tab.get_by_role("group", name=re.compile(rf"^Approve.*{tool}.*{service}", re.I))


def open_sidebar(tab: Page) -> None:
    """Open the list of chats where the window is too narrow to show it beside the chat."""
    opener = button(tab, "Open the list of chats")
    if opener.is_visible():
        opener.click()
        expect(tab.locator("#sidebar-list")).to_be_visible()


def button(place: Page | Locator, name: str) -> Locator:
    return place.get_by_role("button", name=name, exact=True)


def write(tab: Page, text: str, model: str = "") -> None:
    """Write this into the box and press Enter, whatever comes of it."""
    if model:
        tab.get_by_label("Model").select_option(model)
    box(tab).fill(text)
    box(tab).press("Enter")


def ask(tab: Page, text: str, model: str = "") -> None:
    """Ask in the chat that is open; returns when its answer has begun."""
    answers = tab.locator(".turn[data-role=assistant]")
    count = answers.count()
    write(tab, text, model)
    expect(answers).to_have_count(count + 1)


def ask_in_new_chat(tab: Page, text: str, model: str = "") -> None:
    """Ask in a new chat; returns when its page is there."""
    tab.goto("/")
    write(tab, text, model)
    tab.wait_for_url("**/c/*/")


def expect_blocked(visit: Visit, tab: Page, words: str, already: int = 0) -> None:
    """The browser's own word that it kept a framed page from something; excused from here on."""
    found: list[str] = []
    for _ in range(100):
        witness = visit.witness
        found = [said for said in witness.errors + witness.violations if re.search(words, said)]
        if len(found) > already:
            break
        tab.wait_for_timeout(50)
    assert len(found) > already, (visit.witness.errors, visit.witness.violations)


def forget_framed(visit: Visit) -> None:
    """Close the tabs and drop what the console says of a framed page, which is no fault of ours.
    One refusal makes several reports; after the tabs are closed none can come any more."""
    for context in visit.contexts:
        for tab in context.pages:
            tab.close()
    visit.witness.errors.clear()
    visit.witness.violations.clear()
    visit.witness.requests.clear()


def tick_as_read(tab: Page) -> None:
    """The time that a person needs at least to read a card."""
    tab.wait_for_timeout(READING_MS)


def expect_over(tab: Page) -> None:
    """The last answer is complete: nothing of it goes on any more."""
    last = tab.locator(".status").last
    expect(last).not_to_have_attribute("aria-busy", "true", timeout=WHOLE_ANSWER_MS)
    expect(tab.locator(".status .acts").last).to_be_visible()
