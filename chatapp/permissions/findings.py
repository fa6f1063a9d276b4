"""What speaks for a level of risk: one finding of one piece of evidence, in a member's words."""

from dataclasses import dataclass
from typing import Literal, get_args

from .vocabulary import Effect

Level = Literal["low", "medium", "high"]
LEVELS: tuple[Level, ...] = get_args(Level)  # from the mildest to the gravest


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    level: Level
    reason: str


_LEVEL_OF_EFFECT: dict[Effect, Level] = {
    "reads": "low",
    "changes": "medium",
    "sends": "medium",
    "controls": "medium",
    "removes": "high",
    "creates": "high",
    "operates": "high",
    "deletes": "high",
    "runs": "high",
    "access": "high",
    "money": "high",
}
PHRASES: dict[Effect, str] = {
    "reads": "only reads",
    "changes": "changes something",
    "sends": "sends something to others",
    "controls": "starts or stops something",
    "removes": "removes something",
    "creates": "creates something",
    "operates": "acts on something that is in use",
    "deletes": "deletes",
    "runs": "runs or restarts something",
    "access": "changes what people may do",
    "money": "moves money",
}


def found(effect: Effect, *, source: str) -> Finding:
    """What `source` ("Its name", "Its description") says that the tool does."""
    return Finding(
        level=_LEVEL_OF_EFFECT[effect], reason=f"{source} says that it {PHRASES[effect]}."
    )
