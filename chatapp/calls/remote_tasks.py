"""Long tasks of services. The sweep of any process polls each at the pace that the service asks
for; no turn is held meanwhile. The result of a task ends its call and wakes the turn."""

import asyncio
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.calls.ledger import CHECK, Outcome, build_stored_result, describe_error
from chatapp.context.withheld_results import annotate_review, hold_result
from chatapp.journal import journal
from chatapp.journal.db_retry import run_uninterrupted
from chatapp.journal.journal import Entry, signal_turn, wake
from chatapp.models import Question, RemoteTask, ToolCall
from chatapp.server.database import from_now, in_database
from mcpconfig.models import Service
from mcpconfig.operations.lazy import tasks
from mcpconfig.trace import recording
from mcpconfig.values.errors import OperationError
from mcpconfig.values.results import InputRequest, TaskReport

from .deciding import compute_binding
from .pausing import build_acting, can_sign_in, end_pause
from .question_rounds import read_answers, store_question
from .transitions import Actor, move_call

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

log = logging.getLogger(__name__)
State = ToolCall.State
MAX_PARALLEL = 20
LONGEST_WAIT_SECONDS = 300.0
# A service that repeats a question for longer wants another answer.
REPEATED = timedelta(minutes=1)
# A call that was stopped is unknown until the service reports the end of its task.
OPEN = (*ToolCall.PAUSED, State.UNKNOWN)
GONE = gettext_lazy("The service no longer knows this task. It may or may not have taken effect.")
TOO_LATE = gettext_lazy("The service did not finish in time, so the outcome is unknown.")
NO_SERVICE = gettext_lazy("The service was removed while this was running.")
MOVED = gettext_lazy(
    "The address of the service changed while this was running, so the outcome is unknown."
)


def has_planned_polls() -> bool:
    """Whether a task is to be polled now or later."""
    return RemoteTask.objects.filter(next_poll_at__isnull=False).exists()


async def poll_due() -> None:
    """Poll every task that is due. An error with one does not delay the others."""
    due = await in_database(claim_due)
    outcomes = await asyncio.gather(*map(_poll, due), return_exceptions=True)
    for task, outcome in zip(due, outcomes, strict=True):
        if isinstance(outcome, Exception):
            log.error("Task %s could not be polled.", task, exc_info=outcome)
            if timezone.now() >= task.deadline:
                await in_database(settle_task, task, _build_unknown(TOO_LATE))


def claim_due() -> list[RemoteTask]:
    """Return the tasks that are due and that no other process polls now. Each is claimed by one
    conditional UPDATE."""
    due = RemoteTask.objects.filter(next_poll_at__lte=Now()).select_related(
        "tool_call__service", "tool_call__definition", "tool_call__turn__conversation__owner"
    )
    return [task for task in due.order_by("next_poll_at")[:MAX_PARALLEL] if _claim(task)]


def _claim(task: RemoteTask) -> bool:
    """Claim the task for this process. If it dies, the claim ends after the time of two
    operations."""
    mine = RemoteTask.objects.filter(pk=task.pk, next_poll_at__lte=Now())
    longest = 2 * settings.MCP_TOTAL_SECONDS + 30
    return bool(mine.update(next_poll_at=from_now(seconds=longest)))


def _release(task: RemoteTask) -> None:
    """Let another process poll the task at once, as this one ends."""
    _filter_same(task).filter(next_poll_at__isnull=False).update(next_poll_at=Now())


async def _poll(task: RemoteTask) -> None:
    service = task.tool_call.service
    if service is None:
        return await in_database(settle_task, task, _build_unknown(NO_SERVICE))
    if _has_moved(task.tool_call, service):  # a person's answer must not go to another service
        return await in_database(settle_task, task, _build_unknown(MOVED))
    try:
        with recording.use_round(str(task.tool_call_id)):
            answered = await _deliver(task, service)
            acting = build_acting(task.tool_call)
            report = await tasks.get_task(service, task.task_id, acting=acting)
    except OperationError as error:
        await in_database(note_failure, task, error)
    except asyncio.CancelledError:
        await run_uninterrupted(in_database(_release, task))
        raise
    else:
        await in_database(accept_report, task, report, was_just_answered=answered)


