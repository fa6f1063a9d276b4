"""Policy's decision about the calls of a step, stored with its reason; asking opens an approval."""

import uuid
from datetime import timedelta

from django.conf import settings
from django.db.models import DateTimeField, ExpressionWrapper
from django.db.models.functions import Now

from chatapp.models import Approval, Member, ToolCall, Turn
from chatapp.permissions.binding import binding_hash
from chatapp.permissions.decide import decide
from chatapp.permissions.rules import CallFacts, Decision, PersonFacts
from chatapp.tools.catalogue import Catalogue, CatalogueTool

from . import journal
from .lease import Lease, fenced

State = ToolCall.State
STATE_OF_EFFECT = {
    "allow": State.APPROVED,
    "ask": State.AWAITING_APPROVAL,
    "deny": State.REFUSED,
}


def decide_calls(lease: Lease, call_ids: tuple[uuid.UUID, ...], catalogue: Catalogue) -> None:
    """Move each proposed call to approved, awaiting_approval or refused, in one transaction."""
    with fenced(lease) as turn:
        person = Member.objects.get(conversations=turn.conversation_id)
        calls = ToolCall.objects.filter(pk__in=call_ids, state=State.PROPOSED)
        entries = []
        for call in calls:
            state = _decide_one(turn, call, catalogue.get(call.tool_id), person)
            entries.append(journal.call_entry(call.pk, turn.answer_id, state))
        journal.append(turn.conversation_id, turn.pk, entries)


def _decide_one(turn: Turn, call: ToolCall, tool: CatalogueTool | None, person: Member) -> State:
    if tool is None:
        error = {
            "kind": "not_run",
            "message": f"The tool {call.tool_id} is not offered any more.",
            "hint": "",
        }
        ToolCall.objects.filter(pk=call.pk).update(state=State.FAILED, error=error)
        return State.FAILED
    decision = decide(_facts(turn, call, tool), tool.risk, (), PersonFacts(id=person.pk))
    state = STATE_OF_EFFECT[decision.effect]
    _store(call, tool, decision, state)
    if state == State.AWAITING_APPROVAL:
        _open_approval(call, tool, person)
    return state


def _facts(turn: Turn, call: ToolCall, tool: CatalogueTool) -> CallFacts:
    alike = ToolCall.objects.filter(turn=turn, tool_id=call.tool_id, arguments=call.arguments)
    earlier = alike.exclude(pk=call.pk).exclude(state=State.PROPOSED).count()
    return CallFacts(
        service=tool.service_name,
        tool=tool.tool_name,
        is_confirmed=tool.is_confirmed,
        identical_calls_before=earlier,
    )


def _store(call: ToolCall, tool: CatalogueTool, decision: Decision, state: State) -> None:
    ToolCall.objects.filter(pk=call.pk).update(
        state=state,
        definition_id=tool.definition_id,
        service_id=tool.service_id,
        risk=tool.risk.level,
        reasons=list(tool.risk.reasons),
        why=decision.reason[:500],
    )


def _open_approval(call: ToolCall, tool: CatalogueTool, person: Member) -> None:
    days = timedelta(days=settings.APPROVAL_DAYS)
    Approval.objects.create(
        tool_call=call,
        binding=binding_of(call, tool.service_id, tool.endpoint, tool.definition_hash, person),
        expires_at=ExpressionWrapper(Now() + days, output_field=DateTimeField()),
    )


def binding_of(
    call: ToolCall, service_id: int, endpoint: str, definition_hash: str, person: Member
) -> str:
    """The hash of all that a person is shown about a call, and of who they are."""
    return binding_hash(
        service_id=service_id,
        endpoint=endpoint,
        tool_name=call.tool_name,
        definition_hash=definition_hash,
        arguments=call.arguments,
        person_id=person.pk,
        call_id=str(call.pk),
    )
