"""Who can use which tool: the same answer as the code that decides about a call, for anybody."""

import itertools
from typing import Any

import pytest
from django.contrib.auth.models import Group

from chatapp.calls.own_tool_calls import decide_core_call
from chatapp.models import Consent, HousePolicy, Member, PolicyRule, ToolCall, ToolLimit
from chatapp.permissions import reasons
from chatapp.policy.stored_policy import load_policy
from chatapp.simulation import access
from chatapp.simulation.manual_runs import judge
from chatapp.tools.core import CORE_TOOLS
from chatapp.tools.core_catalogue import may_use
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from mcpconfig.services.sharing import explain_refusal
from tests.turns import rows

pytestmark = pytest.mark.django_db
NAMES = ("find_note", "update_note", "delete_note")


@pytest.fixture
def shop(owner: Member) -> Service:
    service = Service.objects.create(
        name="shop", url="https://shop.example/mcp", visibility="everyone"
    )
    for name in NAMES:
        made = ToolDefinition.objects.create(
            service=service, hash=name, name=name, input_schema={"type": "object"}
        )
        ToolSetting.objects.create(service=service, name=name, confirmed_hash=made.hash)
    return service


def make_policy(shop: Service, owner: Member) -> Group:
    """Rules of all effects, one with a condition, a limit that is reached, and a consent."""
    group = Group.objects.create(name="Support")
    owner.groups.add(group)
    PolicyRule.objects.create(name="No", effect="deny", tool="delete_note").groups.add(group)
    PolicyRule.objects.create(name="Small", effect="allow", tool="update_note", condition="n < 3")
    ToolLimit.objects.create(tool="find_note", calls=1, group=group)
    rows.call(rows.turn(owner), service=shop, tool_name="find_note", state="approved")
    HousePolicy(consents_to_high=True).save()
    Consent.objects.create(
        person=owner,
        service=shop,
        endpoint=shop.endpoint,
        scope="always",
        definitions={"update_note": "update_note"},
    )
    return group


def test_each_cell_is_what_a_call_would_meet(
    shop: Service, owner: Member, stranger: Member, admin: Member
) -> None:
    make_policy(shop, owner)
    tools = access.load_tools(shop)
    people = [owner, stranger, admin]
    found = access.judge_people(shop, tools, people)
    for row, person in zip(found, people, strict=True):
        for cell, tool in zip(row.cells, tools, strict=True):
            expected = judge(shop, tool.definition, person)
            assert (cell.decision, cell.may_change) == (expected.decision, expected.may_change)
    outcomes = {row.person: [cell.outcome for cell in row.cells] for row in found}
    # In the order of their names: delete, find, update.
    assert outcomes[owner] == ["refused", "asks", "runs"]
    assert outcomes[stranger] == ["asks", "runs", "asks"]


def test_access_is_what_a_turn_would_find(
    shop: Service, owner: Member, stranger: Member, admin: Member
) -> None:
    group = Group.objects.create(name="Support")
    owner.groups.add(group)
    gone = Member.objects.create_user("gone", is_active=False)
    people = [owner, stranger, admin, gone]
    shop.groups.add(group)
    for visibility, holder, is_enabled in itertools.product(
        Service.Visibility, (None, stranger, gone), (True, False)
    ):
        shop.visibility, shop.owner, shop.is_enabled = visibility, holder, is_enabled
        shop.save()
        expected = {person.pk for person in people if not explain_refusal(shop, person)}
        assert access.find_users(shop, people) == expected, (visibility, holder, is_enabled)


def test_a_group_stands_for_somebody_who_is_only_in_it(
    shop: Service, owner: Member, stranger: Member
) -> None:
    group = make_policy(shop, owner)
    Consent.objects.all().delete()
    ToolLimit.objects.all().delete()
    tools = access.load_tools(shop)
    of_group, of_nobody = access.judge_groups(shop, tools, [group])
    (of_owner, of_stranger) = access.judge_people(shop, tools, [owner, stranger])
    assert of_group.cells == of_owner.cells
    assert of_nobody.cells == of_stranger.cells
    shop.visibility = Service.Visibility.PRIVATE
    shop.save()
    closed = access.judge_groups(shop, tools, [group])
    assert {cell.outcome for row in closed for cell in row.cells} == {"none"}


