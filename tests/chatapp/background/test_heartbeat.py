"""Heartbeats: each process that runs has a row that says so, and the rows of dead ones go."""

import asyncio
import os
import threading
from datetime import timedelta

import pytest
from django.db import OperationalError, connection
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from chatapp.background.heartbeat import (
    BEAT_SECONDS,
    DEAD_AFTER,
    REMOVED_AFTER,
    Heartbeat,
    remove_dead,
)
from chatapp.models import Worker
from chatapp.server.database import close_threads
from mcpconfig.values.version import VERSION

pytestmark = pytest.mark.timeout(30)


def age(heartbeat: Heartbeat, seconds: float) -> None:
    """Make the last beat of this process older."""
    row = Worker.objects.filter(pk=heartbeat.id)
    row.update(beat_at=Now() - timedelta(seconds=seconds))


@pytest.mark.django_db
def test_a_beat_says_which_process_it_is_and_how_busy() -> None:
    heartbeat = Heartbeat(Worker.Kind.SERVER, count_turns=lambda: 3, runs_task=lambda: True)
    heartbeat.beat()
    row = Worker.objects.get()
    assert (row.kind, row.pid, row.version) == ("server", os.getpid(), VERSION)
    assert (row.turns, row.runs_task) == (3, True)


@pytest.mark.django_db
def test_later_beats_move_the_time_and_not_the_start() -> None:
    heartbeat = Heartbeat(Worker.Kind.TASKS)
    heartbeat.beat()
    first = Worker.objects.get()
    age(heartbeat, 60)
    aged = Worker.objects.get().beat_at
    heartbeat.beat()
    later = Worker.objects.get()
    assert later.started_at == first.started_at
    assert later.beat_at > aged


@pytest.mark.django_db
def test_a_beat_is_one_statement_most_of_the_time() -> None:
    heartbeat = Heartbeat(Worker.Kind.SERVER)
    heartbeat.beat()
    with CaptureQueriesContext(connection) as statements:
        for _ in range(3):
            heartbeat.beat()
    assert len(statements) == 3
    assert BEAT_SECONDS >= 30


@pytest.mark.django_db
def test_rows_of_the_dead_are_removed_by_the_others() -> None:
    dead, living = Heartbeat(Worker.Kind.SERVER), Heartbeat(Worker.Kind.SERVER)
    dead.beat()
    age(dead, REMOVED_AFTER.total_seconds() + 1)
    living.beat()
    assert list(Worker.objects.values_list("pk", flat=True)) == [living.id]


@pytest.mark.django_db
@pytest.mark.parametrize("seconds", [2 * BEAT_SECONDS, 10 * DEAD_AFTER.total_seconds()])
def test_a_process_that_stopped_reporting_is_shown_for_a_day(seconds: float) -> None:
    late = Heartbeat(Worker.Kind.SERVER)
    late.beat()
    age(late, seconds)
    assert remove_dead() == 0


@pytest.mark.django_db
def test_a_row_that_others_removed_comes_back() -> None:
    """The process was frozen, and not dead."""
    heartbeat = Heartbeat(Worker.Kind.SERVER)
    heartbeat.beat()
    Worker.objects.all().delete()
    heartbeat.beat()
    assert Worker.objects.get().pk == heartbeat.id


@pytest.mark.django_db(transaction=True)
def test_a_process_works_on_while_its_database_is_away() -> None:
    def fail() -> int:
        raise OperationalError("away")

    connection.ensure_connection()
    Heartbeat(Worker.Kind.SERVER, count_turns=fail).beat_guarded()
    # The next beat starts with a new one.
    assert connection.connection is None


@pytest.mark.django_db(transaction=True)
def test_a_thread_that_lost_its_connection_reports_again() -> None:
    kept: list[bool] = []
    again = threading.Event()

    def lose() -> bool:
        if kept and connection.connection is not None:
            again.set()
        elif connection.connection is not None:
            kept.append(getattr(connection, "is_kept", False))
            if connection.vendor == "sqlite":
                raise OperationalError("gone")
            connection.connection.close()
        return False

    stop = Heartbeat(Worker.Kind.TASKS, runs_task=lose).start_thread(0.01)
    try:
        assert again.wait(20)
    finally:
        stop()
    assert kept == [True]  # such a connection is not one of those that requests wait for
    assert not Worker.objects.exists()


@pytest.mark.django_db
def test_a_process_that_ended_writes_no_row_again() -> None:
    heartbeat = Heartbeat(Worker.Kind.SERVER)
    heartbeat.beat_guarded()
    heartbeat.end()
    heartbeat.beat_guarded()
    assert not Worker.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_server_has_a_row_until_it_ends() -> None:
    async def live() -> None:
        beaten = asyncio.Event()
        loop = asyncio.get_running_loop()

        def count() -> int:
            loop.call_soon_threadsafe(beaten.set)
            return 0

        heartbeat = Heartbeat(Worker.Kind.SERVER, count_turns=count)
        beats = asyncio.create_task(heartbeat.keep_beating(0.01))
        async with asyncio.timeout(20):
            for _ in range(2):  # the first one has been stored once the second begins
                await beaten.wait()
                beaten.clear()
        assert await Worker.objects.acount() == 1
        beats.cancel()
        await asyncio.wait([beats], timeout=20)
        assert await Worker.objects.acount() == 0

    asyncio.run(live())
    close_threads()


@pytest.mark.django_db(transaction=True)
def test_a_process_of_tasks_has_a_row_until_it_ends() -> None:
    beaten = [threading.Event(), threading.Event()]
    events = iter(beaten)

    def note() -> bool:
        next(events, beaten[1]).set()
        return True

    stop = Heartbeat(Worker.Kind.TASKS, runs_task=note).start_thread(0.01)
    assert beaten[1].wait(20)
    assert Worker.objects.get().runs_task
    stop()
    assert not Worker.objects.exists()
