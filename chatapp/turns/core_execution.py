"""Running approved calls of core tools: here, in one transaction with the record of what came of
them, so that a worker that dies before its end has done nothing."""

import asyncio
import json
import logging
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from chatapp.models import Approval, Member, Permit, ToolCall, Turn
from chatapp.permissions.risk import Risk
from chatapp.permissions.rules import Decision
from chatapp.storage import in_database, in_time
from chatapp.tools.catalogue import Catalogue
from chatapp.tools.context import AskPerson, Context, ToolError
from mcpconfig.results import storable

from . import journal, log, log_of_calls
from .core_calls import binding_of_core, core_tool_of, decision_about_core
from .last_check import passes
from .lease import Lease, fenced
from .ledger import PERMIT_SECONDS, granted_by
from .log import Who
from .next_action import MOST_ATTEMPTS
from .outcomes import Outcome
from .patience import AWAY, kept_trying
from .pausing import keep_question
from .policy import policy_for
from .resuming import resumption_of
from .second_signatures import flaw_of

if TYPE_CHECKING:
    from chatapp.tools.blueprint import CoreTool

logger = logging.getLogger(__name__)
State = ToolCall.State
PREPARE_SECONDS = 90.0
TOO_SLOW = "It took too long, so it was given up before anything was done."
UNFORESEEN = (
    "Something went wrong here, and nothing was done. An admin finds the reason in the log."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparing:
    """A call that has something to do outside the database first."""

    tool: "CoreTool"
    context: Context
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What came of that: a value for the tool, or why it cannot run."""

    value: Any = None
    problem: ToolError | None = None


async def run_core_calls(
    lease: Lease, call_ids: tuple[uuid.UUID, ...], catalogue: Callable[[], Awaitable[Catalogue]]
) -> None:
    """Run those of these calls that are of core tools."""
    if own := await in_database(_core_calls, call_ids):
        tools = await catalogue()
        for call_id in own:
            preparing = await in_database(_begin_preparing, lease, call_id, tools)
            prepared = await _prepare(preparing) if preparing else Prepared()
            await kept_trying(lease, _run, lease, call_id, tools, prepared)


def _core_calls(call_ids: tuple[uuid.UUID, ...]) -> list[uuid.UUID]:
    calls = ToolCall.objects.filter(pk__in=call_ids, state=State.APPROVED, service=None)
    return [call.pk for call in calls if core_tool_of(call) is not None]


def _begin_preparing(lease: Lease, call_id: uuid.UUID, catalogue: Catalogue) -> Preparing | None:
    """Count the try before it is made. To prepare changes nothing, so the call has not run if its
    worker dies meanwhile, and the next one tries again; but not for ever."""
    with fenced(lease) as turn:
        call = ToolCall.objects.get(pk=call_id)
        tool = core_tool_of(call)
        if tool is None or not tool.looks_ahead or not _may_run(turn, call, tool):
            return None
        context = _context(turn, call, catalogue, Prepared())
        if problem := _limit_of(tool, call, context.person):
            _give_up(turn, call, problem)
            return None
        _count_try(call)
        return Preparing(tool=tool, context=context, arguments=json.loads(call.arguments))


async def _prepare(preparing: Preparing) -> Prepared:
    try:
        async with asyncio.timeout(PREPARE_SECONDS):
            ready = await preparing.tool.prepared(preparing.context, preparing.arguments)
    except ToolError as problem:
        return Prepared(problem=problem)
    except TimeoutError:
        return Prepared(problem=ToolError(message=TOO_SLOW))
    except AWAY:
        raise
    except Exception:
        logger.exception("The core tool %s could not prepare", preparing.tool.name)
        return Prepared(problem=ToolError(message=UNFORESEEN))
    return Prepared(value=ready.prepared)


def _run(lease: Lease, call_id: uuid.UUID, catalogue: Catalogue, prepared: Prepared) -> None:
    """Check everything again, run the tool and store what came of it, all or nothing. Doing it
    twice is harmless: the call is over then."""
    with fenced(lease) as turn:
        call = ToolCall.objects.get(pk=call_id)
        tool = core_tool_of(call)
        journal.hold(turn.conversation_id)
        if tool is None or not _may_run(turn, call, tool):
            return
        context = _context(turn, call, catalogue, prepared)
        if not tool.looks_ahead and (problem := _limit_of(tool, call, context.person)):
            _give_up(turn, call, problem)
            return
        _use_permit(call, tool, context.person)
        try:
            outcome = _outcome(tool, context, call, prepared)
        except AskPerson as asked:
            _pause(turn, call, asked)
        else:
            _end(turn, call, outcome, context.changed_plans)


def _context(turn: Turn, call: ToolCall, catalogue: Catalogue, prepared: Prepared) -> Context:
    return Context(
        person=Member.objects.get(conversations=turn.conversation_id),
        catalogue=catalogue,
        turn=turn,
        call=call,
        answers=resumption_of(call).answers,
        prepared=prepared.value,
    )


def _may_run(turn: Turn, call: ToolCall, tool: "CoreTool") -> bool:
    """Whether an approved call may run now; one that may not is withdrawn, or asks."""
    if call.state != State.APPROVED:
        return False
    person = Member.objects.get(conversations=turn.conversation_id)
    approval = Approval.objects.filter(tool_call=call).first()
    problem = _problem(call, tool, person, approval)

    def decide() -> tuple[Decision, Risk]:
        policy = policy_for(person, turn.conversation)
        return decision_about_core(turn, call, tool, person, policy)

    return passes(turn, call, approval, problem, decide)


def _problem(call: ToolCall, tool: "CoreTool", person: Member, approval: Approval | None) -> str:
    """Why an approved call may not run after all, or nothing."""
    if not person.is_active:
        return "The person who asked for this is no longer active."
    if approval is not None and approval.state != Approval.State.GRANTED:
        return "Nobody has allowed this, so it was not run."
    if approval is not None and (flaw := flaw_of(approval, person)):
        return flaw
    if binding_of_core(call, tool, person) != (approval.binding if approval else call.binding):
        return "What would run is no longer what was decided about, so it was not run."
    return ""


def _use_permit(call: ToolCall, tool: "CoreTool", person: Member) -> None:
    """The unique (call, attempt) pair makes a second use fail in the database."""
    Permit.objects.create(
        tool_call=call,
        attempt=call.attempt + 1,
        binding=binding_of_core(call, tool, person),
        granted_by=granted_by(call),
        expires_at=in_time(seconds=PERMIT_SECONDS),
        used_at=Now(),
    )


def _outcome(tool: "CoreTool", context: Context, call: ToolCall, prepared: Prepared) -> Outcome:
    """Run it. What it changed before it failed is undone. Raises AskPerson."""
    try:
        if prepared.problem is not None:
            raise prepared.problem
        with transaction.atomic(), log.acting_as(lambda: Who.of(context.person)):
            text, structured = tool.run(context, json.loads(call.arguments))
    except ToolError as problem:
        return Outcome(state=State.FAILED, error=_error(problem))
    except (AskPerson, *AWAY):
        raise
    except Exception:
        logger.exception("Core tool call %s ended in a way that nobody foresaw", call.pk)
        return Outcome(state=State.FAILED, error=_error(ToolError(message=UNFORESEEN)))
    result = {"content": [{"type": "text", "text": text}], "structured": structured}
    return Outcome(state=State.SUCCEEDED, result=storable(result))


def _limit_of(tool: "CoreTool", call: ToolCall, person: Member) -> ToolError | None:
    """Why a call is not tried, or not again. The rows of the ledger are the counter: they count
    every way in, and outlive every process. Two chats at once may each find one use left."""
    if tool.looks_ahead and call.attempt >= MOST_ATTEMPTS:
        message = f"The server stopped {call.attempt} times over this. It is not tried again."
        return ToolError(message=message)
    lately = ToolCall.objects.filter(
        turn__conversation__owner=person,
        service=None,
        tool_name=tool.name,
        sent_at__gt=in_time(seconds=-60),
    )
    if not call.attempt and lately.exclude(pk=call.pk).count() >= tool.calls_a_minute:
        return ToolError(message=f"At most {tool.calls_a_minute} times a minute. Wait a little.")
    return None


def _error(problem: ToolError) -> dict[str, Any]:
    """What a service said while it was tried may stand in it."""
    told = {"kind": "tool_error", "message": str(problem), "hint": "", "field": problem.field}
    return cast(dict[str, Any], storable(told))


def _give_up(turn: Turn, call: ToolCall, problem: ToolError) -> None:
    """It is over, and was not run."""
    ToolCall.objects.filter(pk=call.pk).update(
        state=State.FAILED, error=_error(problem), finished_at=Now()
    )
    journal.tell_call(turn, call.pk, State.FAILED)


def _pause(turn: Turn, call: ToolCall, asked: AskPerson) -> None:
    """It did nothing yet, and goes on when the person has answered."""
    _count_try(call, state=State.AWAITING_INPUT)
    keep_question(call.pk, asked.requests)
    journal.tell_call(turn, call.pk, State.AWAITING_INPUT)
    log_of_calls.sent(call.pk, call.attempt + 1)


def _count_try(call: ToolCall, **values: Any) -> None:
    """An attempt that certainly did nothing."""
    ToolCall.objects.filter(pk=call.pk).update(
        attempt=F("attempt") + 1, pauses=F("pauses") + 1, sent_at=Now(), **values
    )


def _end(turn: Turn, call: ToolCall, outcome: Outcome, plans: list[ToolCall] | None = None) -> None:
    ToolCall.objects.filter(pk=call.pk).update(
        state=outcome.state,
        attempt=F("attempt") + 1,
        result=outcome.result,
        tainted_by=((outcome.result or {}).get("structured") or {}).get("tainted_by", ""),
        error=outcome.error,
        sent_at=Now(),
        finished_at=Now(),
    )
    log_of_calls.sent(call.pk, call.attempt + 1)
    entries = [journal.call_entry(call.pk, turn.answer_id, outcome.state)]
    entries += [journal.plan_entry(each) for each in plans or ()]
    journal.append(turn.conversation_id, turn.pk, entries)
