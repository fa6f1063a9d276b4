"""A turn as the pure decision about its next action sees it."""

import uuid
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CallState:
    """One tool call; `state` is one of `ToolCall.State`. `is_held`: a person has yet to look at
    what it brought back."""

    id: uuid.UUID
    state: str
    is_held: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StepState:
    """The latest step; `state` is one of `Step.State`, `finish_reason` the provider's word.

    `attempt` counts how often it was begun, but not after a worker that handed the turn on in good
    order.
    """

    number: int
    state: str
    finish_reason: str
    attempt: int = 1
    calls: tuple[CallState, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a turn may use, or has used. Seconds are of work: waiting for people does not count."""

    steps: int
    seconds: float
    tokens: int
    calls: int

    def exceeds(self, limit: "Budget") -> str:
        """A sentence that names the first limit that is reached, or nothing."""
        if self.steps >= limit.steps:
            return f"This turn has asked the model {self.steps} times, which is the limit."
        if self.seconds >= limit.seconds:
            return f"This turn has worked for {self.seconds:.0f} seconds, which is the limit."
        if self.tokens >= limit.tokens:
            return f"This turn has used {self.tokens} tokens, which is the limit."
        if self.calls >= limit.calls:
            return f"This turn has used tools {self.calls} times, which is the limit."
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnState:
    """A live turn, read under its lease. `step` is the latest one, None before the first.
    `used_up` names an allowance of its person that is, with what to do about it."""

    stop_requested: bool
    step: StepState | None
    used: Budget
    limit: Budget
    used_up: tuple[str, str] | None = None
