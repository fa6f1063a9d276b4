"""What a person answers to a service's question. The first answer counts; the call then goes on."""

import uuid
from collections.abc import Mapping
from typing import Any, Literal

from django.db import transaction
from django.db.models.functions import Now
from django.http import Http404

from chatapp.models import Member, Question, RemoteTask, ToolCall
from mcpconfig.questions import problems_of
from mcpconfig.results import Answer, InputRequest

from . import journal, log_of_calls
from .ending import signal
from .milestones import passed
from .pausing import leave
from .refusals import Refused

State = ToolCall.State
Action = Literal["accept", "decline", "cancel"]
STATE_OF_ACTION = {
    "accept": Question.State.ANSWERED,
    "decline": Question.State.DECLINED,
    "cancel": Question.State.CANCELLED,
}
Values = Mapping[str, Mapping[str, Any]]
Problems = dict[str, dict[str, str]]


class Misfit(Refused):
    """The values do not fit what was asked. `problems` has a sentence for each field, by the key of
    the request."""

    def __init__(self, problems: Problems) -> None:
        super().__init__("Some values do not fit yet. Nothing was sent.")
        self.problems = problems


def question_of(person: Member, question_id: uuid.UUID) -> Question:
    """A question about a call in a conversation of this person, or 404."""
    found = (
        Question.objects.select_related("tool_call__turn__conversation", "tool_call__service")
        .filter(pk=question_id, tool_call__turn__conversation__owner=person)
        .first()
    )
    if found is None:
        raise Http404("No such question.")
    return found


def requests_of(question: Question) -> list[InputRequest]:
    return [InputRequest.from_json(request) for request in question.requests]


def answer(question: Question, *, by: Member, action: Action, values: Values) -> None:
    """Answer all of a round at once. Values are checked here, whoever sends them."""
    requests = requests_of(question)
    if action == "accept":
        _check(requests, values)
    answers = {each.key: _answer(each, action, values).to_json() for each in requests}
    call = question.tool_call
    with transaction.atomic():
        turn = signal(call.turn_id)
        counted = Question.objects.filter(
            pk=question.pk, state=Question.State.OPEN, expires_at__gt=Now()
        ).update(state=STATE_OF_ACTION[action], answers=answers, answered_by=by, answered_at=Now())
        if not counted or not _goes_on(question, call):
            raise Refused(_why_too_late(question), 409)
        if question.source == Question.Source.LIVE:
            journal.tell_call(turn, call.pk, State.SENDING)
        log_of_calls.answered(question, by, action)
        transaction.on_commit(lambda: passed("K21"))


def _check(requests: list[InputRequest], values: Values) -> None:
    problems = {
        request.key: found
        for request in requests
        if request.mode == "form" and (found := problems_of(request, values.get(request.key, {})))
    }
    if problems:
        raise Misfit(problems)


def _answer(request: InputRequest, action: Action, values: Values) -> Answer:
    has_content = action == "accept" and request.mode == "form"
    content = dict(values.get(request.key, {})) if has_content else None
    return Answer(action=action, content=content)


def _goes_on(question: Question, call: ToolCall) -> bool:
    """Where the answer goes; False when the call does not wait for it any more."""
    match question.source:
        case Question.Source.LEG:
            return leave(call, State.AWAITING_INPUT, State.APPROVED) is not None
        case Question.Source.TASK:
            RemoteTask.objects.filter(tool_call=call).update(next_poll_at=Now())
            return leave(call, State.AWAITING_INPUT, State.AWAITING_TASK) is not None
        case _:
            return ToolCall.objects.filter(pk=call.pk, state=State.SENDING).exists()


def _why_too_late(question: Question) -> str:
    now = Question.objects.select_related("answered_by").get(pk=question.pk)
    if now.state in Question.GIVEN:
        return f"Already answered by {now.answered_by or 'somebody'}."
    if now.state == Question.State.EXPIRED:
        return "This came too late: the service does not wait any more."
    return "The question was withdrawn, so there is nothing to answer any more."


def expire_questions() -> None:
    """Close the questions whose time ran out; the model is told, and a task behind one ended."""
    late = Question.objects.filter(state=Question.State.OPEN, expires_at__lte=Now())
    waiting = late.filter(tool_call__state=State.AWAITING_INPUT)
    for question in waiting.select_related("tool_call")[:100]:
        with transaction.atomic():
            _expire(question, question.tool_call)


def _expire(question: Question, call: ToolCall) -> None:
    asked = "the question" if call.is_core else "the service's question"
    message = f"Nobody answered {asked} in time."
    error = {"kind": "expired", "message": message, "hint": ""}
    state = State.UNKNOWN if call.may_have_run else State.EXPIRED
    if leave(call, State.AWAITING_INPUT, state, error=error, finished_at=Now()) is None:
        return
    Question.objects.filter(pk=question.pk, state=Question.State.OPEN).update(
        state=Question.State.EXPIRED
    )
    RemoteTask.objects.filter(tool_call=call).update(wants_cancel=True, next_poll_at=Now())


def ask_again_later() -> None:
    """Approve the calls that a service wanted once more after a while, without a question."""
    due = ToolCall.objects.filter(
        state=State.AWAITING_TASK, remote_task__isnull=True, waits_until__lte=Now()
    )
    for call in due[:100]:
        with transaction.atomic():
            if leave(call, State.AWAITING_TASK, State.APPROVED):
                call.questions.filter(state=Question.State.OPEN).update(
                    state=Question.State.ANSWERED, answers={}, answered_at=Now()
                )
