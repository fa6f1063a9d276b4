"""The servers that the relay benchmark compares: ours, the bare relay, and Chainlit."""

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2

from tests.flows.person import Person
from tests.flows.server import Installation, free_port

from .bare_relay import END
from .fast_model import MAX_CHUNKS
from .tabs import WORDS, Reading, Tab, make_question, open_socket

ROOT = Path(__file__).parents[1]
MODEL = "openai-chat:bench"
STATEMENTS = re.compile(r"^countersign_database_statements_total(?:\{[^}]*\})? (\S+)", re.MULTILINE)
TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')
STREAM = re.compile(r'data-stream="([^"]+)"\s+data-after="(\d+)"')
REAL = {
    "DJANGO_SETTINGS_MODULE": "chatapp.settings",
    "LEASE_SECONDS": "15",
    "SWEEP_SECONDS": "5",
    "SOCKETS_PER_PERSON": "1000",  # all tabs are those of one person
    "TITLE_MODEL": "none",  # the first answer of a chat costs what the others do
}
START_SECONDS = 300  # the first time Chainlit is installed
# How many pages are opened at the same time before a round.
OPENING = 5


class Target:
    """A server with open pages. `pid` is the root of its processes."""

    name = ""
    pid = 0

    async def open_tab(self) -> Tab:
        raise NotImplementedError

    async def count_statements(self) -> float:
        """Return how many statements the server has sent to a database so far."""
        return 0.0

    async def open_tabs(self, count: int) -> list[Tab]:
        some = asyncio.Semaphore(OPENING)

        async def open_one() -> Tab:
            async with some:
                return await self.open_tab()

        return await asyncio.gather(*(open_one() for _ in range(count)))


# --- ours --------------------------------------------------------------------------------------
class OurTab(Tab):
    """The page of a chat."""

    end_mark = 'data-state=\\"done\\"'

    def __init__(self, ours: "Ours", conversation: str) -> None:
        super().__init__()
        self.conversation = conversation
        self._ours = ours

    async def _get_page(self) -> str:
        return (await self._ours.browser.get(f"/c/{self.conversation}/")).text

    async def shows_words(self, count: int) -> bool:
        page = await self._get_page()
        return all(word in page for word in WORDS[:count])

    async def load(self) -> str:
        """Load the page and open its socket."""
        page = await self._get_page()
        found = STREAM.search(page)
        assert found is not None, page[:500]
        path = found[1].replace("&amp;", "&") + found[2]
        self.socket = await open_socket(
            f"ws://127.0.0.1:{self._ours.port}{path}", self._ours.cookies, self.take
        )
        return page

    async def ask(self, question: str) -> None:
        address = f"/c/{self.conversation}/messages"
        answer = await self._ours.post(address, question, {"HX-Request": "true"})
        assert answer.status_code == 200, answer.text


class Ours(Target):
    """`manage.py serve` and one person who is signed in."""

    name = "ours"

    def __init__(self, installation: Installation, model_url: str) -> None:
        self._installation = installation
        server = installation.server("bench", OPENAI_BASE_URL=model_url)
        installation.manage("member", "add", "owner", "--password-env", "PASSWORD")
        server.start()
        assert server.process is not None
        self.pid, self.port = server.process.pid, server.port
        self.address = server.address
        person = Person(installation, MODEL)
        person.sign_in(server)
        self.cookies = person.cookie_header()
        token = TOKEN.search(person.html(server, "/"))
        assert token is not None
        self._token = token[1]
        self.conversations: list[str] = []
        self.browser = httpx2.AsyncClient(
            base_url=server.address,
            headers={"Cookie": self.cookies},
            timeout=60,
            trust_env=False,
            limits=httpx2.Limits(max_connections=200, max_keepalive_connections=200),
        )

    async def post(self, address: str, text: str, headers: dict[str, str]) -> httpx2.Response:
        """Send a message."""
        fields = {
            "csrfmiddlewaretoken": self._token,
            "text": text,
            "model": MODEL,
            "client_id": str(uuid.uuid4()),
        }
        return await self.browser.post(address, data=fields, headers=headers)

    async def open_tab(self) -> Tab:
        """Begin a chat with a message whose answer is one chunk, and follow it to its page.

        The word of that chunk is in no measured answer.
        """
        key = uuid.uuid4().hex
        sent = await self.post("/c/new/messages", make_question(key, MAX_CHUNKS, 1, 40), {})
        assert sent.status_code == 302, sent.text
        tab = OurTab(self, str(sent.headers["location"]).split("/")[2])
        self.conversations.append(tab.conversation)
        tab.reading = Reading(key=key, chunks=1)
        # The page may have the answer already, and the socket may send its end while it opens.
        tab.reading.arrivals.append(0.0)
        page = await tab.load()
        if 'data-state="done"' not in page:
            await asyncio.wait_for(tab.reading.is_over.wait(), 60)
        return tab

    async def open_pages(self, count: int) -> list[Tab]:
        """Open the pages of chats that exist."""
        known = self.conversations
        tabs = [OurTab(self, known[-1 - number % len(known)]) for number in range(count)]
        for start in range(0, count, OPENING):
            await asyncio.gather(*(tab.load() for tab in tabs[start : start + OPENING]))
        return list(tabs)

    async def count_statements(self) -> float:
        token = (self._installation.folder / "metrics_token").read_text().strip()
        answer = await self.browser.get("/metrics", headers={"Authorization": f"Bearer {token}"})
        found = STATEMENTS.search(answer.text)
        assert found is not None, answer.text[:500]
        return float(found[1])


@asynccontextmanager
async def open_ours(folder: Path, model_url: str, database_url: str) -> AsyncIterator[Ours]:
    settings = {"DATABASE_URL": database_url, **REAL}
    installation = Installation(folder, **settings)
    try:
        ours = Ours(installation, model_url)
        async with ours.browser:
            yield ours
    finally:
        installation.close()


