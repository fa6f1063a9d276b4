"""The life of a tool call: which state may follow which, who may move it, and the one function that
stores a state.

Each move is one conditional UPDATE. The journal entry follows from the move, and the audit entry
follows from the journal entry.
"""

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from django.db.models import Exists, OuterRef, Q

from chatapp.audit import call_entries
from chatapp.journal import journal
from chatapp.journal.journal import Entry
from chatapp.journal.lease import Lease, LeaseLost
from chatapp.models import Approval, Permit, Review, ToolCall, Turn

State = ToolCall.State


class Actor(StrEnum):
    """Who moves a call. All but a worker lock the turn with `wakeups.signal` or a SELECT first."""

    # The worker that holds the lease of the turn. It moves calls as a `Worker`.
    WORKER = "worker"
    # A person who decides, answers, signs in, cancels, or ends the turn.
    PERSON = "person"
    # The sweep, when a time has run out or the news of an event was lost.
    SWEEP = "sweep"
    # The service, by what it reports of a long task.
    SERVICE = "service"


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """The holder of a turn's lease, and the call as this worker has read it.

    The fencing number of the lease, `attempt` and, where it is given, `binding` are conditions of
    the UPDATE. `binding` is the hash of what was decided about, the arguments among it.
    """

    lease: Lease
    attempt: int
    binding: str | None = None


WORKER = frozenset({Actor.WORKER})
PERSON = frozenset({Actor.PERSON})
SWEEP = frozenset({Actor.SWEEP})
SERVICE = frozenset({Actor.SERVICE})
# The end of a turn closes its open calls. A worker ends a turn, or a person ends one that waits.
TURN_END = WORKER | PERSON

# A call that goes this way without a question waits for nobody.
UNSEEN = frozenset({State.APPROVED, State.SENDING, State.SUCCEEDED, State.FAILED})
INITIAL = frozenset({State.PROPOSED, State.FAILED})
COLUMNS = {field.attname for field in ToolCall._meta.concrete_fields}

# From each state: the states that may follow, and who may move the call there.
TRANSITIONS: Mapping[State, Mapping[State, frozenset[Actor]]] = {
    State.PROPOSED: {
        State.APPROVED: WORKER,
        State.AWAITING_APPROVAL: WORKER,
        State.REFUSED: WORKER,
        State.FAILED: WORKER,
        State.CANCELLED: TURN_END,
        State.UNKNOWN: TURN_END,
    },
    State.AWAITING_APPROVAL: {
        State.APPROVED: PERSON,
        State.DENIED: PERSON,
        State.EXPIRED: SWEEP,
        State.WITHDRAWN: TURN_END,
        State.UNKNOWN: TURN_END,
    },
    State.APPROVED: {
        State.PROPOSED: WORKER,  # policy decides again after a pause
        State.AWAITING_APPROVAL: WORKER,  # policy needs a person now
        State.SENDING: WORKER,
        State.WITHDRAWN: WORKER,  # a check before the run fails
        # A tool of the program's own runs in one transaction and is never stored as `sending`.
        State.SUCCEEDED: WORKER,
        State.FAILED: WORKER,
        State.AWAITING_INPUT: WORKER,
        State.CANCELLED: TURN_END,
        State.UNKNOWN: TURN_END,  # an earlier attempt may have run
    },
    State.SENDING: {
        State.SUCCEEDED: WORKER,
        State.FAILED: WORKER,
        State.UNKNOWN: TURN_END,
        State.APPROVED: WORKER,  # it was not sent, or an admin marked the tool as safe to repeat
        State.AWAITING_INPUT: WORKER,
        State.AWAITING_SIGN_IN: WORKER,
        State.AWAITING_TASK: WORKER,
        State.CANCELLED: WORKER,
    },
    State.AWAITING_INPUT: {
        State.APPROVED: PERSON,
        State.AWAITING_TASK: PERSON | SERVICE,
        State.SUCCEEDED: SERVICE,
        State.FAILED: SERVICE,
        State.CANCELLED: SERVICE,
        State.EXPIRED: SWEEP,
        State.WITHDRAWN: TURN_END,
        State.UNKNOWN: TURN_END | SWEEP | SERVICE,
    },
    State.AWAITING_SIGN_IN: {
        State.APPROVED: PERSON | SWEEP,
        State.AWAITING_TASK: PERSON | SWEEP | SERVICE,
        State.SUCCEEDED: SERVICE,
        State.FAILED: SERVICE,
        State.CANCELLED: SERVICE,
        State.EXPIRED: SWEEP,
        State.WITHDRAWN: TURN_END,
        State.UNKNOWN: TURN_END | SWEEP | SERVICE,
    },
    State.AWAITING_TASK: {
        State.APPROVED: SWEEP,  # the service wanted to be called again later
        State.AWAITING_INPUT: SERVICE,
        State.AWAITING_SIGN_IN: SERVICE,
        State.SUCCEEDED: SERVICE,
        State.FAILED: SERVICE,
        State.CANCELLED: TURN_END | SERVICE,
        State.UNKNOWN: TURN_END | SERVICE,
    },
    State.UNKNOWN: {
        State.APPROVED: PERSON,  # a person wants it to run again
        State.SUCCEEDED: PERSON | SERVICE,
        State.FAILED: PERSON | SERVICE,
        State.CANCELLED: SERVICE,
        State.UNKNOWN: SERVICE,  # for another reason
    },
    State.SUCCEEDED: {},
    State.FAILED: {},
    State.DENIED: {},
    State.REFUSED: {},
    State.EXPIRED: {},
    State.WITHDRAWN: {},
    State.CANCELLED: {},
}


