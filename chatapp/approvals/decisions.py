"""A person's decisions about a call: allow, deny, cancel, or resolve an unknown outcome.

The first committed decision counts. A decision names the binding that was shown. It is refused if
anything of that has changed, if it is too late, and if it comes too soon to have been read. Where
policy demands two signatures, the requester signs first, and nothing runs before the other does.
"""

from typing import Literal

from django.contrib.humanize.templatetags.humanize import intcomma
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Least, Now
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.calls.own_tool_calls import find_core_tool
from chatapp.calls.pausing import end_pause
from chatapp.calls.recheck import decide_now, reload_as_shown
from chatapp.calls.transitions import Actor, move_call
from chatapp.journal import journal
from chatapp.journal.fault_points import FaultPoint, reach
from chatapp.journal.journal import signal_turn, wake
from chatapp.models import (
    Approval,
    HousePolicy,
    Member,
    Question,
    RemoteTask,
    SecondSignature,
    ToolCall,
    Turn,
)
from chatapp.people import second_signers
from chatapp.people.refused import CHANGED, Refused, refuse_haste
from chatapp.policy import consents
from chatapp.server.database import from_now

from .edited_arguments import judge_values, read_changed_values, replace_arguments

State = ToolCall.State
Verdict = Literal["worked", "did-not", "again"]
REASON_CHARACTERS = 2_000
ONCE_ONLY = gettext_lazy("This can only be allowed once.")
TWO_SIGNED = gettext_lazy(
    "Two people approved this for one run only. Ask the assistant again to start a new request."
)
TWO_BY_NOW = gettext_lazy(
    "Policy now requires two approvals. Ask the assistant again to start a new request."
)
TYPED_BY_NOW = gettext_lazy(
    "Policy now requires typing the tool’s name. Ask the assistant again to start a new request."
)
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
    """Allow this call to run, and with a `scope` others like it in advance.

    Where policy demands two signatures, the requester's is the first, another person's the second.

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
    changed = read_changed_values(call, arguments)
    with transaction.atomic():
        second_id = approval.second_id if approval is not None else None
        if changed is not None:
            decision = judge_values(call, changed, by)
            if scope != consents.ONCE and decision.is_once_only:
                raise Refused(ONCE_ONLY)
            _check_typed(call, typed, is_wanted=decision.wants_typing)
            _lock_open(call, binding)
            binding = replace_arguments(call, changed, by, binding, decision)
            second_id = decision.demand.id if decision.demand else second_id
        _sign(call, by, binding, second_id, scope)
        if scope != consents.ONCE:
            consents.grant(reload_as_shown(call, by, binding), by=by, scope=scope)


def _lock_open(call: ToolCall, binding: str) -> None:
    """Lock the open approval until the caller's transaction ends, or raise Refused."""
    Turn.objects.select_for_update().get(pk=call.turn_id)
    if not _filter_open(call, binding).exists():
        raise Refused(_explain_too_late(call, binding), 409)


def _sign(call: ToolCall, by: Member, binding: str, second_id: int | None, scope: str) -> None:
    """Store the requester's decision to allow: the only signature, or the first of two."""
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
        sentence = _("To allow this, type the tool’s name: %(name)s")
        raise Refused(sentence % {"name": call.tool_name})


def _sign_first(call: ToolCall, by: Member, binding: str, second_id: int) -> None:
    """Store the first signature. The call then waits for the second until a deadline."""
    second = SecondSignature.objects.get(pk=second_id)
    hours = second.escalates_after_hours
    with transaction.atomic():
        turn = Turn.objects.select_for_update().get(pk=call.turn_id)
        signed = (
            _filter_open(call, binding)
            .filter(first_at=None)
            .update(
                second=second,
                first_by=by,
                first_at=Now(),
                expires_at=Least("expires_at", from_now(hours=second.deadline_hours)),
                escalates_at=None if hours is None else from_now(hours=hours),
            )
        )
        if not signed:
            raise Refused(_explain_too_late(call, binding), 409)
        told = journal.call_entry(call.pk, turn.answer_id, State.AWAITING_APPROVAL)
        waits = journal.turn_entry(turn, turn.state)  # for another person
        journal.append(turn.conversation_id, turn.pk, [told, waits])


def _sign_second(call: ToolCall, by: Member, binding: str, *, is_as_shown: bool) -> None:
    if not is_as_shown:
        raise Refused(_("A second approval is for one run with the values shown."))
    right = _find_right(call, by)
    _decide(call, by, binding, Approval.State.GRANTED, State.APPROVED, "", right)


def _find_right(call: ToolCall, by: Member) -> Member:
    right = second_signers.find_right(by, call)
    if right is None:
        raise Refused(_("You cannot approve this."), 403)
    return right


def _filter_open(call: ToolCall, binding: str) -> QuerySet[Approval]:
    return Approval.objects.filter(
        tool_call=call, state=Approval.State.OPEN, binding=binding, expires_at__gt=Now()
    )


def check_note(reason: str) -> None:
    """Raise Refused if a note to the assistant is too long."""
    if len(reason) > REASON_CHARACTERS:
        sentence = _("Your note to the assistant is too long. The limit is %(most)s characters.")
        raise Refused(sentence % {"most": intcomma(REASON_CHARACTERS)})