# --- the bare relay ----------------------------------------------------------------------------
class BareTab(Tab):
    end_mark = END

    async def ask(self, question: str) -> None:
        assert self.socket is not None
        self.socket.send(question)

    def take(self, frame: str) -> None:
        super().take(frame)
        # An answer may have lost all of its text.
        if frame == END and self.reading is not None:
            self.reading.is_over.set()


class Bare(Target):
    """`bare_relay` under the same server as ours."""

    name = "bare"

    def __init__(self, pid: int, port: int) -> None:
        self.pid, self._port = pid, port

    async def open_tab(self) -> Tab:
        tab = BareTab()
        tab.socket = await open_socket(f"ws://127.0.0.1:{self._port}/", "", tab.take)
        return tab


@asynccontextmanager
async def open_bare(model_url: str) -> AsyncIterator[Bare]:
    port = free_port()
    command = [
        *(sys.executable, "-m", "uvicorn", "--app-dir", "benchmarks", "bare_relay:app"),
        *("--port", str(port), "--loop", "uvloop", "--http", "httptools"),
        *("--ws", "websockets-sansio", "--lifespan", "off", "--log-level", "warning"),
    ]
    with run_server(command, port, {"BENCH_MODEL_URL": model_url}) as pid:
        yield Bare(pid, port)


# --- Chainlit ----------------------------------------------------------------------------------
CHAINLIT = ("chainlit==2.12.0", "openai==3.52.0")
CHAINLIT_APP = """
import os

import chainlit
from openai import AsyncOpenAI

model = AsyncOpenAI(base_url=os.environ["BENCH_MODEL_URL"], api_key="none")


@chainlit.on_message
async def answer(question: chainlit.Message) -> None:
    reply = chainlit.Message(content="")
    messages = [{"role": "user", "content": question.content}]
    stream = await model.chat.completions.create(model="bench", messages=messages, stream=True)
    async for chunk in stream:
        if chunk.choices and (text := chunk.choices[0].delta.content):
            await reply.stream_token(text)
    await reply.send()
"""


class ChainlitTab(Tab):
    """A page of Chainlit, whose messages are those of socket.io in one socket."""

    end_mark = '42["task_end"'

    def __init__(self) -> None:
        super().__init__()
        self.is_ready = asyncio.Event()
        self._session = str(uuid.uuid4())

    def take(self, frame: str) -> None:
        assert self.socket is not None
        match frame[:2]:
            case "2":
                self.socket.send("3")
            case "40":
                self.is_ready.set()
            case _ if frame.startswith("0"):
                about = {
                    "clientType": "webapp",
                    "sessionId": self._session,
                    "threadId": "",
                    "userEnv": "{}",
                    "chatProfile": "",
                }
                self.socket.send("40" + json.dumps(about))
            case _:
                super().take(frame)

    def emit(self, name: str, *values: Any) -> None:
        assert self.socket is not None
        self.socket.send("42" + json.dumps([name, *values]))

    async def ask(self, question: str) -> None:
        message = {
            "id": str(uuid.uuid4()),
            "threadId": "",
            "name": "user",
            "type": "user_message",
            "output": question,
            "createdAt": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime()),
        }
        self.emit("client_message", {"message": message, "fileReferences": None})


class Chainlit(Target):
    """Chainlit in an environment of its own, without accounts and storage."""

    name = "chainlit"

    def __init__(self, pid: int, port: int) -> None:
        self.pid, self._port = pid, port

    async def open_tab(self) -> Tab:
        tab = ChainlitTab()
        address = f"ws://127.0.0.1:{self._port}/ws/socket.io/?EIO=4&transport=websocket"
        ready = asyncio.get_running_loop().create_future()

        def take(frame: str) -> None:
            tab.take(frame)
            if tab.is_ready.is_set() and not ready.done():
                ready.set_result(None)

        # The server speaks first, maybe before the function below has returned.
        waiting: list[str] = []
        tab.socket = await open_socket(
            address, "", lambda frame: take(frame) if tab.socket else waiting.append(frame)
        )
        for frame in waiting:
            take(frame)
        await asyncio.wait_for(ready, 30)
        tab.emit("connection_successful")
        return tab


@asynccontextmanager
async def open_chainlit(python: str, folder: Path, model_url: str) -> AsyncIterator[Chainlit]:
    """Run it with this Python, or with `uv run` if none is given."""
    (folder / "app.py").write_text(CHAINLIT_APP)
    port = free_port()
    run = [python, "-m", "chainlit"]
    if python == "uv":
        packages = [word for package in CHAINLIT for word in ("--with", package)]
        uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
        run = [uv, "run", "--no-project", *packages, "chainlit"]
    command = [*run, "run", str(folder / "app.py"), "--headless", "--port", str(port)]
    with run_server(command, port, {"BENCH_MODEL_URL": model_url}, folder) as pid:
        yield Chainlit(pid, port)


# --- processes ---------------------------------------------------------------------------------
@contextmanager
def run_server(
    command: list[str], port: int, environment: dict[str, str], folder: Path = ROOT
) -> Iterator[int]:
    """Within, a server listens on this port."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        await_port(process, port)
        yield process.pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def await_port(process: subprocess.Popen[bytes], port: int) -> None:
    end = time.monotonic() + START_SECONDS
    while True:
        assert process.poll() is None, f"The server ended: {process.args!r}"
        assert time.monotonic() < end, f"The server did not start: {process.args!r}"
        with contextlib.suppress(httpx2.TransportError):
            httpx2.get(f"http://127.0.0.1:{port}/", trust_env=False)
            return
        time.sleep(0.1)
