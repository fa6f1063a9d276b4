"""What a person answers: run this call, do not run it, or what became of one whose outcome is
unknown.

The first committed decision counts. A decision names the binding that was shown; it is refused when
anything of it has changed, when it is too late, and when it comes too soon to have been read.
Where policy wants two people, the requester signs first, and nothing runs until the other has.
"""

from typing import Literal

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Least, Now
from django.utils import timezone

from chatapp.models import Approval, HousePolicy, Member, SecondSignature, ToolCall, Turn
from chatapp.storage import in_time

from . import consents, journal, second_signatures
from .calling import wake
from .changed_values import ask_about, changed_values, judged
from .core_calls import core_tool_of
from .decided_anew import as_it_is, decision_by_now
from .ending import signal
from .milestones import passed
from .refusals import CHANGED, Refused, refuse_haste

State = ToolCall.State
Verdict = Literal["worked", "did-not", "again"]
REASON_CHARACTERS = 2_000
ONCE_ONLY = "This can be allowed once only."
TWO_SIGNED = "Two people allowed this once. Ask for it anew, and both sign again."
TWO_BY_NOW = "Policy wants two people to sign this by now. Ask for it anew, and both sign."
TYPED_BY_NOW = "Policy wants this confirmed by typing its name by now. Ask for it anew."
STATE_OF_VERDICT = {
    "worked": State.SUCCEEDED,
    "did-not": State.FAILED,
    "again": State.APPROVED,
}


def grant(
    call: ToolCall,
    *,
    by: Member,
    binding: str,
    shown_at: float | None,
    scope: str = consents.ONCE,
    arguments: str | None = None,
    typed: str = "",
) -> None:
    """Allow this call to run, and with a `scope` others like it in advance; where it takes two, the
    requester's word is the first signature, and any other person's the second.

    `shown_at` is when the card was made (Unix time), None for no card. `arguments` are other values
    than the model asked for, as JSON text; `typed` confirms what must be typed.
    """
    refuse_haste(shown_at)
    approval = Approval.objects.filter(tool_call=call).first()
    _check_typed(call, typed, is_wanted=approval is not None and approval.wants_typing)
    if not _is_requester(call, by):
        _sign_second(call, by, binding, is_as_shown=arguments is None and scope == consents.ONCE)
        return
    if scope != consents.ONCE and scope not in HousePolicy.current().scopes_for(call):
        raise Refused(ONCE_ONLY)
    changed = changed_values(call, arguments)
    with transaction.atomic():
        second_id = approval.second_id if approval is not None else None
        if changed is not None:
            decision = judged(call, changed, by)
            if scope != consents.ONCE and decision.is_once_only:
                raise Refused(ONCE_ONLY)
            _check_typed(call, typed, is_wanted=decision.wants_typing)
            _hold_open(call, binding)
            binding = ask_about(call, changed, by, binding, decision)
            second_id = decision.demand.id if decision.demand else second_id
        _sign(call, by, binding, second_id, scope)
        if scope != consents.ONCE:
            consents.give(as_it_is(call, by, binding), by=by, scope=scope)


def _hold_open(call: ToolCall, binding: str) -> None:
    """Nobody else answers this question before the caller's transaction ends, nor has already."""
    Turn.objects.select_for_update().get(pk=call.turn_id)
    if not _open(call, binding).exists():
        raise Refused(_why_too_late(call, binding), 409)


def _sign(call: ToolCall, by: Member, binding: str, second_id: int | None, scope: str) -> None:
    """The requester's word: all that it takes, or the first of two signatures."""
    if second_id is None:
        _decide(call, by, binding, Approval.State.GRANTED, State.APPROVED, "")
    elif scope == consents.ONCE:
        _sign_first(call, by, binding, second_id)
    else:
        raise Refused(ONCE_ONLY)


def _is_requester(call: ToolCall, by: Member) -> bool:
    return call.turn.conversation.owner_id == by.pk


def _check_typed(call: ToolCall, typed: str, *, is_wanted: bool) -> None:
    if is_wanted and typed.strip() != call.tool_name:
        raise Refused(f"Type the tool's name, {call.tool_name}, to allow it.")


def _sign_first(call: ToolCall, by: Member, binding: str, second_id: int) -> None:
    """The requester signs; the call then waits for somebody else, for as long as is said."""
    second = SecondSignature.objects.get(pk=second_id)
    hours = second.escalates_after_hours
    with transaction.atomic():
        turn = Turn.objects.select_for_update().get(pk=call.turn_id)
        signed = (
            _open(call, binding)
            .filter(first_at=None)
            .update(
                second=second,
                first_by=by,
                first_at=Now(),
                expires_at=Least("expires_at", in_time(hours=second.deadline_hours)),
                escalates_at=None if hours is None else in_time(hours=hours),
            )
        )
        if not signed:
            raise Refused(_why_too_late(call, binding), 409)
        told = journal.call_entry(call.pk, turn.answer_id, State.AWAITING_APPROVAL)
        waits = journal.turn_entry(turn, turn.state)  # for somebody else now
        journal.append(turn.conversation_id, turn.pk, [told, waits])


