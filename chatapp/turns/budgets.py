"""What a live turn is, read under its lease for the pure decision: its latest step and what it
has used."""

from django.conf import settings
from django.db.models import Sum

from chatapp.models import Step, Turn
from chatapp.rendering.figures import figures_of

from .lease import Lease, LeaseLost
from .snapshot import Budget, CallState, StepState, TurnState


def read_turn(lease: Lease) -> tuple[Turn, TurnState]:
    """The turn and its state; LeaseLost when somebody else moves it by now."""
    turn = Turn.objects.filter(pk=lease.turn_id, lease_owner=lease.owner, fence=lease.fence).first()
    if turn is None:
        raise LeaseLost
    state = TurnState(
        stop_requested=turn.stop_requested,
        step=_latest_step(turn),
        used=used(turn),
        limit=Budget(
            steps=settings.TURN_MAX_STEPS,
            seconds=settings.TURN_MAX_SECONDS,
            tokens=settings.TURN_MAX_TOKENS,
            calls=settings.TURN_MAX_CALLS,
        ),
    )
    return turn, state


def _latest_step(turn: Turn) -> StepState | None:
    step = turn.steps.last()
    if step is None:
        return None
    calls = turn.tool_calls.filter(step=step.number)
    return StepState(
        number=step.number,
        state=step.state,
        finish_reason=step.finish_reason,
        calls=tuple(CallState(id=call.pk, state=call.state) for call in calls),
    )


def used(turn: Turn) -> Budget:
    """What the turn has used so far."""
    tokens = turn.steps.aggregate(given=Sum("input_tokens"), made=Sum("output_tokens"))
    return Budget(
        steps=turn.steps.exclude(state=Step.State.CALLING).count(),
        seconds=figures_of([turn])[turn.pk].seconds,
        tokens=(tokens["given"] or 0) + (tokens["made"] or 0),
        calls=turn.tool_calls.aggregate(sent=Sum("attempt"))["sent"] or 0,
    )
