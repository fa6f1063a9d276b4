"""The simulator: past tool calls decided again by a stored or drafted policy. It reads rows in
batches, calls nothing and stores nothing."""

from collections import Counter
from dataclasses import dataclass, field
from uuid import UUID

from chatapp.models import ToolCall
from chatapp.permissions.decide import decide
from chatapp.permissions.rules import Decision, Effect, Mode
from chatapp.policy.policy_set import PolicySet

from .drafts import DraftedConsent
from .past_calls import FIELDS, EarlierCalls, PastFacts, Row, Scope, build_past_facts

BATCH = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Calls of one tool that would be decided otherwise; `reason` is that of the first."""

    tool_id: str
    happened: Effect
    would: Effect
    calls: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """How often one person was asked, and would be asked."""

    person: str
    calls: int
    asked: int
    would_ask: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """The result of a simulation. `left_out` counts the calls of services that no longer exist."""

    calls: int
    left_out: int
    happened: dict[Effect, int]
    would: dict[Effect, int]
    changes: list[Change]
    questions: list[Questions]


def simulate(word: PolicySet, scope: Scope, drafted: DraftedConsent | None = None) -> Simulation:
    """Decide all past calls in this scope by this policy, as if everybody had given the drafted
    consent."""
    known, before, tally = (
        PastFacts.load(scope, drafted),
        EarlierCalls(used=scope.uses_before),
        _Tally(),
    )
    for call in scope.rows.values(*FIELDS).iterator(chunk_size=BATCH):
        before.enter(call, known)
        consent_id = None
        if scope.service is None or call["service_id"] == scope.service.pk:
            consent_id = _simulate_call(call, word, known, before, tally)
        before.remember(call, known, consent_id)
    return tally.build_result(known.names)


@dataclass(slots=True, kw_only=True)
class _Tally:
    """The counts of a simulation."""

    happened: Counter[Effect] = field(default_factory=Counter)
    would: Counter[Effect] = field(default_factory=Counter)
    left_out: int = 0
    changes: Counter[tuple[str, Effect, Effect]] = field(default_factory=Counter)
    reasons: dict[tuple[str, Effect, Effect], str] = field(default_factory=dict)
    calls_of: Counter[int] = field(default_factory=Counter)
    asked_of: Counter[int] = field(default_factory=Counter)
    would_ask_of: Counter[int] = field(default_factory=Counter)

    def count(self, call: Row, happened: Effect, would: Effect, reason: str) -> None:
        person = call["turn__conversation__owner_id"]
        self.happened[happened] += 1
        self.would[would] += 1
        self.calls_of[person] += 1
        self.asked_of[person] += happened == "ask"
        self.would_ask_of[person] += would == "ask"
        if happened != would:
            key = (call["tool_id"], happened, would)
            self.changes[key] += 1
            self.reasons.setdefault(key, reason)

    def build_result(self, names: dict[int, str]) -> Simulation:
        return Simulation(
            calls=self.happened.total(),
            left_out=self.left_out,
            happened=count_all_effects(self.happened),
            would=count_all_effects(self.would),
            changes=[
                Change(
                    tool_id=tool_id,
                    happened=happened,
                    would=would,
                    calls=calls,
                    reason=self.reasons[tool_id, happened, would],
                )
                for (tool_id, happened, would), calls in self.changes.most_common()
            ],
            questions=[
                Questions(
                    person=names.get(person, "–"),
                    calls=calls,
                    asked=self.asked_of[person],
                    would_ask=self.would_ask_of[person],
                )
                for person, calls in self.calls_of.most_common()
            ],
        )


def count_all_effects(counts: Counter[Effect]) -> dict[Effect, int]:
    effects: tuple[Effect, ...] = ("allow", "ask", "deny")
    return {effect: counts[effect] for effect in effects}


def _simulate_call(
    call: Row, word: PolicySet, known: PastFacts, before: EarlierCalls, tally: _Tally
) -> UUID | None:
    """Count the call, and return the consent by which it would run, if any."""
    decision = decide_past_call(call, word, known, before)
    if decision is None:
        tally.left_out += 1
        return None
    tally.count(call, _read_past_effect(call), decision.effect, decision.reason)
    return decision.consent_id


def decide_past_call(
    call: Row, word: PolicySet, known: PastFacts, before: EarlierCalls
) -> Decision | None:
    """Return the decision of this policy; None if the service or the tool no longer exists."""
    found = build_past_facts(call, known, before)
    if found is None:
        return None
    facts, risk = found
    person = known.people[call["turn__conversation__owner_id"]]
    mode: Mode = "act" if call["turn__conversation__mode"] == "act" else "plan"
    held = before.list_consents(known, call)
    return decide(facts, risk, (*word.rules, *held), person, mode, word.house)


def _read_past_effect(call: Row) -> Effect:
    if call["state"] == ToolCall.State.REFUSED:
        return "deny"
    return "allow" if call["approval"] is None else "ask"
