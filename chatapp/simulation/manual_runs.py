"""Manual runs (trials): an admin runs a tool once, decided by the same permission module as every
call.

`propose` returns what would run and the decision about it; `run` runs it. The decision is bound to
what was shown. A trial that was sent is never sent again.
"""

import json
import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal

import anyio
from asgiref.sync import async_to_sync
from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models.functions import Now
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.audit import call_entries
from chatapp.calls.ledger import (
    UNFORESEEN,
    Outcome,
    build_stored_result,
    describe_error,
    write_error,
)
from chatapp.models import Member, ToolCall, Trial
from chatapp.people.refused import Refused
from chatapp.permissions.binding import UnreadableArguments, binding_hash, canonical_arguments
from chatapp.permissions.reasons import translate_reason
from chatapp.permissions.risk import Risk
from chatapp.permissions.rules import AdminRule, CallFacts, Decision
from chatapp.policy.daily_limits import count_uses_today
from chatapp.policy.stored_policy import Policy, load_policy
from chatapp.tools.catalogue import assess_risk, strip_hidden_in_schema
from chatapp.tools.tool_id import tool_id
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from mcpconfig.operations.lazy import operations, tasks
from mcpconfig.services.sharing import explain_refusal
from mcpconfig.services.tool_definitions import describe_tool_state
from mcpconfig.trace import recording
from mcpconfig.values.acting import Acting
from mcpconfig.values.arguments import describe_mismatch
from mcpconfig.values.errors import OperationError
from mcpconfig.values.results import CallOutcome, InputRequired, TaskReport, TaskStarted

logger = logging.getLogger(__name__)
State = ToolCall.State

TWO_SIGN = gettext_lazy(
    "This needs a second approval, so you cannot try it here. Use the tool in a chat."
)
CHANGED = gettext_lazy("The tool or its service changed, so it was not run. Review it again.")
WORKER_DIED = {
    "kind": "worker_died",
    "message": gettext_lazy(
        "The server stopped while this was running. It may or may not have taken effect."
    ),
    "hint": gettext_lazy("Check at the service before you run it again."),
}
ASKS_FIRST = {
    "kind": "input_required",
    "message": gettext_lazy(
        "The service asks a question before it runs this tool. It did not run."
    ),
    "hint": gettext_lazy("Use the tool in a chat to answer the question."),
}
NOT_READY = {
    "kind": "input_required",
    "message": gettext_lazy("The service is not ready for this yet, so it did not run."),
    "hint": gettext_lazy("Try again later."),
}
LONG_TASK = {
    "kind": "task",
    "message": gettext_lazy(
        "The service continues this as a long task. Its outcome is not known here."
    ),
    "hint": gettext_lazy("Check the outcome at the service."),
}


class NotTyped(Refused):
    """The tool's name must be typed before it runs, and was not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A tool's risk, and the decision about running it now. `may_change`: the arguments are not
    known yet, and a rule depends on them."""

    risk: Risk
    decision: Decision
    may_change: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """Exactly what would run, under which id, and the decision about it."""

    trial_id: uuid.UUID
    person: Member
    service: Service
    definition: ToolDefinition
    arguments: str
    judgement: Judgement

    @property
    def binding(self) -> str:
        """The hash of everything that is shown before the run, and of the person who sees it."""
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
        """Return the row to store when the call is sent."""
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
    """Return the risk and the decision about this tool for this person. Without arguments, the
    rules that depend on arguments are left out."""
    setting = ToolSetting.objects.filter(service=service, name=definition.name).first()
    uses = count_uses_today(person, service.pk, definition.name)
    facts = build_first_facts(service, definition, setting, arguments or "{}", uses)
    risk = assess_risk(service, definition, setting)
    policy = load_policy(person, None)
    if arguments is None:
        return judge_without_arguments(policy, facts, risk)
    return Judgement(risk=risk, decision=policy.decide(facts, risk, "act"))


