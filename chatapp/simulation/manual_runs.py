"""Trials: an admin runs a tool by hand, once, through the same permission module as every call.

`propose` says what would run and what policy decides about it, `run` does it. What was decided is
bound to what was shown; a trial that was sent is never sent again.
"""

import json
import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

import anyio
from asgiref.sync import async_to_sync
from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from chatapp.models import Member, ToolCall, Trial
from chatapp.permissions.binding import UnreadableArguments, binding_hash, canonical_arguments
from chatapp.permissions.risk import Risk
from chatapp.permissions.rules import AdminRule, CallFacts, Decision
from chatapp.tools.catalogue import risk_of
from chatapp.tools.plain_text import schema_without_hidden
from chatapp.tools.tool_id import tool_id
from mcpconfig import trace
from mcpconfig.acting import Acting
from mcpconfig.arguments import misfit
from mcpconfig.errors import OperationError
from mcpconfig.ledger import tool_state
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from mcpconfig.on_first_use import operations, tasks
from mcpconfig.results import CallOutcome, InputRequired, TaskReport, TaskStarted
from mcpconfig.sharing import refusal_of

from . import log_of_calls
from .daily_uses import uses_today
from .ledger import UNFORESEEN
from .outcomes import Outcome, shown, stored_result
from .policy import Policy, policy_for
from .refusals import Refused

logger = logging.getLogger(__name__)
State = ToolCall.State

TWO_SIGN = "Two people sign for this, so it cannot be tried here. Use the tool in a chat."
CHANGED = "The tool or its service has changed since this was shown, so it was not run. Look again."
LEFT = {
    "kind": "worker_died",
    "message": "The server stopped while this ran, so nobody knows whether it took effect.",
    "hint": "Check at the service before you run it again.",
}
ASKS = {
    "kind": "input_required",
    "message": "The service asks something before it runs this tool, so it did not run.",
    "hint": "Use the tool in a chat, where its question can be answered.",
}
LATER = {
    "kind": "input_required",
    "message": "The service is not ready for this yet, so it did not run.",
    "hint": "Try again in a while.",
}
LONG = {
    "kind": "task",
    "message": "The service goes on with this as a long task, and was not waited for any longer.",
    "hint": "Check at the service what came of it.",
}


class NotTyped(Refused):
    """The tool's name has to be typed before it runs, and was not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A tool's risk, and what policy says about running it now. Before the values are known,
    `may_change` says that a rule looks at them."""

    risk: Risk
    decision: Decision
    may_change: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """Exactly what would run, under which number, and what policy decides about it."""

    trial_id: uuid.UUID
    person: Member
    service: Service
    definition: ToolDefinition
    arguments: str
    judgement: Judgement

    @property
    def binding(self) -> str:
        """The hash of all that is shown before it runs, and of who it is shown to."""
        return binding_hash(
            service_id=self.service.pk,
            endpoint=self.service.endpoint,
            tool_name=self.definition.name,
            definition_hash=self.definition.hash,
            arguments=self.arguments,
            person_id=self.person.pk,
            call_id=str(self.trial_id),
        )

    def as_trial(self, *, was_confirmed: bool = False) -> Trial:
        """The row that it becomes when it is sent."""
        return Trial(
            id=self.trial_id,
            person=self.person,
            service=self.service,
            definition=self.definition,
            tool_id=tool_id(self.service.name, self.definition.name),
            tool_name=self.definition.name,
            arguments=self.arguments,
            risk=self.judgement.risk.level,
            reasons=list(self.judgement.risk.reasons),
            why=self.judgement.decision.reason[:500],
            was_confirmed=was_confirmed,
            binding=self.binding,
        )


def judge(
    service: Service, definition: ToolDefinition, person: Member, arguments: str | None = None
) -> Judgement:
    """What policy says of this tool to this person, with these values or, while they are not known,
    before any rule about values."""
    setting = ToolSetting.objects.filter(service=service, name=definition.name).first()
    state = tool_state(definition, setting)
    risk = risk_of(service, definition, setting)
    facts = CallFacts(
        service=service.name,
        tool=definition.name,
        is_confirmed=state == "confirmed",
        identical_calls_before=0,
        endpoint=service.endpoint,
        definition_hash=definition.hash,
        obstacle="disabled" if state == "disabled" or not service.is_enabled else None,
        arguments=json.loads(arguments or "{}"),
        calls_today=uses_today(person, service.pk, definition.name),
    )
    policy = policy_for(person, None)
    looking = _about_values(policy, facts) if arguments is None else []
    policy = replace(policy, rules=tuple(rule for rule in policy.rules if rule not in looking))
    decision = policy.decide(facts, risk, "act")
    return Judgement(risk=risk, decision=decision, may_change=bool(looking))


def _about_values(policy: Policy, facts: CallFacts) -> list[AdminRule]:
    """The rules that look at the values of a call of this tool."""
    conditional = [rule for rule in policy.rules if isinstance(rule, AdminRule) and rule.condition]
    return [
        rule
        for rule in conditional
        if rule.service in (None, facts.service) and rule.tool in (None, facts.tool)
    ]


def propose(
    person: Member, definition: ToolDefinition, arguments: str, trial_id: uuid.UUID
) -> Proposal:
    """What would run. Raises Refused where it may not, or where the values do not fit."""
    service = Service.objects.get(pk=definition.service_id)
    exact = fitting(definition, arguments)
    judgement = judge(service, definition, person, exact)
    if judgement.decision.effect == "deny":
        reason, note = judgement.decision.reason, judgement.decision.note
        raise Refused(" ".join(filter(None, [reason, note])), 403)
    if judgement.decision.demand is not None:
        raise Refused(TWO_SIGN, 403)
    if refusal := refusal_of(service, person):
        raise Refused(refusal, 403)
    if not ToolDefinition.objects.filter(pk=definition.pk, is_current=True).exists():
        raise Refused(CHANGED, 409)
    return Proposal(
        trial_id=trial_id,
        person=person,
        service=service,
        definition=definition,
        arguments=exact,
        judgement=judgement,
    )


