"""What is looked at once more before an approved call runs, whatever runs it, and what becomes of
one that may not."""

from collections.abc import Callable
from typing import Literal

from django.db.models.functions import Now

from chatapp.models import Approval, ToolCall, Turn
from chatapp.permissions.risk import Risk
from chatapp.permissions.rules import Decision

from . import journal
from .deciding import store

State = ToolCall.State
Verdict = Literal["run", "deny", "sign", "type", "ask"]
REFUSALS = {
    "deny": "Policy forbids it by now, so it was not run.",
    "sign": "Policy wants another signature by now, so it was not run.",
    "type": "Policy wants this confirmed by typing its name by now, so it was not run.",
}


def passes(
    turn: Turn,
    call: ToolCall,
    approval: Approval | None,
    problem: str,
    decide: Callable[[], tuple[Decision, Risk]],
) -> bool:
    """Whether an approved call may run now, inside the caller's transaction. One that may not is
    withdrawn for its `problem` or for what policy says by now. One that was to run by itself, and
    needs a person now, asks here and now: decided anew from a catalogue that is kept and says
    otherwise, it would come back for ever."""
    if problem:
        return _withdraw(turn, call, problem)
    decision, risk = decide()
    verdict = _verdict(decision, call, approval)
    if refusal := REFUSALS.get(verdict):
        return _withdraw(turn, call, refusal)
    if verdict == "ask":
        journal.tell_call(turn, call.pk, store(call, risk, decision, call.binding))
    return verdict == "run"


def _verdict(decision: Decision, call: ToolCall, approval: Approval | None) -> Verdict:
    """What policy as it is now says of a call that was allowed before. What may have run is not
    asked about again, but needs all that policy demands by now; an attempt that certainly did
    nothing, a pause or a look ahead, is not one of those."""
    if decision.effect == "allow":
        return "run"
    if decision.effect == "deny" or (approval is None and not call.may_have_run):
        return decision.effect
    signed_id = approval.second_id if approval is not None else None
    if decision.demand is not None and decision.demand.id != signed_id:
        return "sign"
    was_typed = approval is None or approval.wants_typing
    return "type" if decision.wants_typing and not was_typed else "run"


def _withdraw(turn: Turn, call: ToolCall, problem: str) -> bool:
    """It may not run."""
    # What may have run before has an outcome that nobody knows, whatever stops it now.
    state = State.UNKNOWN if call.may_have_run else State.WITHDRAWN
    error = {"kind": "withdrawn", "message": problem, "hint": ""}
    ToolCall.objects.filter(pk=call.pk).update(state=state, error=error, finished_at=Now())
    journal.tell_call(turn, call.pk, state)
    return False
