"""What a turn does next: a pure function of its rows, so that any worker continues it alike."""

import uuid
from dataclasses import dataclass
from typing import Literal

from .snapshot import StepState, TurnState

Reason = Literal["complete", "stopped", "failed", "budget", "length", "refused", "filtered"]

UNDECIDED = "proposed"
ASKING = "awaiting_approval"
READY = "approved"
# The reason why a step is over whose calls an app asked for: the model is told with its next turn.
BY_APP = "app"
# How often a model call, or a call that is safe to repeat, may take its worker down with it.
MOST_ATTEMPTS = 5
GO_ON = "Send “go on” to let it continue."
UNCERTAIN = frozenset({"sending", "unknown"})
OVER = frozenset({"succeeded", "failed", "denied", "refused", "expired", "withdrawn", "cancelled"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CallModel:
    """Ask the model. `number` names the step; one that is already there is asked anew."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Decide:
    """Let policy decide each of these calls."""

    calls: tuple[uuid.UUID, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Execute:
    """Run these calls together."""

    calls: tuple[uuid.UUID, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Nothing to do until a person has answered for these calls."""

    calls: tuple[uuid.UUID, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The turn is over; `sentence` tells the person why, where that is not obvious, and `hint`
    what they can do."""

    reason: Reason
    sentence: str = ""
    hint: str = ""


Action = CallModel | Decide | Execute | Wait | Finish


def next_action(turn: TurnState) -> Action:
    """The next action of a live turn; calling it again without a change gives the same."""
    if turn.stop_requested:
        return Finish(reason="stopped")
    if turn.step is None:
        return _ask_the_model(turn, 1)
    match turn.step.state:
        case "calling":
            return _ask_anew(turn.step)
        case "interrupted":
            return Finish(reason="failed")
        case _:
            return _after_an_answer(turn, turn.step)


def _ask_anew(step: StepState) -> Action:
    """Each attempt so far has ended with its worker; some day that is not a coincidence."""
    if step.attempt < MOST_ATTEMPTS:
        return CallModel(number=step.number)
    sentence = (
        f"The server stopped {step.attempt} times while the model was being asked, so it is not "
        "asked again. Send another message to go on."
    )
    return Finish(reason="failed", sentence=sentence)


def _after_an_answer(turn: TurnState, step: StepState) -> Action:
    if undecided := _in_state(step, {UNDECIDED}):
        return Decide(calls=undecided)
    if asking := _in_state(step, {ASKING}):
        return Wait(calls=asking)
    if ready := _in_state(step, {READY}):
        return Execute(calls=ready)
    if open_calls := _not_over(step):
        return Wait(calls=open_calls)
    if step.calls and step.finish_reason != BY_APP:
        return _ask_the_model(turn, step.number + 1)
    return Finish(reason=_reason_of(step))


def _in_state(step: StepState, states: set[str]) -> tuple[uuid.UUID, ...]:
    return tuple(call.id for call in step.calls if call.state in states)


def _not_over(step: StepState) -> tuple[uuid.UUID, ...]:
    """Calls whose outcome is unknown, any in a state that this version does not know, and those
    whose results nobody has looked at yet."""
    return tuple(call.id for call in step.calls if call.state not in OVER or call.is_held)


def _ask_the_model(turn: TurnState, number: int) -> Action:
    if turn.used_up is not None:
        sentence, hint = turn.used_up
        return Finish(reason="budget", sentence=sentence, hint=hint)
    if sentence := turn.used.exceeds(turn.limit):
        return Finish(reason="budget", sentence=sentence, hint=GO_ON)
    return CallModel(number=number)


def _reason_of(step: StepState) -> Reason:
    match step.finish_reason:
        case "length":
            return "length"
        case "refused":
            return "refused"
        case "filtered":
            return "filtered"
        case _:
            return "complete"
