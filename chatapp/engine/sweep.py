"""The sweep: finds turns without a worker, and closes what has expired. Work that no turn waits for
is a task (`chatapp/background`)."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.db import connection, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from chatapp.approvals.questions import (
    approve_postponed_calls,
    expire_questions,
    filter_late_questions,
    filter_postponed_calls,
)
from chatapp.approvals.reviews import expire_reviews, filter_late_reviews
from chatapp.approvals.sign_ins import (
    approve_missed_sign_ins,
    expire_sign_ins,
    filter_late_sign_ins,
    filter_waiting_sign_ins,
)
from chatapp.calls.transitions import Actor, move_call
from chatapp.journal.journal import signal_turn
from chatapp.journal.lease import is_free
from chatapp.models import Approval, ToolCall, Turn

State = ToolCall.State


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """What the sweep has to do now: whether turns have no worker, and the other jobs."""

    has_abandoned: bool
    jobs: tuple[Callable[[], None], ...]


def find_due() -> Due:
    """Return what there is to do. While there is nothing, a sweep costs this one statement."""
    sql, parameters = _compile_due((_filter_abandoned, *JOBS.values()))
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        has_abandoned, *are_due = cursor.fetchone()
    jobs = tuple(job for job, is_due in zip(JOBS, are_due, strict=True) if is_due)
    return Due(has_abandoned=bool(has_abandoned), jobs=jobs)


# The ORM takes some fifty times as long to build this statement as a database to run it.
@lru_cache(maxsize=1)
def _compile_due(filters: tuple[Callable[[], QuerySet[Any]], ...]) -> tuple[str, tuple[Any, ...]]:
    """Return a statement that says of each of these filters whether it finds rows."""
    found = [rows().order_by().values("pk").query.sql_with_params() for rows in filters]
    # All parts are made by the ORM, without a value in them.
    sql = ", ".join(f"EXISTS ({part})" for part, _ in found)
    return f"SELECT {sql}", tuple(each for _, parameters in found for each in parameters)  # noqa: S608


def _filter_abandoned() -> QuerySet[Turn]:
    waiting_to_run = [Turn.State.QUEUED, Turn.State.RUNNING]
    return Turn.objects.filter(is_free(), state__in=waiting_to_run)


def find_abandoned_turns() -> list[uuid.UUID]:
    """Return the turns that have something to do and no worker."""
    oldest_first = _filter_abandoned().order_by("created_at")
    return list(oldest_first.values_list("pk", flat=True)[:100])


def _filter_unsettled() -> QuerySet[Turn]:
    return Turn.objects.filter(state=Turn.State.WAITING, tool_calls__state=State.SENDING)


def queue_unsettled() -> None:
    """Queue turns that wait although one of their calls is `sending`: the next worker settles that
    call."""
    for turn_id in set(_filter_unsettled().values_list("pk", flat=True)[:100]):
        with transaction.atomic():
            signal_turn(turn_id)


def find_stopped_turns(turn_ids: list[uuid.UUID]) -> list[uuid.UUID]:
    """Return those of these turns that a person has stopped."""
    return list(
        Turn.objects.filter(pk__in=turn_ids, stop_requested=True).values_list("pk", flat=True)
    )


def find_cancelled_calls(call_ids: list[uuid.UUID]) -> list[uuid.UUID]:
    """Return those of these calls that a person has cancelled."""
    asked = ToolCall.objects.filter(pk__in=call_ids, cancel_requested=True)
    return list(asked.values_list("pk", flat=True))


def _filter_late_approvals() -> QuerySet[Approval]:
    return Approval.objects.filter(state=Approval.State.OPEN, expires_at__lte=Now())


def expire_approvals() -> None:
    """Expire the approvals whose time has run out. Their calls do not run."""
    for approval in _filter_late_approvals().select_related("tool_call")[:100]:
        _expire(approval)


def _expire(approval: Approval) -> None:
    call = approval.tool_call
    with transaction.atomic():
        turn = signal_turn(call.turn_id)
        closed = Approval.objects.filter(pk=approval.pk, state=Approval.State.OPEN).update(
            state=Approval.State.EXPIRED, decided_at=Now()
        )
        if not closed:
            return
        move_call(
            turn,
            call.pk,
            State.EXPIRED,
            by=Actor.SWEEP,
            was=[State.AWAITING_APPROVAL],
            finished_at=Now(),
        )


# What the sweep does beside taking abandoned turns, each with the rows that it is needed for. The
# filters are compiled once, so their times are those of the database.
JOBS: dict[Callable[[], None], Callable[[], QuerySet[Any]]] = {
    queue_unsettled: _filter_unsettled,
    expire_approvals: _filter_late_approvals,
    expire_reviews: filter_late_reviews,
    approve_missed_sign_ins: filter_waiting_sign_ins,
    expire_sign_ins: filter_late_sign_ins,
    expire_questions: filter_late_questions,
    approve_postponed_calls: filter_postponed_calls,
}
