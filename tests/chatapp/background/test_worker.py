"""The worker: runs tasks once their transaction has committed, tries failed ones again, takes up
those of dead workers, and ends with the server."""

import io
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import OperationalError, transaction
from django.db.models.functions import Now
from django_tasks import TaskResultStatus
from django_tasks_db.models import DBTaskResult

from chatapp.background import results, worker
from chatapp.background.results import LOST, MAX_ATTEMPTS
from chatapp.background.worker import BackgroundWorker
from chatapp.management.commands import run_tasks
from chatapp.models import TaskSchedule
from chatapp.telemetry import metrics
from tests.flows.server import eventually

from . import probes

pytestmark = pytest.mark.django_db(transaction=True)
HOUR = 3_600.0


@pytest.fixture(autouse=True)
def _no_poll(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A worker looks once an hour, so what it runs sooner was announced. It has no schedule."""
    settings.TASKS_POLL_SECONDS = HOUR
    monkeypatch.setattr(worker, "enqueue_due", lambda _rests: None)
    probes.ran.clear()
    probes.threads.clear()
    probes.begun.clear()
    probes.released.clear()
    yield
    probes.released.set()


@contextmanager
def running(*, runs_tasks: bool = True) -> Iterator[BackgroundWorker]:
    made = BackgroundWorker(runs_tasks=runs_tasks)
    made.start()
    try:
        yield made
    finally:
        probes.released.set()
        made.begin_shutdown()
        made._thread.join(30)
        assert not made._thread.is_alive()


def statuses() -> list[str]:
    return list(DBTaskResult.objects.values_list("status", flat=True))


def has_ended() -> bool:
    return set(statuses()) <= {"SUCCESSFUL", "FAILED"}


def read_failures() -> float:
    name = "countersign_task_failures_total"
    return metrics.REGISTRY.get_sample_value(name, {"task": probes.fail.name}) or 0


def test_a_task_runs_soon_after_its_transaction_and_not_before() -> None:
    with running():
        with transaction.atomic():
            probes.note.enqueue("first")
            assert probes.ran == []
        eventually(lambda: probes.ran == ["first"], "the first task")
        with pytest.raises(OperationalError), transaction.atomic():
            probes.note.enqueue("rolled back")
            raise OperationalError("away")
        probes.note.enqueue("last")
        eventually(lambda: probes.ran == ["first", "last"], "the last task")
    assert statuses() == ["SUCCESSFUL"] * 2


def test_of_two_workers_one_runs_each_task() -> None:
    with running(), running():
        for number in range(20):
            probes.note.enqueue(str(number))
        eventually(has_ended, "all tasks")
    assert sorted(map(int, probes.ran)) == list(range(20))


def test_a_server_without_a_worker_leaves_the_tasks_to_others() -> None:
    probes.note.enqueue("left")
    with running(runs_tasks=False) as idle:
        idle._work_guarded()
    assert statuses() == ["READY"]


def test_a_task_that_fails_is_logged_and_tried_again_a_bounded_number_of_times(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(results, "RETRY_SECONDS", 0)
    before = read_failures()
    probes.fail.enqueue()
    assert results.count_tasks() == {"due": 1, "running": 0, "failed": 0}
    with running():
        eventually(lambda: "is given up" in caplog.text, "the last attempt")
    assert results.count_tasks() == {"due": 0, "running": 0, "failed": 1}
    assert read_failures() == before + MAX_ATTEMPTS
    assert probes.ran == ["fail"] * MAX_ATTEMPTS
    row = DBTaskResult.objects.get()
    assert (row.status, len(row.worker_ids)) == ("FAILED", MAX_ATTEMPTS)
    assert "ValueError: on purpose" in row.traceback
    assert caplog.text.count("ValueError: on purpose") == MAX_ATTEMPTS


def test_an_attempt_waits_longer_each_time() -> None:
    probes.fail.enqueue()
    with running():
        eventually(lambda: bool(DBTaskResult.objects.get().traceback), "the first attempt")
    row = DBTaskResult.objects.get()
    assert row.status == "READY"
    assert row.started_at is not None
    assert row.run_after > row.started_at
    assert probes.ran == ["fail"]


def test_a_task_whose_worker_is_gone_is_taken_up_again() -> None:
    probes.note.enqueue("again")
    row = DBTaskResult.objects.get()
    row.claim("a worker that was killed")
    results.recover_lost()
    assert statuses() == ["RUNNING"], "it may still be running"
    DBTaskResult.objects.update(started_at=Now() - timedelta(days=1))
    with running():
        eventually(lambda: probes.ran == ["again"], "the task")
        eventually(has_ended, "its end")


def test_a_task_that_kills_each_worker_is_given_up() -> None:
    probes.note.enqueue("never")
    row = DBTaskResult.objects.get()
    for attempt in range(MAX_ATTEMPTS):
        row.claim(f"worker {attempt}")
    DBTaskResult.objects.update(started_at=Now() - timedelta(days=1))
    results.recover_lost()
    row.refresh_from_db()
    assert (row.status, row.traceback) == (TaskResultStatus.FAILED, LOST)


def test_a_task_that_failed_and_was_not_made_ready_again_is_not_lost() -> None:
    """Its worker died between the two writes."""
    for name in ("now", "lost", "given up"):
        probes.note.enqueue(name)
    DBTaskResult.objects.update(status="FAILED", finished_at=Now(), worker_ids=["a"])
    now, lost, given_up = DBTaskResult.objects.order_by("enqueued_at")
    earlier = DBTaskResult.objects.filter(pk__in=[lost.pk, given_up.pk])
    earlier.update(finished_at=Now() - timedelta(minutes=2), worker_ids=["a"] * (MAX_ATTEMPTS - 1))
    DBTaskResult.objects.filter(pk=given_up.pk).update(worker_ids=["a"] * MAX_ATTEMPTS)
    results.recover_lost()
    rows = {each.pk: each for each in DBTaskResult.objects.all()}
    found = [rows[each.pk].status for each in (now, lost, given_up)]
    assert found == ["FAILED", "READY", "FAILED"]
    assert rows[lost.pk].finished_at is None
    with running():
        eventually(lambda: probes.ran == ["lost"], "the task")


def test_run_tasks_ends_the_running_task_in_another_thread_than_that_of_signals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A handler that runs in the thread of the worker could wait for a lock of that thread."""
    monkeypatch.setattr(run_tasks, "list_pending_migrations", lambda: [])
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]

    def interrupt() -> None:
        if probes.begun.wait(30):
            os.kill(os.getpid(), signal.SIGTERM)
            probes.released.set()

    probes.hold.enqueue()
    other = threading.Thread(target=interrupt)
    other.start()
    try:
        call_command("run_tasks", stdout=io.StringIO())
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
        other.join(30)
    assert probes.ran == ["hold"]
    assert probes.threads == ["background"]
    assert statuses() == ["SUCCESSFUL"]


