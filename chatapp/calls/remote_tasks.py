"""Long tasks of services: the sweep asks how each stands, at the service's pace, from any process.
No turn is held meanwhile; what comes of a task settles its call and wakes the turn."""

import asyncio
import logging
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from chatapp.models import Question, RemoteTask, ToolCall
from chatapp.storage import in_database, in_time
from mcpconfig.errors import OperationError
from mcpconfig.models import Service
from mcpconfig.on_first_use import tasks
from mcpconfig.results import InputRequest, TaskReport

from . import journal
from .calling import wake
from .deciding import binding_of
from .ending import signal
from .held_results import hold_result
from .outcomes import Outcome, shown, stored_result
from .patience import uninterrupted
from .pausing import acting_for, can_sign_in, keep_question, leave
from .resuming import answers_of

log = logging.getLogger(__name__)
State = ToolCall.State
AT_ONCE = 20
LONGEST_WAIT_SECONDS = 300.0
# A service that repeats a question for longer has not overlooked the answer.
REPEATED = timedelta(minutes=1)
# After Stop nobody knows what becomes of the task, until the service says it.
OPEN = (*ToolCall.PAUSED, State.UNKNOWN)
GONE = "The service no longer knows this task, so nobody knows whether it took effect."
TOO_LATE = "The service did not bring this to an end in time, so nobody knows what came of it."
NO_SERVICE = "The service was removed while it worked on this."
MOVED = "The service's address was changed while it worked on this, so nobody can ask after it."
CHECK = "Check at the service, then say what you found."


async def poll_due() -> None:
    """Ask after every task whose time has come; one that fails holds up no other."""
    due = await in_database(claimed)
    outcomes = await asyncio.gather(*map(_poll, due), return_exceptions=True)
    for task, outcome in zip(due, outcomes, strict=True):
        if isinstance(outcome, Exception):
            log.error("Task %s could not be asked after.", task, exc_info=outcome)
            if timezone.now() >= task.deadline:
                await in_database(settle, task, _unknown(TOO_LATE))


def claimed() -> list[RemoteTask]:
    """The tasks that are due and that no other process asks after now: one conditional UPDATE
    each."""
    due = RemoteTask.objects.filter(next_poll_at__lte=Now()).select_related(
        "tool_call__service", "tool_call__definition", "tool_call__turn__conversation__owner"
    )
    return [task for task in due.order_by("next_poll_at")[:AT_ONCE] if _claim(task)]


def _claim(task: RemoteTask) -> bool:
    """Should this process die, another asks when two operations would be over."""
    mine = RemoteTask.objects.filter(pk=task.pk, next_poll_at__lte=Now())
    longest = 2 * settings.MCP_TOTAL_SECONDS + 30
    return bool(mine.update(next_poll_at=in_time(seconds=longest)))


def _give_back(task: RemoteTask) -> None:
    """This process ends, so another one is to ask at once."""
    _same(task).filter(next_poll_at__isnull=False).update(next_poll_at=Now())


async def _poll(task: RemoteTask) -> None:
    service = task.tool_call.service
    if service is None:
        return await in_database(settle, task, _unknown(NO_SERVICE))
    if _has_moved(task.tool_call, service):  # what a person answers is not for whoever is there now
        return await in_database(settle, task, _unknown(MOVED))
    try:
        answered = await _tell(task, service)
        report = await tasks.get_task(service, task.task_id, acting=acting_for(task.tool_call))
    except OperationError as error:
        await in_database(note_failure, task, error)
    except asyncio.CancelledError:
        await uninterrupted(in_database(_give_back, task))
        raise
    else:
        await in_database(take, task, report, was_just_answered=answered)


def _has_moved(call: ToolCall, service: Service) -> bool:
    """Whether this is another service than the one that the call was decided about."""
    if call.definition is None:
        return False
    person = call.turn.conversation.owner
    now = binding_of(call, service.pk, service.endpoint, call.definition.hash, person)
    return call.binding not in ("", now)


async def _tell(task: RemoteTask, service: Service) -> bool:
    """Tell the service what it has not heard yet. Whether that was a person's answer."""
    acting = acting_for(task.tool_call)
    given = await in_database(_undelivered, task)
    if task.wants_cancel and not task.is_cancelled:
        await tasks.cancel_task(service, task.task_id, acting=acting)
        await in_database(_same(task).update, is_cancelled=True)
    elif given is not None:
        await tasks.answer_task(service, task.task_id, answers_of(given), acting=acting)
        await in_database(Question.objects.filter(pk=given.pk).update, is_delivered=True)
        return True
    return False


def _same(task: RemoteTask) -> QuerySet[RemoteTask]:
    """The row of this task, unless its call has been sent anew since: that made another task."""
    return RemoteTask.objects.filter(pk=task.pk, task_id=task.task_id)


def _undelivered(task: RemoteTask) -> Question | None:
    rounds = Question.objects.filter(tool_call=task.tool_call_id, source=Question.Source.TASK)
    return rounds.filter(state__in=Question.GIVEN, is_delivered=False).last()


