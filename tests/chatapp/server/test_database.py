"""The engine's way to the database: threads of its own, snapshots, and text that can be kept."""

import asyncio
import threading
from typing import Any

import pytest
from django.db import connection, transaction

from chatapp.models import Conversation, Turn
from chatapp.server import database
from chatapp.server.database import close_threads, in_database, snapshot
from mcpconfig.values.results import make_storable
from tests.turns.acts import wait_for_event

pytestmark = pytest.mark.django_db(transaction=True)


def title(turn: Turn) -> str:
    return Conversation.objects.get(pk=turn.conversation_id).title


def rename(turn: Turn, name: str) -> None:
    Conversation.objects.filter(pk=turn.conversation_id).update(title=name)


# --- threads -------------------------------------------------------------------------------
async def test_the_event_loop_goes_on_while_the_database_works() -> None:
    goes_on = threading.Event()

    def slow() -> bool:
        return goes_on.wait(60)

    working = asyncio.create_task(in_database(slow))
    await asyncio.sleep(0)
    assert not working.done()
    goes_on.set()
    assert await working


async def test_what_goes_wrong_reaches_the_caller(turn: Turn) -> None:
    with pytest.raises(Conversation.DoesNotExist):
        await in_database(Conversation.objects.get, title="No such title")
    assert await in_database(title, turn) == "Tidy up, please"


async def test_work_that_has_begun_ends_although_its_caller_left(turn: Turn) -> None:
    """Cancelled in the middle, a transaction still commits whole."""
    began, goes_on, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        with transaction.atomic():
            rename(turn, "Half")
            began.set()
            goes_on.wait(60)
            rename(turn, "Whole")
        ended.set()

    working = asyncio.create_task(in_database(work))
    await wait_for_event(began)
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    goes_on.set()
    await wait_for_event(ended)
    assert await in_database(title, turn) == "Whole"


async def connections_of_all_threads() -> list[Any]:
    """The driver's connection of each thread of the pool, None for a closed one."""
    together = threading.Barrier(database.THREADS)

    def mine() -> Any:
        together.wait(60)
        return connection.connection

    return await asyncio.gather(*(in_database(mine) for _ in range(database.THREADS)))


async def test_every_thread_keeps_its_connection_until_all_are_closed(turn: Turn) -> None:
    together = threading.Barrier(database.THREADS)

    def read() -> str:
        together.wait(60)
        return title(turn)

    for _ in range(2):
        await asyncio.gather(*(in_database(read) for _ in range(database.THREADS)))
    kept = await connections_of_all_threads()
    assert None not in kept
    assert kept and len({id(each) for each in kept}) == database.THREADS
    await asyncio.to_thread(close_threads)
    assert await connections_of_all_threads() == [None] * database.THREADS


async def test_closed_threads_work_again_when_they_are_asked(turn: Turn) -> None:
    await asyncio.to_thread(close_threads)
    assert await in_database(title, turn) == "Tidy up, please"


# --- snapshots -----------------------------------------------------------------------------
async def test_a_snapshot_is_of_one_moment_and_hinders_no_writer(turn: Turn) -> None:
    read_once, written = threading.Event(), threading.Event()

    def read() -> tuple[str, str]:
        with snapshot():
            before = title(turn)
            read_once.set()
            assert written.wait(60), "the writer had to wait"
            return before, title(turn)

    reading = asyncio.create_task(in_database(read))
    await wait_for_event(read_once)
    await in_database(rename, turn, "Later")
    written.set()
    assert await reading == ("Tidy up, please", "Tidy up, please")
    assert await in_database(title, turn) == "Later"


def test_a_snapshot_inside_a_transaction_sees_what_that_one_wrote(turn: Turn) -> None:
    with transaction.atomic():
        rename(turn, "Mine")
        with snapshot():
            assert title(turn) == "Mine"
    assert title(turn) == "Mine"


def test_a_snapshot_that_fails_leaves_the_connection_usable(turn: Turn) -> None:
    with pytest.raises(ZeroDivisionError), snapshot():
        title(turn)
        raise ZeroDivisionError
    with snapshot():
        assert title(turn) == "Tidy up, please"
    rename(turn, "Written after")
    assert title(turn) == "Written after"


# --- values --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("a\x00b", "a\ufffdb"),
        ("half \ud83d of a pair", "half ? of a pair"),
        ({"k\x00": ["\x00", {"d": "\udc00"}]}, {"k\ufffd": ["\ufffd", {"d": "?"}]}),
        ([1, 2.5, True, None], [1, 2.5, True, None]),
        ("🦉 stays", "🦉 stays"),
    ],
)
def test_json_from_outside_is_made_so_that_every_database_keeps_it(given: Any, kept: Any) -> None:
    assert make_storable(given) == kept


def test_what_was_made_storable_comes_back_as_it_was(turn: Turn) -> None:
    value = make_storable({"said": "NUL \x00 and half \udc00 and whole 🦉"})
    Turn.objects.filter(pk=turn.pk).update(services=value)
    assert Turn.objects.get(pk=turn.pk).services == value
