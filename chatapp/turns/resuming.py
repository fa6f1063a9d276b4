"""With what the next leg of a call is sent: the answers to its last question, and the state that
the service gave along."""

from dataclasses import dataclass, field

from chatapp.models import Question, ToolCall
from mcpconfig.results import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    """What goes with a leg; the first one takes nothing along."""

    answers: dict[str, Answer] = field(default_factory=dict)
    request_state: str | None = None


def resumption_of(call: ToolCall) -> Resumption:
    """Raises `Undecryptable` when the service's state cannot be read any more."""
    last = call.questions.filter(source=Question.Source.LEG).order_by("round").last()
    if last is None or last.state not in Question.GIVEN:
        return Resumption()
    return Resumption(answers=answers_of(last), request_state=last.request_state)


def answers_of(question: Question) -> dict[str, Answer]:
    """What a person answered, by the keys of the requests."""
    return {key: Answer.from_json(value) for key, value in question.given.items()}
