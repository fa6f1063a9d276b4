"""The ledger of tool calls: a permit, `sending`, and the outcome, each committed before the next
thing happens.

`sending` is stored before the first byte leaves. A call that is found `sending` by a later worker
was
perhaps sent: its outcome is unknown, and only a person's word sends it again.
"""

import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import DateTimeField, ExpressionWrapper, F
from django.db.models.functions import Now

from chatapp.models import Approval, Member, Permit, ToolCall, Turn
from mcpconfig.models import Service, ToolDefinition, ToolSetting

from . import journal
from .deciding import binding_of
from .journal import Entry
from .lease import Lease, fenced

State = ToolCall.State
PERMIT_SECONDS = 10
LOST = {
    "kind": "worker_died",
    "message": "The server stopped while this ran, so nobody knows whether it took effect.",
    "hint": "Check at the service, then say what you found.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """A call that may be sent now, once: the stored bytes, where to, and under which attempt."""

    call_id: uuid.UUID
    attempt: int
    service: Service
    definition: ToolDefinition
    arguments: str


def begin_sending(lease: Lease, call_id: uuid.UUID) -> Sending | None:
    """Check everything again, make and use the permit, and store `sending`; None: it may not run.

    All of it is one transaction, so that nothing can change between the check and the record.
    """
    with fenced(lease) as turn:
        call = ToolCall.objects.select_related("service", "definition").get(pk=call_id)
        if call.state != State.APPROVED:
            return None
        person = Member.objects.get(conversations=turn.conversation_id)
        if problem := _problem(call, person):
            _withdraw(turn, call, problem)
            return None
        assert call.service is not None and call.definition is not None  # noqa: S101  _problem
        attempt = call.attempt + 1
        _use_permit(call, attempt, person)
        ToolCall.objects.filter(pk=call_id).update(
            state=State.SENDING,
            attempt=attempt,
            sent_at=Now(),
            finished_at=None,
            progress="",
            error=None,
            resolution="",
        )
        entry = journal.call_entry(call_id, turn.answer_id, State.SENDING)
        journal.append(turn.conversation_id, turn.pk, [entry])
        return Sending(
            call_id=call_id,
            attempt=attempt,
            service=call.service,
            definition=call.definition,
            arguments=call.arguments,
        )


def _problem(call: ToolCall, person: Member) -> str:
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
    approval = Approval.objects.filter(tool_call=call).first()
    if approval is not None:
        now = binding_of(call, service.pk, service.endpoint, definition.hash, person)
        if approval.state != Approval.State.GRANTED or approval.binding != now:
            return "What would run is no longer what was shown, so it was not run."
    return ""


def _withdraw(turn: Turn, call: ToolCall, problem: str) -> None:
    # One that was sent before has an outcome that nobody knows, whatever stops it now.
    state = State.UNKNOWN if call.attempt else State.WITHDRAWN
    error = {"kind": "withdrawn", "message": problem, "hint": ""}
    ToolCall.objects.filter(pk=call.pk).update(state=state, error=error, finished_at=Now())
    entry = journal.call_entry(call.pk, turn.answer_id, state)
    journal.append(turn.conversation_id, turn.pk, [entry])


def _use_permit(call: ToolCall, attempt: int, person: Member) -> None:
    """The unique (call, attempt) pair makes a second use fail in the database."""
    assert call.service is not None and call.definition is not None  # noqa: S101  checked before
    approval = Approval.objects.filter(tool_call=call).first()
    granted_by = str(approval.decided_by) if approval else f"policy: {call.why}"
    Permit.objects.create(
        tool_call=call,
        attempt=attempt,
        binding=binding_of(
            call, call.service.pk, call.service.endpoint, call.definition.hash, person
        ),
        granted_by=granted_by[:200],
        expires_at=ExpressionWrapper(
            Now() + timedelta(seconds=PERMIT_SECONDS), output_field=DateTimeField()
        ),
        used_at=Now(),
    )


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
        ).update(state=state, result=result, error=error, finished_at=Now(), progress="")
        if changed:
            entry = journal.call_entry(sending.call_id, turn.answer_id, state)
            journal.append(turn.conversation_id, turn.pk, [entry])


def record_progress(lease: Lease, sending: Sending, words: str) -> None:
    with fenced(lease) as turn:
        ToolCall.objects.filter(pk=sending.call_id, state=State.SENDING).update(
            progress=words[:200]
        )
        entry = journal.call_entry(sending.call_id, turn.answer_id, State.SENDING)
        journal.append(turn.conversation_id, turn.pk, [entry])


def settle_orphans(lease: Lease) -> None:
    """Whoever takes a turn first says what became of calls that the last worker was sending."""
    orphans = ToolCall.objects.filter(turn=lease.turn_id, state=State.SENDING)
    if not orphans.exists():  # the lease is ours, so nobody else begins to send meanwhile
        return
    with fenced(lease) as turn:
        entries = [_settle(turn, call) for call in orphans.select_related("service")]
        journal.append(turn.conversation_id, turn.pk, entries)


def _settle(turn: Turn, call: ToolCall) -> Entry:
    repeat = ToolSetting.objects.filter(
        service=call.service, name=call.tool_name, is_safe_to_repeat=True
    ).exists()
    state = State.APPROVED if repeat else State.UNKNOWN
    ToolCall.objects.filter(pk=call.pk).update(
        state=state, error=None if repeat else LOST, finished_at=F("sent_at")
    )
    return journal.call_entry(call.pk, turn.answer_id, state)
