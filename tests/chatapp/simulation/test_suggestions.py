"""Rules are suggested only for what people always approved, and only as drafts."""

import re
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs

import pytest
from django.contrib.auth.models import Group
from django.test import Client
from django.utils import timezone

from chatapp.models import Approval, Member, PolicyRule, ToolCall, Turn
from chatapp.simulation.suggestions import (
    LEAST_APPROVALS,
    TOOLS_PER_PAGE,
    Scope,
    Suggestion,
    SuggestionPage,
    find_suggestions,
)
from mcpconfig.services.tool_definitions import confirm_tools
from tests.conftest import signed_in
from tests.turns import rows

pytestmark = pytest.mark.django_db
State = Approval.State
QUESTIONS = "/admin/chatapp/policyrule/questions/"


def ask(
    person: Member,
    arguments: dict[str, Any],
    state: str = State.GRANTED,
    risk: str = "medium",
    seconds: float = 8,
    **values: Any,
) -> ToolCall:
    turn = rows.turn(person, Turn.State.DONE)
    call = rows.question(turn, arguments, risk=risk, **values)
    decided_at = (
        None if state == State.OPEN else call.approval.created_at + timedelta(seconds=seconds)
    )
    Approval.objects.filter(pk=call.pk).update(state=state, decided_at=decided_at)
    return call


def find(page: int = 1, *, compares_values: bool = True) -> SuggestionPage:
    since = timezone.now() - timedelta(days=30)
    return find_suggestions(since, compares_values=compares_values, page=page)


def suggest(*, compares_values: bool = True) -> list[Suggestion]:
    return find(compares_values=compares_values).rows


def test_a_tool_that_was_always_approved_is_suggested_with_what_its_calls_had_in_common(
    owner: Member,
) -> None:
    for number in range(LEAST_APPROVALS):
        ask(owner, {"to": "ops@example.com", "urgent": True, "text": f"Note {number}"})
    (found,) = suggest()
    assert (found.tool, found.service, found.approved) == ("delete_note", "Demo notebook", 10)
    assert found.condition == 'to == "ops@example.com" and urgent == true'
    (alone,) = suggest(compares_values=False)
    assert alone.condition == ""


@pytest.mark.parametrize(
    "state", [State.DENIED, State.EXPIRED, State.WITHDRAWN], ids=lambda state: str(state)
)
def test_one_other_answer_keeps_a_tool_out(owner: Member, state: str) -> None:
    for _ in range(LEAST_APPROVALS):
        ask(owner, {})
    assert suggest()
    ask(owner, {}, state)
    assert suggest() == []


def test_few_approvals_and_an_open_question_suggest_nothing(owner: Member) -> None:
    for _ in range(LEAST_APPROVALS - 1):
        ask(owner, {})
    ask(owner, {}, State.OPEN)
    assert suggest() == []


def test_a_tool_with_a_high_risk_needs_a_value_in_common(owner: Member) -> None:
    for number in range(LEAST_APPROVALS):
        ask(owner, {"name": f"thing-{number}"}, risk="high")
    assert suggest() == []
    for _ in range(LEAST_APPROVALS):
        ask(owner, {"name": "tmp"}, risk="high", tool_name="purge")
    assert [(each.tool, each.condition) for each in suggest()] == [("purge", 'name == "tmp"')]
    assert suggest(compares_values=False) == []


def test_a_tool_that_a_rule_allows_already_is_not_suggested(owner: Member) -> None:
    for _ in range(LEAST_APPROVALS):
        ask(owner, {})
    PolicyRule.objects.create(
        name="Notes", effect="allow", tool="delete_note", service=rows.service()
    )
    assert suggest() == []


@pytest.mark.parametrize(
    "value", ['say "hi"', "back\\slash", "two\nlines", "x =~ y", "long" * 100, 1.5, None, ["a"], {}]
)
def test_a_value_that_a_condition_cannot_say_is_left_out(owner: Member, value: object) -> None:
    for _ in range(LEAST_APPROVALS):
        ask(owner, {"odd": value, "null": 1, "not-a-name": 1, "fine": 3})
    (found,) = suggest()
    assert found.condition == "fine == 3"


