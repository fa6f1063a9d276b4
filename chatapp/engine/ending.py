"""The rest of a turn: waiting for a person, or ended with nothing left open."""

import uuid
from typing import Any

from django.db import transaction
from django.db.models import Max, QuerySet
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy

from chatapp.calls.ledger import STOPPED, UNFORESEEN, write_error
from chatapp.calls.transitions import Actor, Worker, move_call
from chatapp.context import withheld_results
from chatapp.journal import journal
from chatapp.journal.journal import Entry, Kind
from chatapp.journal.lease import Lease, lock_turn
from chatapp.live.open_parts import fold
from chatapp.models import Approval, Part, Question, RemoteTask, Step, ToolCall, Turn
from chatapp.server.compiled_queries import compiled_update
from chatapp.telemetry import metrics

from .next_action import Reason

State = ToolCall.State
STATE_OF_REASON = {"stopped": Turn.State.STOPPED, "failed": Turn.State.FAILED}
NOTICE_KIND_OF_REASON = {"stopped": Part.NoticeKind.STOPPED, "failed": Part.NoticeKind.ERROR}
EMPTY_ANSWER = (
    gettext_lazy("The model returned no text."),
    gettext_lazy("Try again, or choose another model."),
)
SENTENCES = {
    "stopped": (gettext_lazy("You stopped this answer."), ""),
    "length": (
        gettext_lazy("The answer reached the model’s length limit."),
        gettext_lazy("Send “go on” for the rest."),
    ),
    "refused": (
        gettext_lazy("The model refused to answer this."),
        gettext_lazy("Rephrase your question, or choose another model."),
    ),
    "filtered": (
        gettext_lazy("The provider’s content filter stopped this answer."),
        gettext_lazy("Rephrase your question, choose another model, or ask an admin."),
    ),
}


def park_turn(lease: Lease, signals: int) -> bool:
    """Release a turn that waits for a person. Return False if it was signalled since it was
    read."""
    with lock_turn(lease) as turn:
        if turn.signals != signals:
            return False
        Turn.objects.filter(pk=turn.pk).update(
            state=Turn.State.WAITING, lease_owner="", lease_until=None, drops=0
        )
        entry = journal.turn_entry(turn, Turn.State.WAITING)
        journal.append(turn.conversation_id, turn.pk, [entry])
        return True


def finish_turn(
    lease: Lease, signals: int, reason: Reason, sentence: str = "", hint: str = ""
) -> bool:
    """End the turn of this lease. Return False if it was signalled since it was read."""
    with lock_turn(lease) as turn:
        if turn.signals != signals:
            return False
        end_turn(turn, reason, sentence, hint, by=lease)
        return True


def end_turn(
    turn: Turn, reason: Reason, sentence: str = "", hint: str = "", *, by: Lease | Actor
) -> None:
    """Close everything that is open and store the final state, inside the caller's transaction,
    which locks the turn. `by`: the lease of the worker, or a person."""
    text, hint = (sentence, hint) if sentence else _find_closing_notice(turn, reason)
    held = [
        journal.call_entry(call.pk, turn.answer_id, call.state)
        for call in withheld_results.withdraw_open_reviews(turn)
    ]
    entries = [*store_partial_answer(turn), *close_open_calls(turn, reason, by), *held]
    entries += _store_end(turn, reason, text, hint)
    journal.append(turn.conversation_id, turn.pk, entries, is_activity=True)


def end_answered_turn(turn: Turn, reason: Reason, *, has_content: bool) -> list[Entry]:
    """Store the final state of a turn whose last answer asks for no tool, so that nothing is open,
    inside the caller's transaction. Return the journal entries to append."""
    return _store_end(turn, reason, *_describe_end(reason, has_content=has_content))


def _store_end(turn: Turn, reason: Reason, text: str, hint: str) -> list[Entry]:
    """Store the final state and, if there is a text, a notice. Return the journal entries."""
    entries: list[Entry] = []
    if text:
        kind = NOTICE_KIND_OF_REASON.get(reason, Part.NoticeKind.INFO)
        entries.append(add_notice(turn, kind, text, hint))
    _end(turn.pk, STATE_OF_REASON.get(reason, Turn.State.DONE), reason)
    entries.append(journal.turn_entry(turn, STATE_OF_REASON.get(reason, Turn.State.DONE), reason))
    transaction.on_commit(metrics.TURNS_ENDED.labels(reason).inc)
    return entries


@compiled_update
def _end(turn_id: uuid.UUID, state: str, reason: str) -> tuple[QuerySet[Turn], dict[str, Any]]:
    return Turn.objects.filter(pk=turn_id), {
        "state": state,
        "reason": reason,
        "lease_owner": "",
        "lease_until": None,
        "finished_at": Now(),
    }