def _has_moved(call: ToolCall, service: Service) -> bool:
    """Whether the service differs from the one that the call was decided about."""
    if call.definition is None:
        return False
    person = call.turn.conversation.owner
    now = compute_binding(call, service.pk, service.endpoint, call.definition.hash, person)
    return call.binding not in ("", now)


async def _deliver(task: RemoteTask, service: Service) -> bool:
    """Send a cancellation or a person's answer that the service does not have. Return whether it
    was an answer."""
    acting = build_acting(task.tool_call)
    given = await in_database(_find_undelivered, task)
    if task.wants_cancel and not task.is_cancelled:
        await tasks.cancel_task(service, task.task_id, acting=acting)
        await in_database(_filter_same(task).update, is_cancelled=True)
    elif given is not None:
        await tasks.answer_task(service, task.task_id, read_answers(given), acting=acting)
        await in_database(Question.objects.filter(pk=given.pk).update, is_delivered=True)
        return True
    return False


def _filter_same(task: RemoteTask) -> QuerySet[RemoteTask]:
    """Return the row of this task, or none if its call was sent again and made another task."""
    return RemoteTask.objects.filter(pk=task.pk, task_id=task.task_id)


def _find_undelivered(task: RemoteTask) -> Question | None:
    rounds = Question.objects.filter(tool_call=task.tool_call_id, source=Question.Source.TASK)
    return rounds.filter(state__in=Question.GIVEN, is_delivered=False).last()


def accept_report(task: RemoteTask, report: TaskReport, *, was_just_answered: bool = False) -> None:
    """Store the state of the task, and what follows from it for its call."""
    match report.status:
        case "completed" if report.result is not None:
            state = State.FAILED if report.result.is_error else State.SUCCEEDED
            settle_task(task, Outcome(state=state, result=build_stored_result(report.result)))
        case "failed" | "completed":
            settle_task(
                task, _build_ended(State.FAILED, "failed", report.error or _("The task failed."))
            )
        case "cancelled":
            settle_task(
                task, _build_ended(State.CANCELLED, "cancelled", _describe_cancellation(report))
            )
        case "unknown":
            settle_task(task, _build_unknown(GONE))
        case _ if timezone.now() >= task.deadline:
            settle_task(task, _build_unknown(TOO_LATE))
        case "input_required" if report.error:
            settle_task(task, _build_ended(State.FAILED, "protocol", report.error), cancels=True)
        case _:
            _continue(task, report, was_just_answered)


def _describe_cancellation(report: TaskReport) -> str:
    if not report.message:
        return _("The service cancelled the task.")
    return _("The service cancelled the task and said: “%(text)s”") % {"text": report.message}


def _build_ended(state: ToolCall.State, kind: str, message: str) -> Outcome:
    return Outcome(state=state, error={"kind": kind, "message": message, "hint": ""})


def _build_unknown(message: "StrOrPromise") -> Outcome:
    error = {"kind": "task_lost", "message": str(message), "hint": str(CHECK)}
    return Outcome(state=State.UNKNOWN, error=error)


def settle_task(task: RemoteTask, outcome: Outcome, *, cancels: bool = False) -> None:
    """End the call of a task. `cancels`: ask the service to cancel the task, if it can."""
    call = task.tool_call
    with transaction.atomic():
        turn = signal_turn(call.turn_id)
        if not _filter_same(task).exists():
            return
        entries: list[Entry] = []
        moved = move_call(
            turn,
            call.pk,
            outcome.state,
            by=Actor.SERVICE,
            was=OPEN,
            when=Q(resolution=""),
            entries=entries,
            result=outcome.result,
            error=outcome.error,
            finished_at=Now(),
            progress="",
            cancel_requested=False,
        )
        RemoteTask.objects.filter(pk=task.pk).update(
            status=outcome.state,
            wants_cancel=cancels,
            next_poll_at=from_now(seconds=0) if cancels else None,
        )
        if moved:
            Question.withdraw_open(call)
            hold_result(annotate_review(ToolCall.objects.all()).get(pk=call.pk))
            journal.append(turn.conversation_id, turn.pk, entries)
            transaction.on_commit(lambda: wake(turn.pk))


