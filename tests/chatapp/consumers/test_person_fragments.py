"""The socket of a person's pages: who may open it, what it shows, and what wakes it."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import pytest_asyncio
from asgiref.sync import sync_to_async
from django.db import transaction
from django.test import Client

from chatapp import asgi, consumers
from chatapp.accounts import directory
from chatapp.accounts.directory import Person
from chatapp.engine.runtime import EngineRuntime, close_engine_runtime, open_engine_runtime
from chatapp.journal import journal
from chatapp.live import rights
from chatapp.live.hub import Viewer
from chatapp.models import Member, PersonSignal, ToolCall
from chatapp.people.signals import notify
from chatapp.rendering import page_values
from chatapp.server.database import close_threads, in_database
from chatapp.server.runtime import Runtime, current_runtime, using_runtime
from tests.chatapp.approvals.test_inbox import signed_first
from tests.conftest import signed_in
from tests.dom_tree import parse
from tests.turns import rows
from tests.turns.acts import wait_until
from tests.turns.faults import Away

from .browser_socket import OWN_ORIGIN, Socket, can_open, session_of, socket
from .browser_socket import person_socket as socket_of

pytestmark = pytest.mark.django_db(transaction=True)
State = ToolCall.State


@pytest_asyncio.fixture(autouse=True)
async def runtime() -> AsyncIterator[EngineRuntime]:
    open_tab = await open_engine_runtime(sweeps=False)
    yield open_tab
    await close_engine_runtime(open_tab)
    close_threads()


@pytest.fixture
def owner(transactional_db: None) -> Member:
    return Member.objects.create_user("owner")


@pytest.fixture
def stranger(transactional_db: None) -> Member:
    return Member.objects.create_user("stranger")


async def open_tab(person: Member, shows: str = "waiting") -> Socket:
    tab = socket_of(await sync_to_async(session_of)(person), shows=shows)
    assert await tab.opens()
    return tab


async def read_fragments(tab: Socket) -> dict[str, str]:
    """The fragments of the next frame that has some, by element id."""
    while True:
        frame = json.loads((await tab.receive())["text"])
        if frame["f"]:
            assert {op for op, _id, _html in frame["f"]} == {"o"}
            return {element_id: html for _op, element_id, html in frame["f"]}


async def create_waiting_call(person: Member) -> ToolCall:
    """A call of this person now waits for approval, and open pages are told."""

    def ask() -> ToolCall:
        call = rows.question(rows.turn(person))
        with transaction.atomic():
            journal.append_call(call.turn, call.pk, State.AWAITING_APPROVAL)
        return call

    return await in_database(ask)


# --- who may open it -------------------------------------------------------------------------
async def test_only_somebody_who_is_signed_in_comes_in(owner: Member) -> None:
    assert await can_open(socket_of(await sync_to_async(session_of)(owner)))
    assert not await can_open(socket_of(""))
    assert not await can_open(socket_of("x" * 32))


async def test_a_browser_that_leaves_before_its_socket_opens_takes_no_place(
    owner: Member,
) -> None:
    async def leave(message: dict[str, Any]) -> None:
        raise OSError("The browser has left.")

    async def connect() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    tab = socket_of(await sync_to_async(session_of)(owner))
    with pytest.raises(OSError, match="has left"):
        application: Any = asgi.sockets
        await application(tab.scope, connect, leave)
    assert not current_runtime().open_sockets


async def test_a_person_has_so_many_pages_open(
    owner: Member, stranger: Member, settings: Any
) -> None:
    settings.SOCKETS_PER_PERSON = 2
    first, second = await open_tab(owner), await open_tab(owner)
    refused = socket_of(await sync_to_async(session_of)(owner))
    await refused.connect()
    start, body = await refused.receive(), await refused.receive()
    assert (start["status"], start["headers"]) == (429, [(b"retry-after", b"30")])
    assert b"You have too many pages open" in body["body"]
    await refused.leave()
    # Another person has pages of their own, and a page that closes makes room.
    third = await open_tab(stranger)
    await first.leave()
    fourth = await open_tab(owner)
    for each in (second, third, fourth):
        await each.leave()
    assert not current_runtime().open_sockets


@pytest.mark.parametrize(
    "origins",
    [("http://evil.example",), ("https://127.0.0.1:6740",), ("null",), (), (OWN_ORIGIN,) * 2],
)
async def test_a_page_of_another_origin_cannot_open_it(
    owner: Member, origins: tuple[str, ...]
) -> None:
    """Even with the cookie of the person."""
    session = await sync_to_async(session_of)(owner)
    assert not await can_open(socket_of(session, origins=origins))


async def test_nothing_of_another_person_is_shown_whatever_is_asked_for(
    owner: Member, stranger: Member
) -> None:
    """Also not by the ids of another person's call."""
    call = await create_waiting_call(owner)
    ids = f"waiting,inbox,tool-call-{call.pk},next-{call.pk}"
    heard = await read_fragments(await open_tab(stranger, ids))
    assert sorted(heard) == sorted(
        [page_values.WAITING_ID, page_values.INBOX_ID, page_values.next_id(call.pk)]
    )
    for html in heard.values():
        assert str(call.pk) not in html.replace(page_values.next_id(call.pk), "")
        assert "Delete" not in html
    theirs = await read_fragments(await open_tab(owner, ids))
    assert page_values.tool_call_id(call.pk) in theirs
    assert str(call.pk) in theirs[page_values.INBOX_ID]


