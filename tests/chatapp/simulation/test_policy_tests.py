"""Policy tests are decided as calls are, on any policy, by what is known of person and tool."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import Group

from chatapp.models import Consent, HousePolicy, Member, PolicyRule, PolicyTest
from chatapp.permissions import reasons
from chatapp.permissions.rules import AdminRule
from chatapp.policy.policy_set import load_policy_set
from chatapp.simulation.policy_tests import list_failing, list_newly_failing, load_cases
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from tests.turns.past_turns import shop
from tests.turns.second_signers import second_signature

pytestmark = pytest.mark.django_db


@pytest.fixture
def service(db: Any) -> Service:
    return shop()


def make(person: Member, tool: str = "change_label", expected: str = "ask", **fields: Any) -> None:
    PolicyTest.objects.create(
        name="One", person=person, service=Service.objects.get(), tool=tool,
        expected=expected, **fields,
    )  # fmt: skip


def decided() -> str:
    """What the only test's call comes to."""
    (case,) = load_cases()
    return case.decide_under(load_policy_set()).effect


def grouped(person: Member) -> None:
    group = Group.objects.create(name="Finance")
    group.user_set.add(person)
    PolicyRule.objects.create(name="R", effect="allow").groups.add(group)


def condition(person: Member) -> None:
    PolicyRule.objects.create(name="R", effect="deny", condition="amount > 100")


def off(person: Member) -> None:
    PolicyRule.objects.create(name="R", effect="deny", is_enabled=False)


def unconfirmed(person: Member) -> None:
    PolicyRule.objects.create(name="R", effect="allow")
    ToolSetting.objects.update(confirmed_hash="")


def gone(person: Member) -> None:
    PolicyRule.objects.create(name="R", effect="allow")
    ToolDefinition.objects.update(is_current=False)


def tool_off(person: Member) -> None:
    ToolSetting.objects.update(is_enabled=False)


def service_off(person: Member) -> None:
    Service.objects.update(is_enabled=False)


def private(person: Member) -> None:
    Service.objects.update(visibility="private")


def inactive(person: Member) -> None:
    Member.objects.update(is_active=False)


def lower_level(person: Member) -> None:
    ToolSetting.objects.update(level="low")


def consented(person: Member) -> None:
    service = Service.objects.get()
    Consent.objects.create(
        person=person,
        service=service,
        endpoint=service.endpoint,
        scope="always",
        definitions={"change_label": "hash-change_label"},
    )


@pytest.mark.parametrize(
    ("change", "effect"),
    [
        (lambda person: None, "ask"),
        (grouped, "allow"),
        (condition, "deny"),
        (off, "ask"),
        (unconfirmed, "ask"),
        (gone, "ask"),
        (tool_off, "deny"),
        (service_off, "deny"),
        (private, "deny"),
        (inactive, "deny"),
        (lower_level, "allow"),
        (consented, "ask"),
    ],
)
def test_a_test_is_decided_as_the_call_would_be(
    owner: Member, service: Service, change: Callable[[Member], None], effect: str
) -> None:
    make(owner, arguments={"amount": 120})
    change(owner)
    assert decided() == effect


@pytest.mark.parametrize(
    ("tool", "is_tainted", "hosts", "effect"),
    [
        ("read_label", False, "", "allow"),
        ("read_label", True, "", "ask"),
        ("read_label", True, "*.home.test", "allow"),
        ("read_label", True, "home.test", "ask"),
    ],
)
def test_a_test_after_untrusted_content_is_decided_by_its_destinations(
    owner: Member, service: Service, tool: str, is_tainted: bool, hosts: str, effect: str
) -> None:
    make(owner, tool, arguments={"url": "https://api.home.test/"}, is_tainted=is_tainted)
    HousePolicy(allowed_hosts=hosts).save()
    assert decided() == effect


def test_a_test_in_plan_mode_is_decided_as_in_a_chat_that_plans(
    owner: Member, service: Service
) -> None:
    make(owner, mode="plan")
    assert decided() == "deny"


def test_a_failing_test_says_what_was_decided_instead_and_why(
    owner: Member, service: Service
) -> None:
    make(owner, expected="allow")
    (failure,) = list_failing(load_policy_set(), load_cases())
    expected = "“One”. Expected: runs without asking. Actual: needs approval. "
    assert failure.sentence == expected + reasons.NEEDS_APPROVAL["medium"]


@pytest.mark.parametrize(
    ("tool", "expected", "decided"),
    [
        ("recall", "allow", ""),
        ("remember", "ask", ""),
        ("remember", "allow", "needs approval. "),
        ("recall", "deny", "runs without asking. "),
        ("add-service", "deny", ""),
        ("gone-long-ago", "ask", ""),
    ],
)
def test_a_test_can_be_about_our_own_tools(
    stranger: Member, tool: str, expected: str, decided: str
) -> None:
    PolicyTest.objects.create(name="One", person=stranger, tool=tool, expected=expected)
    assert_said(f"Actual: {decided}" if decided else "")


def test_a_rule_about_our_own_tools_counts_in_a_test(owner: Member) -> None:
    PolicyTest.objects.create(name="One", person=owner, tool="recall", expected="deny")
    assert_said("runs without asking.")
    PolicyRule.objects.create(name="R", effect="deny", is_core=True, tool="recall")
    assert_said("")


@pytest.mark.parametrize(
    ("expected", "field", "decided"),
    [
        (
            "type",
            "wants_typing",
            "with typed confirmation. Actual: needs a second approval without typed confirmation",
        ),
        ("two", "second", "a second approval. Actual: needs one approval with typed confirmation"),
    ],
)
def test_a_test_can_expect_more_than_a_click_of_one_person(
    owner: Member, service: Service, expected: str, field: str, decided: str
) -> None:
    make(owner, expected=expected)
    demands = {"wants_typing": True, "second": second_signature()}
    others = {each: value for each, value in demands.items() if each != field}
    rule = PolicyRule.objects.create(name="R", effect="ask", **others)
    assert_said(decided)
    setattr(rule, field, demands[field])
    rule.save()
    assert_said("")


def assert_said(words: str) -> None:
    """What the only failing test says; nothing where none fails."""
    said = " ".join(failure.sentence for failure in list_failing(load_policy_set(), load_cases()))
    assert words in said and bool(words) is bool(said)


def test_only_what_the_draft_itself_breaks_is_new(owner: Member, service: Service) -> None:
    make(owner)
    make(owner, tool="read_label", expected="deny")
    now = load_policy_set()
    assert [each.expected for each in list_failing(now, load_cases())] == ["deny"]
    draft = now.with_rule(AdminRule(effect="allow"))
    assert [each.expected for each in list_newly_failing(now, draft)] == ["ask"]
    strict = now.with_house(replace(now.house, asks_everything=True))
    assert list_newly_failing(now, strict) == []


def test_stored_rules_can_be_read_as_if_one_were_not_there(service: Service) -> None:
    rows = [PolicyRule.objects.create(name=name, effect="deny") for name in "ab"]
    kept = load_policy_set(but=rows[0])
    assert [rule.id for rule in kept.rules if isinstance(rule, AdminRule)] == [rows[1].pk]
    assert load_policy_set().without_rule(rows[0].pk) == kept