def _find_closing_notice(turn: Turn, reason: Reason) -> tuple[str, str]:
    """Return the sentence and the hint about this end; nothing where the answer is complete."""
    may_be_empty = reason == "complete" and not turn.is_direct
    return _describe_end(reason, has_content=not may_be_empty or _has_content(turn))


def _describe_end(reason: Reason, *, has_content: bool) -> tuple[str, str]:
    is_empty = reason == "complete" and not has_content
    sentence, hint = EMPTY_ANSWER if is_empty else SENTENCES.get(reason, ("", ""))
    return str(sentence), str(hint)


def _has_content(turn: Turn) -> bool:
    """Whether the last step has text or a picture."""
    last = turn.steps.last()
    parts = Part.objects.filter(message_id=turn.answer_id, step=last.number if last else 0)
    contents = parts.values_list("kind", "text")
    return any(kind == Part.Kind.FILE or _is_text(kind, text) for kind, text in contents)


def _is_text(kind: str, text: str) -> bool:
    return kind == Part.Kind.TEXT and bool(text.strip())


def store_partial_answer(turn: Turn) -> list[Entry]:
    """Store the text of an interrupted step as parts: text that was shown never disappears."""
    step = Step.objects.filter(turn=turn, state=Step.State.CALLING).first()
    if step is None:
        return []
    taken = Part.objects.filter(message_id=turn.answer_id, step=step.number)
    positions = set(taken.values_list("position", flat=True))
    said = [part for part in fold(turn) if part.position not in positions]
    Part.objects.bulk_create(
        Part(
            message_id=turn.answer_id,
            step=step.number,
            position=part.position,
            kind=part.kind,
            text=part.words,
        )
        for part in said
    )
    Step.objects.filter(pk=step.pk).update(state=Step.State.INTERRUPTED, finished_at=Now())
    return [journal.step_entry(turn, step.number, [part.position for part in said])]


def close_open_calls(turn: Turn, reason: Reason, by: Lease | Actor) -> list[Entry]:
    """Withdraw or cancel the calls that have not run. A call that was sent gets an unknown
    outcome."""
    unknown = write_error(STOPPED if reason == "stopped" else UNFORESEEN)
    entries: list[Entry] = []
    ends = {
        State.PROPOSED: State.CANCELLED,
        State.APPROVED: State.CANCELLED,
        State.AWAITING_APPROVAL: State.WITHDRAWN,
        State.AWAITING_INPUT: State.WITHDRAWN,
        State.AWAITING_SIGN_IN: State.WITHDRAWN,
        State.AWAITING_TASK: State.CANCELLED,
        State.SENDING: State.UNKNOWN,
    }
    for call in ToolCall.objects.filter(turn=turn, state__in=list(ends)):
        # A call that waits to be sent once more was sent before, and that outcome is unknown.
        state = State.UNKNOWN if call.may_have_run else ends[State(call.state)]
        error = unknown if state == State.UNKNOWN else None
        if move_call(
            turn,
            call.pk,
            state,
            by=Worker(lease=by, attempt=call.attempt) if isinstance(by, Lease) else by,
            was=[State(call.state)],
            entries=entries,
            error=error,
            finished_at=Now(),
        ):
            _close_requests(call)
    return entries


def _close_requests(call: ToolCall) -> None:
    """Withdraw the open approval and questions of this call, and have its task cancelled."""
    Approval.objects.filter(tool_call=call, state=Approval.State.OPEN).update(
        state=Approval.State.WITHDRAWN, decided_at=Now()
    )
    Question.withdraw_open(call)
    if call.state in ToolCall.PAUSED:
        RemoteTask.objects.filter(tool_call=call).update(wants_cancel=True, next_poll_at=Now())


def add_notice(turn: Turn, kind: Part.NoticeKind, text: str, hint: str) -> Entry:
    """Store a notice at the end of the answer. Return the journal entry to append."""
    last = Part.objects.filter(message_id=turn.answer_id)
    step = last.aggregate(last=Max("step"))["last"] or 1
    position = last.filter(step=step).aggregate(last=Max("position"))["last"]
    part = Part.objects.create(
        message_id=turn.answer_id,
        step=step,
        position=0 if position is None else position + 1,
        kind=Part.Kind.NOTICE,
        notice_kind=kind,
        text=text,
        hint=hint,
    )
    data = {"message": str(turn.answer_id), "step": step, "position": part.position}
    return Entry(kind=Kind.NOTICE, data=data)
