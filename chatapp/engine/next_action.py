"""The next action of a turn: a pure function of values, so that any worker continues it alike."""

import uuid
from dataclasses import dataclass
from typing import Literal

from django.utils.translation import gettext_lazy, ngettext

from chatapp.calls.attempts import MAX_ATTEMPTS

Reason = Literal["complete", "stopped", "failed", "budget", "length", "refused", "filtered"]

UNDECIDED = "proposed"
ASKING = "awaiting_approval"
READY = "approved"
# The finish reason of a step whose calls an app asked for. The model reads of them next turn.
BY_APP = "app"
GO_ON = gettext_lazy("Send “go on” to continue.")
OVER = frozenset({"succeeded", "failed", "denied", "refused", "expired", "withdrawn", "cancelled"})


# --- the state of a turn -------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class CallState:
    """One tool call. `state` is one of `ToolCall.State`; `is_held`: its result needs a review."""

    id: uuid.UUID
    state: str
    is_held: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StepState:
    """The latest step; `state` is one of `Step.State`, `finish_reason` is the provider's.

    `attempt` counts how often the step was begun, without the times after a worker released the
    turn in good order.
    """

    number: int
    state: str
    finish_reason: str
    attempt: int = 1
    calls: tuple[CallState, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a turn may use, or has used. Time that it waits for people does not count as seconds."""

    steps: int
    seconds: float
    tokens: int
    calls: int

    def exceeds(self, limit: "Budget") -> str:
        """Return a sentence that names the first limit that is reached, or nothing."""
        if self.steps >= limit.steps:
            return ngettext(
                "This answer has called the model %(count)d time, which is the limit.",
                "This answer has called the model %(count)d times, which is the limit.",
                self.steps,
            ) % {"count": self.steps}
        if self.seconds >= limit.seconds:
            return ngettext(
                "This answer has taken %(count)d second, which is the limit.",
                "This answer has taken %(count)d seconds, which is the limit.",
                round(self.seconds),
            ) % {"count": round(self.seconds)}
        if self.tokens >= limit.tokens:
            return ngettext(
                "This answer has used %(count)d token, which is the limit.",
                "This answer has used %(count)d tokens, which is the limit.",
                self.tokens,
            ) % {"count": self.tokens}
        if self.calls >= limit.calls:
            return ngettext(
                "This answer has called tools %(count)d time, which is the limit.",
                "This answer has called tools %(count)d times, which is the limit.",
                self.calls,
            ) % {"count": self.calls}
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnState:
    """A live turn, read under its lease. `step` is the latest one, None before the first.

    `used_up`: a sentence about an allowance of its person that is used up, and a hint."""

    stop_requested: bool
    step: StepState | None
    used: Budget
    limit: Budget
    used_up: tuple[str, str] | None = None


# --- the actions ---------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class CallModel:
    """Call the model for the step `number`, again if the step exists."""

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
    """Do nothing until a person has answered about these calls."""

    calls: tuple[uuid.UUID, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """End the turn. `sentence` says why, where that is not obvious, and `hint` what a person can do
    about it."""

    reason: Reason
    sentence: str = ""
    hint: str = ""


Action = CallModel | Decide | Execute | Wait | Finish


def next_action(turn: TurnState) -> Action:
    """Return the next action of a live turn. Without a change of the turn it is always the same."""
    if turn.stop_requested:
        return Finish(reason="stopped")
    if turn.step is None:
        return _call_model(turn, 1)
    match turn.step.state:
        case "calling":
            return _begin_again(turn.step)
        case "interrupted":
            return Finish(reason="failed")
        case _:
            return _after_answer(turn, turn.step)


def _begin_again(step: StepState) -> Action:
    """Begin the step again, unless too many attempts have ended together with their worker."""
    if step.attempt < MAX_ATTEMPTS:
        return CallModel(number=step.number)
    sentence = ngettext(
        "The server stopped %(count)d time during this model call. Send a message to continue.",
        "The server stopped %(count)d times during this model call. Send a message to continue.",
        step.attempt,
    ) % {"count": step.attempt}
    return Finish(reason="failed", sentence=sentence)


def _after_answer(turn: TurnState, step: StepState) -> Action:
    if undecided := _find_in_state(step, {UNDECIDED}):
        return Decide(calls=undecided)
    if asking := _find_in_state(step, {ASKING}):
        return Wait(calls=asking)
    if ready := _find_in_state(step, {READY}):
        return Execute(calls=ready)
    if open_calls := _find_open(step):
        return Wait(calls=open_calls)
    if step.calls and step.finish_reason != BY_APP:
        return _call_model(turn, step.number + 1)
    return Finish(reason=choose_reason(step.finish_reason))


def _find_in_state(step: StepState, states: set[str]) -> tuple[uuid.UUID, ...]:
    return tuple(call.id for call in step.calls if call.state in states)


def _find_open(step: StepState) -> tuple[uuid.UUID, ...]:
    """Return the calls with an unknown outcome or a result that waits for review, and those in a
    state that this version does not have."""
    return tuple(call.id for call in step.calls if call.state not in OVER or call.is_held)


def _call_model(turn: TurnState, number: int) -> Action:
    if turn.used_up is not None:
        sentence, hint = turn.used_up
        return Finish(reason="budget", sentence=sentence, hint=hint)
    if sentence := turn.used.exceeds(turn.limit):
        return Finish(reason="budget", sentence=sentence, hint=str(GO_ON))
    return CallModel(number=number)


def choose_reason(finish_reason: str) -> Reason:
    """Return why a turn ends whose last answer ended for this reason and asks for no tool."""
    match finish_reason:
        case "length":
            return "length"
        case "refused":
            return "refused"
        case "filtered":
            return "filtered"
        case _:
            return "complete"