def readable(arguments: str) -> str:
    """The JSON object in its exact form. Raises Refused where it is none."""
    try:
        return canonical_arguments(arguments)
    except UnreadableArguments as error:
        raise Refused(str(error)) from error


def fitting(definition: ToolDefinition, arguments: str) -> str:
    """As `readable`, and of the values that the tool takes."""
    exact = readable(arguments)
    if problem := misfit(exact, schema_without_hidden(definition.input_schema)):
        raise Refused(problem)
    return exact


def run(
    proposal: Proposal, *, confirmed: str, noted: Callable[[Trial], None], typed: str = ""
) -> None:
    """Run the tool once; the row says what came of it. `confirmed` is the binding that the person
    saw and said yes to, empty where nobody was asked; `typed` confirms what must be typed; `noted`
    is called as the row is stored. What this person's form has run already is left as it is. Raises
    Refused, and then nothing was sent.
    """
    try:
        checked = _begin(proposal, confirmed, typed, noted)
    except IntegrityError as error:
        if Trial.objects.filter(pk=proposal.trial_id, person=proposal.person).exists():
            return
        raise Refused(CHANGED, 409) from error
    _record(checked.trial_id, async_to_sync(_outcome_of)(checked))


def _begin(
    proposal: Proposal, confirmed: str, typed: str, noted: Callable[[Trial], None]
) -> Proposal:
    """Check everything again and store that it is sent, in one transaction; what is to be sent. The
    service's row lock keeps a listing from changing the tool in between."""
    with transaction.atomic():
        Service.objects.select_for_update(no_key=True).get(pk=proposal.service.pk)
        now = propose(proposal.person, proposal.definition, proposal.arguments, proposal.trial_id)
        may_run = now.judgement.decision.effect == "allow" or confirmed != ""
        if not may_run or now.binding != (confirmed or proposal.binding):
            raise Refused(CHANGED, 409)
        if now.judgement.decision.wants_typing and typed.strip() != now.definition.name:
            raise NotTyped(f"Type the tool's name, {now.definition.name}, to run it.")
        trial = now.as_trial(was_confirmed=confirmed != "")
        trial.save(force_insert=True)
        noted(trial)
        log_of_calls.tried(trial)
        return now


async def _outcome_of(proposal: Proposal) -> Outcome:
    """Send it, and say what came of it, whatever that is."""
    acting = Acting.of(proposal.person)
    try:
        with trace.round_of(str(proposal.trial_id)):
            answer = await operations.call_tool(
                proposal.service,
                proposal.definition,
                json.loads(proposal.arguments),
                acting=acting,
            )
            if isinstance(answer, TaskStarted):
                return await _followed(proposal.service, answer, acting)
    except OperationError as error:
        state = State.FAILED if error.is_definite else State.UNKNOWN
        return Outcome(state=state, error=shown(error))
    except Exception:
        logger.exception("Trial %s ended in a way that nobody foresaw", proposal.trial_id)
        return Outcome(state=State.UNKNOWN, error=UNFORESEEN)
    return _outcome(answer)


def _outcome(answer: CallOutcome | InputRequired | TaskReport) -> Outcome:
    match answer:
        case CallOutcome(result=result) | TaskReport(result=result) if result is not None:
            state = State.FAILED if result.is_error else State.SUCCEEDED
            return Outcome(state=state, result=stored_result(result))
        case InputRequired(requests=requests):
            return Outcome(state=State.FAILED, error=ASKS if requests else LATER)
        case TaskReport(status="failed" | "cancelled" as status):
            message = answer.error or f"The service says that the long task is {status}."
            error = {"kind": "task", "message": message, "hint": ""}
            return Outcome(state=State.FAILED, error=error)
    return Outcome(state=State.UNKNOWN, error=LONG)


async def _followed(service: Service, task: TaskStarted, acting: Acting) -> Outcome:
    """What came of a call that became a long task, if that is known within an operation's time."""
    with anyio.move_on_after(settings.MCP_TOTAL_SECONDS):
        return _outcome(await _end_of(service, task, acting))
    return Outcome(state=State.UNKNOWN, error=LONG)


async def _end_of(service: Service, task: TaskStarted, acting: Acting) -> TaskReport:
    """How the task stands when it is over, or goes on only with an answer. A poll that fails says
    nothing of the task."""
    while True:
        await anyio.sleep(task.poll_seconds)
        try:
            report = await tasks.get_task(service, task.task_id, acting=acting)
        except OperationError as error:
            logger.info("A long task of service %s was not told of: %s", service.name, error)
            continue
        if report.is_over or report.status == "input_required":
            return report


def _record(trial_id: uuid.UUID, outcome: Outcome) -> None:
    with transaction.atomic():
        stored = Trial.objects.filter(pk=trial_id, state=State.SENDING).update(
            state=outcome.state, result=outcome.result, error=outcome.error, finished_at=Now()
        )
        if stored:
            log_of_calls.tried(Trial.objects.get(pk=trial_id))


def settle() -> None:
    """Trials that were being sent for longer than one can take were left by a process that died:
    what came of them nobody knows."""
    longest = timedelta(seconds=2 * settings.MCP_TOTAL_SECONDS + 30)
    left = Trial.objects.filter(state=State.SENDING, sent_at__lt=Now() - longest)
    for trial in left:
        _record(trial.pk, Outcome(state=State.UNKNOWN, error=LEFT))