async def test_a_change_of_another_person_wakes_nobody(owner: Member, stranger: Member) -> None:
    tab = await open_tab(stranger)
    await read_fragments(tab)
    await create_waiting_call(owner)
    assert await tab.receives_nothing()


def _log_out(client: Client, _person: Member) -> None:
    client.logout()


def _close_account(_client: Client, person: Member) -> None:
    Member.objects.filter(pk=person.pk).update(is_active=False)


@pytest.mark.parametrize("lose", [_log_out, _close_account])
async def test_who_signed_out_or_lost_the_account_stops_receiving(
    owner: Member,
    monkeypatch: pytest.MonkeyPatch,
    runtime: EngineRuntime,
    lose: Callable[[Client, Member], None],
) -> None:
    """Threat: `revoked-session-on-open-socket`."""
    monkeypatch.setattr(consumers, "RIGHTS_SECONDS", 0.05)
    client = Client()
    await sync_to_async(client.force_login)(owner)
    tab = socket_of(client.cookies["sessionid"].value)
    assert await tab.opens()
    await read_fragments(tab)
    await sync_to_async(lose)(client, owner)
    async with asyncio.timeout(30):
        while (closing := await tab.receive())["type"] == "websocket.send":
            pass
    assert closing["code"] == consumers.SIGNED_OUT
    await wait_until(lambda: runtime.hub._pages.people == [])
    await create_waiting_call(owner)
    assert await tab.receives_nothing()