def move_call(
    turn: Turn,
    call_id: uuid.UUID,
    to: State,
    *,
    by: Worker | Actor,
    was: Collection[State],
    when: Q | None = None,
    is_sent: bool = False,
    entries: list[Entry] | None = None,
    **fields: Any,
) -> bool:
    """Move a call of `turn` to another state, in the caller's transaction, which locks the turn.

    Return False, and write nothing, if the call is in none of the states `was`, if the lease or the
    attempt of a worker is no longer the current one, or if `when` does not hold.

    `fields` are stored with the state. `is_sent`: the permit of this attempt was used. The journal
    entry is appended at once, or added to `entries` for a caller that appends several together.
    Raises ValueError for a transition that the table does not have.
    """
    actor = Actor.WORKER if isinstance(by, Worker) else by
    allowed = [state for state in was if actor in TRANSITIONS[state].get(to, ())]
    if not allowed:
        raise ValueError(f"A {actor} moves no call from {', '.join(was)} to {to}.")
    calls = ToolCall.objects.filter(
        _build_condition(by), pk=call_id, turn=turn.pk, state__in=allowed
    )
    if when is not None:
        calls = calls.filter(when)
    if not calls.update(state=to, **fields):
        return False
    entry = journal.call_entry(
        call_id, turn.answer_id, to, is_sent=is_sent, is_of_live_turn=isinstance(by, Worker)
    )
    if entries is None:
        journal.append(turn.conversation_id, turn.pk, [entry])
    else:
        entries.append(entry)
    return True


def move_read_call(
    turn: Turn, call: ToolCall, to: State, *, by: Worker, was: State, **fields: Any
) -> None:
    """`move_call` for a worker that has read the call in this transaction. Raises LeaseLost if
    another process has moved it since: then nothing of the transaction may be stored.

    The values of `fields` are set on the call as well, except those that the database computes."""
    if not move_call(turn, call.pk, to, by=by, was=[was], **fields):
        raise LeaseLost
    call.state = to
    for name in fields.keys() & COLUMNS:
        if not hasattr(fields[name], "resolve_expression"):
            setattr(call, name, fields[name])


def add_log_entries(entries: list[Entry], call: ToolCall, permit: Permit | None = None) -> None:
    """Let the last of `entries`, about this call, have what the audit log gets of it, so that it
    is not read again. The call is as it is stored and has the rows of `call_entries.RELATED`;
    `permit` is the one that was used."""
    state = State(call.state)
    used = [] if permit is None else [call_entries.describe_permit_use(call, permit)]
    logged = [*used, *call_entries.describe_state(call, state)]
    entries[-1] = replace(entries[-1], logged=logged, is_unseen=_is_unseen(call, state))


def _is_unseen(call: ToolCall, state: ToolCall.State) -> bool:
    """Whether no page beside the chat shows the call: no person is, was or will be asked."""
    approval: Approval | None = getattr(call, "approval", None)
    review: Review | None = getattr(call, "review", None)
    is_first = call.attempt <= 1 and not call.pauses
    return state in UNSEEN and is_first and approval is None and review is None


def _build_condition(by: Worker | Actor) -> Q:
    """The condition that a worker still has the turn, and that the call is as it was read."""
    if by == Actor.WORKER:
        raise ValueError("A worker moves calls as a `Worker`, with its lease.")
    if not isinstance(by, Worker):
        return Q()
    lease = by.lease
    # A subquery of its own, and no join: a row that another transaction changes meanwhile is then
    # compared again with all the other conditions.
    held = Turn.objects.filter(pk=OuterRef("turn_id"), lease_owner=lease.owner, fence=lease.fence)
    condition = Q(Exists(held), attempt=by.attempt)
    return condition if by.binding is None else condition & Q(binding=by.binding)


def new_call(problem: str = "", **fields: Any) -> ToolCall:
    """A call that is not stored yet: proposed, or failed at once for its `problem`."""
    if not problem:
        return ToolCall(state=State.PROPOSED, **fields)
    error = {"kind": "not_run", "message": problem, "hint": ""}
    return ToolCall(state=State.FAILED, error=error, **fields)
