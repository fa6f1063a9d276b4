"""The ledger of tool calls: a permit, `sending`, and the outcome, each committed before the next
thing happens.

`sending` is stored before the first byte leaves. A call that is found `sending` by a later worker
was perhaps sent: its outcome is unknown, and only a person's word sends it again.
"""

import uuid
from dataclasses import dataclass, field
from typing import Any

from django.db.models import F
from django.db.models.functions import Now

from chatapp.models import Approval, Member, Permit, Question, RemoteTask, ToolCall, Turn
from chatapp.storage import in_time
from mcpconfig.acting import Acting
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from mcpconfig.results import Progress
from mcpconfig.secrets import Undecryptable

from . import journal, log_of_calls, second_signatures
from .deciding import binding_of
from .held_results import hold_result
from .journal import Entry
from .last_check import passes
from .lease import Lease, fenced
from .next_action import MOST_ATTEMPTS
from .policy import decision_now
from .resuming import Resumption, resumption_of

State = ToolCall.State
NO_PROGRESS = {"progress": "", "progress_done": None, "progress_total": None}
PERMIT_SECONDS = 10
UNREADABLE = "What the service gave along with its question cannot be read any more."
STOPPED = {
    "kind": "stopped",
    "message": "Stopped while it ran, so nobody knows whether it took effect.",
    "hint": "Check at the service, then say what you found.",
}
UNFORESEEN = {
    "kind": "internal",
    "message": "Something went wrong here while it ran, so nobody knows whether it took effect.",
    "hint": "An admin finds the reason in the server's log.",
}
LOST = {
    "kind": "worker_died",
    "message": (
        "The server stopped or lost its database while this ran, so nobody knows whether it took "
        "effect."
    ),
    "hint": "Check at the service, then say what you found.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """A call that may be sent now, once: the stored bytes, where to, and under which attempt.

    `may_have_run`: an earlier attempt may have taken effect already.
    """

    call_id: uuid.UUID
    attempt: int
    service: Service
    definition: ToolDefinition
    arguments: str
    acting: Acting
    may_have_run: bool = False
    resumption: Resumption = field(default_factory=Resumption)


def begin_sending(lease: Lease, call_id: uuid.UUID) -> Sending | None:
    """Check everything again, make and use the permit, and store `sending`; None: it may not run.

    All of it is one transaction, so that nothing can change between the check and the record.
    """
    with fenced(lease) as turn:
        call = ToolCall.objects.select_related("service", "definition").get(pk=call_id)
        if call.state != State.APPROVED:
            return None
        person = Member.objects.get(conversations=turn.conversation_id)
        if not _may_run(turn, call, person):
            return None
        assert call.service is not None and call.definition is not None  # noqa: S101  _problem
        attempt = call.attempt + 1
        _use_permit(call, attempt, person)
        RemoteTask.objects.filter(tool_call=call).delete()  # of an attempt that is given up
        ToolCall.objects.filter(pk=call_id).update(
            state=State.SENDING,
            attempt=attempt,
            tainted_by=call.service.name if call.service.is_open else "",
            sent_at=Now(),
            finished_at=None,
            cancel_requested=False,
            waits_until=None,
            error=None,
            resolution="",
            **NO_PROGRESS,
        )
        journal.tell_call(turn, call_id, State.SENDING)
        log_of_calls.sent(call_id, attempt)
        return Sending(
            call_id=call_id,
            attempt=attempt,
            service=call.service,
            definition=call.definition,
            arguments=call.arguments,
            acting=Acting.of(person, turn.conversation_id),
            may_have_run=call.may_have_run,
            resumption=resumption_of(call),
        )


def _may_run(turn: Turn, call: ToolCall, person: Member) -> bool:
    """Whether an approved call may run now; one that may not is withdrawn, or asks."""
    approval = Approval.objects.filter(tool_call=call).first()
    problem = _problem(call, person, approval)
    return passes(turn, call, approval, problem, lambda: decision_now(turn, call, person))


def _problem(call: ToolCall, person: Member, approval: Approval | None) -> str:
    """Why an approved call may not run after all, or nothing."""
    service, definition = call.service, call.definition
    if service is None or not service.is_enabled:
        return "The service was switched off or removed before this ran."
    if definition is None or not definition.is_current:
        return "The tool changed before this ran."
    if ToolSetting.objects.filter(service=service, name=call.tool_name, is_enabled=False).exists():
        return "The tool was switched off before this ran."
    if not person.is_active:
        return "The person who asked for this is no longer active."
    if not Service.objects.for_member(person).filter(pk=service.pk).exists():
        return "The person who asked for this may not use the service any more."
    if approval is not None and approval.state != Approval.State.GRANTED:
        return "Nobody has allowed this, so it was not run."
    if approval is not None and service.signs_in_otherwise_since(approval.created_at):
        return "The way to sign in to the service was changed after this was shown."
    if approval is not None and (flaw := second_signatures.flaw_of(approval, person)):
        return flaw
    now = binding_of(call, service.pk, service.endpoint, definition.hash, person)
    if now != (approval.binding if approval else call.binding):
        return "What would run is no longer what was decided about, so it was not run."
    return "" if _can_resume(call) else UNREADABLE


def _can_resume(call: ToolCall) -> bool:
    """Whether the keys still open what the service gave along with its question."""
    try:
        resumption_of(call)
    except Undecryptable:
        return False
    return True


def _use_permit(call: ToolCall, attempt: int, person: Member) -> None:
    """The unique (call, attempt) pair makes a second use fail in the database."""
    assert call.service is not None and call.definition is not None  # noqa: S101  checked before
    Permit.objects.create(
        tool_call=call,
        attempt=attempt,
        binding=binding_of(
            call, call.service.pk, call.service.endpoint, call.definition.hash, person
        ),
        granted_by=granted_by(call),
        expires_at=in_time(seconds=PERMIT_SECONDS),
        used_at=Now(),
    )


def is_permitted(sending: Sending) -> bool:
    """Whether the permit of this attempt still holds: what was checked is not older than that."""
    mine = Permit.objects.filter(tool_call=sending.call_id, attempt=sending.attempt)
    return mine.filter(expires_at__gt=Now()).exists()


def granted_by(call: ToolCall) -> str:
    """Who or what allowed the call, for its permit."""
    approval = Approval.objects.filter(tool_call=call).first()
    return (approval.signers if approval else f"policy: {call.why}")[:200]


def record_outcome(
    lease: Lease,
    sending: Sending,
    state: ToolCall.State,
    *,
    result: dict[str, Any] | None = None,
    error: dict[str, Any] | None = None,
) -> None:
    """Store what came of a call that was sent; a worker that lost its lease stores nothing."""
    with fenced(lease) as turn:
        changed = ToolCall.objects.filter(
            pk=sending.call_id, state=State.SENDING, attempt=sending.attempt
        ).update(state=state, result=result, error=error, finished_at=Now(), **NO_PROGRESS)
        if changed:
            hold_result(sending.call_id)
            journal.tell_call(turn, sending.call_id, state)


def record_progress(lease: Lease, sending: Sending, progress: Progress) -> None:
    """Store how far a call has come; one that is over by now, or sent anew, is left alone."""
    with fenced(lease) as turn:
        changed = ToolCall.objects.filter(
            pk=sending.call_id, state=State.SENDING, attempt=sending.attempt
        ).update(
            progress=progress.words[:200],
            progress_done=progress.done,
            progress_total=progress.total,
        )
        if changed:
            journal.tell_call(turn, sending.call_id, State.SENDING)


def settle_orphans(lease: Lease) -> None:
    """Whoever takes a turn first says what became of calls that the last worker was sending."""
    orphans = ToolCall.objects.filter(turn=lease.turn_id, state=State.SENDING)
    if not orphans.exists():  # the lease is ours, so nobody else begins to send meanwhile
        return
    with fenced(lease) as turn:
        entries = [_settle(turn, call) for call in orphans.select_related("service")]
        journal.append(turn.conversation_id, turn.pk, entries)


def settle_cut_off(lease: Lease, sending: Sending) -> None:
    """Say the same of one call that this worker was sending and cannot wait for: it goes away."""
    with fenced(lease) as turn:
        mine = ToolCall.objects.select_related("service").filter(
            pk=sending.call_id, state=State.SENDING, attempt=sending.attempt
        )
        entries = [_settle(turn, call) for call in mine]
        journal.append(turn.conversation_id, turn.pk, entries)


def _settle(turn: Turn, call: ToolCall) -> Entry:
    """The outcome is unknown, unless the tool may be sent again and did not end too many workers
    already."""
    safe = ToolSetting.objects.filter(
        service=call.service, name=call.tool_name, is_safe_to_repeat=True
    )
    may_repeat = call.attempt < MOST_ATTEMPTS and not call.cancel_requested
    repeat = may_repeat and safe.exists()
    state = State.APPROVED if repeat else State.UNKNOWN
    ToolCall.objects.filter(pk=call.pk).update(
        state=state, error=None if repeat else LOST, finished_at=F("sent_at")
    )
    Question.withdraw_open(call)
    return journal.call_entry(call.pk, turn.answer_id, state)