# --- built-in tools ------------------------------------------------------------------------------
def test_each_built_in_tool_is_judged_as_a_call_of_it_is(
    owner: Member, stranger: Member, admin: Member
) -> None:
    """By the same code, with the same policy, in both modes."""
    group = Group.objects.create(name="Support")
    owner.groups.add(group)
    rule = PolicyRule.objects.create(name="No", effect="deny", is_core=True, tool="remember")
    rule.groups.add(group)
    ToolLimit.objects.create(is_core=True, tool="recall", calls=0, group=group)
    tools, people = access.load_own_tools(), [owner, stranger, admin]
    assert {tool.name for tool in tools} == set(CORE_TOOLS)
    for mode in ("act", "plan"):
        found = access.judge_people(None, tools, people, mode)
        for row, person in zip(found, people, strict=True):
            for cell, tool in zip(row.cells, tools, strict=True):
                turn = rows.turn(person, state="done")
                turn.conversation.mode = mode
                call = ToolCall(turn=turn, step=1, position=0, tool_id=tool.name, arguments="{}")
                decision, _risk = decide_core_call(
                    turn, call, tool.core, person, load_policy(person, None)
                )
                is_open = may_use(person, tool.core)
                assert cell.decision == (decision if is_open else None), (mode, person, tool.name)
    outcomes = {
        (row.person, tool.name): cell.outcome
        for row in access.judge_people(None, tools, people)
        for tool, cell in zip(tools, row.cells, strict=True)
    }
    assert outcomes[owner, "remember"] == "refused"
    assert outcomes[stranger, "remember"] != "refused"
    assert (outcomes[owner, "recall"], outcomes[stranger, "recall"]) == ("asks", "runs")
    assert outcomes[owner, "add-service"] == "none"
    assert outcomes[admin, "add-service"] == "asks"


def test_a_group_stands_for_a_member_without_rights_also_for_built_in_tools(
    owner: Member,
) -> None:
    group = Group.objects.create(name="Support")
    owner.groups.add(group)
    rule = PolicyRule.objects.create(name="No", effect="deny", is_core=True, tool="remember")
    rule.groups.add(group)
    tools = access.load_own_tools()
    of_group, of_nobody = access.judge_groups(None, tools, [group])
    [of_owner] = access.judge_people(None, tools, [owner])
    assert of_group.cells == of_owner.cells != of_nobody.cells


def test_built_in_tools_are_found_by_what_they_do() -> None:
    tools = access.load_own_tools()
    deleting = access.choose_tools(tools, "deletes")
    assert [tool.name for tool in deleting] == ["forget"]
    assert {"add-service", "forget"} <= {t.name for t in access.choose_tools(tools, "changes")}


def test_tools_that_delete_are_found_also_if_an_admin_lowered_their_risk(shop: Service) -> None:
    ToolSetting.objects.filter(name="delete_note").update(level="low")
    tools = access.load_tools(shop)
    assert {tool.risk.reasons for tool in tools if tool.name == "delete_note"} == {
        (reasons.SET_BY_ADMIN,)
    }
    kinds: tuple[access.Kind, ...] = ("deletes", "changes")
    names = {kind: [t.name for t in access.choose_tools(tools, kind)] for kind in kinds}
    assert names == {"deletes": ["delete_note"], "changes": ["delete_note", "update_note"]}


@pytest.mark.parametrize(
    ("values", "is_of_group", "may_change"),
    [
        ({"effect": "deny"}, False, True),
        ({"effect": "deny"}, True, False),
        ({"effect": "deny", "levels": ["low"]}, False, False),
        ({"effect": "allow"}, False, True),
        ({"effect": "ask"}, False, False),
        ({"effect": "ask", "wants_typing": True}, False, True),
    ],
    ids=["refuses", "of a group", "of a level", "allows", "asks as before", "asks for more"],
)
def test_a_star_stands_only_where_a_condition_can_change_the_outcome(
    shop: Service, stranger: Member, values: dict[str, Any], is_of_group: bool, may_change: bool
) -> None:
    """The update asks because of its risk, and the stranger is in no group."""
    rule = PolicyRule.objects.create(name="Small", tool="update_note", condition="n < 3", **values)
    if is_of_group:
        rule.groups.add(Group.objects.create(name="Support"))
    tools = access.choose_tools(access.load_tools(shop), "all", "update_note")
    ((cell,),) = [row.cells for row in access.judge_people(shop, tools, [stranger])]
    assert (cell.outcome, cell.may_change) == ("asks", may_change)


def test_the_catalogue_of_a_person_has_what_is_open_to_them(
    shop: Service, owner: Member, stranger: Member
) -> None:
    make_policy(shop, owner)
    Service.objects.create(
        name="own", url="https://own.example/mcp", owner=stranger, visibility="private"
    )
    ToolDefinition.objects.create(service=Service.objects.get(name="own"), hash="o", name="look")
    count = access.count_catalogue(owner)
    found = {tool.name: cell.outcome for tool, cell in access.judge_catalogue(owner, 0, count)}
    assert found == {"delete_note": "refused", "find_note": "asks", "update_note": "runs"}
    assert access.count_catalogue(stranger) == count + 1
    in_plan = {
        tool.name: cell.outcome for tool, cell in access.judge_catalogue(owner, 0, count, "plan")
    }
    assert in_plan["update_note"] == "refused"


def test_the_matrix_costs_the_same_statements_however_many_people(
    shop: Service, owner: Member, django_assert_max_num_queries: Any
) -> None:
    make_policy(shop, owner)
    people = [owner, *(Member.objects.create_user(f"person-{n}") for n in range(20))]
    tools = access.load_tools(shop)
    with django_assert_max_num_queries(7):
        access.judge_people(shop, tools, people)
