"""The socket: who may open it, and what ends it."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from asgiref.sync import sync_to_async
from django.contrib.sessions.models import Session
from django.test import Client

from chatapp import consumers
from chatapp.engine.runtime import close_engine_runtime, open_engine_runtime
from chatapp.models import Conversation, Member
from chatapp.server.database import close_threads

from .browser_socket import OWN_ORIGIN, Socket, can_open, session_of, socket

pytestmark = pytest.mark.django_db(transaction=True)


@pytest_asyncio.fixture(autouse=True)
async def _runtime() -> AsyncIterator[None]:
    runtime = await open_engine_runtime(sweeps=False)
    yield
    await close_engine_runtime(runtime)
    close_threads()


@pytest.fixture
def people(transactional_db: None) -> tuple[Member, Member]:
    return Member.objects.create_user("owner"), Member.objects.create_user("stranger")


@pytest.fixture
def conversation(people: tuple[Member, Member]) -> Conversation:
    return Conversation.objects.create(owner=people[0], title="Hello")


async def test_the_owner_comes_in(people: Any, conversation: Conversation) -> None:
    session = await sync_to_async(session_of)(people[0])
    assert await can_open(socket(conversation.pk, session))


async def test_a_stranger_and_nobody_stay_out(people: Any, conversation: Conversation) -> None:
    """The owner is checked at every resume, whatever number is requested."""
    stranger = await sync_to_async(session_of)(people[1])
    for after in ["0", "5", "99999999999999999999", "x"]:
        assert not await can_open(socket(conversation.pk, stranger, after=after))
        assert not await can_open(socket(conversation.pk, "", after=after))
    assert not await can_open(socket(uuid.uuid4(), stranger))


@pytest.mark.parametrize(
    "origins",
    [
        ("http://evil.example",),
        ("http://127.0.0.1:6740.evil.example",),
        ("http://evil.127.0.0.1:6740",),
        ("http://127.0.0.1:6741",),
        ("https://127.0.0.1:6740",),
        ("HTTP://127.0.0.1:6740",),
        ("null",),
        ("file://",),
        (),
        (OWN_ORIGIN, OWN_ORIGIN),
    ],
)
async def test_a_page_of_another_origin_cannot_open_it(
    people: Any, conversation: Conversation, origins: tuple[str, ...]
) -> None:
    """Even with the cookie of the owner."""
    session = await sync_to_async(session_of)(people[0])
    assert not await can_open(socket(conversation.pk, session, origins=origins))


async def test_configured_origins_are_the_only_ones(
    people: Any, conversation: Conversation, settings: Any
) -> None:
    settings.ALLOWED_ORIGINS = ["https://chat.example.com"]
    session = await sync_to_async(session_of)(people[0])
    assert not await can_open(socket(conversation.pk, session))
    assert await can_open(socket(conversation.pk, session, origins=("https://chat.example.com",)))


async def test_another_host_name_is_not_ours(
    people: Any, conversation: Conversation, settings: Any
) -> None:
    settings.ALLOWED_HOSTS = ["chat.example.com"]
    session = await sync_to_async(session_of)(people[0])
    assert not await can_open(socket(conversation.pk, session))


async def test_any_other_address_is_refused() -> None:
    scope = {"type": "websocket", "path": "/ws/everything/", "headers": [], "query_string": b""}
    assert not await can_open(Socket(scope))


async def test_a_tab_from_the_future_is_told_to_reload(
    people: Any, conversation: Conversation
) -> None:
    session = await sync_to_async(session_of)(people[0])
    tab = socket(conversation.pk, session, after="500")
    assert await tab.opens()
    closing = await tab.receive()
    assert (closing["type"], closing["code"]) == ("websocket.close", consumers.UNRESUMABLE)


async def test_an_idle_socket_says_that_it_lives(
    people: Any, conversation: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "HEARTBEAT_SECONDS", 0.05)
    session = await sync_to_async(session_of)(people[0])
    tab = socket(conversation.pk, session)
    assert await tab.opens()
    heartbeat = await tab.receive()
    assert json.loads(heartbeat["text"]) == {"n": 0, "f": []}
    await tab.leave()


@pytest.mark.parametrize("end", ["session", "logout", "password", "inactive", "deleted", "owner"])
async def test_a_person_who_lost_the_right_stops_receiving(
    people: Any, conversation: Conversation, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """Threat: `revoked-session-on-open-socket`."""
    monkeypatch.setattr(consumers, "RIGHTS_SECONDS", 0.05)
    monkeypatch.setattr(consumers, "HEARTBEAT_SECONDS", 0.02)
    owner, stranger = people
    client = Client()
    await sync_to_async(client.force_login)(owner)
    tab = socket(conversation.pk, client.cookies["sessionid"].value)
    assert await tab.opens()

    await tab.receive()  # it has joined

    def lose() -> None:
        match end:
            case "session":
                Session.objects.all().delete()
            case "logout":
                client.logout()
            case "password":
                owner.set_password("another-long-password")
                owner.save()
            case "inactive":
                Member.objects.filter(pk=owner.pk).update(is_active=False)
            case "deleted":
                owner.delete()
            case _:
                Conversation.objects.update(owner=stranger)

    await sync_to_async(lose)()
    async with asyncio.timeout(30):
        while (closing := await tab.receive())["type"] == "websocket.send":
            pass
    assert (closing["type"], closing["code"]) == ("websocket.close", consumers.SIGNED_OUT)


async def test_what_a_browser_sends_does_nothing(people: Any, conversation: Conversation) -> None:
    session = await sync_to_async(session_of)(people[0])
    tab = socket(conversation.pk, session)
    assert await tab.opens()
    await tab.send('{"approve": "everything"}')
    assert await tab.receives_nothing()
    await tab.leave()
