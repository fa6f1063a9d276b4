"""Policy's decision about the calls of a step, stored with its reason; asking opens an approval."""

import json
import uuid
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db.models import F

from chatapp.models import Approval, Member, ToolCall, Turn
from chatapp.permissions.binding import binding_hash
from chatapp.permissions.decide import raised
from chatapp.permissions.risk import Risk
from chatapp.permissions.rules import Decision
from chatapp.storage import in_time
from chatapp.tools.catalogue import Catalogue, CatalogueTool
from chatapp.tools.context import ToolError
from mcpconfig.arguments import misfit

from . import consents, journal
from .core_calls import binding_of_core, core_tool_of, decision_about_core
from .daily_uses import one_at_a_time
from .lease import Lease, fenced
from .policy import Policy, Seen, facts_about, policy_for

if TYPE_CHECKING:
    from chatapp.tools.blueprint import CoreTool

State = ToolCall.State
SWITCHED_OFF = "The person switched this tool off before it was run."
STATE_OF_EFFECT = {
    "allow": State.APPROVED,
    "ask": State.AWAITING_APPROVAL,
    "deny": State.REFUSED,
}


def decide_calls(lease: Lease, call_ids: tuple[uuid.UUID, ...], catalogue: Catalogue) -> None:
    """Move each proposed call to approved, awaiting_approval or refused, in one transaction."""
    with fenced(lease) as turn:
        person = Member.objects.get(conversations=turn.conversation_id)
        policy = policy_for(person, turn.conversation)
        if policy.is_limited:
            one_at_a_time(person)
        calls = ToolCall.objects.filter(pk__in=call_ids, state=State.PROPOSED)
        entries = []
        for call in calls:
            # A service that cannot be reached just now may be back when the call is sent; if it is
            # not, the call says so itself.
            state = _state_of(turn, call, catalogue, person, policy)
            entries.append(journal.call_entry(call.pk, turn.answer_id, state))
        journal.append(turn.conversation_id, turn.pk, entries)


def _state_of(
    turn: Turn, call: ToolCall, catalogue: Catalogue, person: Member, policy: Policy
) -> State:
    """What the person switched off since the model was offered it does not run, nor is anybody
    asked; a question that is open already stays theirs to answer."""
    if catalogue.is_off or call.tool_id in catalogue.unselected:
        return _fail(call, SWITCHED_OFF, "Do without it, and say what is missing.")
    return _decide_one(turn, call, catalogue.known(call.tool_id), person, policy)


def reconsider(lease: Lease) -> None:
    """Policy decides anew about calls that it allowed before a pause and that certainly did not run
    yet: what an admin has tightened meanwhile counts. What a person allowed stays allowed."""
    allowed = ToolCall.objects.filter(
        turn=lease.turn_id, state=State.APPROVED, attempt=F("pauses"), approval__isnull=True
    )
    if not allowed.exists():  # the lease is ours, so nobody else decides meanwhile
        return
    with fenced(lease) as turn:
        entries = [journal.call_entry(call.pk, turn.answer_id, State.PROPOSED) for call in allowed]
        allowed.update(state=State.PROPOSED)
        journal.append(turn.conversation_id, turn.pk, entries)


def _decide_one(
    turn: Turn, call: ToolCall, tool: CatalogueTool | None, person: Member, policy: Policy
) -> State:
    if own := core_tool_of(call):
        return _decide_core(turn, call, own, person, policy)
    if tool is None:
        return _fail(call, f"The tool {call.tool_id} is not offered any more.")
    binding = binding_of(call, tool.service_id, tool.endpoint, tool.definition_hash, person)
    if call.binding not in ("", binding):
        # What a person has answered since was meant for the service and the tool as they were.
        return _fail(
            call, "The service or the tool was changed while this waited.", "Call it anew."
        )
    if problem := misfit(call.arguments, tool.input_schema):
        return _fail(call, problem, "It was not run.")
    facts = facts_about(turn, call, person, _seen(tool), policy)
    decision = policy.decide(facts, tool.risk, turn.conversation.mode)
    place = {"definition_id": tool.definition_id, "service_id": tool.service_id}
    return store(call, raised(tool.risk, facts), decision, binding, **place)


def _seen(tool: CatalogueTool) -> Seen:
    return Seen(
        service_id=tool.service_id,
        service=tool.service_name,
        tool=tool.tool_name,
        endpoint=tool.endpoint,
        definition_hash=tool.definition_hash,
        is_confirmed=tool.is_confirmed,
    )


def _decide_core(
    turn: Turn, call: ToolCall, tool: "CoreTool", person: Member, policy: Policy
) -> State:
    try:
        tool.validated(json.loads(call.arguments))
    except ToolError as problem:
        return _fail(call, str(problem), "It was not run.")
    decision, risk = decision_about_core(turn, call, tool, person, policy)
    return store(call, risk, decision, binding_of_core(call, tool, person))


def _fail(call: ToolCall, problem: str, hint: str = "") -> State:
    """The call is over before anybody is asked; the model reads why."""
    error = {"kind": "not_run", "message": problem, "hint": hint}
    ToolCall.objects.filter(pk=call.pk).update(state=State.FAILED, error=error)
    return State.FAILED


def store(call: ToolCall, risk: Risk, decision: Decision, binding: str, **more: Any) -> State:
    """Keep the decision with its reason and `more` of the call; asking opens an approval."""
    state = STATE_OF_EFFECT[decision.effect]
    ToolCall.objects.filter(pk=call.pk).update(
        state=state,
        risk=risk.level,
        reasons=list(risk.reasons),
        why=decision.reason[:500],
        note=decision.note[:500],
        rule_id=decision.rule_id,
        consent_id=decision.consent_id,
        binding=binding,
        **more,
    )
    if decision.consent_id is not None:
        consents.mark_used(decision.consent_id)
    if state == State.AWAITING_APPROVAL:
        _open_approval(call, decision, binding)
    return state


def _open_approval(call: ToolCall, decision: Decision, binding: str) -> None:
    Approval.objects.create(
        tool_call=call,
        binding=binding,
        wants_typing=decision.wants_typing,
        is_once_only=decision.is_once_only,
        second_id=decision.demand.id if decision.demand else None,
        expires_at=in_time(days=settings.APPROVAL_DAYS),
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
