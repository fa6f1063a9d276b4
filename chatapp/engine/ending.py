"""How a turn comes to rest: waiting for a person, or over. Nothing open is left behind."""

import uuid

from django.db.models import F, Max
from django.db.models.functions import Now

from chatapp.models import (
    Approval,
    Conversation,
    Part,
    Question,
    RemoteTask,
    Step,
    ToolCall,
    Turn,
)

from . import held_results, journal
from .journal import Entry, Kind
from .lease import Lease, fenced
from .ledger import STOPPED, UNFORESEEN
from .next_action import Reason
from .open_parts import fold

State = ToolCall.State
STATE_OF_REASON = {"stopped": Turn.State.STOPPED, "failed": Turn.State.FAILED}
NOTICE_KIND_OF_REASON = {"stopped": Part.NoticeKind.STOPPED, "failed": Part.NoticeKind.ERROR}
WORDLESS = ("The model ended its answer without a text.", "Ask again, or choose another model.")
SENTENCES = {
    "stopped": ("Stopped by you.", ""),
    "length": ("The answer reached the model's length limit.", "Send “go on” for the rest."),
    "refused": ("The model refused to answer this.", "Ask in another way, or ask another model."),
    "filtered": (
        "The provider's content filter stopped this answer.",
        "Ask in another way, or ask another model; an admin may be able to change the filter.",
    ),
}


def park(lease: Lease, signals: int) -> bool:
    """Let go of a turn that waits for a person. False: something happened since it was read."""
    with fenced(lease) as turn:
        if turn.signals != signals:
            return False
        Turn.objects.filter(pk=turn.pk).update(
            state=Turn.State.WAITING, lease_owner="", lease_until=None, drops=0
        )
        entry = journal.turn_entry(turn, Turn.State.WAITING)
        journal.append(turn.conversation_id, turn.pk, [entry])
        return True


def finish(lease: Lease, signals: int, reason: Reason, sentence: str = "", hint: str = "") -> bool:
    """End the turn that this lease holds. False: something happened since it was read."""
    with fenced(lease) as turn:
        if turn.signals != signals:
            return False
        end(turn, reason, sentence, hint)
        return True


def end(turn: Turn, reason: Reason, sentence: str = "", hint: str = "") -> None:
    """Close everything that is open and store the final state, inside the caller's transaction."""
    text, hint = (sentence, hint) if sentence else _closing_words(turn, reason)
    held = [
        journal.call_entry(call.pk, turn.answer_id, call.state)
        for call in held_results.withdraw_open(turn)
    ]
    entries = [*keep_said(turn), *close_open_calls(turn, reason), *held]
    if text:
        kind = NOTICE_KIND_OF_REASON.get(reason, Part.NoticeKind.INFO)
        entries.append(add_notice(turn, kind, text, hint))
    Turn.objects.filter(pk=turn.pk).update(
        state=STATE_OF_REASON.get(reason, Turn.State.DONE),
        reason=reason,
        lease_owner="",
        lease_until=None,
        finished_at=Now(),
    )
    Conversation.objects.filter(pk=turn.conversation_id).update(active_at=Now())
    entries.append(journal.turn_entry(turn, STATE_OF_REASON.get(reason, Turn.State.DONE), reason))
    journal.append(turn.conversation_id, turn.pk, entries)


def _closing_words(turn: Turn, reason: Reason) -> tuple[str, str]:
    """What is said about this end, and what to do; nothing where the answer speaks for itself."""
    if turn.is_direct and reason == "complete":
        return "", ""
    last = turn.steps.last()
    said = Part.objects.filter(message_id=turn.answer_id, step=last.number if last else 0)
    texts = said.filter(kind=Part.Kind.TEXT).values_list("text", flat=True)
    if reason == "complete" and not any(text.strip() for text in texts):
        return WORDLESS
    return SENTENCES.get(reason, ("", ""))


def keep_said(turn: Turn) -> list[Entry]:
    """What a step that is cut off has said becomes parts: painted words never go away."""
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


def close_open_calls(turn: Turn, reason: Reason) -> list[Entry]:
    """What was not run is withdrawn or cancelled; what was being sent has an unknown outcome."""
    unknown = STOPPED if reason == "stopped" else UNFORESEEN
    entries = []
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
        # One that waited to be sent once more was sent before, and nobody knows what came of that.
        state = State.UNKNOWN if call.may_have_run else ends[State(call.state)]
        error = unknown if state == State.UNKNOWN else None
        ToolCall.objects.filter(pk=call.pk).update(state=state, error=error, finished_at=Now())
        _close_requests(call)
        entries.append(journal.call_entry(call.pk, turn.answer_id, state))
    return entries


def _close_requests(call: ToolCall) -> None:
    """Nobody is asked about this call any more, and a task behind it is to be cancelled."""
    Approval.objects.filter(tool_call=call, state=Approval.State.OPEN).update(
        state=Approval.State.WITHDRAWN, decided_at=Now()
    )
    Question.withdraw_open(call)
    if call.state in ToolCall.PAUSED:
        RemoteTask.objects.filter(tool_call=call).update(wants_cancel=True, next_poll_at=Now())


def add_notice(turn: Turn, kind: Part.NoticeKind, text: str, hint: str) -> Entry:
    """A sentence of ours at the end of the answer."""
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


def signal(turn_id: uuid.UUID) -> Turn:
    """Lock the turn and count one more outside event; a waiting turn is queued by it.

    Must be called inside a transaction, before the turn's other rows are touched.
    """
    turn = Turn.objects.select_for_update().get(pk=turn_id)
    Turn.objects.filter(pk=turn_id).update(signals=F("signals") + 1)
    if turn.state == Turn.State.WAITING:
        Turn.objects.filter(pk=turn_id).update(state=Turn.State.QUEUED)
    return turn
