"""How a socket ends, and that its tab comes back to the right frame: rights that cannot be looked
up, feeds that fail, pages that read too slowly, and browsers that talk."""

import asyncio
import gc
import json
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from asgiref.sync import sync_to_async
from django.test import Client

from chatapp import consumers
from chatapp.asgi import sockets
from chatapp.conversations import intake
from chatapp.engine.runtime import EngineRuntime, close_engine_runtime, open_engine_runtime
from chatapp.journal import journal
from chatapp.live import hub, rights
from chatapp.live.page_changes import render_changes
from chatapp.models import Conversation, Member, Turn
from chatapp.providers import registry
from chatapp.server.database import close_threads, in_database
from tests import scripted
from tests.turns.acts import wait_until
from tests.turns.faults import Away, Failing
from tests.turns.tabs import begin, latest, said

from .browser_socket import Socket, socket

pytestmark = pytest.mark.django_db(transaction=True)
QUICK = 0.05


@pytest.fixture(autouse=True)
def _scripted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(registry.PROVIDERS, "scripted", scripted.PROVIDER)
    yield
    close_threads()


@pytest_asyncio.fixture
async def runtime(turn: Turn) -> AsyncIterator[EngineRuntime]:
    open_socket = await open_engine_runtime(sweeps=False)
    yield open_socket
    await close_engine_runtime(open_socket)


@pytest.fixture
def member(transactional_db: None) -> Member:
    return Member.objects.create_user("owner")


@pytest.fixture
def client(member: Member) -> Client:
    browser = Client()
    browser.force_login(member)
    return browser


@pytest.fixture
def turn(member: Member) -> Turn:
    """A turn that speaks when a test lets it."""
    made = intake.receive(member, None, text="Speak", model=scripted.MODEL)
    begin(made)
    return made


def tab_of(client: Client, turn: Turn, after: int) -> Socket:
    return socket(turn.conversation_id, client.cookies["sessionid"].value, after=str(after))


async def open_socket(client: Client, turn: Turn) -> tuple[Socket, int]:
    """A tab that has everything and is watching, and the number of its last frame."""
    last = await latest(turn.conversation)
    tab = tab_of(client, turn, last - 1)
    assert await tab.opens()
    assert json.loads((await tab.receive())["text"])["n"] == last
    return tab, last


async def closing_of(tab: Socket) -> int:
    """The code with which it is closed; frames before that are passed over."""
    async with asyncio.timeout(30):
        while (heard := await tab.receive())["type"] == "websocket.send":
            pass
    assert heard["type"] == "websocket.close"
    return int(heard["code"])