def _sign_second(call: ToolCall, by: Member, binding: str, *, is_as_shown: bool) -> None:
    if not is_as_shown:
        raise Refused("A second signature is for this once, and for the values that are shown.")
    right = _right_of(call, by)
    _decide(call, by, binding, Approval.State.GRANTED, State.APPROVED, "", right)


def _right_of(call: ToolCall, by: Member) -> Member:
    right = second_signatures.right_of(by, call)
    if right is None:
        raise Refused("You may not sign this.", 403)
    return right


def _open(call: ToolCall, binding: str) -> QuerySet[Approval]:
    return Approval.objects.filter(
        tool_call=call, state=Approval.State.OPEN, binding=binding, expires_at__gt=Now()
    )


def deny(call: ToolCall, *, by: Member, binding: str, reason: str = "") -> None:
    """Do not run this call; `reason` is a word to the assistant."""
    if len(reason) > REASON_CHARACTERS:
        raise Refused(f"Keep the word to the assistant under {REASON_CHARACTERS:,} characters.")
    right = None if _is_requester(call, by) else _right_of(call, by)
    _decide(call, by, binding, Approval.State.DENIED, State.DENIED, reason.strip(), right)


def _decide(
    call: ToolCall,
    by: Member,
    binding: str,
    decision: str,
    state: State,
    reason: str,
    right: Member | None = None,
) -> None:
    """`right` is in whose right a second person decides; then the requester has to have signed."""
    asked = _open(call, binding)
    if right is not None:
        asked = asked.filter(first_at__isnull=False)
    elif decision == Approval.State.GRANTED:
        asked = asked.filter(second=None)
    with transaction.atomic():
        turn = signal(call.turn_id)
        decided = asked.update(
            state=decision, reason=reason, decided_by=by, decided_at=Now(), signed_for=right
        )
        moved = decided and ToolCall.objects.filter(
            pk=call.pk, state=State.AWAITING_APPROVAL
        ).update(state=state)
        if not moved:
            raise Refused(_why_too_late(call, binding), 409)
        journal.tell_call(turn, call.pk, state)
        transaction.on_commit(lambda: passed("K10"))
        transaction.on_commit(lambda: wake(turn.pk))


def _why_too_late(call: ToolCall, binding: str) -> str:
    related = ("decided_by", "first_by", "second")
    approval = Approval.objects.select_related(*related).filter(tool_call=call).first()
    if approval is None:
        return "Nobody was asked about this call."
    match approval.state:
        case Approval.State.GRANTED | Approval.State.DENIED:
            word = "allowed" if approval.state == Approval.State.GRANTED else "denied"
            return f"Already {word} by {approval.decided_by or 'somebody'}."
        case Approval.State.WITHDRAWN:
            return "This request was withdrawn, so there is nothing to decide any more."
        case Approval.State.OPEN if approval.binding != binding:
            return CHANGED
        case Approval.State.OPEN if approval.first_at and approval.expires_at > timezone.now():
            return f"Already signed. It waits for a second signature of “{approval.second}”."
        case _:
            return "This request has expired, so it was not run."


def resolve(
    call: ToolCall,
    *,
    by: Member,
    verdict: Verdict,
    shown_at: float | None = None,
    typed: str = "",
) -> None:
    """Say what became of a call whose outcome is unknown, or have it sent once more."""
    refuse_haste(shown_at)
    if verdict == "again":
        _check_again(call, by, typed)
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
        journal.tell_call(turn, call.pk, state)
        transaction.on_commit(lambda: wake(turn.pk))


def _check_again(call: ToolCall, by: Member, typed: str) -> None:
    """What was allowed once is sent again only where policy as it is by now still lets one person
    allow it."""
    approval = Approval.objects.filter(tool_call=call).first()
    if approval is not None and approval.second_id is not None:
        raise Refused(TWO_SIGNED)
    _check_typed(call, typed, is_wanted=approval is not None and approval.wants_typing)
    if call.service is None and core_tool_of(call) is None:
        return  # it is not there any more, and whoever would send it says so
    decision, _risk = decision_by_now(call, by)
    if decision.effect == "deny":
        raise Refused(" ".join(filter(None, ["Policy forbids it by now.", decision.note])))
    if decision.demand is not None:
        raise Refused(TWO_BY_NOW)
    if decision.wants_typing and approval is None:
        raise Refused(TYPED_BY_NOW)
    if decision.wants_typing:
        Approval.objects.filter(tool_call=call).update(wants_typing=True)  # the card asks for it
        _check_typed(call, typed, is_wanted=True)