def build_first_facts(
    service: Service,
    definition: ToolDefinition,
    setting: ToolSetting | None,
    arguments: str = "{}",
    calls_today: int = 0,
) -> CallFacts:
    """Return the facts of a call of this tool with nothing before it."""
    state = describe_tool_state(definition, setting)
    return CallFacts(
        service=service.name,
        tool=definition.name,
        is_confirmed=state == "confirmed",
        identical_calls_before=0,
        endpoint=service.endpoint,
        definition_hash=definition.hash,
        obstacle="disabled" if state == "disabled" or not service.is_enabled else None,
        arguments=json.loads(arguments),
        calls_today=calls_today,
    )


def judge_without_arguments(
    policy: Policy, facts: CallFacts, risk: Risk, mode: str = "act"
) -> Judgement:
    """Return the decision without the rules that depend on the arguments of this tool, and whether
    one of them can change what happens to the call."""
    looking = _list_value_rules(policy, facts)
    certain = tuple(rule for rule in policy.rules if rule not in looking)
    decision = replace(policy, rules=certain).decide(facts, risk, mode)
    # Without its condition, a rule counts as if the arguments met it.
    met = (replace(policy, rules=(*certain, replace(rule, condition=""))) for rule in looking)
    may_change = any(
        _summarize(each.decide(facts, risk, mode)) != _summarize(decision) for each in met
    )
    return Judgement(risk=risk, decision=decision, may_change=may_change)


def _summarize(decision: Decision) -> tuple[object, ...]:
    """Return what a decision does, without its reason."""
    return decision.effect, decision.demand, decision.wants_typing


def _list_value_rules(policy: Policy, facts: CallFacts) -> list[AdminRule]:
    """Return the rules that depend on the arguments of this tool."""
    conditional = [rule for rule in policy.rules if isinstance(rule, AdminRule) and rule.condition]
    return [
        rule
        for rule in conditional
        if rule.service in (None, facts.service) and rule.tool in (None, facts.tool)
    ]


def propose(
    person: Member, definition: ToolDefinition, arguments: str, trial_id: uuid.UUID
) -> Proposal:
    """Return what would run. Raise Refused if it may not run or the arguments do not fit."""
    service = Service.objects.get(pk=definition.service_id)
    exact = check_arguments(definition, arguments)
    judgement = judge(service, definition, person, exact)
    if judgement.decision.effect == "deny":
        reason, note = translate_reason(judgement.decision.reason), judgement.decision.note
        raise Refused(" ".join(filter(None, [reason, note])), 403)
    if judgement.decision.demand is not None:
        raise Refused(TWO_SIGN, 403)
    if refusal := explain_refusal(service, person):
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


def canonicalise(arguments: str) -> str:
    """Return the arguments in canonical form. Raise Refused if they are not a JSON object."""
    try:
        return canonical_arguments(arguments)
    except UnreadableArguments as error:
        raise Refused(error.sentence) from error


def check_arguments(definition: ToolDefinition, arguments: str) -> str:
    """Return the arguments in canonical form. Raise Refused if they do not fit the tool's
    schema."""
    exact = canonicalise(arguments)
    if problem := describe_mismatch(exact, strip_hidden_in_schema(definition.input_schema)):
        raise Refused(problem)
    return exact


def run(
    proposal: Proposal, *, confirmed: str, on_stored: Callable[[Trial], None], typed: str = ""
) -> None:
    """Run the tool once and store its outcome in the trial's row.

    `confirmed` is the binding that the person saw and confirmed, empty if no confirmation was
    needed. `typed` is the typed confirmation. `on_stored` is called when the row is stored. A trial
    that was already run is left as it is. Raises Refused, and then nothing was sent.
    """
    try:
        checked = _begin(proposal, confirmed, typed, on_stored)
    except IntegrityError as error:
        if Trial.objects.filter(pk=proposal.trial_id, person=proposal.person).exists():
            return
        raise Refused(CHANGED, 409) from error
    _record(checked.trial_id, async_to_sync(_send)(checked))


