"""Why a decision is as it is: deny always wins, and nothing runs without a word that allows it."""

from hypothesis import given

from chatapp.permissions.decide import decide
from chatapp.permissions.risk import Risk
from chatapp.permissions.risk_evidence import LEVELS
from chatapp.permissions.rules import (
    AdminRule,
    CallFacts,
    Consent,
    Decision,
    House,
    Mode,
    PersonFacts,
    Rule,
)

from .test_decide import calls, houses, modes, people, risks, rules


@given(calls, risks, rules, people, modes, houses)
def test_deny_always_wins(
    call: CallFacts, risk: Risk, rules: list[Rule], person: PersonFacts, mode: Mode, house: House
) -> None:
    forbidding = AdminRule(effect="deny", service=call.service, tool=call.tool)
    for order in ([forbidding, *rules], [*rules, forbidding]):
        assert decide(call, risk, order, person, mode, house).effect == "deny"


@given(calls, risks, rules, people, modes, houses)
def test_nothing_runs_but_by_a_consent_a_rule_or_the_houses_threshold(
    call: CallFacts, risk: Risk, rules: list[Rule], person: PersonFacts, mode: Mode, house: House
) -> None:
    """Take away whatever says yes: what remains never runs a call."""
    mute = [
        rule
        for rule in rules
        if not isinstance(rule, Consent)
        and not (isinstance(rule, AdminRule) and rule.effect == "allow")
    ]
    decision = decide(call, risk, mute, person, mode, House(runs_up_to=None))
    assert decision.effect != "allow"
    again = decide(call, risk, mute, person, mode, house)
    if again.effect == "allow":
        assert house.runs_up_to is not None
        assert LEVELS.index(risk.level) <= LEVELS.index(house.runs_up_to)


@given(calls, risks, rules, people, modes, houses)
def test_a_consent_that_runs_a_call_is_this_persons_for_this_very_tool(
    call: CallFacts, risk: Risk, rules: list[Rule], person: PersonFacts, mode: Mode, house: House
) -> None:
    decision = decide(call, risk, rules, person, mode, house)
    if "you allowed this tool in advance" not in decision.reason or decision.effect != "allow":
        return
    assert risk.level != "high" or house.consents_to_high
    given_by = [rule for rule in rules if isinstance(rule, Consent)]
    assert any(
        (rule.person_id, rule.service, rule.endpoint) == (person.id, call.service, call.endpoint)
        and call.definition_hash in rule.definition_hashes
        and rule.conversation_id in (None, call.conversation_id)
        and rule.scope in house.consent_scopes
        for rule in given_by
    )


@given(calls, risks, rules, people, houses)
def test_a_question_about_one_use_and_no_other_withstands_every_consent(
    call: CallFacts, risk: Risk, rules: list[Rule], person: PersonFacts, house: House
) -> None:
    """So a card offers a lasting way exactly where the next call would not ask again."""
    decision = decide(call, risk, rules, person, "act", house)
    consents = [_covering(call, person, scope) for scope in house.consent_scopes]
    after = decide(call, risk, [*rules, *consents], person, "act", house)
    if decision.is_once_only:
        assert after == decision
    elif decision.effect == "ask" and _would_count(call, risk, decision, house):
        assert after.effect == "allow"


def _covering(call: CallFacts, person: PersonFacts, scope: str) -> Consent:
    return Consent(
        person_id=person.id,
        service=call.service,
        endpoint=call.endpoint,
        definition_hashes=frozenset({call.definition_hash}),
        scope=scope,
    )


def _would_count(call: CallFacts, risk: Risk, decision: Decision, house: House) -> bool:
    is_known = (
        call.is_confirmed and call.obstacle is None and call.endpoint and call.definition_hash
    )
    is_mild = not call.tainted_by and (risk.level != "high" or house.consents_to_high)
    is_left_to_people = decision.rule_id is None and not house.asks_everything
    return bool(is_known and is_mild and is_left_to_people and house.consent_scopes)
