"""Modes, the house, and what rules, limits and taint do to a decision."""

from typing import Any

import pytest

from chatapp.permissions import reasons
from chatapp.permissions.decide import decide
from chatapp.permissions.risk_evidence import LEVELS, Level
from chatapp.permissions.rules import (
    AdminRule,
    DailyLimit,
    Decision,
    Effect,
    House,
    Mode,
    PersonFacts,
    Rule,
)

from .test_decide import CONSENT, OWNER, a_call, a_risk, decided


# --- modes and the house -------------------------------------------------------------------
def decided_in(house: House, *rules: Rule, level: Level = "low", mode: Mode = "act") -> Decision:
    return decide(a_call(), a_risk(level), rules, OWNER, mode, house)


@pytest.mark.parametrize(("level", "effect"), [("low", "allow"), ("medium", "deny")])
def test_a_chat_that_plans_runs_only_what_reads(level: Level, effect: Effect) -> None:
    allowing = (CONSENT, AdminRule(effect="allow"))
    assert decided_in(House(), *allowing, level=level, mode="plan").effect == effect


def test_a_house_that_asks_everything_asks_whatever_was_allowed() -> None:
    allowing = (CONSENT, AdminRule(effect="allow"))
    assert decided_in(House(asks_everything=True), *allowing).effect == "ask"
    denied = decided_in(House(asks_everything=True), AdminRule(effect="deny"))
    assert denied.effect == "deny"


@pytest.mark.parametrize(
    ("runs_up_to", "running"), [(None, ""), ("low", "low"), ("medium", "low medium")]
)
def test_the_house_says_up_to_which_risk_tools_run(runs_up_to: Level, running: str) -> None:
    house = House(runs_up_to=runs_up_to)
    runs = [level for level in LEVELS if decided_in(house, level=level).effect == "allow"]
    assert runs == running.split()


@pytest.mark.parametrize(("level", "is_demanding"), [("medium", False), ("high", True)])
def test_a_high_risk_may_need_typing(level: Level, is_demanding: bool) -> None:
    assert decided_in(House(types_high=True), level=level).wants_typing is is_demanding


# --- rules in detail -----------------------------------------------------------------------
def test_a_rule_for_a_group_is_for_its_members() -> None:
    rule = AdminRule(effect="deny", groups=frozenset({3}), note="Finance only.")
    member = PersonFacts(id=1, groups=frozenset({3, 4}))
    assert decided(rule, person=member).effect == "deny"
    assert decided(rule, person=member).note == "Finance only."
    assert decided(rule, level="low").effect == "allow"


def test_a_rule_for_a_level_leaves_the_others_alone() -> None:
    rule = AdminRule(effect="deny", levels=frozenset({"high"}))
    assert decided(rule, level="high").effect == "deny"
    assert decided(rule, level="low").effect == "allow"


@pytest.mark.parametrize(
    ("arguments", "effects"),
    [
        ({"amount": 50, "currency": "EUR"}, "deny ask allow"),
        ({"amount": 500, "currency": "EUR"}, "allow allow ask"),
        ({"currency": "EUR"}, "deny ask ask"),  # nobody knows the amount
        ({"amount": "50", "currency": "EUR"}, "deny ask ask"),
    ],
)
def test_a_condition_that_cannot_be_told_forbids_and_asks_and_never_allows(
    arguments: dict[str, Any], effects: str
) -> None:
    text = 'amount < 100 and currency == "EUR"'
    cases: list[tuple[Effect, Level]] = [("deny", "low"), ("ask", "low"), ("allow", "high")]
    found = [
        decided(AdminRule(effect=effect, condition=text), level=level, arguments=arguments).effect
        for effect, level in cases
    ]
    assert found == effects.split()


def test_rules_that_ask_count_together() -> None:
    rules = (
        AdminRule(effect="ask", id=2, note="Second."),
        AdminRule(effect="ask", id=1, wants_typing=True, note="First."),
    )
    decision = decided(*rules)
    assert (decision.rule_id, decision.wants_typing) == (1, True)
    assert decision.note == "First. Second."


@pytest.mark.parametrize(("today", "effect"), [(0, "allow"), (4, "allow"), (5, "ask")])
def test_a_daily_limit_turns_allow_into_ask(today: int, effect: Effect) -> None:
    limit = DailyLimit(calls=5, service="memos")
    assert decided(limit, level="low", calls_today=today).effect == effect
    assert decided(limit, CONSENT, calls_today=today).effect == effect
    assert decided(DailyLimit(calls=5, tool="else"), level="low", calls_today=9).effect == "allow"
    of_others = DailyLimit(calls=5, groups=frozenset({3}))
    assert decided(of_others, level="low", calls_today=9).effect == "allow"


# --- taint ---------------------------------------------------------------------------------
def test_strangers_words_raise_what_does_more_than_read_and_suspend_consents() -> None:
    tainted: dict[str, Any] = {"tainted_by": "web"}
    assert decided(level="low", **tainted).effect == "allow"
    asked = decided(CONSENT, level="medium", **tainted)
    assert asked.effect == "ask"
    assert "untrusted content from “web”" in asked.reason
    house = House(runs_up_to="medium")
    tainted_call = a_call(tainted_by="web")
    raised_one = decide(tainted_call, a_risk("medium"), (), OWNER, "act", house)
    assert raised_one.reason == reasons.NEEDS_APPROVAL["high"]
    assert decided(AdminRule(effect="allow"), level="medium", **tainted).effect == "allow"
