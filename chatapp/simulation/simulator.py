"""The simulator: past tool calls decided anew by a policy, stored or drafted. Reads rows in
batches, decides purely, calls nothing and stores nothing."""

from collections import Counter
from dataclasses import dataclass, field
from uuid import UUID

from chatapp.models import ToolCall
from chatapp.permissions.decide import decide
from chatapp.permissions.rules import Effect, Mode

from .admins_word import AdminsWord
from .drafted_consents import DraftedConsent
from .past_facts import FIELDS, GoneBy, Known, Row, Scope, facts_of_past

BATCH = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Calls of one tool that would end otherwise than they did; `reason` is that of the first."""

    tool_id: str
    happened: Effect
    would: Effect
    calls: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """How often one person was asked, and would have been."""

    person: str
    calls: int
    asked: int
    would_ask: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What came of it. `left_out` counts the calls of services that are gone."""

    calls: int
    left_out: int
    happened: dict[Effect, int]
    would: dict[Effect, int]
    changes: list[Change]
    questions: list[Questions]


def replay(word: AdminsWord, scope: Scope, drafted: DraftedConsent | None = None) -> Replay:
    """All calls in this scope that were decided, as this policy would have decided them, and as if
    everybody had given the drafted consent."""
    known, before, tally = Known.of(scope, drafted), GoneBy(used=scope.uses_before), _Tally()
    for call in scope.rows.values(*FIELDS).iterator(chunk_size=BATCH):
        before.enter(call, known)
        consent_id = None
        if scope.service is None or call["service_id"] == scope.service.pk:
            consent_id = _replay_one(call, word, known, before, tally)
        before.remember(call, known, consent_id)
    return tally.replay(known.names)


@dataclass(slots=True, kw_only=True)
class _Tally:
    """What adds up on the way."""

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

    def replay(self, names: dict[int, str]) -> Replay:
        return Replay(
            calls=self.happened.total(),
            left_out=self.left_out,
            happened=_all_effects(self.happened),
            would=_all_effects(self.would),
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


def _all_effects(counts: Counter[Effect]) -> dict[Effect, int]:
    effects: tuple[Effect, ...] = ("allow", "ask", "deny")
    return {effect: counts[effect] for effect in effects}


def _replay_one(
    call: Row, word: AdminsWord, known: Known, before: GoneBy, tally: _Tally
) -> UUID | None:
    """Count the call. The consent by which it would have run, if it was one."""
    found = facts_of_past(call, known, before)
    if found is None:
        tally.left_out += 1
        return None
    facts, risk = found
    person = known.people[call["turn__conversation__owner_id"]]
    mode: Mode = "act" if call["turn__conversation__mode"] == "act" else "plan"
    held = before.held(known, call)
    decision = decide(facts, risk, (*word.rules, *held), person, mode, word.house)
    tally.count(call, _happened(call), decision.effect, decision.reason)
    return decision.consent_id


def _happened(call: Row) -> Effect:
    if call["state"] == ToolCall.State.REFUSED:
        return "deny"
    return "allow" if call["approval"] is None else "ask"
