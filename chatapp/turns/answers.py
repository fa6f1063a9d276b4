"""What a person answers: run this call, do not run it, or what became of one whose outcome is
unknown.

The first committed decision counts. A decision names the binding that was shown; it is refused when
anything of it has changed, when it is too late, and when it comes too soon to have been read.
"""

import time
from typing import Literal

from django.db import transaction
from django.db.models.functions import Now

from chatapp.models import Approval, Member, ToolCall

from . import journal
from .calling import wake
from .ending import signal
from .milestones import passed
from .refusals import Refused

State = ToolCall.State
Verdict = Literal["worked", "did-not", "again"]
SOONEST_SECONDS = 0.4
REASON_CHARACTERS = 2_000
STATE_OF_VERDICT = {
    "worked": State.SUCCEEDED,
    "did-not": State.FAILED,
    "again": State.APPROVED,
}


def grant(call: ToolCall, *, by: Member, binding: str, shown_at: float | None) -> None:
    """Allow this call to run once. `shown_at` is when the card was made (Unix time), None for
    no card."""
    if shown_at is not None and time.time() - shown_at < SOONEST_SECONDS:
        raise Refused("That was too quick to have been read. Look again, then decide.", 409)
    _decide(call, by, binding, Approval.State.GRANTED, State.APPROVED, "")


def deny(call: ToolCall, *, by: Member, binding: str, reason: str = "") -> None:
    """Do not run this call; `reason` is a word to the assistant."""
    if len(reason) > REASON_CHARACTERS:
        raise Refused(f"Keep the word to the assistant under {REASON_CHARACTERS:,} characters.")
    _decide(call, by, binding, Approval.State.DENIED, State.DENIED, reason.strip())


def _decide(
    call: ToolCall, by: Member, binding: str, decision: str, state: State, reason: str
) -> None:
    with transaction.atomic():
        turn = signal(call.turn_id)
        decided = Approval.objects.filter(
            tool_call=call, state=Approval.State.OPEN, binding=binding, expires_at__gt=Now()
        ).update(state=decision, reason=reason, decided_by=by, decided_at=Now())
        moved = decided and ToolCall.objects.filter(
            pk=call.pk, state=State.AWAITING_APPROVAL
        ).update(state=state)
        if not moved:
            raise Refused(_why_too_late(call, binding), 409)
        entry = journal.call_entry(call.pk, turn.answer_id, state)
        journal.append(turn.conversation_id, turn.pk, [entry])
        transaction.on_commit(lambda: passed("K10"))
        transaction.on_commit(lambda: wake(turn.pk))


def _why_too_late(call: ToolCall, binding: str) -> str:
    approval = Approval.objects.select_related("decided_by").filter(tool_call=call).first()
    if approval is None:
        return "Nobody was asked about this call."
    match approval.state:
        case Approval.State.GRANTED | Approval.State.DENIED:
            word = "allowed" if approval.state == Approval.State.GRANTED else "denied"
            return f"Already {word} by {approval.decided_by or 'somebody'}."
        case Approval.State.WITHDRAWN:
            return "This request was withdrawn, so there is nothing to decide any more."
        case Approval.State.OPEN if approval.binding != binding:
            return "What would run has changed since this was shown. Look at it again."
        case _:
            return "This request has expired, so it was not run."


def resolve(call: ToolCall, *, by: Member, verdict: Verdict) -> None:
    """Say what became of a call whose outcome is unknown, or have it sent once more."""
    state = STATE_OF_VERDICT[verdict]
    with transaction.atomic():
        turn = signal(call.turn_id)
        if verdict == "again" and not turn.is_live:
            raise Refused("This turn is over, so it cannot run again. Ask for it anew.", 409)
        moved = ToolCall.objects.filter(pk=call.pk, state=State.UNKNOWN).update(
            state=state, resolution=verdict, resolved_by=by
        )
        if not moved:
            raise Refused("The outcome of this call is already known.", 409)
        entry = journal.call_entry(call.pk, turn.answer_id, state)
        journal.append(turn.conversation_id, turn.pk, [entry])
        transaction.on_commit(lambda: wake(turn.pk))
