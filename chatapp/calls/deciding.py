"""Policy's decision about the calls of a step, stored with its reason; asking opens an approval."""

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from django.conf import settings
from django.db.models import QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.audit import call_entries
from chatapp.journal import journal
from chatapp.journal.journal import Entry
from chatapp.journal.lease import Lease, lock_turn
from chatapp.models import Approval, Member, ToolCall, Turn
from chatapp.permissions.binding import binding_hash
from chatapp.permissions.decide import raise_risk
from chatapp.permissions.risk import Risk
from chatapp.permissions.rules import Decision
from chatapp.policy import consents
from chatapp.policy.daily_limits import lock_person
from chatapp.policy.stored_policy import (
    CurrentTool,
    Policy,
    annotate_before,
    annotate_policy,
    build_call_facts,
    find_before,
    read_policy,
)
from chatapp.server.database import from_now
from chatapp.server.languages import in_english
from chatapp.tools.catalogue import Catalogue, CatalogueTool
from chatapp.tools.context import ToolError
from mcpconfig.values.arguments import describe_mismatch, drop_refused_nulls

from .own_tool_calls import compute_core_binding, decide_core_call, find_core_tool
from .transitions import Worker, add_log_entries, move_read_call

if TYPE_CHECKING:
    from chatapp.tools.blueprint import CoreTool

State = ToolCall.State
SWITCHED_OFF = gettext_lazy("This tool was switched off before the call ran.")
STATE_OF_EFFECT = {
    "allow": State.APPROVED,
    "ask": State.AWAITING_APPROVAL,
    "deny": State.REFUSED,
}


@in_english
def decide_calls(lease: Lease, call_ids: tuple[uuid.UUID, ...], catalogue: Catalogue) -> None:
    """Move each proposed call to approved, awaiting_approval or refused, in one transaction."""
    with lock_turn(lease) as turn:
        person = Member.objects.get(conversations=turn.conversation_id)
        calls = load_proposed(ToolCall.objects.filter(pk__in=call_ids), person)
        if calls:
            decider = Decider.of(lease, turn, calls)
            for call in calls:
                decider.decide(call, catalogue)
            journal.append(turn.conversation_id, turn.pk, decider.entries)


def load_proposed(calls: QuerySet[ToolCall], person: Member) -> list[ToolCall]:
    """Load those of these calls of a person that are proposed, with all that a `Decider` needs."""
    found = calls.filter(state=State.PROPOSED).select_related(*call_entries.RELATED)
    return list(annotate_policy(annotate_before(found), person))


