"""The order of the checks, as the story of a call shows it, is the order of `decide`."""

from dataclasses import replace

from chatapp.permissions import reasons
from chatapp.permissions.check_order import CHECKS, find_check
from chatapp.permissions.decide import decide
from chatapp.permissions.destinations import Destination
from chatapp.permissions.risk import Risk
from chatapp.permissions.rules import (
    AdminRule,
    CallFacts,
    Consent,
    DailyLimit,
    Demand,
    House,
    PersonFacts,
)

HIGH = Risk(level="high", reasons=())
CALL = CallFacts(
    service="crm",
    tool="delete",
    is_confirmed=False,
    identical_calls_before=0,
    endpoint="https://crm.example",
    definition_hash="d",
    obstacle="disabled",
    calls_today=3,
    tainted_by="web",
    destinations=(Destination(parameter="to", kind="recipient", host="evil.example"),),
)
RULES = {
    "deny": AdminRule(effect="deny", id=1),
    "ask": AdminRule(effect="ask", id=2),
    "allow": AdminRule(effect="allow", id=3),
    "limit": DailyLimit(calls=1),
    "consent": Consent(
        person_id=1,
        service="crm",
        endpoint="https://crm.example",
        definition_hashes=frozenset({"d"}),
    ),
}
PERSON = PersonFacts(id=1)


def test_each_check_decides_once_all_before_it_are_out_of_the_way() -> None:
    call, rules, mode = CALL, dict(RULES), "plan"
    house = House(demands=(("high", Demand(id=1, deadline_hours=1)),))
    found = []
    # The rule that allows would lift the second approval, so it comes in later.
    allow = rules.pop("allow")
    for remove in (
        "obstacle",
        "deny",
        "plan",
        "ask",
        "doubt",
        "limit",
        "two",
        "destinations",
        "consent",
        "allow",
        "",
    ):
        decision = decide(call, HIGH, list(rules.values()), PERSON, mode, house)  # type: ignore[arg-type]
        found.append(find_check(decision.reason))
        match remove:
            case "obstacle":
                call = replace(call, obstacle=None)
            case "plan":
                mode = "act"
            case "doubt":
                call = replace(call, is_confirmed=True)
            case "two":
                house = House()
            case "destinations":
                call = replace(call, destinations=())
                rules["allow"] = allow
            case _:
                rules.pop(remove, None)
    assert tuple(found) == CHECKS


def test_every_reason_of_a_decision_has_its_check() -> None:
    stored = [
        value % dict.fromkeys(("service", "names", "times", "limit"), "7")
        for name, value in vars(reasons).items()
        if isinstance(value, str) and value.startswith(("Needs ", "Runs ", "Refused "))
        if name not in ("NO_POLICY", "PERSON_INACTIVE", "ONLY_FOR_ADMINS")
    ]
    stored += [
        *reasons.NEEDS_TWO.values(),
        *reasons.NEEDS_APPROVAL.values(),
        *reasons.RUNS.values(),
    ]
    assert len(stored) > 20
    assert [reason for reason in stored if find_check(reason) is None] == []
    assert find_check("A sentence of no version.") is None
