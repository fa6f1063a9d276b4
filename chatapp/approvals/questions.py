"""A person's answers to the questions of services. The first answer counts; the call continues."""

import uuid
from collections.abc import Mapping
from typing import Any, Literal

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.http import Http404
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.audit import call_entries
from chatapp.calls.pausing import end_pause
from chatapp.calls.transitions import Actor
from chatapp.journal import journal
from chatapp.journal.fault_points import FaultPoint, reach
from chatapp.journal.journal import signal_turn
from chatapp.models import Member, Question, RemoteTask, ToolCall
from chatapp.people.refused import Refused
from chatapp.server.languages import write_in_english
from mcpconfig.values.questions import find_problems
from mcpconfig.values.results import Answer, InputRequest

State = ToolCall.State
Action = Literal["accept", "decline", "cancel"]
STATE_OF_ACTION = {
    "accept": Question.State.ANSWERED,
    "decline": Question.State.DECLINED,
    "cancel": Question.State.CANCELLED,
}
# Stored with the call.
LATE = gettext_lazy("No one answered the question in time.")
SERVICE_LATE = gettext_lazy("No one answered the service’s question in time.")
Values = Mapping[str, Mapping[str, Any]]
Problems = dict[str, dict[str, str]]


class InvalidAnswer(Refused):
    """The values do not match the questions. `problems` has a sentence for each field, by the key
    of the request."""

    def __init__(self, problems: Problems) -> None:
        super().__init__(_("Some values are not valid. Nothing was sent."))
        self.problems = problems


def get_question(person: Member, question_id: uuid.UUID) -> Question:
    """Return a question about a call in a conversation of this person, or raise 404."""
    found = (
        Question.objects.select_related("tool_call__turn__conversation", "tool_call__service")
        .filter(pk=question_id, tool_call__turn__conversation__owner=person)
        .first()
    )
    if found is None:
        raise Http404("No such question.")
    return found


def read_requests(question: Question) -> list[InputRequest]:
    return [InputRequest.from_json(request) for request in question.requests]


def answer(question: Question, *, by: Member, action: Action, values: Values) -> None:
    """Answer all requests of a round. The values are checked here for pages and programs alike."""
    requests = read_requests(question)
    if action == "accept":
        _check_values(requests, values)
    answers = {each.key: _build_answer(each, action, values).to_json() for each in requests}
    call = question.tool_call
    with transaction.atomic():
        turn = signal_turn(call.turn_id)
        counted = Question.objects.filter(
            pk=question.pk, state=Question.State.OPEN, expires_at__gt=Now()
        ).update(state=STATE_OF_ACTION[action], answers=answers, answered_by=by, answered_at=Now())
        if not counted or not _forward_answer(question, call):
            raise Refused(_explain_too_late(question), 409)
        if question.source == Question.Source.LIVE:
            journal.append_call(turn, call.pk, State.SENDING)
        call_entries.log_answer(question, by, action)
        transaction.on_commit(lambda: reach(FaultPoint.QUESTION_ANSWERED))


def _check_values(requests: list[InputRequest], values: Values) -> None:
    problems = {
        request.key: found
        for request in requests
        if request.mode == "form" and (found := find_problems(request, values.get(request.key, {})))
    }
    if problems:
        raise InvalidAnswer(problems)


def _build_answer(request: InputRequest, action: Action, values: Values) -> Answer:
    has_content = action == "accept" and request.mode == "form"
    content = dict(values.get(request.key, {})) if has_content else None
    return Answer(action=action, content=content)


def _forward_answer(question: Question, call: ToolCall) -> bool:
    """Let the call continue with the answer. Return False if it no longer waits for it."""
    match question.source:
        case Question.Source.LEG:
            return (
                end_pause(call, State.AWAITING_INPUT, State.APPROVED, by=Actor.PERSON) is not None
            )
        case Question.Source.TASK:
            RemoteTask.objects.filter(tool_call=call).update(next_poll_at=Now())
            return (
                end_pause(call, State.AWAITING_INPUT, State.AWAITING_TASK, by=Actor.PERSON)
                is not None
            )
        case _:
            return ToolCall.objects.filter(pk=call.pk, state=State.SENDING).exists()


def _explain_too_late(question: Question) -> str:
    now = Question.objects.select_related("answered_by").get(pk=question.pk)
    if now.state in Question.GIVEN:
        if now.answered_by is None:
            return _("Already answered.")
        return _("Already answered by %(name)s.") % {"name": now.answered_by}
    if now.state == Question.State.EXPIRED:
        return _("Your answer came too late. The service no longer waits for it.")
    return _("The question was withdrawn.")


def filter_late_questions() -> QuerySet[Question]:
    """Return the open questions whose time has run out and whose calls wait for them."""
    late = Question.objects.filter(state=Question.State.OPEN, expires_at__lte=Now())
    return late.filter(tool_call__state=State.AWAITING_INPUT)


def expire_questions() -> None:
    """Expire the questions whose time has run out. A task that asked one is cancelled."""
    for question in filter_late_questions().select_related("tool_call")[:100]:
        with transaction.atomic():
            _expire(question, question.tool_call)


def _expire(question: Question, call: ToolCall) -> None:
    message = write_in_english(LATE if call.is_core else SERVICE_LATE)
    error = {"kind": "expired", "message": message, "hint": ""}
    state = State.UNKNOWN if call.may_have_run else State.EXPIRED
    if (
        end_pause(call, State.AWAITING_INPUT, state, by=Actor.SWEEP, error=error, finished_at=Now())
        is None
    ):
        return
    Question.objects.filter(pk=question.pk, state=Question.State.OPEN).update(
        state=Question.State.EXPIRED
    )
    RemoteTask.objects.filter(tool_call=call).update(wants_cancel=True, next_poll_at=Now())


def filter_postponed_calls() -> QuerySet[ToolCall]:
    """Return the calls that are due again."""
    return ToolCall.objects.filter(
        state=State.AWAITING_TASK, remote_task__isnull=True, waits_until__lte=Now()
    )


def approve_postponed_calls() -> None:
    """Approve the calls that a service wanted to receive again after some time."""
    for call in filter_postponed_calls()[:100]:
        with transaction.atomic():
            if end_pause(call, State.AWAITING_TASK, State.APPROVED, by=Actor.SWEEP):
                call.questions.filter(state=Question.State.OPEN).update(
                    state=Question.State.ANSWERED, answers={}, answered_at=Now()
                )
