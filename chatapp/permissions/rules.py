"""The values that policy speaks in: the facts of one call, rules, and decisions with a reason."""

from dataclasses import dataclass
from typing import Literal

Mode = Literal["act"]
Effect = Literal["deny", "ask", "allow"]
Obstacle = Literal["unreadable", "unknown", "disabled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFacts:
    """One call as it would run. What is not known stays empty, and then matches no consent.

    `is_confirmed`: an admin confirmed exactly this definition. `identical_calls_before` counts the
    calls of the same tool with the same canonical arguments earlier in this turn.
    """

    service: str
    tool: str
    is_confirmed: bool
    identical_calls_before: int
    endpoint: str = ""
    definition_hash: str = ""
    conversation_id: str = ""
    obstacle: Obstacle | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonFacts:
    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminRule:
    """What an admin says about a tool, about a whole service (no tool), or about all (neither)."""

    effect: Effect
    service: str | None = None
    tool: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """What one person allowed in advance: exactly these definitions, at this endpoint.

    Consent to a whole service lists the definitions that it covered, so that new and changed tools
    ask again. Without a conversation it holds in all of that person's.
    """

    person_id: int
    service: str
    endpoint: str
    definition_hashes: frozenset[str]
    conversation_id: str | None = None


Rule = AdminRule | Consent


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """`reason` is a sentence that is shown with the decision and stored with it."""

    effect: Effect
    reason: str
