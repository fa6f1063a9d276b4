"""After untrusted content, a call that sends data to a free destination asks."""

from typing import Any

import pytest

from chatapp.permissions import reasons
from chatapp.permissions.consequences import list_consequences
from chatapp.permissions.decide import decide
from chatapp.permissions.destinations import Destination
from chatapp.permissions.risk_evidence import Level
from chatapp.permissions.rules import AdminRule, Demand, Effect, House, Rule
from tests.chatapp.permissions.test_decide import CONSENT, OWNER, a_call, a_risk

EVIL = Destination(parameter="url", kind="address", host="evil.test")
HOME = Destination(parameter="url", kind="address", host="api.home.test")
UNCLEAR = Destination(parameter="url", kind="address")
MAIL = Destination(parameter="to", kind="recipient", host="@home.test")
SEARCH = Destination(parameter="q", kind="query")
INNER = Destination(parameter="url", kind="address", host="evil.test", is_inner=True)
HOSTS = ("*.home.test", "@home.test")
ALLOW = AdminRule(effect="allow")
NAMED = AdminRule(effect="allow", condition='"evil.test" in url')
OTHER = AdminRule(effect="allow", condition="title == null")


def decided(
    *destinations: Destination,
    rules: tuple[Rule, ...] = (),
    level: Level = "low",
    house: House | None = None,
    **changes: Any,
) -> Any:
    facts: dict[str, Any] = {
        "tainted_by": "web",
        "destinations": destinations,
        "arguments": {"url": "https://evil.test/"},
    }
    policy = house or House(allowed_hosts=HOSTS)
    return decide(a_call(**(facts | changes)), a_risk(level), rules, OWNER, "act", policy)


@pytest.mark.parametrize(
    ("destinations", "rules", "effect"),
    [
        ((), (), "allow"),
        ((EVIL,), (), "ask"),
        ((UNCLEAR,), (), "ask"),
        ((HOME,), (), "allow"),
        ((MAIL,), (), "allow"),
        ((HOME, MAIL), (), "allow"),
        ((HOME, EVIL), (), "ask"),
        ((HOME, SEARCH), (), "ask"),
        ((SEARCH,), (), "ask"),
        ((EVIL,), (CONSENT,), "ask"),
        ((HOME,), (CONSENT,), "allow"),
        ((EVIL,), (ALLOW,), "ask"),
        ((EVIL,), (OTHER,), "ask"),
        ((EVIL,), (NAMED,), "allow"),
        ((EVIL, SEARCH), (NAMED,), "ask"),
        ((HOME, EVIL), (NAMED,), "allow"),
        ((INNER,), (NAMED,), "ask"),
        ((EVIL, INNER), (NAMED,), "ask"),
        ((HOME,), (AdminRule(effect="ask"),), "ask"),
        ((HOME,), (AdminRule(effect="deny"),), "deny"),
        ((EVIL,), (AdminRule(effect="deny"), NAMED), "deny"),
        ((EVIL,), (AdminRule(effect="ask", condition='url != "x"'),), "ask"),
    ],
)
def test_a_reading_call_after_untrusted_content(
    destinations: tuple[Destination, ...], rules: tuple[Rule, ...], effect: Effect
) -> None:
    decision = decided(*destinations, rules=rules)
    assert decision.effect == effect
    untouched = decided(*destinations, rules=rules, tainted_by="")
    assert untouched == decided(rules=rules, tainted_by=""), "Without untrusted content."


@pytest.mark.parametrize("level", ["medium", "high"])
def test_a_rule_without_a_condition_on_the_destination_allows_no_call_of_a_higher_risk(
    level: Level,
) -> None:
    assert decided(EVIL, rules=(ALLOW,), level=level).effect == "ask"
    assert decided(HOME, rules=(ALLOW,), level=level).effect == "allow"
    assert decided(EVIL, rules=(NAMED,), level=level).effect == "allow"


def test_the_reason_says_where_the_text_came_from_and_which_value_decides() -> None:
    decision = decided(EVIL)
    assert decision.reason == reasons.SENDS_TO_ADDRESS % {"service": "web", "names": "url"}
    assert decision.is_once_only, "A consent would not replace this question."
    assert decided(MAIL, house=House()).reason.endswith(
        "sends data to a recipient that the content may have chosen: to."
    )
    assert "more than a few words to a web search" in decided(SEARCH).reason
    several = [Destination(parameter=f"{n}" * 100, kind="address") for n in range(5)]
    long = decided(*several, tainted_by="w" * 100).reason
    assert reasons.split_reason(long)[0] == reasons.SENDS_TO_ADDRESS
    assert long.endswith("…, ….")
    assert len(long) < 500, "It is stored in full."


def test_the_question_has_a_consequence() -> None:
    told = list_consequences([decided(EVIL).reason], "low")
    assert told == ["Its arguments may reach someone outside."]


def test_a_demand_for_two_signatures_stays() -> None:
    legal = Demand(id=1, deadline_hours=24)
    house = House(demands=(("medium", legal),), allowed_hosts=HOSTS)
    assert decided(EVIL, level="medium", house=house).demand == legal
    allowed = decided(EVIL, rules=(ALLOW,), level="medium", house=house)
    assert (allowed.effect, allowed.demand) == ("ask", legal)
