"""Rules are suggested only for what people always approved, and only as drafts."""

from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs

import pytest
from django.test import Client
from django.utils import timezone

from chatapp.models import Approval, Member, PolicyRule, ToolCall, Turn
from chatapp.simulation.suggestions import LEAST_APPROVALS, Suggestion, list_suggestions
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


def suggest(*, compares_values: bool = True) -> list[Suggestion]:
    since = timezone.now() - timedelta(days=30)
    return list_suggestions(since, compares_values=compares_values)


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


def test_of_many_tools_only_so_many_are_compared(
    owner: Member, django_assert_max_num_queries: Any
) -> None:
    for number in range(15):
        for _ in range(LEAST_APPROVALS):
            ask(owner, {}, risk="high", tool_name=f"tool_{number}")
    with django_assert_max_num_queries(10):
        assert suggest() == []


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
        service_id=7, service="Mail", tool="send", risk="low", approved=9, condition='to == "a&b"'
    )
    fields = {name: values[0] for name, values in parse_qs(found.build_query("rule-")).items()}
    assert fields == {
        "rule-effect": "allow",
        "rule-tool": "send",
        "rule-service": "7",
        "rule-condition": 'to == "a&b"',
    }
