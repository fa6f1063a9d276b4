"""The values of policy: the facts of one call, rules, and decisions with a reason."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from chatapp.permissions.destinations import Destination
from chatapp.permissions.risk_evidence import Level

Mode = Literal["act", "plan"]
Effect = Literal["deny", "ask", "allow"]
Obstacle = Literal["unreadable", "unknown", "disabled"]
# The service name of core tools, which belong to no service. No service has an empty name.
OWN_TOOLS = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFacts:
    """One call as it would run. An unknown fact is empty and then matches no consent.

    `is_confirmed`: an admin confirmed exactly this definition. `identical_calls_before` counts the
    earlier calls of this turn with the same tool and the same canonical arguments, `calls_today`
    the calls of this tool by this person today. `tainted_by` names the service of an earlier result
    or attachment of this turn that may hold untrusted content. `arguments` is the object that the
    tool would get; `destinations` are the free ones in it, read only if `tainted_by` is set.
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
    destinations: tuple[Destination, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonFacts:
    """The person for whom the call would act. `groups` are the ids of their groups."""

    id: int
    groups: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The demand for a second signature. `id` names who may sign, within `deadline_hours`.
    Others may sign too after `escalates_after_hours`; None: nobody else."""

    id: int
    deadline_hours: int
    escalates_after_hours: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminRule:
    """A rule of an admin for one tool, for a whole service (no tool), or for all tools (neither).
    The service of core tools is `OWN_TOOLS`.

    A rule may be limited to groups of people (empty: everybody), to levels of risk (empty: all) and
    by a condition on the arguments. `note` is shown to people. A rule that asks may demand that the
    tool's name is typed, and a second signature.
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

    Consent to a whole service lists the definitions that it covered, so new and changed tools ask
    again. Without a conversation it holds in all conversations of the person. `scope` says how wide
    it was given.
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
    """How often a person may use a tool per day before each further use asks."""

    calls: int
    service: str | None = None
    tool: str | None = None
    groups: frozenset[int] = frozenset()


Rule = AdminRule | Consent | DailyLimit


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """The policy for everybody. `runs_up_to` is the highest risk that runs without a question;
    None: no call does. `types_high`: high risks need a typed confirmation. `demands` lists the
    risks that need a second signature. `consent_scopes` are the accepted scopes of consents; for
    a high risk they count only if `consents_to_high` is set. `allowed_hosts` are the hosts to which
    a call may send after untrusted content (`permissions.hosts`)."""

    asks_everything: bool = False
    runs_up_to: Level | None = "low"
    types_high: bool = False
    consent_scopes: frozenset[str] = frozenset({"conversation", "always", "service"})
    consents_to_high: bool = True
    demands: tuple[tuple[Level, Demand], ...] = ()
    allowed_hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """`reason` is a sentence that is shown and stored with the decision; `note` is text of an
    admin. `consent_id` is the consent under which the call runs. Only a question has a `demand`.
    `is_once_only`: the question is about this use alone, so no consent replaces it."""

    effect: Effect
    reason: str
    note: str = ""
    rule_id: int | None = None
    consent_id: uuid.UUID | None = None
    is_once_only: bool = False
    wants_typing: bool = False
    demand: Demand | None = None
