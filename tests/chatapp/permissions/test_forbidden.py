"""What is not even offered: exactly what a rule denies whatever the call is like."""

from types import SimpleNamespace

import pytest
from hypothesis import given

from chatapp.permissions.decide import decide
from chatapp.permissions.forbidden import find_forbidden
from chatapp.permissions.risk import Risk
from chatapp.permissions.rules import (
    OWN_TOOLS,
    AdminRule,
    CallFacts,
    House,
    Mode,
    PersonFacts,
    Rule,
)

from .test_decide import OWNER, a_risk, calls, houses, modes, people, risks, rules


def is_forbidden(
    *said: Rule,
    service: str = "memos",
    tool: str = "delete_memo",
    risk: Risk | None = None,
    person: PersonFacts = OWNER,
) -> bool:
    judged = SimpleNamespace(service_name=service, tool_name=tool, risk=risk or a_risk("high"))
    return bool(find_forbidden({"it": judged}, said, person))


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (AdminRule(effect="deny"), True),
        (AdminRule(effect="deny", service="memos"), True),
        (AdminRule(effect="deny", tool="delete_memo"), True),
        (AdminRule(effect="deny", levels=frozenset({"high"})), True),
        (AdminRule(effect="deny", groups=frozenset({7})), True),
        (AdminRule(effect="deny", groups=frozenset({8})), False),
        (AdminRule(effect="deny", levels=frozenset({"medium"})), False),
        (AdminRule(effect="deny", service="memos", tool="list_memos"), False),
        (AdminRule(effect="deny", service=OWN_TOOLS), False),
        (AdminRule(effect="deny", condition="amount > 5"), False),
        (AdminRule(effect="ask"), False),
    ],
)
def test_a_tool_is_forbidden_where_a_rule_denies_every_call_of_it(
    rule: Rule, expected: bool
) -> None:
    assert is_forbidden(rule, person=PersonFacts(id=1, groups=frozenset({7}))) is expected


@given(calls, risks, rules, people, modes, houses)
def test_what_is_forbidden_would_never_have_run(
    call: CallFacts, risk: Risk, rules: list[Rule], person: PersonFacts, mode: Mode, house: House
) -> None:
    if is_forbidden(*rules, service=call.service, tool=call.tool, risk=risk, person=person):
        assert decide(call, risk, rules, person, mode, house).effect == "deny"
