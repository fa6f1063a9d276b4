"""Who demands a second signature, which demand counts, and that it never lets anything run."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatapp.permissions import reasons
from chatapp.permissions.decide import decide
from chatapp.permissions.risk import Risk
from chatapp.permissions.risk_evidence import LEVELS, Level
from chatapp.permissions.rules import (
    AdminRule,
    CallFacts,
    DailyLimit,
    Decision,
    Demand,
    Effect,
    House,
    Mode,
    PersonFacts,
    Rule,
)

from .test_decide import CONSENT, OWNER, STRENGTH, a_call, a_risk, calls, modes, people, risks
from .test_decide import rules as said

LEGAL = Demand(id=1, deadline_hours=48)
FINANCE = Demand(id=2, deadline_hours=24)
OPERATIONS = Demand(id=3, deadline_hours=24, escalates_after_hours=4)
LATER = Demand(id=4, deadline_hours=24, escalates_after_hours=12)
HOUSE = House(demands=(("high", OPERATIONS),))


def demanded(
    *rules: Rule, level: Level = "high", house: House = HOUSE, **facts: Any
) -> Demand | None:
    decision = decide(a_call(**facts), a_risk(level), rules, OWNER, "act", house)
    assert decision.effect == "ask"
    return decision.demand


def test_a_rule_that_asks_may_demand_one() -> None:
    assert demanded(AdminRule(effect="ask", demand=LEGAL), house=House()) == LEGAL
    assert demanded(AdminRule(effect="ask"), house=House()) is None


@pytest.mark.parametrize(
    ("demands", "strictest"),
    [
        ((LEGAL, FINANCE), FINANCE),
        ((FINANCE, OPERATIONS), FINANCE),
        ((OPERATIONS, LATER), LATER),
        ((None, LEGAL), LEGAL),
        ((None, None), None),
        ((replace(FINANCE, id=9), FINANCE), FINANCE),
    ],
)
def test_of_several_rules_the_strictest_demand_counts_in_any_order(
    demands: tuple[Demand | None, ...], strictest: Demand | None
) -> None:
    rules = [AdminRule(effect="ask", demand=demand, id=n) for n, demand in enumerate(demands, 1)]
    assert demanded(*rules, house=House()) == strictest
    assert demanded(*rules[::-1], house=House()) == strictest


def test_a_rule_that_does_not_fit_the_call_demands_nothing() -> None:
    rule = AdminRule(effect="ask", service="mail", demand=LEGAL)
    assert demanded(rule, house=House()) is None


def test_a_rule_whose_condition_cannot_be_told_demands_all_the_same() -> None:
    rule = AdminRule(effect="ask", condition="amount > 100", demand=LEGAL)
    assert demanded(rule, house=House(), arguments={"amount": "much"}) == LEGAL
    assert demanded(rule, house=House(), arguments={"amount": 50}) is None


def test_the_house_demands_one_for_a_risk() -> None:
    assert demanded() == OPERATIONS
    assert demanded(level="medium") is None
    both = House(demands=(("high", OPERATIONS), ("medium", LEGAL)))
    assert demanded(level="medium", house=both) == LEGAL
    assert demanded(level="high", house=both) == OPERATIONS


def test_what_a_risk_demands_a_higher_one_demands_too() -> None:
    only_medium = House(demands=(("medium", LEGAL),))
    assert demanded(level="high", house=only_medium) == LEGAL
    assert demanded(level="medium", house=only_medium, tainted_by="web") == LEGAL


def test_whom_a_rule_names_it_names_for_these_very_calls() -> None:
    assert demanded(AdminRule(effect="ask", demand=LEGAL)) == LEGAL
    assert demanded(AdminRule(effect="ask")) == OPERATIONS


def test_what_would_run_by_its_risk_asks_where_the_house_wants_two() -> None:
    house = House(runs_up_to="medium", demands=(("medium", LEGAL),))
    decision = decide(a_call(), a_risk("medium"), (), OWNER, "act", house)
    assert (decision.effect, decision.demand) == ("ask", LEGAL)
    assert decision.reason == reasons.NEEDS_TWO["medium"]


@pytest.mark.parametrize("scope", ["conversation", "always", "service"])
def test_no_consent_stands_in_for_the_second_person(scope: str) -> None:
    assert demanded(replace(CONSENT, scope=scope)) == OPERATIONS
    assert demanded(CONSENT, AdminRule(effect="ask", demand=LEGAL)) == LEGAL


def test_an_admins_allow_is_an_admins_own_word() -> None:
    allow = AdminRule(effect="allow", service="memos")
    assert decide(a_call(), a_risk("high"), (allow,), OWNER, "act", HOUSE).effect == "allow"
    elsewhere = AdminRule(effect="allow", service="mail")
    assert demanded(elsewhere) == OPERATIONS


@pytest.mark.parametrize("facts", [{"is_confirmed": False}, {"identical_calls_before": 2}])
def test_what_asks_in_spite_of_an_allow_needs_two_as_well(facts: dict[str, Any]) -> None:
    assert demanded(AdminRule(effect="allow"), **facts) == OPERATIONS


def test_strangers_words_raise_a_call_to_the_risk_that_needs_two() -> None:
    assert demanded(CONSENT, level="medium", tainted_by="web") == OPERATIONS


@pytest.mark.parametrize(
    ("rule", "effect"),
    [
        (AdminRule(effect="deny", levels=frozenset({"medium"})), "deny"),
        (AdminRule(effect="ask", levels=frozenset({"medium"}), demand=LEGAL), "ask"),
        (AdminRule(effect="allow", levels=frozenset({"high"})), "ask"),
        (AdminRule(effect="allow", levels=frozenset({"medium", "high"})), "allow"),
    ],
)
def test_strangers_words_lead_a_call_out_of_no_strict_rule_and_into_no_mild_one(
    rule: AdminRule, effect: Effect
) -> None:
    decision = decide(a_call(tainted_by="web"), a_risk("medium"), (rule,), OWNER)
    assert (decision.effect, decision.demand) == (effect, rule.demand)


def test_what_the_code_stumbles_over_needs_what_a_high_risk_does() -> None:
    broken: Any = None
    decision = decide(a_call(), broken, (), OWNER, "act", HOUSE)
    assert (decision.effect, decision.demand) == ("ask", OPERATIONS)


demands = st.builds(
    Demand,
    id=st.integers(1, 4),
    deadline_hours=st.integers(1, 3),
    escalates_after_hours=st.none() | st.integers(1, 2),
)
houses = st.builds(
    House,
    asks_everything=st.booleans(),
    runs_up_to=st.sampled_from([None, *LEVELS]),
    types_high=st.booleans(),
    consents_to_high=st.booleans(),
    demands=st.lists(
        st.tuples(st.sampled_from(LEVELS), demands), max_size=2, unique_by=lambda pair: pair[0]
    ).map(tuple),
)
demanding = st.builds(
    AdminRule, effect=st.just("ask"), demand=demands, id=st.integers(10_001, 20_000)
)


@given(calls, risks, said, people, modes, houses, st.lists(demanding, max_size=3))
def test_a_demand_turns_nothing_into_a_run(
    call: CallFacts,
    risk: Risk,
    rules: list[Rule],
    person: PersonFacts,
    mode: Mode,
    house: House,
    more: list[AdminRule],
) -> None:
    with_it = decide(call, risk, [*rules, *more], person, mode, house)
    plain = decide(call, risk, rules, person, mode, replace(house, demands=()))
    assert STRENGTH.index(with_it.effect) >= STRENGTH.index(plain.effect)
    assert with_it.demand is None or with_it.effect == "ask"
    again = decide(call, risk, [*more[::-1], *rules[::-1]], person, mode, house)
    assert again.demand == with_it.demand


@given(calls, risks, said, people, houses, demanding, st.lists(demanding, max_size=2))
def test_one_more_demand_never_makes_the_one_that_counts_milder(
    call: CallFacts,
    risk: Risk,
    rules: list[Rule],
    person: PersonFacts,
    house: House,
    one: AdminRule,
    others: list[AdminRule],
) -> None:
    with_it = decide(call, risk, [*rules, one, *others], person, "act", house)
    without = decide(call, risk, [*rules, one], person, "act", house)
    if without.effect != "ask":
        return
    assert with_it.demand is not None and without.demand is not None
    assert with_it.demand.deadline_hours <= without.demand.deadline_hours


@given(calls, risks, said, people, houses)
def test_where_the_house_wants_two_only_an_admins_allow_runs_it(
    call: CallFacts, risk: Risk, rules: list[Rule], person: PersonFacts, house: House
) -> None:
    others = [r for r in rules if not (isinstance(r, AdminRule) and r.effect == "allow")]
    calm = replace(call, tainted_by="")
    decision = decide(calm, risk, others, person, "act", house)
    if risk.level in dict(house.demands):
        assert decision.effect != "allow"
        assert decision.effect == "deny" or decision.demand is not None


@given(calls, risks, said, people, modes, houses, st.lists(demanding, max_size=2))
def test_strangers_words_never_weaken_a_decision_or_what_it_needs(
    call: CallFacts,
    risk: Risk,
    rules: list[Rule],
    person: PersonFacts,
    mode: Mode,
    house: House,
    more: list[AdminRule],
) -> None:
    told = [*rules, *more]
    calm = decide(replace(call, tainted_by=""), risk, told, person, mode, house)
    tainted = decide(replace(call, tainted_by="web"), risk, told, person, mode, house)
    assert_no_weaker(tainted, calm)


@given(calls, risks, risks, said, people, modes, houses)
def test_a_higher_risk_is_never_decided_milder_but_for_rules_about_levels(
    call: CallFacts,
    one: Risk,
    other: Risk,
    rules: list[Rule],
    person: PersonFacts,
    mode: Mode,
    house: House,
) -> None:
    plain = [replace(r, levels=frozenset()) if isinstance(r, AdminRule) else r for r in rules]
    lower, higher = sorted([one, other], key=lambda risk: LEVELS.index(risk.level))
    milder = decide(call, lower, plain, person, mode, house)
    assert_no_weaker(decide(call, higher, plain, person, mode, house), milder)


def assert_no_weaker(decision: Decision, before: Decision) -> None:
    """A question that needed somebody else, or a word typed, still does, or is refused."""
    assert STRENGTH.index(decision.effect) >= STRENGTH.index(before.effect)
    if decision.effect == "ask":
        assert decision.demand is not None or before.demand is None
        assert decision.wants_typing or not before.wants_typing


def test_limits_and_rules_without_a_demand_add_none() -> None:
    limit = DailyLimit(calls=0)
    assert demanded(limit, house=House(), level="low") is None
