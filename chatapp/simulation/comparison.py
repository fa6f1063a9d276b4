"""Two policies compared on the same past calls: what each would decide, and how often each would
ask whom. Nothing is called and nothing is stored."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from chatapp.permissions.rules import Decision, Effect
from chatapp.policy.policy_set import PolicySet

from .past_calls import FIELDS, EarlierCalls, PastFacts, Row, Scope
from .simulator import BATCH, count_all_effects, decide_past_call

MOST_EXAMPLES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A past call that the two policies decide differently; `reason` is the draft's."""

    call_id: UUID
    tool_id: str
    person: str
    at: datetime
    before: Effect
    after: Effect
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedPerson:
    person: str
    before: int
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`changed` counts the calls that are decided differently; `examples` are the newest of them.
    `people` are those who would be asked by either policy, most questions first."""

    since: datetime
    calls: int
    left_out: int
    before: dict[Effect, int]
    after: dict[Effect, int]
    changed: int
    examples: list[Example]
    people: list[AskedPerson]


@dataclass(slots=True, kw_only=True)
class _Side:
    """One of the two policies with what came before the call. A permission that one policy uses,
    and so keeps alive, may have lapsed under the other."""

    policy: PolicySet
    earlier: EarlierCalls
    effects: Counter[Effect] = field(default_factory=Counter)
    asked: Counter[int] = field(default_factory=Counter)

    def decide(self, call: Row, known: PastFacts) -> Decision | None:
        self.earlier.enter(call, known)
        decision = decide_past_call(call, self.policy, known, self.earlier)
        self.earlier.remember(call, known, decision.consent_id if decision else None)
        if decision is not None:
            self.effects[decision.effect] += 1
            self.asked[call["turn__conversation__owner_id"]] += decision.effect == "ask"
        return decision


def compare(before: PolicySet, after: PolicySet, scope: Scope) -> Comparison:
    """Decide all past calls in this scope by both policies."""
    known = PastFacts.load(scope, None)
    old, new = (
        _Side(policy=policy, earlier=EarlierCalls(used=dict(scope.uses_before)))
        for policy in (before, after)
    )
    changed, left_out, examples = 0, 0, list[Example]()
    for call in scope.rows.values("pk", *FIELDS).iterator(chunk_size=BATCH):
        was, would = old.decide(call, known), new.decide(call, known)
        if was is None or would is None:
            left_out += 1
        elif was.effect != would.effect:
            changed += 1
            examples.append(_build_example(call, known, was.effect, would))
            del examples[:-MOST_EXAMPLES]
    return Comparison(
        since=scope.since,
        calls=old.effects.total(),
        left_out=left_out,
        before=count_all_effects(old.effects),
        after=count_all_effects(new.effects),
        changed=changed,
        examples=examples[::-1],
        people=_list_people(known.names, old.asked, new.asked),
    )


def _build_example(call: Row, known: PastFacts, before: Effect, would: Decision) -> Example:
    return Example(
        call_id=call["pk"],
        tool_id=call["tool_id"],
        person=known.names.get(call["turn__conversation__owner_id"], "–"),
        at=call["turn__created_at"],
        before=before,
        after=would.effect,
        reason=would.reason,
    )


def _list_people(
    names: dict[int, str], before: Counter[int], after: Counter[int]
) -> list[AskedPerson]:
    return [
        AskedPerson(person=names.get(person, "–"), before=before[person], after=after[person])
        for person, _number in (before + after).most_common()
    ]