def test_a_look_that_fails_is_no_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    looks: list[int] = []

    def fail_at_first(_rests: object) -> None:
        looks.append(1)
        if len(looks) < 3:
            raise OperationalError("away") if len(looks) == 1 else ValueError("a bug")

    monkeypatch.setattr(worker, "enqueue_due", fail_at_first)
    with running() as made:
        for _ in range(2):
            eventually(lambda: not made._has_work.is_set(), "a look")
            made._has_work.set()
        probes.note.enqueue("at last")
        eventually(lambda: probes.ran == ["at last"], "the task")
    assert "Tasks wait for the database (OperationalError)" in caplog.text
    assert "Looking for tasks failed" in caplog.text


async def test_closing_waits_for_the_task_that_runs_and_begins_no_other() -> None:
    await probes.hold.aenqueue()
    await probes.note.aenqueue("later")
    made = BackgroundWorker(runs_tasks=True)
    made.start()
    assert probes.begun.wait(30)
    made.begin_shutdown()
    await made.close(wait_seconds=0)
    assert made._thread.is_alive()
    probes.released.set()
    await made.close(wait_seconds=30)
    assert not made._thread.is_alive()
    assert probes.ran == ["hold"]
    found = {each.task_name: each.status async for each in DBTaskResult.objects.all()}
    assert found == {"hold": "SUCCESSFUL", "note": "READY"}


async def test_a_second_interrupt_ends_the_wait() -> None:
    await probes.hold.aenqueue()
    made = BackgroundWorker(runs_tasks=True)
    made.start()
    assert probes.begun.wait(30)
    made.begin_shutdown(at_once=True)
    await made.close(wait_seconds=HOUR)
    assert made._thread.is_alive()
    probes.released.set()
    made._thread.join(30)


def test_the_schedule_is_part_of_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    with running(runs_tasks=False):
        eventually(lambda: TaskSchedule.objects.exists(), "the schedule")