async def test_signing_out_closes_the_sockets_of_that_session_at_once(
    owner: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threat: `revoked-session-on-open-socket`. The regular check comes too late for this test."""
    monkeypatch.setattr(consumers, "RIGHTS_SECONDS", 3_600)
    client, elsewhere = Client(), Client()
    for each in (client, elsewhere):
        await sync_to_async(each.force_login)(owner)
    tabs = [socket_of(client.cookies["sessionid"].value) for _ in range(2)]
    other = socket_of(elsewhere.cookies["sessionid"].value)
    for tab in (*tabs, other):
        assert await tab.opens()
        await read_fragments(tab)
    assert (await sync_to_async(client.post)("/sign-out/")).status_code == 302
    for tab in tabs:
        assert (await tab.receive())["code"] == consumers.SIGNED_OUT
    await create_waiting_call(owner)
    assert await read_fragments(other)
    await other.leave()


async def test_a_directory_that_deactivates_a_person_closes_their_sockets_at_once(
    owner: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threat: `left-company-stays-in`."""
    monkeypatch.setattr(consumers, "RIGHTS_SECONDS", 3_600)
    tab = await open_tab(owner)
    await read_fragments(tab)
    gone = Person(username="owner", is_active=False)
    await in_database(directory.change, owner, gone)
    assert (await tab.receive())["code"] == consumers.SIGNED_OUT


async def test_signing_out_in_another_process_closes_the_sockets_of_that_session(
    owner: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threat: `revoked-session-on-open-socket`. Only the row of the signal tells of it."""
    monkeypatch.setattr(consumers, "RIGHTS_SECONDS", 3_600)
    client = Client()
    await sync_to_async(client.force_login)(owner)
    tab = socket_of(client.cookies["sessionid"].value)
    assert await tab.opens()
    await read_fragments(tab)
    with using_runtime(Runtime()):
        assert (await sync_to_async(client.post)("/sign-out/")).status_code == 302
    assert (await tab.receive())["code"] == consumers.SIGNED_OUT


async def test_a_session_that_became_another_persons_stops_receiving(
    owner: Member, stranger: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    tab = await open_tab(owner)
    await read_fragments(tab)
    monkeypatch.setattr(consumers, "RIGHTS_SECONDS", 0.05)
    monkeypatch.setattr(rights, "load_watchers", lambda asked: dict.fromkeys(asked, stranger))
    again = socket_of(await sync_to_async(session_of)(owner))
    again_is_open = await again.opens()
    assert again_is_open
    monkeypatch.setattr(rights, "load_watchers", lambda asked: dict.fromkeys(asked, owner))
    async with asyncio.timeout(30):
        while (closing := await again.receive())["type"] == "websocket.send":
            pass
    assert closing["code"] == consumers.SIGNED_OUT


# --- what it shows ---------------------------------------------------------------------------
async def test_what_waits_is_shown_at_once_and_whenever_it_changes(owner: Member) -> None:
    tab = await open_tab(owner, "waiting,inbox")
    first = await read_fragments(tab)
    assert 'data-title=""' in first[page_values.WAITING_ID]
    assert "Nothing needs your answer." in first[page_values.INBOX_ID]
    call = await create_waiting_call(owner)
    second = await read_fragments(tab)
    assert "1<span" in second[page_values.WAITING_ID]
    assert page_values.waiting_id(call.pk) in second[page_values.INBOX_ID]
    await create_waiting_call(owner)
    assert "2 requests are waiting for you." in (await read_fragments(tab))[page_values.WAITING_ID]
    await tab.leave()


async def test_a_signal_without_a_change_sends_nothing(owner: Member) -> None:
    tab = await open_tab(owner)
    await read_fragments(tab)
    await in_database(notify, owner.pk)
    assert await tab.receives_nothing()


async def test_a_card_that_still_asks_the_same_is_not_sent_again(
    owner: Member, stranger: Member
) -> None:
    """The time in it is that of its making; the page keeps the first, which the guard against haste
    counts from."""
    call = await in_database(signed_first, owner, stranger)
    for person in (owner, stranger):
        tab = await open_tab(person, f"tool-call-{call.pk}")
        await read_fragments(tab)
        await in_database(notify, person.pk)
        assert await tab.receives_nothing()


async def test_a_card_for_a_second_signer_follows_what_others_decide(
    owner: Member, stranger: Member
) -> None:
    for person in (owner, stranger):
        person.set_password("a-long-password")
        await in_database(person.save)
    call = await in_database(signed_first, owner, stranger)
    page_of = await in_database(lambda: signed_in(stranger).get(f"/approvals/{call.pk}/"))
    shows = parse(page_of.content.decode()).one("main")["data-stream"]
    tab = await open_tab(stranger, parse_qs(urlsplit(shows).query)["shows"][0])
    assert "Deny" in (await read_fragments(tab))[page_values.tool_call_id(call.pk)]

    def deny() -> None:
        values = {"decision": "deny", "version": rows.BINDING}
        signed_in(owner).post(f"/approvals/{call.pk}/decide", values)

    await in_database(deny)
    assert (
        "denied by <bdi>owner</bdi>"
        in (await read_fragments(tab))[page_values.tool_call_id(call.pk)]
    )


async def test_many_signals_at_once_are_one_frame(owner: Member) -> None:
    tab = await open_tab(owner)
    await read_fragments(tab)

    def ask_often() -> None:
        with transaction.atomic():
            for _ in range(10):
                call = rows.question(rows.turn(owner))
                journal.append_call(call.turn, call.pk, State.AWAITING_APPROVAL)

    await in_database(ask_often)
    assert "10 requests are waiting for you." in (await read_fragments(tab))[page_values.WAITING_ID]
    assert await tab.receives_nothing()


async def test_who_may_sign_second_sees_the_call_come_and_go_but_not_its_chat(
    owner: Member, stranger: Member
) -> None:
    tab = await open_tab(stranger, "waiting,inbox")
    await read_fragments(tab)
    call = await in_database(signed_first, owner, stranger)
    await in_database(journal.append_call, call.turn, call.pk, State.AWAITING_APPROVAL)
    heard = await read_fragments(tab)
    assert "1 request is waiting for you." in heard[page_values.WAITING_ID]
    assert "requested by owner" in heard[page_values.INBOX_ID]
    assert str(call.turn.conversation) not in heard[page_values.INBOX_ID]
    card = (await read_fragments(await open_tab(stranger, f"tool-call-{call.pk}")))[
        page_values.tool_call_id(call.pk)
    ]
    assert str(call.turn.conversation_id) not in card


async def test_a_conversations_line_brings_both(owner: Member) -> None:
    call = await create_waiting_call(owner)
    session = await sync_to_async(session_of)(owner)
    tab = socket(call.turn.conversation_id, session, shows="waiting", after="0")
    assert await tab.opens()
    frames = [json.loads((await tab.receive())["text"]) for _ in range(2)]
    assert sorted("n" in frame for frame in frames) == [False, True]
    state = next(frame for frame in frames if "n" not in frame)
    assert state["f"][0][1] == page_values.WAITING_ID
    assert "data-say" not in state["f"][0][2]


@pytest.mark.parametrize("shows", ["", "nothing", "waiting-", "tool-call", "next-x", "waiting\n"])
async def test_elements_that_are_not_known_bring_nothing(owner: Member, shows: str) -> None:
    tab = await open_tab(owner, shows)
    assert await tab.receives_nothing()
    await tab.leave()


def test_a_page_is_shown_few_elements() -> None:
    assert len(consumers.parse_elements(["waiting"] * 1_000)) == consumers.MAX_FRAGMENTS


def test_elements_are_read_with_the_row_that_they_belong_to() -> None:
    call = "01234567-89ab-cdef-0123-456789abcdef"
    wanted = consumers.parse_elements(["waiting", f"tool-call-{call}", f"waiting-{call}x", "x"])
    assert [(each.fragment, str(each.row_id)) for each in wanted] == [
        ("waiting", "None"),
        ("tool-call", call),
    ]


# --- what wakes it ---------------------------------------------------------------------------
async def test_a_change_that_is_taken_back_is_not_told(owner: Member) -> None:
    tab = await open_tab(owner)
    await read_fragments(tab)

    def fail() -> None:
        with transaction.atomic():
            rows.question(rows.turn(owner))
            notify(owner.pk)
            transaction.set_rollback(True)

    await in_database(fail)
    assert await tab.receives_nothing()
    assert await in_database(PersonSignal.objects.count) == 0


async def test_without_a_signal_it_looks_by_itself(
    owner: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "REFRESH_SECONDS", 0.05)
    tab = await open_tab(owner)
    await read_fragments(tab)
    await in_database(lambda: rows.question(rows.turn(owner)))
    assert "1<span" in (await read_fragments(tab))[page_values.WAITING_ID]


@pytest.fixture
def renders(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The elements that are rendered each time."""
    seen: list[list[str]] = []
    real = consumers.render_elements

    def render(person_id: int, chat: Any, elements: list[consumers.Element]) -> dict[str, str]:
        seen.append([each.id for each in elements])
        return real(person_id, chat, elements)

    monkeypatch.setattr(consumers, "render_elements", render)
    return seen


BADGE, INBOX = consumers.parse_elements([page_values.WAITING_ID, page_values.INBOX_ID])


async def test_pages_share_what_was_rendered_since_the_last_commit(
    owner: Member,
    stranger: Member,
    runtime: EngineRuntime,
    renders: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(consumers, "REFRESH_SECONDS", 3_600)
    here, there = uuid.uuid4(), uuid.uuid4()
    chats = (here, there, here)
    loads = [consumers.load_elements(owner.pk, chat, [BADGE]) for chat in chats]
    first, *others = await asyncio.gather(*loads)
    assert others == [first, first]
    assert await consumers.load_elements(owner.pk, there, [BADGE]) == first
    assert len(renders) == 1
    await consumers.load_elements(owner.pk, None, [BADGE])  # it announces itself there
    await consumers.load_elements(stranger.pk, here, [BADGE])
    assert len(renders) == 3
    await create_waiting_call(owner)
    assert "1<span" in (await consumers.load_elements(owner.pk, here, [BADGE]))[BADGE.id]


async def test_what_depends_on_the_time_is_rendered_again_without_a_commit(
    owner: Member,
    runtime: EngineRuntime,
    renders: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(consumers, "REFRESH_SECONDS", 0.0001)
    for _ in range(2):
        await consumers.load_elements(owner.pk, None, [BADGE, INBOX])
        await asyncio.sleep(0.01)
    assert renders == [[BADGE.id, INBOX.id]] * 2
    monkeypatch.setattr(consumers, "REFRESH_SECONDS", 3_600)
    for _ in range(2):
        await consumers.load_elements(owner.pk, None, [BADGE, INBOX])
    assert renders[2:] == [[BADGE.id, INBOX.id], [INBOX.id]]


TIMED_AND_NOT = (page_values.WAITING_ID, page_values.TOOLS_ID)


@pytest.fixture
def look(owner: Member) -> Callable[[bool], Any]:
    """Let a page with both kinds look for changes, with or without a signal, after a commit."""
    shown, viewer = consumers.ShownFragments(TIMED_AND_NOT), Viewer()

    async def look_once(is_signalled: bool) -> None:
        await in_database(Member.objects.filter(pk=owner.pk).update, first_name=str(uuid.uuid4()))
        await shown.send_changes(owner.pk, None, viewer, is_signalled=is_signalled)

    return look_once


async def test_what_no_time_changes_is_rendered_less_often_without_a_signal(
    look: Callable[[bool], Any],
    runtime: EngineRuntime,
    renders: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for is_signalled in (True, False, True):
        await look(is_signalled)
    both = list(TIMED_AND_NOT)
    assert renders == [both, both[:1], both]
    monkeypatch.setattr(consumers, "SLOW_REFRESH_SECONDS", 0.0001)
    for is_signalled in (True, False):
        await look(is_signalled)
    assert renders[3:] == [both, both]


async def test_after_a_failure_all_is_read_again_without_a_signal(
    look: Callable[[bool], Any],
    runtime: EngineRuntime,
    renders: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await look(True)
    monkeypatch.setattr(consumers, "render_elements", Away(consumers.render_elements, times=1))
    await look(True)
    await look(False)
    assert renders == [list(TIMED_AND_NOT)] * 2


async def test_what_cannot_be_read_just_now_is_read_at_the_next_look(
    owner: Member, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tab = await open_tab(owner)
    await read_fragments(tab)
    monkeypatch.setattr(consumers, "REFRESH_SECONDS", 0.05)
    away = Away(consumers.render_elements, times=1)
    monkeypatch.setattr(consumers, "render_elements", away)
    await create_waiting_call(owner)
    assert "1<span" in (await read_fragments(tab))[page_values.WAITING_ID]
    assert away.failures == 1
    assert "could not be read" in caplog.text


async def test_nothing_is_rendered_for_who_is_not_here(
    owner: Member, monkeypatch: pytest.MonkeyPatch, runtime: EngineRuntime
) -> None:
    looks: list[Any] = []
    real = consumers.render_elements

    def counted(*args: Any) -> dict[str, str]:
        looks.append(args)
        return real(*args)

    monkeypatch.setattr(consumers, "render_elements", counted)
    tab = await open_tab(owner)
    await read_fragments(tab)
    await tab.leave()
    await wait_until(lambda: runtime.hub._pages.people == [])
    seen = len(looks)
    await create_waiting_call(owner)
    assert len(looks) == seen
    assert await in_database(PersonSignal.objects.count) == 1