def take(task: RemoteTask, report: TaskReport, *, was_just_answered: bool = False) -> None:
    """Store how the task stands, and what follows from it for its call."""
    match report.status:
        case "completed" if report.result is not None:
            state = State.FAILED if report.result.is_error else State.SUCCEEDED
            settle(task, Outcome(state=state, result=stored_result(report.result)))
        case "failed" | "completed":
            settle(task, _ended(State.FAILED, "failed", report.error or "The task failed."))
        case "cancelled":
            settle(task, _ended(State.CANCELLED, "cancelled", "The service cancelled the task."))
        case "unknown":
            settle(task, _unknown(GONE))
        case _ if timezone.now() >= task.deadline:
            settle(task, _unknown(TOO_LATE))
        case "input_required" if report.error:
            settle(task, _ended(State.FAILED, "protocol", report.error), cancels=True)
        case _:
            _goes_on(task, report, was_just_answered)


def _ended(state: ToolCall.State, kind: str, message: str) -> Outcome:
    return Outcome(state=state, error={"kind": kind, "message": message, "hint": ""})


def _unknown(message: str) -> Outcome:
    error = {"kind": "task_lost", "message": message, "hint": CHECK}
    return Outcome(state=State.UNKNOWN, error=error)


def settle(task: RemoteTask, outcome: Outcome, *, cancels: bool = False) -> None:
    """The call has its outcome. `cancels`: the service is to give the task up, in case it can."""
    call = task.tool_call
    with transaction.atomic():
        turn = signal(call.turn_id)
        if not _same(task).exists():
            return
        moved = ToolCall.objects.filter(pk=call.pk, state__in=OPEN, resolution="").update(
            state=outcome.state,
            result=outcome.result,
            error=outcome.error,
            finished_at=Now(),
            progress="",
            cancel_requested=False,
        )
        RemoteTask.objects.filter(pk=task.pk).update(
            status=outcome.state,
            wants_cancel=cancels,
            next_poll_at=in_time(seconds=0) if cancels else None,
        )
        if moved:
            Question.withdraw_open(call)
            hold_result(call.pk)
            journal.tell_call(turn, call.pk, outcome.state)
            transaction.on_commit(lambda: wake(turn.pk))


def _goes_on(task: RemoteTask, report: TaskReport, was_just_answered: bool) -> None:
    call = task.tool_call
    asked = report.requests if report.status == "input_required" else ()
    with transaction.atomic():
        turn = signal(call.turn_id)
        if not _same(task).exists():
            return
        leave(call, State.AWAITING_SIGN_IN, State.AWAITING_TASK, error=None)
        if not asked and leave(call, State.AWAITING_INPUT, State.AWAITING_TASK):
            Question.withdraw_open(call)
        elif asked and _is_new(task, asked, was_just_answered):
            _ask(task, asked)
        _plan(task, report.poll_seconds, status=report.status, message=report.message, failures=0)
        told = ToolCall.objects.filter(pk=call.pk, state=State.AWAITING_TASK)
        if told.exclude(progress=report.message).update(progress=report.message[:200]):
            journal.tell_call(turn, call.pk, State.AWAITING_TASK)


def _ask(task: RemoteTask, asked: tuple[InputRequest, ...]) -> None:
    """Put the task's question to the person; one that asks too often is given up."""
    call = task.tool_call
    if call.questions.filter(source=Question.Source.TASK).count() >= settings.QUESTION_ROUNDS:
        RemoteTask.objects.filter(pk=task.pk).update(wants_cancel=True)
    elif leave(call, State.AWAITING_TASK, State.AWAITING_INPUT):
        keep_question(call.pk, asked, source=Question.Source.TASK)


def _is_new(task: RemoteTask, asked: tuple[InputRequest, ...], was_just_answered: bool) -> bool:
    """Whether these are to be put to the person. A service may repeat a question until it has read
    the answer; one that has gone on meanwhile, or repeats it for long, wants another answer."""
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
    """The service could not be asked. It is asked less often then, up to the task's deadline."""
    if timezone.now() >= task.deadline:
        return settle(task, _unknown(TOO_LATE))
    failures = task.failures + 1
    wait = min(task.poll_seconds * 2 ** min(failures, 10), LONGEST_WAIT_SECONDS)
    log.info("Task %s: %s", task, shown(error))
    with transaction.atomic():
        turn = signal(task.tool_call.turn_id)
        if not _same(task).exists():
            return
        _plan(task, wait, failures=failures)
        if can_sign_in(task.tool_call.service, error):
            leave(task.tool_call, State.AWAITING_TASK, State.AWAITING_SIGN_IN, error=shown(error))
            return
        waiting = ToolCall.objects.filter(pk=task.tool_call_id, state=State.AWAITING_TASK)
        if waiting.update(progress=error.message[:200]):
            journal.tell_call(turn, task.tool_call_id, State.AWAITING_TASK)


def _plan(task: RemoteTask, seconds: float, **values: Any) -> None:
    """When to ask next; what somebody wants cancelled meanwhile is asked after at once."""
    planned = RemoteTask.objects.filter(pk=task.pk)
    planned.filter(wants_cancel=task.wants_cancel).update(next_poll_at=in_time(seconds=seconds))
    if "message" in values:
        values["message"] = values["message"][:200]
    planned.update(**values)