def test_the_condition_holds_for_all_calls_that_are_counted(owner: Member) -> None:
    """Also for the oldest of many. What the rule saves is computed from the same calls."""
    turn, many = rows.turn(owner, Turn.State.DONE), 501
    calls = ToolCall.objects.bulk_create(
        ToolCall(
            turn=turn,
            step=1,
            position=number,
            tool_id="notebook_purge",
            tool_name="purge",
            service=rows.service(),
            risk="medium",
            arguments='{"name": "tmp", "force": true}' if number else '{"force": true}',
        )
        for number in range(many)
    )
    now = timezone.now()
    Approval.objects.bulk_create(
        Approval(tool_call=call, binding=rows.BINDING, expires_at=now, state=State.GRANTED)
        for call in calls
    )
    (found,) = suggest()
    assert (found.approved, found.condition) == (many, "force == true")
    assert round(found.per_week, 1) == round(many / (30 / 7), 1)


def test_calls_that_no_rule_could_save_say_nothing_about_the_condition(owner: Member) -> None:
    for _ in range(LEAST_APPROVALS):
        ask(owner, {"to": "ops@example.com"})
    once = ask(owner, {"to": "other@example.org"})
    Approval.objects.filter(pk=once.pk).update(is_once_only=True)
    (found,) = suggest()
    assert (found.approved, found.condition) == (LEAST_APPROVALS, 'to == "ops@example.com"')


def test_true_and_one_are_different_values(owner: Member) -> None:
    for number in range(LEAST_APPROVALS):
        ask(owner, {"flag": True if number else 1})
    (found,) = suggest()
    assert found.condition == ""


@pytest.mark.parametrize(
    ("values", "condition"),
    [
        (["ada@example.com", "bob@example.com"], '$mail_domain(to) == "example.com"'),
        ([["ada@example.com", "b@example.com"]], '$mail_domain(to) == "example.com"'),
        (["a@b.test", "a@a.test"], '$mail_domain(to) in ["a.test", "b.test"]'),
        (["https://a.test/x", "https://A.test:8443/y"], '$host(to) == "a.test"'),
        (
            ["a@example.com", "b@example.com.evil.org"],
            '$mail_domain(to) in ["example.com", "example.com.evil.org"]',
        ),
        (["a@a.test", "a@b.test", "a@c.test", "a@d.test"], ""),
        (["a@example.com", "Ada <a@example.com>"], ""),
        (["a@example.com", ["a@example.com", "b@evil.org"]], ""),
        (["a@example.com", "https://example.com/"], ""),
        (["example.com", "www.example.com"], ""),
        (["https://a.test/", "https://a.test@evil.org/"], ""),
        (["a@example.com", 3], ""),
    ],
)
def test_addresses_are_compared_by_their_domain(
    owner: Member, values: list[object], condition: str
) -> None:
    for number in range(12):
        ask(owner, {"to": values[number % len(values)]}, risk="high")
    assert [each.condition for each in suggest()] == ([condition] if condition else [])


def test_a_rule_for_one_domain_is_tried_on_the_past_calls(
    admin_client: Client, owner: Member
) -> None:
    definition = rows.definition(properties={"to": {"type": "string"}})
    confirm_tools([definition])
    for number in range(LEAST_APPROVALS):
        ask(owner, {"to": f"p{number}@example.com"}, definition=definition)
    (found,) = suggest()
    assert found.condition == '$mail_domain(to) == "example.com"'
    ask(owner, {"to": "p@example.com.evil.org"}, State.DENIED, definition=definition)
    tried: Any = admin_client.get(
        f"/admin/chatapp/policyrule/simulator/?{found.build_query('rule-')}"
    )
    assert [(each.would, each.calls) for each in tried.context["changes"]] == [("allow", 10)]


def test_the_rule_that_saves_most_comes_first_and_says_how_much(owner: Member) -> None:
    for tool, count in (("purge", 10), ("send", 30)):
        for _ in range(count):
            ask(owner, {}, tool_name=tool)
    assert [(each.tool, round(each.per_week, 1)) for each in suggest()] == [
        ("send", 7.0),
        ("purge", 2.3),
    ]


