"""The rounds of questions about one call: storing a round, and what the next leg of the call takes
along from the last one."""

import uuid
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.db.models import Max

from chatapp.models import Question, ToolCall
from chatapp.server.database import from_now
from mcpconfig.values.results import Answer, InputRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    """What is sent with a leg of a call: the answers to the last round, and the state that the
    service gave with its questions. The first leg has neither."""

    answers: dict[str, Answer] = field(default_factory=dict)
    request_state: str | None = None


def store_question(
    call_id: uuid.UUID,
    requests: tuple[InputRequest, ...],
    request_state: str | None = None,
    **values: Any,
) -> Question:
    """Store one more round of questions about this call, inside the caller's transaction."""
    earlier = Question.objects.filter(tool_call=call_id).aggregate(last=Max("round"))["last"] or 0
    question = Question(
        tool_call_id=call_id,
        round=earlier + 1,
        requests=[request.to_json() for request in requests],
        **{"expires_at": from_now(days=settings.QUESTION_DAYS)} | values,
    )
    question.seal(request_state)
    question.save()
    return question


def build_resumption(call: ToolCall) -> Resumption:
    """Return what the next leg of the call takes along. Raises DecryptionError if no key opens the
    service's state."""
    if not call.attempt:  # only a call that was sent has been asked anything
        return Resumption()
    last = call.questions.filter(source=Question.Source.LEG).order_by("round").last()
    if last is None or last.state not in Question.GIVEN:
        return Resumption()
    return Resumption(answers=read_answers(last), request_state=last.request_state)


def read_answers(question: Question) -> dict[str, Answer]:
    """Return a person's answers by the keys of the requests."""
    return {key: Answer.from_json(value) for key, value in question.given.items()}
