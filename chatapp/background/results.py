"""How failed and lost tasks are handled, where the database keeps them.

Another backend (TASKS_BACKEND) has its own rules for both.
"""

import logging
import uuid
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, Q, QuerySet
from django.db.models.functions import Now
from django_tasks import (
    DEFAULT_TASK_BACKEND_ALIAS,
    TaskResult,
    TaskResultStatus,
    task_backends,
)
from django_tasks.signals import task_finished
from django_tasks_db import DatabaseBackend
from django_tasks_db.models import DBTaskResult, get_date_max

from chatapp.server.compiled_queries import compiled
from chatapp.server.database import from_now
from chatapp.telemetry import metrics

log = logging.getLogger(__name__)
MAX_ATTEMPTS = 5
# A worker makes a failed task ready again within this time, or it is gone.
RETRIED_WITHIN = timedelta(minutes=1)
# Doubles with each attempt.
RETRY_SECONDS = 15
# A task that no worker has started for so long was probably forgotten: no worker runs.
LATE_AFTER = timedelta(minutes=10)
LOST = f"The task started {MAX_ATTEMPTS} times, and no worker finished it."


def is_in_database() -> bool:
    """Whether the database has the tasks."""
    return isinstance(task_backends[DEFAULT_TASK_BACKEND_ALIAS], DatabaseBackend)


def count_tasks() -> dict[str, int]:
    """Return the number of tasks that are due, that run, and that are given up."""
    if not is_in_database():
        return {}
    ended = DBTaskResult.objects.aggregate(
        running=Count("pk", filter=Q(status=TaskResultStatus.RUNNING)),
        failed=Count("pk", filter=Q(status=TaskResultStatus.FAILED)),
    )
    return {"due": DBTaskResult.objects.ready().count(), **ended}


def filter_late() -> "QuerySet[DBTaskResult[Any, Any]]":
    """Return the tasks that are due and that no worker has started for a while."""
    ready = DBTaskResult.objects.ready()
    return ready.filter(enqueued_at__lt=Now() - LATE_AFTER, started_at=None)


@compiled
def find_ready(backend_name: str) -> "QuerySet[DBTaskResult[Any, Any], uuid.UUID]":
    """Select a task that can run now, as `ready` of the library does. It is compiled, because each
    process asks for one every few seconds."""
    is_due = Q(run_after=get_date_max()) | Q(run_after__lte=Now())
    ready = DBTaskResult.objects.filter(
        is_due, status=TaskResultStatus.READY, backend_name=backend_name
    )
    return ready.order_by().values_list("pk", flat=True)[:1]


def connect_signals() -> None:
    task_finished.connect(retry_failed, dispatch_uid="chatapp.background.retry_failed")


def retry_failed(*, task_result: TaskResult[Any], **_signal: Any) -> None:
    """Make a task that failed ready again, later and a bounded number of times."""
    if task_result.status != TaskResultStatus.FAILED:
        return
    metrics.TASK_FAILURES.labels(task_result.task.name).inc()
    if not is_in_database():
        return
    attempts = len(task_result.worker_ids)
    if attempts >= MAX_ATTEMPTS:
        log.error("Task %s failed %d times and is given up", task_result.task.name, attempts)
        return
    DBTaskResult.objects.filter(pk=task_result.id, status=TaskResultStatus.FAILED).update(
        status=TaskResultStatus.READY,
        run_after=from_now(seconds=RETRY_SECONDS * 2 ** (attempts - 1)),
        finished_at=None,
    )


def recover_lost() -> None:
    """Make tasks ready again whose worker has not ended them in TASKS_MAX_SECONDS, and those that
    failed and whose worker died before `retry_failed`."""
    _recover_failed()
    begun_before = Now() - timedelta(seconds=settings.TASKS_MAX_SECONDS)
    running = DBTaskResult.objects.filter(status=TaskResultStatus.RUNNING)
    for lost in running.filter(started_at__lt=begun_before)[:100]:
        mine = running.filter(pk=lost.pk, started_at=lost.started_at)
        if len(lost.worker_ids) < MAX_ATTEMPTS:
            if mine.update(status=TaskResultStatus.READY):
                log.warning("The worker of task %s is gone; it runs again", lost.task_name)
        elif mine.update(status=TaskResultStatus.FAILED, finished_at=Now(), traceback=LOST):
            log.error("Task %s is given up. %s", lost.task_name, LOST)


def _recover_failed() -> None:
    failed = DBTaskResult.objects.filter(status=TaskResultStatus.FAILED)
    # There are fewer attempts if the list of workers has no last place.
    has_attempts = {f"worker_ids__{MAX_ATTEMPTS - 1}__isnull": True}
    lost = failed.filter(finished_at__lt=Now() - RETRIED_WITHIN, **has_attempts)
    if count := lost.update(status=TaskResultStatus.READY, finished_at=None):
        log.warning("%d failed tasks, whose worker died at once, run again", count)