def _begin(
    proposal: Proposal, confirmed: str, typed: str, on_stored: Callable[[Trial], None]
) -> Proposal:
    """Check everything again, store the trial as sending and return what to send, in one
    transaction.

    The lock on the service's row keeps a listing from changing the tool in between.
    """
    with transaction.atomic():
        Service.objects.select_for_update(no_key=True).get(pk=proposal.service.pk)
        now = propose(proposal.person, proposal.definition, proposal.arguments, proposal.trial_id)
        may_run = now.judgement.decision.effect == "allow" or confirmed != ""
        if not may_run or now.binding != (confirmed or proposal.binding):
            raise Refused(CHANGED, 409)
        if now.judgement.decision.wants_typing and typed.strip() != now.definition.name:
            sentence = _("To run this, type the tool’s name: %(name)s")
            raise NotTyped(sentence % {"name": now.definition.name})
        trial = now.as_trial(was_confirmed=confirmed != "")
        trial.save(force_insert=True)
        on_stored(trial)
        call_entries.log_trial(trial)
        return now


async def _send(proposal: Proposal) -> Outcome:
    """Send the call and return its outcome, also if the call failed."""
    acting = Acting.of(proposal.person)
    try:
        with recording.use_round(str(proposal.trial_id)):
            answer = await operations.call_tool(
                proposal.service,
                proposal.definition,
                json.loads(proposal.arguments),
                acting=acting,
            )
            if isinstance(answer, TaskStarted):
                return await _follow_task(proposal.service, answer, acting)
    except OperationError as error:
        state = State.FAILED if error.is_definite else State.UNKNOWN
        return Outcome(state=state, error=describe_error(error))
    except Exception:
        logger.exception("Trial %s ended in a way that nobody foresaw", proposal.trial_id)
        return Outcome(state=State.UNKNOWN, error=write_error(UNFORESEEN))
    return _build_outcome(answer)


def _build_outcome(answer: CallOutcome | InputRequired | TaskReport) -> Outcome:
    match answer:
        case CallOutcome(result=result) | TaskReport(result=result) if result is not None:
            state = State.FAILED if result.is_error else State.SUCCEEDED
            return Outcome(state=state, result=build_stored_result(result))
        case InputRequired(requests=requests):
            return Outcome(
                state=State.FAILED, error=write_error(ASKS_FIRST if requests else NOT_READY)
            )
        case TaskReport(status="failed" | "cancelled" as status):
            message = answer.error or _describe_task_end(status)
            error = {"kind": "task", "message": message, "hint": ""}
            return Outcome(state=State.FAILED, error=error)
    return Outcome(state=State.UNKNOWN, error=write_error(LONG_TASK))


def _describe_task_end(status: Literal["failed", "cancelled"]) -> str:
    if status == "failed":
        return _("The service reported that the long task failed.")
    return _("The service reported that the long task was cancelled.")


async def _follow_task(service: Service, task: TaskStarted, acting: Acting) -> Outcome:
    """Return the outcome of a call that became a long task, if it ends within the time of one
    operation."""
    with anyio.move_on_after(settings.MCP_TOTAL_SECONDS):
        return _build_outcome(await _wait_for_task(service, task, acting))
    return Outcome(state=State.UNKNOWN, error=write_error(LONG_TASK))


async def _wait_for_task(service: Service, task: TaskStarted, acting: Acting) -> TaskReport:
    """Poll the task until it is over or needs an answer. A poll that fails says nothing about
    the task."""
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
            call_entries.log_trial(Trial.objects.get(pk=trial_id))


def settle() -> None:
    """Set the trials that have been sending for longer than one operation can take to unknown:
    their process died."""
    longest = timedelta(seconds=2 * settings.MCP_TOTAL_SECONDS + 30)
    left = Trial.objects.filter(state=State.SENDING, sent_at__lt=Now() - longest)
    for trial in left:
        _record(trial.pk, Outcome(state=State.UNKNOWN, error=write_error(WORKER_DIED)))
