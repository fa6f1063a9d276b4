"""The verbs of the `mcp` command that run something: a call, its questions, and what became of it
when it takes long."""

import json
import logging
import time
from dataclasses import dataclass, field

from asgiref.sync import async_to_sync
from django.conf import settings

from mcpconfig import console, ledger
from mcpconfig import console_calls as shown
from mcpconfig.acting import Acting
from mcpconfig.arguments import misfit
from mcpconfig.errors import OperationError
from mcpconfig.management.failures import FAILED, WAITS, Failure
from mcpconfig.management.verbs import (
    MakeVerb,
    Options,
    Verbs,
    acting,
    json_object,
    named_service,
    named_tool,
    wrong,
)
from mcpconfig.models import Service, ToolDefinition
from mcpconfig.on_first_use import operations, tasks
from mcpconfig.questions import problems_of
from mcpconfig.results import Answer, CallOutcome, InputRequest, InputRequired, TaskStarted

logger = logging.getLogger(__name__)


def add_calling_verbs(verb: MakeVerb) -> None:
    call = verb("call", "run a tool once")
    call.add_argument("tool", help="its name at the service")
    call.add_argument("arguments", nargs="?", default="{}", help="a JSON object")
    task = verb("task", "how a long task stands")
    task.add_argument("id", help="as a call named it")
    task.add_argument("--cancel", action="store_true", help="ask the service to end it")
    for made in (call, task):
        made.add_argument(
            *("--answer", "-a"),
            action="append",
            default=[],
            metavar="KEY=JSON",
            help="the values of a question; may be given several times",
        )
        made.add_argument("--decline", action="store_true", help="say no to all other questions")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What the operator answers. `missed` is what he is told of questions that a service waited
    with and that got no answer."""

    given: dict[str, Answer]
    declines: bool
    missed: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, options: Options) -> "Answers":
        given = dict(_answer(said) for said in options["answer"])
        return cls(given=given, declines=options["decline"])

    def to(self, request: InputRequest) -> Answer | None:
        answer = self.given.get(request.key)
        if answer is None:
            return Answer(action="decline") if self.declines else None
        if request.mode == "url":
            return Answer(action="accept")
        problems = problems_of(request, answer.content)
        if problems:
            said = " ".join(f"{name}: {problem}" for name, problem in problems.items())
            raise wrong(f"The answer to “{request.key}” does not fit. {said}")
        return answer

    def to_all(self, requests: tuple[InputRequest, ...]) -> dict[str, Answer] | None:
        """An answer to each; None, if one is missing."""
        found = {request.key: self.to(request) for request in requests}
        complete = {key: answer for key, answer in found.items() if answer is not None}
        return complete if len(complete) == len(found) else None

    async def at_once(self, request: InputRequest) -> Answer:
        """To a service that waits: where nothing was said that fits, that nobody answers."""
        why = "Nobody answered:"
        try:
            if answer := self.to(request):
                return answer
        except Failure as misfit:
            why = misfit.message
        self.missed.extend([why, *shown.question_lines(request)])
        return Answer(action="cancel")


def _answer(said: str) -> tuple[str, Answer]:
    key, equals, text = said.partition("=")
    if not equals:
        raise wrong("An answer has the form KEY=JSON.", 'For example: \'who={"name": "Ada"}\'')
    return key, Answer(action="accept", content=json_object(text))


class CallingVerbs(Verbs):
    """They change what they like at the service: the operator's own acts."""

    def _call(self, options: Options) -> None:
        service = named_service(options)
        arguments = json_object(options["arguments"])
        answers, person = Answers.of(options), acting(options)
        tool = named_tool(
            service, async_to_sync(ledger.fresh_tools)(service, acting=person), options["tool"]
        )
        if problem := misfit(json.dumps(arguments), tool.input_schema):
            raise wrong(problem, f"See: manage.py mcp tool {service.name} {tool.name}")
        started = time.monotonic()
        logger.info("Tool %s of service %s is run by the operator.", tool.name, service.name)
        try:
            outcome = async_to_sync(_called)(service, tool, arguments, answers, person)
        except OperationError as error:
            duration_ms = round((time.monotonic() - started) * 1000)
            value = shown.failed_call_value(error, duration_ms)
            raise Failure(error.kind, error.message, error.hint, value=value) from error
        if not isinstance(outcome, CallOutcome):
            lines = shown.waiting_lines(outcome, service.name)
            self._print(options, shown.waiting_value(outcome), lines)
            raise SystemExit(WAITS)
        for line in answers.missed:
            self.stderr.write(console.printable(line))
        self._print(options, shown.call_value(outcome), shown.result_lines(outcome.result))
        if outcome.result.is_error:
            raise SystemExit(FAILED)

    def _task(self, options: Options) -> None:
        service, person = named_service(options), acting(options)
        report = async_to_sync(tasks.get_task)(service, options["id"], acting=person)
        if options["cancel"]:
            logger.info("A task of service %s is cancelled by the operator.", service.name)
            async_to_sync(tasks.cancel_task)(service, options["id"], acting=person)
        answers = Answers.of(options).to_all(report.requests)
        if answers and not options["cancel"]:
            async_to_sync(tasks.answer_task)(service, options["id"], answers, acting=person)
        if options["cancel"] or answers:
            report = async_to_sync(tasks.get_task)(service, options["id"], acting=person)
        self._print(options, shown.task_value(report), shown.task_lines(report))
        if not report.is_over:
            raise SystemExit(WAITS)
        if report.status != "completed" or report.result is None or report.result.is_error:
            raise SystemExit(FAILED)


async def _called(
    service: Service,
    tool: ToolDefinition,
    arguments: dict[str, object],
    answers: Answers,
    person: Acting | None,
) -> CallOutcome | InputRequired | TaskStarted:
    """The call, and on with it as long as every question has its answer. Asked the same thing
    again, a person has something to do first."""
    given, state, asked = None, None, None
    for _round in range(settings.MCP_QUESTION_ROUNDS):
        outcome: CallOutcome | InputRequired | TaskStarted = await operations.call_tool(
            service,
            tool,
            arguments,
            acting=person,
            answers=given,
            request_state=state,
            on_question=answers.at_once,
        )
        if not isinstance(outcome, InputRequired) or not outcome.requests:
            return outcome
        given, state = answers.to_all(outcome.requests), outcome.request_state
        if given is None or outcome.requests == asked:
            return outcome
        asked = outcome.requests
    raise wrong("The service asks more and more questions.", "Tell whoever runs it.")
