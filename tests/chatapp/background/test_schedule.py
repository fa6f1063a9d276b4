"""The schedule enqueues each recurring task once for all workers, and not while one waits."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.utils import timezone
from django_tasks import TaskResultStatus
from django_tasks.backends.dummy import DummyBackend
from django_tasks_db.models import DBTaskResult

from chatapp.background import schedule
from chatapp.background.schedule import RECURRING, Rests, enqueue_due
from chatapp.models import (
    AttentionCheck,
    EmbeddingSettings,
    HousePolicy,
    JournalEvent,
    Member,
    PersonSignal,
    Project,
    ProjectFile,
    StoredObject,
    TaskSchedule,
    Turn,
    Webhook,
)
from tests.turns import rows
from tests.turns.tabs import said

pytestmark = pytest.mark.django_db(transaction=True)
PROCESSES = 4
ALWAYS = {
    *("prune_events", "prune_traces", "prune_results", "delete_unused_objects"),
    *("delete_expired_sessions", "log_lapsed_consents", "remove_deleted_chats"),
    "delete_old_sign_in_failures",
    *("read_left_files", "make_missing_vectors"),
    "delete_old_imports",
    *("look_for_notifications", "look_for_all_notifications", "delete_old_notifications"),
    *("delete_old_service_drafts", "ask_about_new_tools", "expire_attention_checks"),
}


@pytest.fixture(autouse=True)
def old_signal(owner: Member) -> PersonSignal:
    """Something to prune, a file whose task was lost and one without vectors, somebody to notify, a
    new tool, and a check that nobody answered."""
    HousePolicy(opinion_model="openai:judge", opinions_for_new=True).save()
    rows.definition()
    long_ago = timezone.now() - timedelta(days=9)
    AttentionCheck.objects.create(
        person=owner, service="x", tool="x", arguments={}, created_at=long_ago, expires_at=long_ago
    )
    Webhook.objects.create(name="Ops", audience=Webhook.Audience.EVERYONE)
    signal = PersonSignal.objects.create(person=owner)
    PersonSignal.objects.update(created_at="2026-01-01T00:00Z")
    # At each moment of a slow test there is one that is neither too new nor too old.
    for seconds in range(-15, 180, 15):
        new = PersonSignal.objects.create(person=owner)
        at = Now() + timedelta(seconds=seconds)
        PersonSignal.objects.filter(pk=new.pk).update(created_at=at)
    project = Project.objects.create(owner=owner, name="Checkout")
    ProjectFile.objects.create(project=project, name="lost.pdf", size=1)
    ProjectFile.objects.update(created_at="2026-01-01T00:00Z")
    EmbeddingSettings(model="openai:text-embedding-3-small").save()
    ProjectFile.objects.create(project=project, name="read.txt", size=1, state="ready")
    StoredObject.objects.create(name="unused", storage="folder")
    StoredObject.objects.update(created_at="2026-01-01T00:00Z")
    return signal


def enqueued() -> Counter[str]:
    return Counter(each.task_name for each in DBTaskResult.objects.all())


def finish() -> None:
    DBTaskResult.objects.update(status=TaskResultStatus.SUCCESSFUL)


def make_due() -> None:
    TaskSchedule.objects.update(next_at=Now() - timedelta(seconds=1))


def test_at_first_each_task_that_is_needed_is_enqueued(settings: Any) -> None:
    enqueue_due()
    assert enqueued() == Counter(ALWAYS)
    settings.SENDS_MAIL, settings.LOG_ANCHORS = True, ["stdout"]
    enqueue_due()
    assert enqueued() == Counter([*ALWAYS, "send_reminders", "write_anchors"])
    assert {each.name for each in RECURRING} == set(enqueued())


def test_of_processes_at_the_same_moment_one_enqueues() -> None:
    together = Barrier(PROCESSES)

    def look() -> None:
        together.wait(10)
        enqueue_due()
        connection.close()

    for _ in range(3):
        with ThreadPoolExecutor(PROCESSES) as pool:
            for looking in [pool.submit(look) for _ in range(PROCESSES)]:
                looking.result(60)
        assert enqueued() == Counter(ALWAYS)
        DBTaskResult.objects.all().delete()
        make_due()


def test_a_task_is_enqueued_again_when_its_time_has_come_and_not_before() -> None:
    enqueue_due()
    finish()
    enqueue_due()
    assert enqueued()["prune_events"] == 1
    due = TaskSchedule.objects.filter(name="prune_events")
    assert timezone.now() < due.get().next_at <= timezone.now() + timedelta(seconds=60)
    make_due()
    enqueue_due()
    assert enqueued()["prune_events"] == 2


def test_without_a_worker_the_tasks_do_not_pile_up() -> None:
    for _ in range(3):
        enqueue_due()
        make_due()
    DBTaskResult.objects.update(status=TaskResultStatus.RUNNING)
    enqueue_due()
    assert enqueued() == Counter(ALWAYS)


def test_what_is_not_due_costs_one_query(django_assert_num_queries: Any) -> None:
    enqueue_due()
    with django_assert_num_queries(1):
        enqueue_due()


def test_while_nothing_is_old_nothing_is_pruned_or_written(
    old_signal: PersonSignal, turn: Turn
) -> None:
    old_signal.delete()
    PersonSignal.objects.create(person=turn.conversation.owner)
    said(turn, "new")
    enqueue_due()
    finish()
    make_due()
    before = TaskSchedule.objects.get(name="prune_events").next_at
    enqueue_due()
    assert "prune_events" not in enqueued()
    assert TaskSchedule.objects.get(name="prune_events").next_at == before
    JournalEvent.objects.update(created_at="2026-01-01T00:00Z")
    enqueue_due()
    assert enqueued()["prune_events"] == 1


class OtherBackend(DummyBackend):
    """Another backend, which notes whether its tasks are enqueued inside a transaction."""

    in_transaction: ClassVar[list[bool]] = []
    is_away = False

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        self.in_transaction.append(connection.in_atomic_block)
        if self.is_away:
            raise ConnectionError("away")
        return super().enqueue(task, args, kwargs)


@pytest.fixture
def _other_backend(settings: Any) -> None:
    OtherBackend.in_transaction.clear()
    path = f"{__name__}.OtherBackend"
    settings.TASKS = {"default": {"BACKEND": path, "ENQUEUE_ON_COMMIT": False}}


@pytest.mark.usefixtures("_other_backend")
def test_another_backend_gets_its_tasks_after_the_commit() -> None:
    enqueue_due()
    enqueue_due()
    assert OtherBackend.in_transaction == [False] * (len(ALWAYS) - 1)
    assert all(TaskSchedule.objects.values_list("last_result", flat=True))


@pytest.mark.usefixtures("_other_backend")
def test_what_another_backend_did_not_take_is_due_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OtherBackend, "is_away", True)
    enqueue_due()
    monkeypatch.setattr(OtherBackend, "is_away", False)
    assert TaskSchedule.objects.filter(next_at__gt=timezone.now()).count() == 0
    enqueue_due()
    assert len(OtherBackend.in_transaction) == 2 * (len(ALWAYS) - 1)
    assert all(TaskSchedule.objects.values_list("last_result", flat=True))


def test_what_has_nothing_to_do_is_not_asked_at_each_look(
    old_signal: PersonSignal, monkeypatch: pytest.MonkeyPatch
) -> None:
    PersonSignal.objects.all().delete()
    clock = 1_000.0
    monkeypatch.setattr(schedule, "time", SimpleNamespace(monotonic=lambda: clock))
    rests = Rests()
    enqueue_due(rests)
    assert "prune_events" not in enqueued()
    old_signal.save(force_insert=True)
    PersonSignal.objects.update(created_at="2026-01-01T00:00Z")
    enqueue_due(rests)
    assert "prune_events" not in enqueued()
    clock += 60 / Rests.PART  # of the interval of this task
    enqueue_due(rests)
    assert enqueued()["prune_events"] == 1
