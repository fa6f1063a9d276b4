"""The state of a live turn, read under its lease for `next_action`."""

import uuid
from dataclasses import dataclass

from django.conf import settings
from django.db.models import QuerySet

from chatapp.calls.attempts import MAX_ATTEMPTS
from chatapp.journal.lease import HeldTurn, Lease, read_held, take
from chatapp.live.page_facts import seconds_between
from chatapp.models import JournalEvent, Review, Step, ToolCall, Turn
from chatapp.providers.access import usage
from chatapp.server.compiled_queries import compiled

from .next_action import Budget, CallState, StepState, TurnState


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenTurn:
    """A turn as it was when this worker took it."""

    lease: Lease
    turn: Turn
    state: TurnState


def take_turn(turn_id: uuid.UUID) -> TakenTurn | None:
    """Lease the turn and read it. Return None if another worker has it or it has nothing to do."""
    held = take(turn_id)
    if held is None:
        return None
    turn, state = _build_state(held)
    return TakenTurn(lease=held.lease, turn=turn, state=state)


def read_turn(lease: Lease) -> tuple[Turn, TurnState]:
    """Return the turn and its state. Raises LeaseLost if another worker has taken it."""
    return _build_state(read_held(lease))


def _build_state(held: HeldTurn) -> tuple[Turn, TurnState]:
    turn = held.turn
    steps = _load_steps(turn.pk) if held.has_steps else []
    calls = _load_calls(turn.pk) if steps else []
    step = _build_latest_step(turn, steps, calls)
    state = TurnState(
        stop_requested=turn.stop_requested,
        step=step,
        used=_sum_used(steps, calls),
        limit=Budget(
            steps=settings.TURN_MAX_STEPS,
            seconds=settings.TURN_MAX_SECONDS,
            tokens=settings.TURN_MAX_TOKENS,
            calls=settings.TURN_MAX_CALLS,
        ),
        # Without calls to answer for, a step that was begun is the last one.
        used_up=_describe_used_up(held) if step is None or step.calls else None,
    )
    return turn, state


@compiled
def _load_steps(turn_id: uuid.UUID) -> QuerySet[Step]:
    return Step.objects.filter(turn=turn_id)


@compiled
def _load_calls(turn_id: uuid.UUID) -> QuerySet[ToolCall]:
    columns = ("turn", "step", "state", "attempt", "sent_at", "finished_at")
    return ToolCall.objects.filter(turn=turn_id).only(*columns)


def _describe_used_up(held: HeldTurn) -> tuple[str, str] | None:
    if not held.has_allowances:
        return None
    sentence = usage.find_used_up_allowance(held.turn.conversation.owner)
    return (sentence, usage.describe_renewal()) if sentence else None


def _build_latest_step(turn: Turn, steps: list[Step], calls: list[ToolCall]) -> StepState | None:
    if not steps:
        return None
    step = steps[-1]
    latest = [call for call in calls if call.step == step.number]
    held = _find_held(latest)
    return StepState(
        number=step.number,
        state=step.state,
        finish_reason=step.finish_reason,
        attempt=_count_attempts(turn, step),
        calls=tuple(
            CallState(id=call.pk, state=call.state, is_held=call.pk in held) for call in latest
        ),
    )


def _find_held(calls: list[ToolCall]) -> set[uuid.UUID]:
    """Return the calls whose result waits for a person's review."""
    ended = [call for call in calls if call.state in ToolCall.FINAL]
    if not ended:
        return set()
    waiting = Review.objects.filter(tool_call__in=ended, state=Review.State.OPEN)
    return set(waiting.values_list("tool_call_id", flat=True))


def _count_attempts(turn: Turn, step: Step) -> int:
    """Count how often the step was begun, without the times after a release in good order. The
    journal of a step that is `calling` is kept, and is read only when it may matter."""
    if step.state != Step.State.CALLING or step.attempt < MAX_ATTEMPTS:
        return step.attempt
    begun_anew = turn.journal.filter(kind=JournalEvent.Kind.RESTART, data__step=step.number)
    return step.attempt - begun_anew.filter(data__handed_on=True).count()


def _sum_used(steps: list[Step], calls: list[ToolCall]) -> Budget:
    """Return what the turn has used so far."""
    return Budget(
        steps=sum(step.state != Step.State.CALLING for step in steps),
        seconds=sum(seconds_between(step.started_at, step.finished_at) for step in steps)
        + sum(seconds_between(call.sent_at, call.finished_at) for call in calls),
        tokens=sum(step.read_tokens + step.written_tokens for step in steps),
        calls=sum(call.attempt for call in calls),
    )
