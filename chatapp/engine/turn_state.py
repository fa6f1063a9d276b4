"""What a live turn is, read under its lease for the pure decision: its latest step and what it
has used."""

import uuid

from django.conf import settings

from chatapp.models import JournalEvent, Review, Step, ToolCall, Turn
from chatapp.rendering.figures import figures_of

from . import usage
from .lease import Lease, LeaseLost
from .next_action import MOST_ATTEMPTS
from .snapshot import Budget, CallState, StepState, TurnState


def read_turn(lease: Lease) -> tuple[Turn, TurnState]:
    """The turn and its state; LeaseLost when somebody else moves it by now."""
    mine = Turn.objects.filter(pk=lease.turn_id, lease_owner=lease.owner, fence=lease.fence)
    turn = mine.select_related("conversation__owner").first()
    if turn is None:
        raise LeaseLost
    steps = list(turn.steps.all())
    calls = list(turn.tool_calls.only("turn", "step", "state", "attempt"))
    state = TurnState(
        stop_requested=turn.stop_requested,
        step=_latest_step(turn, steps, calls),
        used=_used(turn, steps, calls),
        limit=Budget(
            steps=settings.TURN_MAX_STEPS,
            seconds=settings.TURN_MAX_SECONDS,
            tokens=settings.TURN_MAX_TOKENS,
            calls=settings.TURN_MAX_CALLS,
        ),
        used_up=_used_up(turn),
    )
    return turn, state


def _used_up(turn: Turn) -> tuple[str, str] | None:
    sentence = usage.used_up(turn.conversation.owner)
    return (sentence, usage.hint()) if sentence else None


def _latest_step(turn: Turn, steps: list[Step], calls: list[ToolCall]) -> StepState | None:
    if not steps:
        return None
    step = steps[-1]
    latest = [call for call in calls if call.step == step.number]
    held = _held(latest)
    return StepState(
        number=step.number,
        state=step.state,
        finish_reason=step.finish_reason,
        attempt=_attempts(turn, step),
        calls=tuple(
            CallState(id=call.pk, state=call.state, is_held=call.pk in held) for call in latest
        ),
    )


def _held(calls: list[ToolCall]) -> set[uuid.UUID]:
    """Those whose result a person has to see first."""
    if not calls:
        return set()
    waiting = Review.objects.filter(tool_call__in=calls, state=Review.State.OPEN)
    return set(waiting.values_list("tool_call_id", flat=True))


def _attempts(turn: Turn, step: Step) -> int:
    """How often the step was begun, without the times after a deploy. The journal of a step that is
    `calling` is kept, so it can be asked; usually it need not be."""
    if step.state != Step.State.CALLING or step.attempt < MOST_ATTEMPTS:
        return step.attempt
    begun_anew = turn.journal.filter(kind=JournalEvent.Kind.RESTART, data__step=step.number)
    return step.attempt - begun_anew.filter(data__handed_on=True).count()


def _used(turn: Turn, steps: list[Step], calls: list[ToolCall]) -> Budget:
    """What the turn has used so far."""
    return Budget(
        steps=sum(step.state != Step.State.CALLING for step in steps),
        seconds=figures_of([turn])[turn.pk].seconds,
        tokens=sum(step.read_tokens + step.written_tokens for step in steps),
        calls=sum(call.attempt for call in calls),
    )
