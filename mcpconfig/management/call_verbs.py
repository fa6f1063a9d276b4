"""The verbs `mcp call` and `mcp task`: call a tool, answer its questions, follow a task."""

import json
import logging
import time
from dataclasses import dataclass, field

from asgiref.sync import async_to_sync
from django.conf import settings
from django.utils.translation import gettext as _

from mcpconfig.models import Service, ToolDefinition
from mcpconfig.operations.lazy import operations, tasks
from mcpconfig.operations.tool_listing import load_fresh_tools
from mcpconfig.output import calls as console_calls
from mcpconfig.output import services
from mcpconfig.values.acting import Acting
from mcpconfig.values.arguments import describe_mismatch
from mcpconfig.values.errors import OperationError
from mcpconfig.values.questions import find_problems
from mcpconfig.values.results import Answer, CallOutcome, InputRequest, InputRequired, TaskStarted

from .failures import FAILED, WAITS, Failure
from .verbs import (
    AddVerb,
    Options,
    VerbCommand,
    get_acting,
    get_service,
    get_tool,
    make_failure,
    parse_json_object,
)

logger = logging.getLogger(__name__)


def add_call_verbs(add_verb: AddVerb) -> None:
    call = add_verb("call", _("run a tool once"))
    call.add_argument("tool", help=_("its name at the service"))
    call.add_argument("arguments", nargs="?", default="{}", help=_("a JSON object"))
    task = add_verb("task", _("the state of a long task"))
    task.add_argument("id", help=_("id that the call printed"))
    task.add_argument("--cancel", action="store_true", help=_("ask the service to cancel it"))
    for parser in (call, task):
        parser.add_argument(
            *("--answer", "-a"),
            action="append",
            default=[],
            metavar="KEY=JSON",
            help=_("the values of a question; repeatable"),
        )
        parser.add_argument("--decline", action="store_true", help=_("decline all other questions"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The operator's answers to the questions of a service.

    `by_key` holds the answers by the key of the question, and `declines` answers all others with
    a decline. `unanswered` collects the questions of a service that waits which got no valid
    answer, and `problems` what was wrong with an answer.
    """

    by_key: dict[str, Answer]
    declines: bool
    unanswered: list[InputRequest] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @classmethod
    def from_options(cls, options: Options) -> "Answers":
        by_key = dict(_parse_answer(text) for text in options["answer"])
        return cls(by_key=by_key, declines=options["decline"])

    def find_answer(self, request: InputRequest) -> Answer | None:
        """Return the answer to one question, or None. Raise `Failure` if it is invalid."""
        answer = self.by_key.get(request.key)
        if answer is None:
            return Answer(action="decline") if self.declines else None
        if request.mode == "url":
            return Answer(action="accept")
        problems = find_problems(request, answer.content)
        if problems:
            text = " ".join(f"{name}: {problem}" for name, problem in problems.items())
            raise make_failure(
                _("The answer to “%(question)s” does not fit. %(problems)s")
                % {"question": request.key, "problems": text}
            )
        return answer

    def find_all_answers(self, requests: tuple[InputRequest, ...]) -> dict[str, Answer] | None:
        """Return the answer to each question, or None if one is missing."""
        answers = {request.key: self.find_answer(request) for request in requests}
        complete = {key: answer for key, answer in answers.items() if answer is not None}
        return complete if len(complete) == len(answers) else None

    async def answer_during_call(self, request: InputRequest) -> Answer:
        """Answer a question for which the service keeps the call open.

        Without a valid answer, cancel the question.
        """
        try:
            if answer := self.find_answer(request):
                return answer
        except Failure as failure:
            self.problems.append(failure.message)
        self.unanswered.append(request)
        return Answer(action="cancel")


def _parse_answer(option: str) -> tuple[str, Answer]:
    key, equals, text = option.partition("=")
    if not equals:
        raise make_failure(
            _("An answer has the form KEY=JSON."), _('For example: \'who={"name": "Ada"}\'')
        )
    return key, Answer(action="accept", content=parse_json_object(text))


class CallVerbs(VerbCommand):
    """Calls by the operator. They need no approval, and may change data at the service."""

    def _call(self, options: Options) -> None:
        service = get_service(options)
        arguments = parse_json_object(options["arguments"])
        answers, person = Answers.from_options(options), get_acting(options)
        tool = get_tool(
            service,
            async_to_sync(load_fresh_tools)(service, acting=person),
            options["tool"],
        )
        if problem := describe_mismatch(json.dumps(arguments), tool.input_schema):
            raise make_failure(
                problem,
                _("See: %(command)s")
                % {"command": f"manage.py mcp tool {service.name} {tool.name}"},
            )
        started = time.monotonic()
        logger.info("Tool %s of service %s is run by the operator.", tool.name, service.name)
        try:
            outcome = async_to_sync(_call_until_answered)(service, tool, arguments, answers, person)
        except OperationError as error:
            duration_ms = round((time.monotonic() - started) * 1000)
            value = console_calls.build_failed_call_value(error, duration_ms)
            raise Failure(error.kind, error.message, error.hint, value=value) from error
        if not isinstance(outcome, CallOutcome):
            lines = console_calls.format_waiting(outcome, service.name)
            self._print(options, console_calls.build_waiting_value(outcome), lines)
            raise SystemExit(WAITS)
        for line in console_calls.format_unanswered(answers.unanswered, answers.problems):
            self.stderr.write(services.replace_controls(line))
        self._print(
            options,
            console_calls.build_call_value(outcome, unanswered=answers.unanswered),
            console_calls.format_result(outcome.result),
        )
        if answers.unanswered:
            raise SystemExit(WAITS)
        if outcome.result.is_error:
            raise SystemExit(FAILED)

    def _task(self, options: Options) -> None:
        service, person = get_service(options), get_acting(options)
        report = async_to_sync(tasks.get_task)(service, options["id"], acting=person)
        if options["cancel"]:
            logger.info("A task of service %s is cancelled by the operator.", service.name)
            async_to_sync(tasks.cancel_task)(service, options["id"], acting=person)
        answers = Answers.from_options(options).find_all_answers(report.requests)
        if answers and not options["cancel"]:
            async_to_sync(tasks.answer_task)(service, options["id"], answers, acting=person)
        if options["cancel"] or answers:
            report = async_to_sync(tasks.get_task)(service, options["id"], acting=person)
        self._print(
            options, console_calls.build_task_value(report), console_calls.format_task(report)
        )
        if not report.is_over:
            raise SystemExit(WAITS)
        if report.status != "completed" or report.result is None or report.result.is_error:
            raise SystemExit(FAILED)


async def _call_until_answered(
    service: Service,
    tool: ToolDefinition,
    arguments: dict[str, object],
    answers: Answers,
    person: Acting | None,
) -> CallOutcome | InputRequired | TaskStarted:
    """Call the tool, and repeat the call as long as there is an answer to every question.

    If the service asks the same questions again, a person has to act first, so stop.
    """
    answers_by_key, state, previous = None, None, None
    for _round in range(settings.QUESTION_ROUNDS):
        outcome: CallOutcome | InputRequired | TaskStarted = await operations.call_tool(
            service,
            tool,
            arguments,
            acting=person,
            answers=answers_by_key,
            request_state=state,
            on_question=answers.answer_during_call,
        )
        if not isinstance(outcome, InputRequired) or not outcome.requests:
            return outcome
        answers_by_key, state = answers.find_all_answers(outcome.requests), outcome.request_state
        if answers_by_key is None or outcome.requests == previous:
            return outcome
        previous = outcome.requests
    raise make_failure(_("The service keeps asking questions."), _("Report it to its operator."))
