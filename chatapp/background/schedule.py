"""When recurring tasks are enqueued: by one process each time, by the database's clock."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import DatabaseError, transaction
from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet
from django.db.models.functions import Now
from django_tasks import TaskResultStatus, default_task_backend
from django_tasks.base import Task
from django_tasks.exceptions import TaskResultDoesNotExist

from chatapp.approvals import attention_checks
from chatapp.models import TaskSchedule
from chatapp.notifications import due_notifications
from chatapp.projects import vectors
from chatapp.server.compiled_queries import compiled
from chatapp.server.database import from_now
from chatapp.simulation import second_opinions

from . import jobs
from .results import is_in_database

log = logging.getLogger(__name__)
UNFINISHED = (TaskResultStatus.READY, TaskResultStatus.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurring:
    """A task, how often it runs at most, whether it is needed with these settings, and whether it
    has something to do now."""

    task: Task[[], Any]
    seconds: Callable[[], float]
    is_needed: Callable[[], bool] = lambda: True
    has_work: Callable[[], bool] = lambda: True

    @property
    def name(self) -> str:
        return self.task.name


RECURRING = (
    Recurring(
        task=jobs.send_reminders,
        seconds=lambda: min(60, max(1, settings.MAIL_AFTER_MINUTES * 60 / 5)),
        is_needed=lambda: settings.SENDS_MAIL,
    ),
    Recurring(
        task=jobs.look_for_notifications, seconds=lambda: 5, has_work=due_notifications.has_news
    ),
    Recurring(
        task=jobs.look_for_all_notifications,
        seconds=lambda: 300,
        has_work=due_notifications.has_receivers,
    ),
    Recurring(task=jobs.delete_old_notifications, seconds=lambda: 3_600),
    Recurring(
        task=jobs.write_anchors,
        seconds=lambda: settings.LOG_ANCHOR_SECONDS,
        is_needed=lambda: bool(settings.LOG_ANCHORS),
    ),
    # Otherwise a server at rest would write each minute.
    Recurring(task=jobs.prune_events, seconds=lambda: 60, has_work=jobs.has_old_events),
    Recurring(task=jobs.remove_deleted_chats, seconds=lambda: 3_600),
    Recurring(task=jobs.read_left_files, seconds=lambda: 60, has_work=jobs.has_left_files),
    Recurring(task=jobs.make_missing_vectors, seconds=lambda: 60, has_work=vectors.has_missing),
    Recurring(
        task=jobs.delete_unused_objects, seconds=lambda: 600, has_work=jobs.has_unused_objects
    ),
    Recurring(task=jobs.delete_old_imports, seconds=lambda: 3_600),
    Recurring(task=jobs.delete_old_service_drafts, seconds=lambda: 3_600),
    Recurring(
        task=jobs.ask_about_new_tools, seconds=lambda: 60, has_work=second_opinions.has_missing
    ),
    Recurring(task=jobs.prune_traces, seconds=lambda: 3_600),
    Recurring(task=jobs.delete_expired_sessions, seconds=lambda: 3_600),
    Recurring(task=jobs.delete_old_sign_in_failures, seconds=lambda: 3_600),
    Recurring(
        task=jobs.expire_attention_checks,
        seconds=lambda: 3_600,
        has_work=attention_checks.has_old,
    ),
    Recurring(task=jobs.log_lapsed_consents, seconds=lambda: 3_600),
    Recurring(task=jobs.prune_results, seconds=lambda: 3_600, is_needed=is_in_database),
)


class Rests:
    """The tasks that had nothing to do when this process looked, and when it looks again, in
    monotonic seconds. A server at rest would otherwise ask each of them at each look."""

    PART = 4  # of the time between two runs

    def __init__(self) -> None:
        self._ends: dict[str, float] = {}

    def begin(self, recurring: Recurring) -> None:
        self._ends[recurring.name] = time.monotonic() + recurring.seconds() / self.PART

    def has(self, recurring: Recurring) -> bool:
        return time.monotonic() < self._ends.get(recurring.name, 0.0)


def enqueue_due(rests: Rests | None = None) -> None:
    """Enqueue the recurring tasks whose time has come and that have something to do. While none is
    due, this costs one query."""
    rests = rests or Rests()
    needed = [each for each in RECURRING if each.is_needed()]
    rows = dict(_load_schedule())
    missing = [TaskSchedule(name=each.name) for each in needed if each.name not in rows]
    if missing:
        TaskSchedule.objects.bulk_create(missing, ignore_conflicts=True)
    for each in needed:
        if rows.get(each.name) is False or rests.has(each):
            continue
        try:
            if each.has_work():
                enqueue_if_due(each)
            else:
                rests.begin(each)
        except DatabaseError:
            raise
        except Exception:
            log.exception("The task %s could not be enqueued; it is tried again", each.name)


@compiled
def _load_schedule() -> QuerySet[TaskSchedule, tuple[str, bool]]:
    """Select the name of each task and whether its time has come."""
    is_due = ExpressionWrapper(Q(next_at__lte=Now()), output_field=BooleanField())
    return TaskSchedule.objects.annotate(is_due=is_due).values_list("name", "is_due")


def enqueue_if_due(recurring: Recurring) -> None:
    """Enqueue this task if its time has come, in one process only. One that still waits or runs is
    not enqueued a second time.

    In the database the task belongs to the same transaction. Another backend hands it to its
    workers at once, so it is enqueued after the commit.
    """
    mine = TaskSchedule.objects.filter(name=recurring.name)
    with transaction.atomic():
        due = mine.filter(next_at__lte=Now())
        if not due.update(next_at=from_now(seconds=recurring.seconds())):
            return
        if _is_unfinished(mine.values_list("last_result", flat=True).get()):
            return
        if is_in_database():
            _enqueue(recurring)
        else:
            transaction.on_commit(lambda: _enqueue_committed(recurring))


def _enqueue(recurring: Recurring) -> None:
    result = recurring.task.enqueue()
    TaskSchedule.objects.filter(name=recurring.name).update(last_result=result.id)


def _enqueue_committed(recurring: Recurring) -> None:
    try:
        _enqueue(recurring)
    except Exception:
        TaskSchedule.objects.filter(name=recurring.name).update(next_at=Now())
        raise


def _is_unfinished(result_id: str) -> bool:
    if not result_id or not default_task_backend.supports_get_result:
        return False
    try:
        return default_task_backend.get_result(result_id).status in UNFINISHED
    except (TaskResultDoesNotExist, ImportError):
        return False