def deny(call: ToolCall, *, by: Member, binding: str, reason: str = "") -> None:
    """Deny this call; `reason` is a note to the assistant."""
    check_note(reason)
    right = None if _is_requester(call, by) else _find_right(call, by)
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
    """Store a decision. `right`: the person in whose right a second signer decides, which needs the
    requester's signature first."""
    asked = _filter_open(call, binding)
    if right is not None:
        asked = asked.filter(first_at__isnull=False)
    elif decision == Approval.State.GRANTED:
        asked = asked.filter(second=None)
    with transaction.atomic():
        turn = signal_turn(call.turn_id)
        decided = asked.update(
            state=decision, reason=reason, decided_by=by, decided_at=Now(), signed_for=right
        )
        waiting = [State.AWAITING_APPROVAL]
        if not decided or not move_call(turn, call.pk, state, by=Actor.PERSON, was=waiting):
            raise Refused(_explain_too_late(call, binding), 409)
        transaction.on_commit(lambda: reach(FaultPoint.APPROVAL_ANSWERED))
        transaction.on_commit(lambda: wake(turn.pk))


def _explain_too_late(call: ToolCall, binding: str) -> str:
    related = ("decided_by", "first_by", "second")
    approval = Approval.objects.select_related(*related).filter(tool_call=call).first()
    if approval is None:
        return _("This call does not wait for approval.")
    match approval.state:
        case Approval.State.GRANTED | Approval.State.DENIED:
            return _explain_decided(approval)
        case Approval.State.WITHDRAWN:
            return _("This request was withdrawn.")
        case Approval.State.OPEN if approval.binding != binding:
            return str(CHANGED)
        case Approval.State.OPEN if approval.first_at and approval.expires_at > timezone.now():
            return _(
                "You already approved this. It still needs a second approval from “%(group)s”."
            ) % {"group": approval.second}
        case _:
            return _("This request has expired, so it was not run.")


def _explain_decided(approval: Approval) -> str:
    name = {"name": approval.decided_by}
    if approval.state == Approval.State.GRANTED:
        return (
            _("Already allowed by %(name)s.") % name
            if approval.decided_by
            else _("Already allowed.")
        )
    return _("Already denied by %(name)s.") % name if approval.decided_by else _("Already denied.")


def resolve(
    call: ToolCall,
    *,
    by: Member,
    verdict: Verdict,
    shown_at: float | None = None,
    typed: str = "",
) -> None:
    """Store the outcome of a call whose outcome is unknown, or let it be sent once more."""
    refuse_haste(shown_at)
    if verdict == "again":
        _check_again(call, by, typed)
    state = STATE_OF_VERDICT[verdict]
    with transaction.atomic():
        turn = signal_turn(call.turn_id)
        if verdict == "again" and not turn.is_live:
            raise Refused(
                _("This answer has ended, so the action cannot run again. Ask for it again."), 409
            )
        if not move_call(
            turn,
            call.pk,
            state,
            by=Actor.PERSON,
            was=[State.UNKNOWN],
            resolution=verdict,
            resolved_by=by,
            resolved_at=Now(),
        ):
            raise Refused(_("The outcome of this call is already known."), 409)
        transaction.on_commit(lambda: wake(turn.pk))


def _check_again(call: ToolCall, by: Member, typed: str) -> None:
    """Raise Refused unless the present policy lets one person allow the call."""
    approval = Approval.objects.filter(tool_call=call).first()
    if approval is not None and approval.second_id is not None:
        raise Refused(TWO_SIGNED)
    _check_typed(call, typed, is_wanted=approval is not None and approval.wants_typing)
    if call.service is None and find_core_tool(call) is None:
        return  # the tool is gone, and the check before the run says so
    decision, _risk = decide_now(call, by)
    if decision.effect == "deny":
        raise Refused(" ".join(filter(None, [_("Policy now forbids this."), decision.note])))
    if decision.demand is not None:
        raise Refused(TWO_BY_NOW)
    if decision.wants_typing and approval is None:
        raise Refused(TYPED_BY_NOW)
    if decision.wants_typing:
        Approval.objects.filter(tool_call=call).update(wants_typing=True)  # the card asks for it
        _check_typed(call, typed, is_wanted=True)


def cancel_call(call: ToolCall) -> None:
    """Cancel a call that runs, or that is about to. The model then reads its outcome.

    The worker that runs the call is woken or told, reads the request and cancels it at the service.
    A long task is cancelled by the next poll.
    """
    with transaction.atomic():
        turn = signal_turn(call.turn_id)
        running = ToolCall.objects.filter(pk=call.pk)
        is_sending = running.filter(state=State.SENDING).update(cancel_requested=True)
        if is_sending or _is_task(call):
            running.update(cancel_requested=True)
            RemoteTask.objects.filter(tool_call=call).update(wants_cancel=True, next_poll_at=Now())
            journal.append_call(turn, call.pk, State.SENDING if is_sending else State.AWAITING_TASK)
            transaction.on_commit(lambda: wake(turn.pk))
        elif not _drop(call):
            raise Refused(_("This call is no longer running."), 409)


def _is_task(call: ToolCall) -> bool:
    return RemoteTask.objects.filter(tool_call=call, tool_call__state=State.AWAITING_TASK).exists()


def _drop(call: ToolCall) -> bool:
    """End a call that is not sent yet, or is between two legs. Return whether it was one."""
    state = State.UNKNOWN if call.may_have_run else State.CANCELLED
    for waiting in (State.APPROVED, State.AWAITING_TASK):
        if end_pause(call, waiting, state, by=Actor.PERSON, finished_at=Now()):
            Question.withdraw_open(call)
            return True
    return False
