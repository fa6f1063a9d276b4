"""The ledger of tool calls: a permit, `sending`, and the outcome, each committed before the next
thing happens.

`sending` is stored before the first byte leaves. A call that a later worker finds as `sending` may
have been sent: its outcome is unknown, and only a person's decision sends it again.
"""

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy

from chatapp.audit import call_entries
from chatapp.calls.attempts import MAX_ATTEMPTS
from chatapp.calls.question_rounds import Resumption, build_resumption
from chatapp.calls.recheck import compute_current_binding, may_run
from chatapp.calls.transitions import Worker, add_log_entries, move_call, move_read_call
from chatapp.context.withheld_results import annotate_review, hold_result
from chatapp.journal import journal
from chatapp.journal.journal import Entry
from chatapp.journal.lease import Lease, lock_turn
from chatapp.models import Approval, Member, Permit, Question, RemoteTask, ToolCall, Turn
from chatapp.policy.stored_policy import annotate_before, find_before
from chatapp.server.database import from_now
from chatapp.server.languages import in_english
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from mcpconfig.values.acting import Acting
from mcpconfig.values.errors import OperationError
from mcpconfig.values.results import Progress, ToolResult, make_storable

CHECK = gettext_lazy("Check in the service whether it took effect, then report it here.")
STOPPED = {
    "kind": "stopped",
    "message": gettext_lazy(
        "You stopped it while it was running. It may or may not have taken effect."
    ),
    "hint": CHECK,
}
CANCELLED = {
    "kind": "cancelled",
    "message": gettext_lazy(
        "You cancelled it while it was running. It may or may not have taken effect."
    ),
    "hint": CHECK,
}
LOST = {
    "kind": "worker_died",
    "message": gettext_lazy(
        "The server stopped or lost its connection to the database while this was running. "
        "It may or may not have taken effect."
    ),
    "hint": CHECK,
}
UNFORESEEN = {
    "kind": "internal",
    "message": gettext_lazy(
        "An internal error interrupted it. It may or may not have taken effect."
    ),
    "hint": gettext_lazy("An admin can find the reason in the server’s log."),
}
FROZEN = {
    "kind": "not_sent",
    "message": gettext_lazy("The server was too busy, so this was not sent."),
    "hint": gettext_lazy("Try again."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A state with its result or its error."""

    state: ToolCall.State
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


def describe_error(error: OperationError) -> dict[str, Any]:
    return {"kind": error.kind, "message": error.message, "hint": error.hint}


def build_stored_result(result: ToolResult) -> dict[str, Any]:
    stored: dict[str, Any] = make_storable(
        {
            "content": result.content,
            "structured": result.structured,
            "is_error": result.is_error,
            "was_cut": result.was_cut,
        }
    )
    return stored


State = ToolCall.State
NO_PROGRESS: dict[str, Any] = {"progress": "", "progress_done": None, "progress_total": None}
PERMIT_SECONDS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """When something began. One clock stops while the machine sleeps, the other may be set."""

    monotonic: float = field(default_factory=time.monotonic)
    wall: float = field(default_factory=time.time)

    @property
    def seconds_ago(self) -> float:
        return max(time.monotonic() - self.monotonic, time.time() - self.wall)


@in_english
def write_error(error: Mapping[str, object]) -> dict[str, str]:
    """Return the error in English, which the model reads too, ready to be stored."""
    return {name: str(value) for name, value in error.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """A call that may be sent now, once: the stored bytes, the service, and the attempt.

    `may_have_run`: an earlier attempt may have taken effect already. `checked`: a moment before the
    permit was made.
    """

    call_id: uuid.UUID
    attempt: int
    turn: Turn
    checked: Moment
    service: Service
    definition: ToolDefinition
    arguments: str
    acting: Acting
    may_have_run: bool = False
    resumption: Resumption = field(default_factory=Resumption)


def begin_sending(lease: Lease, call_id: uuid.UUID) -> Sending | None:
    """Check everything again, make and use the permit, and store `sending`. Return None if the call
    may not run.

    All of it is one transaction, so that nothing can change between the check and the record.
    """
    with lock_turn(lease) as turn:
        found = ToolCall.objects.select_related(*call_entries.RELATED)
        call = annotate_before(found).get(pk=call_id)
        if call.state != State.APPROVED:
            return None
        turn.conversation = call.turn.conversation
        person = turn.conversation.owner
        if not may_run(lease, turn, call, person, find_before(turn, call, is_as_read=True)):
            return None
        entries: list[Entry] = []
        sending = store_sending(lease, turn, call, person, entries)
        journal.append(turn.conversation_id, turn.pk, entries)
        return sending


def store_sending(
    lease: Lease, turn: Turn, call: ToolCall, person: Member, entries: list[Entry]
) -> Sending:
    """Make and use the permit of a call that may run, and store `sending`, in the transaction in
    which everything was checked. The journal entry is added to `entries`."""
    service, definition = call.service, call.definition
    if service is None or definition is None:
        raise ValueError("Only a call of a service's tool is sent.")
    began, may_have_run, resumption = Moment(), call.may_have_run, build_resumption(call)
    permit = use_permit(call, person)
    if call.attempt:
        RemoteTask.objects.filter(tool_call=call).delete()  # of an attempt that is given up
    move_read_call(
        turn,
        call,
        State.SENDING,
        by=Worker(lease=lease, attempt=call.attempt, binding=call.binding),
        was=State.APPROVED,
        is_sent=True,
        entries=entries,
        attempt=call.attempt + 1,
        tainted_by=service.name if service.is_open else "",
        sent_at=Now(),
        finished_at=None,
        cancel_requested=False,
        waits_until=None,
        error=None,
        resolution="",
        **NO_PROGRESS,
    )
    add_log_entries(entries, call, permit)
    return Sending(
        call_id=call.pk,
        attempt=call.attempt,
        turn=turn,
        service=service,
        definition=definition,
        arguments=call.arguments,
        acting=Acting.of(person, turn.conversation_id),
        may_have_run=may_have_run,
        resumption=resumption,
        checked=began,
    )


def use_permit(call: ToolCall, person: Member) -> Permit:
    """Store the permit of the next attempt, already used. The unique (call, attempt) pair makes a
    second use fail in the database."""
    return Permit.objects.create(
        tool_call=call,
        attempt=call.attempt + 1,
        binding=compute_current_binding(call, person),
        granted_by=_describe_grantor(call),
        expires_at=from_now(seconds=PERMIT_SECONDS),
        used_at=Now(),
    )


def _describe_grantor(call: ToolCall) -> str:
    """Return who, or which decision of policy, allowed the call."""
    approval: Approval | None = getattr(call, "approval", None)
    return (approval.signers if approval else f"policy: {call.why}")[:200]


def is_permitted(sending: Sending) -> bool:
    """Whether the permit of this attempt has not expired: the checks are not older than that. The
    process that made it is the only one that uses it, so its own clocks tell."""
    return sending.checked.seconds_ago < PERMIT_SECONDS


def record_outcome(
    lease: Lease,
    sending: Sending,
    state: ToolCall.State,
    *,
    result: dict[str, Any] | None = None,
    error: dict[str, Any] | None = None,
) -> None:
    """Store the outcome of a call that was sent. Raises LeaseLost for a worker without the turn."""
    with transaction.atomic():
        reserved = journal.lock_and_reserve(lease, 1)
        entries: list[Entry] = []
        if not move_call(
            sending.turn,
            sending.call_id,
            state,
            by=Worker(lease=lease, attempt=sending.attempt),
            was=[State.SENDING],
            entries=entries,
            result=result,
            error=error,
            finished_at=Now(),
            **NO_PROGRESS,
        ):
            return transaction.set_rollback(True)  # nothing has the number that was reserved
        call = annotate_review(ToolCall.objects.select_related(*call_entries.RELATED)).get(
            pk=sending.call_id
        )
        hold_result(call)
        add_log_entries(entries, call)
        journal.append_reserved(reserved, lease, entries)


def record_progress(lease: Lease, sending: Sending, progress: Progress) -> None:
    """Store the progress of a call. One that is over or was sent again is left alone."""
    with lock_turn(lease) as turn:
        changed = ToolCall.objects.filter(
            pk=sending.call_id, state=State.SENDING, attempt=sending.attempt
        ).update(
            progress=progress.words[:200],
            progress_done=progress.done,
            progress_total=progress.total,
        )
        if changed:
            journal.append_call(turn, sending.call_id, State.SENDING)


@in_english
def settle_orphans(lease: Lease) -> None:
    """Give an outcome to the calls that the last worker of the turn was sending."""
    orphans = ToolCall.objects.filter(turn=lease.turn_id, state=State.SENDING)
    if not orphans.exists():  # the worker holds the lease, so no other process begins to send
        return
    with lock_turn(lease) as turn:
        entries: list[Entry] = []
        for call in orphans.select_related("service"):
            _settle(lease, turn, call, call.attempt, entries)
        journal.append(turn.conversation_id, turn.pk, entries)


@in_english
def settle_cut_off(lease: Lease, sending: Sending) -> None:
    """Do the same for one call that this worker was sending, as its process ends."""
    with lock_turn(lease) as turn:
        call = ToolCall.objects.select_related("service").get(pk=sending.call_id)
        entries: list[Entry] = []
        _settle(lease, turn, call, sending.attempt, entries)
        journal.append(turn.conversation_id, turn.pk, entries)


def _settle(lease: Lease, turn: Turn, call: ToolCall, attempt: int, entries: list[Entry]) -> None:
    """Move a call to unknown, or back to approved where the tool is safe to repeat and has not
    ended too many workers already."""
    safe = ToolSetting.objects.filter(
        service=call.service, name=call.tool_name, is_safe_to_repeat=True
    )
    may_repeat = call.attempt < MAX_ATTEMPTS and not call.cancel_requested
    repeat = may_repeat and safe.exists()
    if move_call(
        turn,
        call.pk,
        State.APPROVED if repeat else State.UNKNOWN,
        by=Worker(lease=lease, attempt=attempt),
        was=[State.SENDING],
        entries=entries,
        error=None if repeat else write_error(LOST),
        finished_at=F("sent_at"),
    ):
        Question.withdraw_open(call)