def _continue(task: RemoteTask, report: TaskReport, was_just_answered: bool) -> None:
    call = task.tool_call
    asked = report.requests if report.status == "input_required" else ()
    with transaction.atomic():
        turn = signal_turn(call.turn_id)
        if not _filter_same(task).exists():
            return
        end_pause(call, State.AWAITING_SIGN_IN, State.AWAITING_TASK, by=Actor.SERVICE, error=None)
        if not asked and end_pause(
            call, State.AWAITING_INPUT, State.AWAITING_TASK, by=Actor.SERVICE
        ):
            Question.withdraw_open(call)
        elif asked and _is_new(task, asked, was_just_answered):
            _ask(task, asked)
        _schedule(
            task, report.poll_seconds, status=report.status, message=report.message, failures=0
        )
        told = ToolCall.objects.filter(pk=call.pk, state=State.AWAITING_TASK)
        if told.exclude(progress=report.message).update(progress=report.message[:200]):
            journal.append_call(turn, call.pk, State.AWAITING_TASK)


def _ask(task: RemoteTask, asked: tuple[InputRequest, ...]) -> None:
    """Ask the person the task's question. A task that asks too often is cancelled."""
    call = task.tool_call
    if call.questions.filter(source=Question.Source.TASK).count() >= settings.QUESTION_ROUNDS:
        RemoteTask.objects.filter(pk=task.pk).update(wants_cancel=True)
    elif end_pause(call, State.AWAITING_TASK, State.AWAITING_INPUT, by=Actor.SERVICE):
        store_question(call.pk, asked, source=Question.Source.TASK)


def _is_new(task: RemoteTask, asked: tuple[InputRequest, ...], was_just_answered: bool) -> bool:
    """Whether the person has to be asked.

    A service may repeat a question until it has read the answer. If the task continued meanwhile,
    or the service repeats the question for longer, it wants another answer.
    """
    rounds = list(task.tool_call.questions.filter(source=Question.Source.TASK))
    known = [request for question in rounds for request in question.requests]
    if any(request.to_json() not in known for request in asked):
        return True
    last = rounds[-1]
    if last.state == Question.State.OPEN or was_just_answered:
        return False
    if task.status != "input_required":
        return True
    answered = last.answered_at if last.is_delivered else None
    return answered is not None and answered < timezone.now() - REPEATED


def note_failure(task: RemoteTask, error: OperationError) -> None:
    """Store a failed poll. The service is polled less often then, up to the task's deadline."""
    if timezone.now() >= task.deadline:
        return settle_task(task, _build_unknown(TOO_LATE))
    failures = task.failures + 1
    wait = min(task.poll_seconds * 2 ** min(failures, 10), LONGEST_WAIT_SECONDS)
    log.info("Task %s: %s", task, describe_error(error))
    with transaction.atomic():
        turn = signal_turn(task.tool_call.turn_id)
        if not _filter_same(task).exists():
            return
        _schedule(task, wait, failures=failures)
        if can_sign_in(task.tool_call.service, error):
            end_pause(
                task.tool_call,
                State.AWAITING_TASK,
                State.AWAITING_SIGN_IN,
                by=Actor.SERVICE,
                error=describe_error(error),
            )
            return
        waiting = ToolCall.objects.filter(pk=task.tool_call_id, state=State.AWAITING_TASK)
        if waiting.update(progress=error.message[:200]):
            journal.append_call(turn, task.tool_call_id, State.AWAITING_TASK)


def _schedule(task: RemoteTask, seconds: float, **values: Any) -> None:
    """Store when to poll next. A task that a person has cancelled meanwhile stays due at once."""
    planned = RemoteTask.objects.filter(pk=task.pk)
    planned.filter(wants_cancel=task.wants_cancel).update(next_poll_at=from_now(seconds=seconds))
    if "message" in values:
        values["message"] = values["message"][:200]
    planned.update(**values)
