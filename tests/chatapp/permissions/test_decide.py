"""Deny beats ask beats allow, and whatever is in doubt asks."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatapp.permissions.decide import decide
from chatapp.permissions.risk import Risk
from chatapp.permissions.risk_evidence import LEVELS, Level
from chatapp.permissions.rules import (
    OWN_TOOLS,
    AdminRule,
    CallFacts,
    Consent,
    DailyLimit,
    Decision,
    Effect,
    House,
    Mode,
    Obstacle,
    PersonFacts,
    Rule,
)

OWNER = PersonFacts(id=1)
STRANGER = PersonFacts(id=2)
CONSENT = Consent(
    person_id=1,
    service="memos",
    endpoint="https://memos.test/mcp",
    definition_hashes=frozenset("h"),
)


def a_call(**changes: Any) -> CallFacts:
    facts: dict[str, Any] = {
        "service": "memos",
        "tool": "delete_memo",
        "is_confirmed": True,
        "identical_calls_before": 0,
        "endpoint": "https://memos.test/mcp",
        "definition_hash": "h",
        "conversation_id": "c1",
    }
    return CallFacts(**(facts | changes))


def a_risk(level: Level) -> Risk:
    return Risk(level=level, reasons=("Its name says so.",))


def decided(
    *rules: Rule, level: Level = "high", person: PersonFacts = OWNER, **changes: Any
) -> Decision:
    return decide(a_call(**changes), a_risk(level), rules, person)


@pytest.mark.parametrize(
    ("level", "effect"), [("low", "allow"), ("medium", "ask"), ("high", "ask")]
)
def test_the_risk_decides_where_nothing_was_said(level: Level, effect: Effect) -> None:
    decision = decided(level=level)
    assert decision.effect == effect
    assert level in decision.reason
    assert "Its name says so." not in decision.reason, "The reasons are shown beside it."


@pytest.mark.parametrize("level", LEVELS)
def test_a_tool_that_no_admin_has_confirmed_asks(level: Level) -> None:
    allowing = (CONSENT, AdminRule(effect="allow"))
    decision = decided(*allowing, level=level, is_confirmed=False)
    assert decision.effect == "ask"
    assert "no admin has confirmed" in decision.reason


@pytest.mark.parametrize(("before", "effect"), [(0, "allow"), (1, "allow"), (2, "ask"), (9, "ask")])
def test_the_third_identical_call_asks(before: int, effect: Effect) -> None:
    assert decided(level="low", identical_calls_before=before).effect == effect
    assert decided(CONSENT, identical_calls_before=before).effect == effect


@pytest.mark.parametrize(
    ("obstacle", "effect"), [("unreadable", "ask"), ("unknown", "ask"), ("disabled", "deny")]
)
def test_an_obstacle_never_runs(obstacle: Obstacle, effect: Effect) -> None:
    allowing = (CONSENT, AdminRule(effect="allow"))
    assert decided(*allowing, level="low", obstacle=obstacle).effect == effect


@pytest.mark.parametrize(
    "rule",
    [
        AdminRule(effect="deny"),
        AdminRule(effect="deny", service="memos"),
        AdminRule(effect="deny", service="memos", tool="delete_memo"),
        AdminRule(effect="deny", tool="delete_memo"),
    ],
)
def test_an_admins_deny_beats_everything(rule: Rule) -> None:
    allowing = (AdminRule(effect="allow"), CONSENT, AdminRule(effect="ask"))
    assert decided(*allowing, rule, level="low").effect == "deny"


@pytest.mark.parametrize(
    "rule",
    [
        AdminRule(effect="deny", service="mail"),
        AdminRule(effect="deny", tool="list_memos"),
        AdminRule(effect="deny", service="mail", tool="delete_memo"),
    ],
)
def test_a_rule_for_something_else_changes_nothing(rule: Rule) -> None:
    assert decided(rule, level="low").effect == "allow"


@pytest.mark.parametrize(("service", "effect"), [(OWN_TOOLS, "deny"), ("memos", "allow")])
def test_a_rule_about_our_own_tools_is_about_no_services(service: str, effect: Effect) -> None:
    rule = AdminRule(effect="deny", service=OWN_TOOLS, tool="delete_memo")
    assert decided(rule, level="low", service=service).effect == effect


def test_no_consent_overrides_an_admins_always_ask() -> None:
    assert decided(CONSENT, AdminRule(effect="ask")).effect == "ask"


def test_an_admins_allow_runs_what_the_risk_would_ask_about() -> None:
    assert decided(AdminRule(effect="allow", service="memos")).effect == "allow"


def test_a_persons_consent_runs_what_it_covers() -> None:
    decision = decided(CONSENT)
    assert decision.effect == "allow"
    assert "you allowed" in decision.reason


@pytest.mark.parametrize(
    "changes",
    [
        {"service": "mail"},
        {"endpoint": "https://elsewhere.test/mcp"},
        {"definition_hash": "changed"},
        {"person": STRANGER},
    ],
)
def test_a_consent_covers_nothing_else(changes: dict[str, Any]) -> None:
    assert decided(CONSENT, **changes).effect == "ask"


def test_a_consent_for_one_chat_holds_in_that_chat_only() -> None:
    here = Consent(
        person_id=1,
        service="memos",
        endpoint="https://memos.test/mcp",
        definition_hashes=frozenset({"h", "g"}),
        conversation_id="c1",
    )
    assert decided(here, conversation_id="c1").effect == "allow"
    assert decided(here, conversation_id="c2").effect == "ask"


@pytest.mark.parametrize(
    ("endpoint", "definition_hash"), [("", ""), ("", "h"), ("https://memos.test/mcp", "")]
)
def test_facts_that_are_not_known_match_no_consent(endpoint: str, definition_hash: str) -> None:
    careless = Consent(
        person_id=1,
        service="memos",
        endpoint=endpoint,
        definition_hashes=frozenset({definition_hash}),
    )
    facts: dict[str, Any] = {"endpoint": endpoint, "definition_hash": definition_hash}
    assert decided(careless, **facts).effect == "ask"


def test_a_call_that_the_code_stumbles_over_asks() -> None:
    broken: Any = None
    decision = decide(a_call(), broken, (), OWNER)
    assert decision.effect == "ask"
    assert "could not be applied" in decision.reason
    assert decide(a_call(), Risk(level=broken, reasons=()), (), OWNER).effect == "ask"


def test_a_broken_rule_does_not_open_the_door() -> None:
    broken: Any = Consent(
        person_id=1,
        service="memos",
        endpoint="https://memos.test/mcp",
        definition_hashes=None,  # type: ignore[arg-type]
    )
    assert decided(broken, level="low").effect == "ask"


SCOPES = ["conversation", "always", "service"]
services = st.sampled_from(["memos", "mail", ""])
tools = st.sampled_from(["delete_memo", "list_memos", ""])
hashes = st.sampled_from(["h", "g", ""])
endpoints = st.sampled_from(["https://memos.test/mcp", ""])
rules = st.lists(
    st.builds(
        AdminRule,
        effect=st.sampled_from(["deny", "ask", "allow"]),
        service=st.none() | services,
        tool=st.none() | tools,
        groups=st.frozensets(st.integers(1, 3), max_size=2),
        levels=st.frozensets(st.sampled_from(LEVELS), max_size=2),
        condition=st.sampled_from(["", "amount < 10", 'name == "x"']),
        wants_typing=st.booleans(),
        id=st.integers(1, 10_000),
    )
    | st.builds(
        DailyLimit,
        calls=st.integers(0, 5),
        service=st.none() | services,
        tool=st.none() | tools,
        groups=st.frozensets(st.integers(1, 3), max_size=1),
    )
    | st.builds(
        Consent,
        person_id=st.integers(1, 2),
        service=services,
        endpoint=endpoints,
        definition_hashes=st.frozensets(hashes),
        conversation_id=st.none() | st.sampled_from(["c1", "c2"]),
        scope=st.sampled_from(SCOPES),
    ),
    max_size=6,
    unique_by=lambda rule: getattr(rule, "id", None) or repr(rule),
)
calls = st.builds(
    CallFacts,
    service=services,
    tool=tools,
    is_confirmed=st.booleans(),
    identical_calls_before=st.integers(0, 4),
    endpoint=endpoints,
    definition_hash=hashes,
    conversation_id=st.sampled_from(["c1", "c2"]),
    obstacle=st.sampled_from([None, "unreadable", "unknown", "disabled"]),
    arguments=st.sampled_from([{}, {"amount": 5}, {"amount": 50, "name": "x"}]),
    calls_today=st.integers(0, 6),
    tainted_by=st.sampled_from(["", "web"]),
)
risks = st.builds(
    Risk, level=st.sampled_from(LEVELS), reasons=st.just(()) | st.just(("Its name says so.",))
)
people = st.builds(
    PersonFacts, id=st.integers(1, 2), groups=st.frozensets(st.integers(1, 3), max_size=2)
)
modes = st.sampled_from(["act", "plan"])
houses = st.builds(
    House,
    asks_everything=st.booleans(),
    runs_up_to=st.sampled_from([None, *LEVELS]),
    types_high=st.booleans(),
    consent_scopes=st.frozensets(st.sampled_from(SCOPES)),
    consents_to_high=st.booleans(),
)
STRENGTH: list[Effect] = ["allow", "ask", "deny"]


@given(calls, risks, rules, people, modes, houses)
def test_every_call_is_decided_with_a_reason(
    call: CallFacts, risk: Risk, rules: list[Rule], person: PersonFacts, mode: Mode, house: House
) -> None:
    decision = decide(call, risk, rules, person, mode, house)
    assert decision.effect in STRENGTH
    assert decision.reason.endswith(".")
    again = decide(call, risk, rules[::-1], person, mode, house)
    assert (decision.effect, decision.reason) == (again.effect, again.reason)


@given(calls, risks, rules, people, modes, houses, st.sampled_from(["deny", "ask"]))
def test_one_more_strict_rule_never_makes_a_decision_milder(
    call: CallFacts,
    risk: Risk,
    rules: list[Rule],
    person: PersonFacts,
    mode: Mode,
    house: House,
    effect: Effect,
) -> None:
    strict = AdminRule(effect=effect)
    decision = decide(call, risk, [*rules, strict], person, mode, house)
    before = decide(call, risk, rules, person, mode, house)
    assert STRENGTH.index(decision.effect) >= STRENGTH.index(before.effect)
    assert STRENGTH.index(decision.effect) >= STRENGTH.index(effect)


@given(calls, risks, rules, people, modes, houses)
def test_only_a_confirmed_and_readable_call_ever_runs(
    call: CallFacts, risk: Risk, rules: list[Rule], person: PersonFacts, mode: Mode, house: House
) -> None:
    if decide(call, risk, rules, person, mode, house).effect != "allow":
        return
    assert call.is_confirmed
    assert call.obstacle is None
    assert call.identical_calls_before < 2
    assert not house.asks_everything
    assert mode == "act" or risk.level == "low"
    threshold = house.runs_up_to is not None and LEVELS.index(risk.level) <= LEVELS.index(
        house.runs_up_to
    )
    said = [rule for rule in rules if isinstance(rule, AdminRule) and rule.effect == "allow"]
    assert threshold or said or any(isinstance(rule, Consent) for rule in rules)


@given(calls, risks, rules, people)
def test_a_strangers_consents_change_nothing(
    call: CallFacts, risk: Risk, rules: list[Rule], person: PersonFacts
) -> None:
    own = [r for r in rules if not isinstance(r, Consent) or r.person_id == person.id]
    assert decide(call, risk, rules, person) == decide(call, risk, own, person)