@dataclass(frozen=True, slots=True, kw_only=True)
class Decider:
    """One round of decisions for one person, inside one transaction. `entries` collects what is to
    be written to the journal."""

    lease: Lease
    turn: Turn
    person: Member
    policy: Policy
    entries: list[Entry] = field(default_factory=list)

    @classmethod
    def of(cls, lease: Lease, turn: Turn, calls: Sequence[ToolCall]) -> Self:
        """Take the policy for these calls, which were read in this transaction with what
        `annotate_policy` reads."""
        turn.conversation = calls[0].turn.conversation
        person = turn.conversation.owner
        policy = read_policy(calls[0], person, turn.conversation)
        if policy.is_limited:
            lock_person(person)
        return cls(lease=lease, turn=turn, person=person, policy=policy)

    def decide(self, call: ToolCall, catalogue: Catalogue) -> None:
        """Decide about one proposed call, as `load_proposed` returns it.

        A tool that the person switched off since the model was offered it does not run, and no
        person is asked. An approval that is open already stays open.
        """
        if catalogue.is_off or call.tool_id in catalogue.unselected:
            self._fail(call, str(SWITCHED_OFF), "Do without it, and say what is missing.")
        elif own := find_core_tool(call):
            self._decide_own(call, own)
        # The tools of a service that cannot be reached now are known: the service may be back when
        # the call is sent, and if it is not, the call fails and says so.
        elif tool := catalogue.find_known(call.tool_id):
            self._decide_of_service(call, tool)
        else:
            sentence = _("The tool %(name)s is no longer available.")
            self._fail(call, sentence % {"name": call.tool_id})

    def _decide_of_service(self, call: ToolCall, tool: CatalogueTool) -> None:
        asked, call.arguments = (
            call.arguments,
            drop_refused_nulls(call.arguments, tool.input_schema),
        )
        binding = compute_binding(
            call, tool.service_id, tool.endpoint, tool.definition_hash, self.person
        )
        if call.binding not in ("", binding):
            # What a person has answered since was meant for the service and the tool as they were.
            problem = _("The service or the tool changed while this call waited.")
            return self._fail(call, problem, "Call it again.")
        if problem := describe_mismatch(call.arguments, tool.input_schema):
            return self._fail(call, problem, _("It was not run."))
        before = find_before(self.turn, call, is_as_read=call.arguments == asked)
        seen = _describe_tool(tool)
        facts = build_call_facts(self.turn, call, self.person, seen, self.policy, before)
        decision = self.policy.decide(facts, tool.risk, self.turn.conversation.mode)
        self._store(
            call,
            raise_risk(tool.risk, facts),
            decision,
            binding,
            arguments=call.arguments,
            definition_id=tool.definition_id,
            service_id=tool.service_id,
        )

    def _decide_own(self, call: ToolCall, tool: "CoreTool") -> None:
        try:
            tool.validate(json.loads(call.arguments))
        except ToolError as problem:
            return self._fail(call, str(problem), _("It was not run."))
        decision, risk = decide_core_call(self.turn, call, tool, self.person, self.policy)
        self._store(call, risk, decision, compute_core_binding(call, tool, self.person))

    def _store(
        self, call: ToolCall, risk: Risk, decision: Decision, binding: str, **place: Any
    ) -> None:
        worker = Worker(lease=self.lease, attempt=call.attempt)
        store_decision(
            self.turn,
            call,
            risk,
            decision,
            binding,
            by=worker,
            was=State.PROPOSED,
            entries=self.entries,
            **place,
        )
        add_log_entries(self.entries, call)

    def _fail(self, call: ToolCall, problem: str, hint: str = "") -> None:
        """End the call before a person is asked; the model reads why."""
        move_read_call(
            self.turn,
            call,
            State.FAILED,
            by=Worker(lease=self.lease, attempt=call.attempt),
            was=State.PROPOSED,
            entries=self.entries,
            error={"kind": "not_run", "message": problem, "hint": hint},
        )
        add_log_entries(self.entries, call)


def store_decision(
    turn: Turn,
    call: ToolCall,
    risk: Risk,
    decision: Decision,
    binding: str,
    *,
    by: Worker,
    was: State,
    entries: list[Entry],
    **place: Any,
) -> None:
    """Store the decision with its reason, and `place`, the tool and the arguments that it is about.

    A decision to ask opens an approval. The journal entry is added to `entries`, for a caller that
    appends it last.
    """
    state = STATE_OF_EFFECT[decision.effect]
    move_read_call(
        turn,
        call,
        state,
        by=by,
        was=was,
        entries=entries,
        risk=risk.level,
        reasons=list(risk.reasons),
        why=decision.reason[:500],
        note=decision.note[:500],
        rule_id=decision.rule_id,
        consent_id=decision.consent_id,
        binding=binding,
        **place,
    )
    if decision.consent_id is not None:
        consents.mark_used(decision.consent_id)
    if state == State.AWAITING_APPROVAL:
        _open_approval(call, decision, binding)


def _open_approval(call: ToolCall, decision: Decision, binding: str) -> None:
    Approval.objects.create(
        tool_call=call,
        binding=binding,
        wants_typing=decision.wants_typing,
        is_once_only=decision.is_once_only,
        second_id=decision.demand.id if decision.demand else None,
        expires_at=from_now(days=settings.APPROVAL_DAYS),
    )


def _describe_tool(tool: CatalogueTool) -> CurrentTool:
    return CurrentTool(
        service_id=tool.service_id,
        service=tool.service_name,
        tool=tool.tool_name,
        endpoint=tool.endpoint,
        definition_id=tool.definition_id,
        definition_hash=tool.definition_hash,
        is_confirmed=tool.is_confirmed,
    )


def compute_binding(
    call: ToolCall, service_id: int, endpoint: str, definition_hash: str, person: Member
) -> str:
    """Return the hash of all that a person is shown about a call, and of who they are."""
    return binding_hash(
        service_id=service_id,
        endpoint=endpoint,
        tool_name=call.tool_name,
        definition_hash=definition_hash,
        arguments=call.arguments,
        person_id=person.pk,
        call_id=str(call.pk),
    )
