"""Asks the person up to four questions in a form."""

from typing import Any, Literal, Self

from django.utils.translation import gettext_noop
from pydantic import BaseModel, Field, model_validator

from chatapp.tools.blueprint import IN_CHAT, CoreTool, Documentation, Example, Strict
from chatapp.tools.context import AskPerson, Context
from mcpconfig.values.results import Answer, InputRequest
from mcpconfig.values.secret_fields import NEVER, asks_for_secret, names_secret

MOST_QUESTIONS = 4
MOST_OPTIONS = 10
OPTION_CHARACTERS = 100
TEXT_CHARACTERS = 2_000
KEY = "questions"

Kind = Literal["one", "several", "text"]


class Asked(Strict):
    text: str = Field(min_length=1, max_length=250)
    kind: Kind = Field(description="Choose one, choose several, or free text.")
    options: list[str] = Field(
        default_factory=list, max_length=MOST_OPTIONS, description="What can be chosen."
    )

    @model_validator(mode="after")
    def can_be_answered(self) -> Self:
        if self.kind == "text":
            if self.options:
                raise ValueError("A question for free text has no options.")
            return self
        if len(set(self.options)) < 2 or len(set(self.options)) < len(self.options):
            raise ValueError("Give at least two options, each of them once.")
        if any(not 0 < len(option.strip()) <= OPTION_CHARACTERS for option in self.options):
            raise ValueError(f"Each option has 1 to {OPTION_CHARACTERS} characters.")
        return self


class Input(Strict):
    why: str = Field(
        description="One sentence: what you need it for.", min_length=1, max_length=300
    )
    questions: list[Asked] = Field(min_length=1, max_length=MOST_QUESTIONS)

    @model_validator(mode="after")
    def asks_for_no_secret(self) -> Self:
        typed = [each.text for each in self.questions if each.kind == "text"]
        if any(map(names_secret, typed)) or (typed and asks_for_secret(self.why)):
            raise ValueError(NEVER)
        return self


class Answered(BaseModel):
    question: str
    answers: list[str] = Field(description="Empty where it was left open.")


class Output(BaseModel):
    is_declined: bool
    answers: list[Answered]


def handle(context: Context, asked: Input) -> Output:
    answer = context.answers.get(KEY)
    if answer is None:
        raise AskPerson(requests=(_build_request(asked),))
    if answer.action != "accept":
        return Output(is_declined=True, answers=[])
    return Output(is_declined=False, answers=_read_answers(asked, answer))


def _build_request(asked: Input) -> InputRequest:
    fields = {_name_field(place): _build_field(each) for place, each in enumerate(asked.questions)}
    schema = {"type": "object", "properties": fields, "required": []}
    return InputRequest(key=KEY, mode="form", message=asked.why, schema=schema)


def _name_field(place: int) -> str:
    return f"question-{place + 1}"


def _build_field(asked: Asked) -> dict[str, Any]:
    """Return the field's schema in the form in which questions of services are stored."""
    choices = [{"const": option, "title": option} for option in asked.options]
    match asked.kind:
        case "one":
            return {"type": "string", "title": asked.text, "oneOf": choices}
        case "several":
            return {"type": "array", "title": asked.text, "items": {"oneOf": choices}}
        case "text":
            return {"type": "string", "title": asked.text, "maxLength": TEXT_CHARACTERS}


def _read_answers(asked: Input, answer: Answer) -> list[Answered]:
    given = answer.content or {}
    found = []
    for place, each in enumerate(asked.questions):
        value = given.get(_name_field(place), [])
        answers = [value] if isinstance(value, str) else list(value)
        found.append(Answered(question=each.text, answers=answers))
    return found


def render_text(output: Output) -> str:
    if output.is_declined:
        return "The person does not want to answer. Do not ask the same again: go on without."
    return "\n".join(
        f"{each.question} {', '.join(each.answers) or 'Left open.'}" for each in output.answers
    )


TOOL = CoreTool(
    name="ask-person",
    title=gettext_noop("Ask a question"),
    description=(
        "Ask this person up to four questions at once, when you cannot go on without. They may "
        "take days to answer. Never ask for "
        "passwords, API keys or card numbers."
    ),
    input=Input,
    output=Output,
    risk="low",
    risk_reason=gettext_noop("It only asks you."),
    modes=IN_CHAT,
    handler=handle,
    render_text=render_text,
    calls_a_minute=6,
    documentation=Documentation(
        examples=(
            Example(
                input={
                    "why": "To book the room.",
                    "questions": [
                        {
                            "text": "Which room?",
                            "kind": "one",
                            "options": ["Blue room", "Green room"],
                        },
                        {"text": "Anything else?", "kind": "text"},
                    ],
                },
                output={
                    "is_declined": False,
                    "answers": [
                        {"question": "Which room?", "answers": ["Blue room"]},
                        {"question": "Anything else?", "answers": []},
                    ],
                },
            ),
        ),
        limitations="Every question may be left open. It cannot ask for files.",
        limits=(
            f"{MOST_QUESTIONS} questions, {MOST_OPTIONS} options each, {TEXT_CHARACTERS:,} "
            "characters of free text. It waits as long as other questions do (QUESTION_DAYS)."
        ),
        rights="Every member, who is asked in their own chat only.",
        errors="A refusal is a result; when the time is over the call has expired.",
        clients="It needs the chat's card, so it works in chats only.",
    ),
)