# --- rights --------------------------------------------------------------------------------
async def test_rights_that_cannot_be_looked_up_close_the_socket_and_the_tab_comes_back(
    runtime: EngineRuntime, client: Client, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watch that died of a database error would let a person who signed out read on for ever."""
    monkeypatch.setattr(consumers, "RIGHTS_SECONDS", QUICK)
    tab, last = await open_socket(client, turn)
    with monkeypatch.context() as planted:
        planted.setattr(rights, "load_watchers", Away(rights.load_watchers, times=1))
        assert await closing_of(tab) == consumers.FELL_BEHIND
    await tab.leave()
    await in_database(said, turn, "meanwhile")
    tab = tab_of(client, turn, last)
    assert await tab.opens()
    assert "meanwhile" in (await tab.receive())["text"]
    await tab.leave()


async def test_a_person_who_signed_out_while_the_database_was_away_does_not_come_back(
    runtime: EngineRuntime, client: Client, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "RIGHTS_SECONDS", QUICK)
    session = client.cookies["sessionid"].value
    tab, last = await open_socket(client, turn)
    away = Away(rights.load_watchers, times=1_000)
    with monkeypatch.context() as planted:
        planted.setattr(rights, "load_watchers", away)
        assert await closing_of(tab) == consumers.FELL_BEHIND
        await tab.leave()
        await sync_to_async(client.logout)()
        assert not await socket(turn.conversation_id, session, after=str(last)).opens()
    assert away.failures == 2
    assert not await socket(turn.conversation_id, session, after=str(last)).opens()


async def test_nothing_is_sent_to_a_tab_that_lost_its_rights(
    runtime: EngineRuntime, client: Client, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its viewer has left the feed, and nothing follows the close."""
    monkeypatch.setattr(consumers, "RIGHTS_SECONDS", QUICK)
    tab, _last = await open_socket(client, turn)
    await sync_to_async(client.logout)()
    assert await closing_of(tab) == consumers.SIGNED_OUT
    assert runtime.hub._feeds == {}
    await in_database(said, turn, "a secret")
    assert await tab.receives_nothing()
    await tab.leave()


async def test_rights_are_looked_up_again_and_again(
    runtime: EngineRuntime, client: Client, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[dict[Any, Member]] = []
    real = rights.load_watchers

    def counted(*args: Any) -> dict[Any, Member]:
        looks.append(real(*args))
        return looks[-1]

    monkeypatch.setattr(consumers, "RIGHTS_SECONDS", 0.01)
    monkeypatch.setattr(rights, "load_watchers", counted)
    tab, _last = await open_socket(client, turn)
    await wait_until(lambda: len(looks) > 4)
    await tab.leave()
    assert all(looks)
    await wait_until(lambda: runtime.hub._feeds == {})


# --- feeds ---------------------------------------------------------------------------------
async def test_a_feed_that_fails_closes_its_sockets_and_each_tab_goes_on_where_it_was(
    runtime: EngineRuntime, client: Client, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    tabs = [await open_socket(client, turn) for _ in range(3)]
    fault = Failing(
        render_changes, lambda _event, _turns: True, ValueError("a fault in a fragment")
    )
    with monkeypatch.context() as planted:
        planted.setattr("chatapp.live.feed.render_changes", fault)
        entry = journal.turn_entry(turn, Turn.State.RUNNING)
        await in_database(_write, turn, entry)
        for tab, _last in tabs:
            assert await closing_of(tab) == consumers.FELL_BEHIND
            await tab.leave()
    for _tab, last in tabs:
        back = tab_of(client, turn, last)
        assert await back.opens()
        assert json.loads((await back.receive())["text"])["n"] == last + 1
        await back.leave()
    await wait_until(lambda: runtime.hub._feeds == {})


def _write(turn: Turn, entry: journal.Entry) -> None:
    journal.append(turn.conversation_id, turn.pk, [entry])


async def test_a_conversation_that_is_deleted_closes_its_sockets_and_they_stay_closed(
    runtime: EngineRuntime, client: Client, turn: Turn
) -> None:
    session = client.cookies["sessionid"].value
    tab, last = await open_socket(client, turn)
    await in_database(Conversation.objects.all().delete)
    runtime.hub._nudge(turn.conversation_id, last + 1)
    assert await closing_of(tab) == consumers.FELL_BEHIND
    await tab.leave()
    assert not await socket(turn.conversation_id, session, after=str(last)).opens()


async def test_a_join_that_fails_closes_the_socket_and_says_why_in_the_log(
    runtime: EngineRuntime,
    client: Client,
    turn: Turn,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    last = await latest(turn.conversation)
    tab = tab_of(client, turn, last)
    away = Away(lambda *_args: None, times=1)
    with monkeypatch.context() as planted:
        planted.setattr("chatapp.live.feed.load_open_parts", away)
        assert await tab.opens()
        assert await closing_of(tab) == consumers.FELL_BEHIND
    assert [r.levelno for r in caplog.records if r.name == consumers.__name__] == [logging.ERROR]
    assert runtime.hub._feeds == {}
    await tab.leave()


@pytest.mark.parametrize(
    "error",
    [OSError("gone"), RuntimeError("Unexpected ASGI message, after sending 'websocket.close'.")],
)
@pytest.mark.parametrize("fails_at", ["websocket.send", "websocket.close"])
async def test_a_tab_that_leaves_in_the_middle_is_no_error(
    runtime: EngineRuntime,
    client: Client,
    turn: Turn,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    fails_at: str,
    error: Exception,
) -> None:
    """The server refuses a message to a browser that has gone, and then reports that it left."""
    arriving: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    accepted, refused = asyncio.Event(), asyncio.Event()
    monkeypatch.setattr(consumers, "RIGHTS_SECONDS", QUICK)

    async def send(message: dict[str, Any]) -> None:
        accepted.set()
        if message["type"] == fails_at:
            refused.set()
            raise error

    tab = tab_of(client, turn, 0)
    serving = asyncio.create_task(sockets(tab.scope, arriving.get, send))  # type: ignore[arg-type]
    await arriving.put({"type": "websocket.connect"})
    async with asyncio.timeout(30):
        await accepted.wait()
        await sync_to_async(client.logout)()  # so that the server has to close the socket
        await refused.wait()
        await arriving.put({"type": "websocket.disconnect", "code": 1006})
        await serving
    gc.collect()
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING] == []


async def test_a_tab_that_reads_too_slowly_is_closed_and_is_sent_the_rest_when_it_comes_back(
    runtime: EngineRuntime, client: Client, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "QUEUE_FRAMES", 2)
    tab, last = await open_socket(client, turn)
    await in_database(said, turn, "one ", "two ", "three ", "four ", "five")
    assert await closing_of(tab) == consumers.FELL_BEHIND
    await tab.leave()
    monkeypatch.setattr(hub, "QUEUE_FRAMES", 256)
    back = tab_of(client, turn, last)
    assert await back.opens()
    state = json.loads((await back.receive())["text"])
    assert state["n"] == last + 5
    assert "one two three four five" in str(state["f"])
    await back.leave()


# --- what browsers send --------------------------------------------------------------------
JUNK = [
    "",
    "{",
    "null",
    '{"n": 99999, "f": [["d", "thread", ""]]}',
    '{"type": "websocket.close"}',
    '{"decision": "run"}',
    "\x00\ud7ff\uffff",
    "x" * 200_000,
    b"",
    b"\xff\xfe\x00",
]


@pytest.mark.parametrize("junk", JUNK, ids=range(len(JUNK)))
async def test_junk_from_a_browser_changes_nothing_and_frames_go_on(
    runtime: EngineRuntime, client: Client, turn: Turn, junk: str | bytes
) -> None:
    tab, last = await open_socket(client, turn)
    for _ in range(3):
        await tab.send(junk)
    await in_database(said, turn, "undisturbed")
    frame = json.loads((await tab.receive())["text"])
    assert frame["n"] == last + 1
    assert "undisturbed" in str(frame["f"])
    assert await latest(turn.conversation) == last + 1
    await tab.leave()