def test_all_tools_that_qualify_are_on_some_page(
    owner: Member, django_assert_max_num_queries: Any, admin_client: Client
) -> None:
    for number in range(TOOLS_PER_PAGE + 3):
        for _ in range(LEAST_APPROVALS):
            ask(owner, {}, tool_name=f"tool_{number:02}")
    with django_assert_max_num_queries(10):
        first = find()
    assert (len(first.rows), first.number, first.pages) == (TOOLS_PER_PAGE, 1, 2)
    second = find(2)
    names = [each.tool for each in (*first.rows, *second.rows)]
    assert names == [f"tool_{number:02}" for number in range(TOOLS_PER_PAGE + 3)]
    assert find(99).number == 2
    page = admin_client.get(QUESTIONS, {"days": "30"}).content.decode()
    assert "tool_07" in page and "tool_08" not in page.split("By tool")[0]
    (more,) = re.findall(r'<a href="([^"]*)">More suggestions</a>', page)
    assert "days=30" in more
    html = admin_client.get(f"{QUESTIONS}{more.replace('&amp;', '&')}").content.decode()
    assert "Previous suggestions" in html and "More suggestions" not in html


def test_a_page_of_tools_that_are_no_suggestions_leads_on(
    owner: Member, admin_client: Client
) -> None:
    for number in range(TOOLS_PER_PAGE + 1):
        for _ in range(LEAST_APPROVALS + 1):
            ask(owner, {}, risk="high", tool_name=f"tool_{number:02}")
    for _ in range(LEAST_APPROVALS):
        ask(owner, {}, tool_name="note")
    assert find().rows == []
    html = admin_client.get(QUESTIONS).content.decode()
    assert "no rule is suggested for them" in html and "More suggestions" in html
    assert [each.tool for each in find(2).rows] == ["note"]


# --- whom a rule is for --------------------------------------------------------------------------
def make_group(name: str, *people: Member) -> Group:
    group = Group.objects.create(name=name)
    group.user_set.add(*people)
    return group


def approve(person: Member, count: int = LEAST_APPROVALS, **values: Any) -> None:
    for _ in range(count):
        ask(person, {"to": "ops@example.com"}, **values)


def test_the_rule_is_for_the_smallest_group_with_all_who_approved(
    admin_client: Client, owner: Member, stranger: Member, admin: Member
) -> None:
    extra = Member.objects.create_user("extra")
    make_group("Everybody", owner, stranger, admin, extra)
    make_group("Three", owner, stranger, extra)
    support = make_group("Support", owner, stranger)
    make_group("Sales", admin)
    definition = rows.definition(properties={"to": {"type": "string"}})
    confirm_tools([definition])
    approve(owner, 6, definition=definition)
    approve(stranger, 6, definition=definition)
    (found,) = suggest()
    assert [group.name for group in found.scope.groups] == ["Support"]
    assert (found.scope.members, len(found.scope.approvers), found.approved) == (2, 2, 12)
    html = admin_client.get(QUESTIONS).content.decode()
    assert "<bdi>Support</bdi>" in html and "approved by 2 of 2 members" in html
    added: Any = admin_client.get(f"/admin/chatapp/policyrule/add/?{found.build_query()}&name=x")
    groups = added.context["adminform"].form["groups"].value()
    assert [str(each) for each in groups] == [str(support.pk)]
    tried: Any = admin_client.get(
        f"/admin/chatapp/policyrule/simulator/?{found.build_query('rule-')}"
    )
    assert tried.context["found"].calls == 12
    assert [(each.would, each.calls) for each in tried.context["changes"]] == [("allow", 12)]


def test_a_few_groups_cover_those_who_approved_together(
    owner: Member, stranger: Member, admin: Member
) -> None:
    Member.objects.create_user("extra")
    make_group("Support", owner)
    make_group("Sales", stranger)
    approve(owner, 5)
    approve(stranger, 5)
    (found,) = suggest()
    assert {group.name for group in found.scope.groups} == {"Support", "Sales"}


