"""The values that policy speaks in: the facts of one call, rules, and decisions with a reason."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from .findings import Level

Mode = Literal["act", "plan"]
Effect = Literal["deny", "ask", "allow"]
Obstacle = Literal["unreadable", "unknown", "disabled"]
# The service of our own tools, which are of none. No service has an empty name.
OWN_TOOLS = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFacts:
    """One call as it would run. What is not known stays empty, and then matches no consent.

    `is_confirmed`: an admin confirmed exactly this definition. `identical_calls_before` counts the
    calls of the same tool with the same canonical arguments earlier in this turn, `calls_today`
    those of this tool by this person. `tainted_by` names the service of an earlier result or an
    attachment in this turn that strangers may have written; `arguments` is the object that the tool
    would get.
    """

    service: str
    tool: str
    is_confirmed: bool
    identical_calls_before: int
    endpoint: str = ""
    definition_hash: str = ""
    conversation_id: str = ""
    obstacle: Obstacle | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    calls_today: int = 0
    tainted_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonFacts:
    """Who the call would act for. `groups` are the ids of theirs."""

    id: int
    groups: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """That a question needs a second signature, and whose (`id`): within `deadline_hours`; others
    may sign, too, after `escalates_after_hours` (None: nobody else)."""

    id: int
    deadline_hours: int
    escalates_after_hours: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminRule:
    """What an admin says about a tool, about a whole service (no tool), or about all (neither).
    Our own tools are those of the service `OWN_TOOLS`.

    It narrows by groups of people (none: everybody), by levels of risk (none: all) and by a
    condition on the arguments. `note` is shown to people. An *ask* may want the tool's name typed,
    and a second signature.
    """

    effect: Effect
    service: str | None = None
    tool: str | None = None
    groups: frozenset[int] = frozenset()
    levels: frozenset[Level] = frozenset()
    condition: str = ""
    note: str = ""
    wants_typing: bool = False
    demand: Demand | None = None
    id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """What one person allowed in advance: exactly these definitions, at this endpoint.

    Consent to a whole service lists the definitions that it covered, so that new and changed tools
    ask again. Without a conversation it holds in all of that person's. `scope` says how wide it
    was given.
    """

    person_id: int
    service: str
    endpoint: str
    definition_hashes: frozenset[str]
    conversation_id: str | None = None
    scope: str = "always"
    id: uuid.UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DailyLimit:
    """How often a person may use a tool in a day before each further use asks."""

    calls: int
    service: str | None = None
    tool: str | None = None
    groups: frozenset[int] = frozenset()


Rule = AdminRule | Consent | DailyLimit


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """What holds for everybody. `runs_up_to` is the highest risk that runs without a question;
    None: nothing does. High risks may need a typed confirmation, `demands` has the risks that need
    a second signature. `consent_scopes` are the lasting ways to allow a tool that count; for a high
    risk only where `consents_to_high`."""

    asks_everything: bool = False
    runs_up_to: Level | None = "low"
    types_high: bool = False
    consent_scopes: frozenset[str] = frozenset({"conversation", "always", "service"})
    consents_to_high: bool = True
    demands: tuple[tuple[Level, Demand], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """`reason` is a sentence that is shown with the decision and stored with it; `note` an admin's
    own words. `consent_id` is the consent under which it runs. Only a question has a demand.
    One that `is_once_only` asks about this very use, whatever a person allows in advance."""

    effect: Effect
    reason: str
    note: str = ""
    rule_id: int | None = None
    consent_id: uuid.UUID | None = None
    is_once_only: bool = False
    wants_typing: bool = False
    demand: Demand | None = None
