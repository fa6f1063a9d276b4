"""Running approved calls of the program's own tools. Each runs in one transaction with its outcome,
so a worker that dies before the commit has changed nothing."""

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
from django.utils.translation import gettext_lazy, ngettext

from chatapp.audit import audit_log
from chatapp.audit.audit_log import Who
from chatapp.calls.ledger import Outcome, use_permit
from chatapp.journal import journal
from chatapp.journal.db_retry import DATABASE_AWAY, retry_in_database
from chatapp.journal.journal import Entry
from chatapp.journal.lease import Lease, lock_turn
from chatapp.models import Member, ToolCall, Turn
from chatapp.server.database import from_now, in_database
from chatapp.server.languages import in_english
from chatapp.telemetry import log_ids
from chatapp.telemetry.tracing import use_tool_span
from chatapp.tools.catalogue import Catalogue
from chatapp.tools.context import AskPerson, Context, ToolError
from mcpconfig.values.results import make_storable

from .attempts import MAX_ATTEMPTS
from .own_tool_calls import find_core_tool
from .question_rounds import build_resumption, store_question
from .recheck import may_run
from .transitions import Worker, move_read_call

if TYPE_CHECKING:
    from chatapp.tools.blueprint import CoreTool

logger = logging.getLogger(__name__)
State = ToolCall.State
PREPARE_SECONDS = 90.0
TOO_SLOW = gettext_lazy("The tool took too long, so it was cancelled. Nothing was done.")
UNFORESEEN = gettext_lazy(
    "An internal error stopped the tool. Nothing was done. "
    "An admin can find the reason in the server’s log."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparing:
    """A call of a tool that does something outside the database before it runs."""

    tool: "CoreTool"
    context: Context
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """The outcome of preparing: a value for the tool, or why it cannot run."""

    value: Any = None
    problem: ToolError | None = None


@in_english
async def run_core_calls(
    lease: Lease, call_ids: tuple[uuid.UUID, ...], catalogue: Callable[[], Awaitable[Catalogue]]
) -> None:
    """Run those of these calls that are of the program's own tools."""
    if own := await in_database(_filter_core_calls, call_ids):
        tools = await catalogue()
        for call_id, name in own.items():
            with log_ids.use_call(call_id), use_tool_span(call_id, "core", name, 1):
                preparing = await in_database(_begin_preparing, lease, call_id, tools)
                prepared = await _prepare(preparing) if preparing else Prepared()
                await retry_in_database(lease, _run, lease, call_id, tools, prepared)


def _filter_core_calls(call_ids: tuple[uuid.UUID, ...]) -> dict[uuid.UUID, str]:
    """Return the names of their tools, by the ids of the calls."""
    calls = ToolCall.objects.filter(pk__in=call_ids, state=State.APPROVED, service=None)
    return {call.pk: call.tool_name for call in calls if find_core_tool(call) is not None}


def _begin_preparing(lease: Lease, call_id: uuid.UUID, catalogue: Catalogue) -> Preparing | None:
    """Count the attempt before the tool prepares.

    To prepare changes nothing, so a call whose worker dies meanwhile has not run. The next worker
    tries again, up to a limit.
    """
    with lock_turn(lease) as turn:
        call = ToolCall.objects.get(pk=call_id)
        tool = find_core_tool(call)
        if tool is None or not tool.has_preparation:
            return None
        run = _begin(lease, turn, call, tool, catalogue, Prepared())
        if run is None:
            return None
        if problem := _find_limit(run.tool, run.call, run.context.person):
            run.give_up(problem)
            return None
        run.count_attempt()
        arguments = json.loads(run.call.arguments)
        return Preparing(tool=run.tool, context=run.context, arguments=arguments)


async def _prepare(preparing: Preparing) -> Prepared:
    try:
        async with asyncio.timeout(PREPARE_SECONDS):
            ready = await preparing.tool.prepare_context(preparing.context, preparing.arguments)
    except ToolError as problem:
        return Prepared(problem=problem)
    except TimeoutError:
        return Prepared(problem=ToolError(message=str(TOO_SLOW)))
    except DATABASE_AWAY:
        raise
    except Exception:
        logger.exception("The core tool %s could not prepare", preparing.tool.name)
        return Prepared(problem=ToolError(message=str(UNFORESEEN)))
    return Prepared(value=ready.prepared)


def _run(lease: Lease, call_id: uuid.UUID, catalogue: Catalogue, prepared: Prepared) -> None:
    """Check everything again, run the tool and store its outcome, all or nothing.

    A second time does nothing, as the call is no longer approved.
    """
    with lock_turn(lease) as turn:
        call = ToolCall.objects.get(pk=call_id)
        tool = find_core_tool(call)
        journal.lock_conversation(turn.conversation_id)
        run = _begin(lease, turn, call, tool, catalogue, prepared) if tool else None
        if run is None:
            return
        if not run.tool.has_preparation and (
            problem := _find_limit(run.tool, call, run.context.person)
        ):
            return run.give_up(problem)
        use_permit(call, run.context.person)
        try:
            outcome = _run_tool(run.tool, run.context, call, prepared)
        except AskPerson as asked:
            run.pause(asked)
        else:
            run.end(outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A call that may run, inside the transaction that runs it."""

    lease: Lease
    turn: Turn
    call: ToolCall
    tool: "CoreTool"
    context: Context

    def give_up(self, problem: ToolError) -> None:
        """Fail the call. It was not run."""
        self._move(State.FAILED, error=_build_error(problem), finished_at=Now())

    def count_attempt(self) -> None:
        """Count an attempt that certainly changes nothing."""
        mine = ToolCall.objects.filter(pk=self.call.pk)
        mine.update(attempt=F("attempt") + 1, pauses=F("pauses") + 1, sent_at=Now())

    def pause(self, asked: AskPerson) -> None:
        """Wait for a person's answer. The tool has changed nothing."""
        entries: list[Entry] = []
        self._move(
            State.AWAITING_INPUT,
            entries=entries,
            is_sent=True,
            attempt=F("attempt") + 1,
            pauses=F("pauses") + 1,
            sent_at=Now(),
        )
        store_question(self.call.pk, asked.requests)
        journal.append(self.turn.conversation_id, self.turn.pk, entries)

    def end(self, outcome: Outcome) -> None:
        """Store the outcome, and the entries of the plans that the tool changed."""
        entries: list[Entry] = []
        self._move(
            outcome.state,
            entries=entries,
            is_sent=True,
            attempt=F("attempt") + 1,
            result=outcome.result,
            tainted_by=((outcome.result or {}).get("structured") or {}).get("tainted_by", ""),
            error=outcome.error,
            sent_at=Now(),
            finished_at=Now(),
        )
        entries += [journal.plan_entry(each) for each in self.context.changed_plans]
        journal.append(self.turn.conversation_id, self.turn.pk, entries)

    def _move(self, state: ToolCall.State, **fields: Any) -> None:
        call = self.call
        worker = Worker(lease=self.lease, attempt=call.attempt, binding=call.binding)
        move_read_call(self.turn, call, state, by=worker, was=State.APPROVED, **fields)


def _begin(
    lease: Lease,
    turn: Turn,
    call: ToolCall,
    tool: "CoreTool",
    catalogue: Catalogue,
    prepared: Prepared,
) -> Run | None:
    """Check everything again. Return None if the call may not run."""
    if call.state != State.APPROVED:
        return None
    person = Member.objects.get(conversations=turn.conversation_id)
    if not may_run(lease, turn, call, person):
        return None
    context = Context(
        person=person,
        catalogue=catalogue,
        turn=turn,
        call=call,
        answers=build_resumption(call).answers,
        prepared=prepared.value,
    )
    return Run(lease=lease, turn=turn, call=call, tool=tool, context=context)


def _run_tool(tool: "CoreTool", context: Context, call: ToolCall, prepared: Prepared) -> Outcome:
    """Run the tool. What it changed before it failed is rolled back. Raises AskPerson."""
    try:
        if prepared.problem is not None:
            raise prepared.problem
        with transaction.atomic(), audit_log.acting_as(lambda: Who.of(context.person)):
            text, structured = tool.run(context, json.loads(call.arguments))
    except ToolError as problem:
        return Outcome(state=State.FAILED, error=_build_error(problem))
    except (AskPerson, *DATABASE_AWAY):
        raise
    except Exception:
        logger.exception("Core tool call %s ended in a way that nobody foresaw", call.pk)
        return Outcome(state=State.FAILED, error=_build_error(ToolError(message=str(UNFORESEEN))))
    result = {"content": [{"type": "text", "text": text}], "structured": structured}
    return Outcome(state=State.SUCCEEDED, result=make_storable(result))


def _find_limit(tool: "CoreTool", call: ToolCall, person: Member) -> ToolError | None:
    """Return why a call is not run, or not again.

    The rows of tool calls are the counter: they count every way to the tool, and outlive every
    process. Two chats at once may each find one use left.
    """
    if tool.has_preparation and call.attempt >= MAX_ATTEMPTS:
        message = ngettext(
            "The server stopped %(count)d time during this call. It is not tried again.",
            "The server stopped %(count)d times during this call. It is not tried again.",
            call.attempt,
        )
        return ToolError(message=message % {"count": call.attempt})
    lately = ToolCall.objects.filter(
        turn__conversation__owner=person,
        service=None,
        tool_name=tool.name,
        sent_at__gt=from_now(seconds=-60),
    )
    if not call.attempt and lately.exclude(pk=call.pk).count() >= tool.calls_a_minute:
        message = ngettext(
            "This tool can run %(count)d time a minute. Wait a minute.",
            "This tool can run %(count)d times a minute. Wait a minute.",
            tool.calls_a_minute,
        )
        return ToolError(message=message % {"count": tool.calls_a_minute})
    return None


def _build_error(problem: ToolError) -> dict[str, Any]:
    """Return the error as it is stored. It may quote what a service answered."""
    told = {"kind": "tool_error", "message": str(problem), "hint": "", "field": problem.field}
    return cast(dict[str, Any], make_storable(told))