def test_if_everybody_approved_the_rule_is_for_everybody(
    owner: Member, stranger: Member, admin: Member
) -> None:
    make_group("Support", owner, stranger, admin)
    for person in (owner, stranger, admin):
        approve(person, 4)
    (found,) = suggest()
    assert (found.scope.groups, found.scope.is_wide) == ((), False)


def test_a_rule_that_no_group_narrows_says_that_few_approved(
    admin_client: Client, owner: Member, stranger: Member
) -> None:
    approve(owner)
    (found,) = suggest()
    assert (found.scope.groups, found.scope.is_wide) == ((), True)
    html = " ".join(admin_client.get(QUESTIONS).content.decode().split())
    assert "approved by 1 of 3 members" in html
    assert "No groups have just these members." in html


def test_a_group_that_approved_everything_is_suggested_although_others_did_not(
    owner: Member, stranger: Member
) -> None:
    """The calls of the others say nothing about the rule's condition or what it saves."""
    make_group("Support", owner)
    make_group("Both", owner, stranger)
    approve(owner)
    ask(stranger, {"to": "other@example.com"}, State.DENIED)
    ask(stranger, {"to": "other@example.com"})
    (found,) = suggest()
    assert [group.name for group in found.scope.groups] == ["Support"]
    assert (found.approved, found.condition) == (10, 'to == "ops@example.com"')


def test_a_rule_for_one_group_leaves_the_others_suggestions(
    owner: Member, stranger: Member
) -> None:
    support, sales = make_group("Support", owner), make_group("Sales", stranger)
    approve(owner)
    rule = PolicyRule.objects.create(
        name="Notes", effect="allow", tool="delete_note", service=rows.service()
    )
    rule.groups.add(support)
    assert suggest() == []
    rule.groups.set([sales])
    assert [group.name for group in suggest()[0].scope.groups] == ["Support"]


# --- the page ----------------------------------------------------------------------------------
def test_a_suggestion_is_tried_and_added_by_its_links(admin_client: Client, owner: Member) -> None:
    definition = rows.definition(properties={"to": {"type": "string"}})
    for number in range(LEAST_APPROVALS):
        arguments = {"to": "ops@example.com", "text": f"Note {number}"}
        ask(owner, arguments, seconds=1, definition=definition)
    html = admin_client.get(QUESTIONS).content.decode()
    assert "approved all 10 calls" in html
    assert "1 member approved most requests in under 2 seconds" in html
    (found,) = suggest()
    tried: Any = admin_client.get(
        f"/admin/chatapp/policyrule/simulator/?{found.build_query('rule-')}"
    )
    assert tried.context["found"].calls == LEAST_APPROVALS
    assert not PolicyRule.objects.exists()
    added: Any = admin_client.get(f"/admin/chatapp/policyrule/add/?{found.build_query()}&name=Ops")
    form = added.context["adminform"].form
    assert form["condition"].value() == found.condition
    assert str(form["service"].value()) == str(found.service_id)
    assert form["effect"].value() == "allow"


def test_values_of_calls_are_kept_from_an_admin_who_may_not_view_calls(
    stranger: Member, owner: Member
) -> None:
    for _ in range(LEAST_APPROVALS):
        ask(owner, {"to": "canary@example.com"})
    stranger.is_staff, stranger.rights = True, ["policy"]
    stranger.save()
    html = signed_in(stranger).get(QUESTIONS).content.decode()
    assert "approved all 10 calls" in html
    assert "canary@example.com" not in html


def test_the_query_of_a_suggestion_names_the_fields_of_a_rule() -> None:
    found = Suggestion(
        service_id=7,
        service="Mail",
        tool="send",
        risk="low",
        approved=9,
        condition='to == "a&b"',
        scope=Scope(members=1, approvers=frozenset({1})),
    )
    fields = {name: values[0] for name, values in parse_qs(found.build_query("rule-")).items()}
    assert fields == {
        "rule-effect": "allow",
        "rule-tool": "send",
        "rule-service": "7",
        "rule-condition": 'to == "a&b"',
    }
