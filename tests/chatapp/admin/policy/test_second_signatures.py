"""Second signatures in the admin: what is said is stored, and what would weaken it is not."""

import uuid
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from chatapp.models import HousePolicy, LogEntry, Member, PolicyRule, SecondSignature, StandIn
from chatapp.people.refused import Refused
from chatapp.simulation import manual_runs
from mcpconfig.models import ToolDefinition
from tests.turns.second_signers import member, second_signature

from .policy_rows import policy_test, rule, shop
from .test_policy import AS_IT_IS, HOUSE, RULES, page, said, typed

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(300)]
SECONDS = "/admin/chatapp/secondsignature/"
STAND_INS = "/admin/chatapp/standin/"


@pytest.fixture
def groups(db: Any) -> dict[str, int]:
    return {name: Group.objects.create(name=name).pk for name in ("Operations", "Managers")}


def given(groups: dict[str, int], **fields: Any) -> dict[str, Any]:
    values = {"name": "Payments", "approvers": groups["Operations"], "deadline_hours": "24"}
    return values | fields


def test_one_is_stored_as_it_was_typed_and_said_in_a_sentence(
    admin_client: Client, groups: dict[str, int]
) -> None:
    member("ada", "Operations")
    values = given(groups, escalation=groups["Managers"], escalates_after_hours="1")
    assert admin_client.post(f"{SECONDS}add/", values).status_code == 302
    row = SecondSignature.objects.get()
    assert (row.approvers_id, row.escalates_after_hours) == (groups["Operations"], 1)
    listed = said(admin_client.get(SECONDS))
    assert (
        "A member of Operations must approve within 24 hours. After 1 hour, a member of "
        "Managers can also approve." in listed
    )
    assert LogEntry.objects.filter(kind=LogEntry.Kind.POLICY, data__contains="Payments").exists()


def test_a_group_without_members_is_said_to_sign_nothing(
    admin_client: Client, groups: dict[str, int]
) -> None:
    admin_client.post(f"{SECONDS}add/", given(groups))
    assert "none: every such call expires" in said(admin_client.get(SECONDS))


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"escalates_after_hours": "4"}, "Enter both the escalation group and the hours."),
        ({"escalation": "Managers"}, "Enter both the escalation group and the hours."),
        (
            {"escalation": "Managers", "escalates_after_hours": "24"},
            "The call has expired by then. Enter fewer hours.",
        ),
        ({"deadline_hours": "0"}, "greater than or equal to 1"),
        ({"approvers": ""}, "This field is required."),
    ],
)
def test_what_cannot_be_is_said_and_nothing_typed_is_lost(
    admin_client: Client, groups: dict[str, int], fields: dict[str, Any], problem: str
) -> None:
    chosen = {key: groups.get(value, value) for key, value in fields.items()}
    answer = admin_client.post(f"{SECONDS}add/", given(groups, **chosen))
    assert problem in said(answer)
    assert page(answer).one("input", name="name")["value"] == "Payments"
    assert not SecondSignature.objects.exists()


def test_a_rule_that_asks_demands_it(admin_client: Client) -> None:
    second = second_signature()
    answer = admin_client.post(f"{RULES}add/", typed(effect="ask", second=second.pk))
    assert answer.status_code == 302
    assert PolicyRule.objects.get().second == second
    assert "before every tool runs. Needs a second approval: “Operations”." in said(
        admin_client.get(RULES)
    )


@pytest.mark.parametrize("effect", ["allow", "deny"])
def test_a_rule_that_does_not_ask_demands_nothing(admin_client: Client, effect: str) -> None:
    second = second_signature()
    answer = admin_client.post(f"{RULES}add/", typed(effect=effect, second=second.pk))
    assert "Only a rule that asks can require a second approval." in said(answer)
    assert not PolicyRule.objects.exists()


def test_the_policy_for_everybody_demands_it_of_a_risk(admin_client: Client) -> None:
    second = second_signature()
    answer = admin_client.post(HOUSE, AS_IT_IS | {"high_needs": second.pk})
    assert answer.status_code == 302
    house = HousePolicy.current()
    assert (house.medium_needs, house.high_needs) == (None, second)


@pytest.mark.parametrize("where", ["rule", "house"])
def test_in_a_policy_test_it_counts_as_asking(
    admin_client: Client, owner: Member, where: str
) -> None:
    service, second = shop(), second_signature()
    HousePolicy(runs_up_to="medium").save()
    policy_test(owner, service, "change_label", "allow")
    if where == "rule":
        values = typed(effect="ask", tool="change_label", second=second.pk, service=service.pk)
        answer = admin_client.post(f"{RULES}add/", values)
    else:
        values = AS_IT_IS | {"runs_up_to": "medium", "medium_needs": second.pk}
        answer = admin_client.post(HOUSE, values)
    assert "Expected: runs without asking. Actual: needs a second approval" in said(answer)
    assert not PolicyRule.objects.exists()
    assert HousePolicy.current().medium_needs is None


def test_what_a_rule_names_stays(admin_client: Client) -> None:
    second = second_signature()
    rule("ask", second=second)
    answer = admin_client.post(f"{SECONDS}{second.pk}/delete/", {"post": "yes"})
    assert answer.status_code in (200, 403)
    assert SecondSignature.objects.exists()
    group = second.approvers
    admin_client.post(f"/admin/auth/group/{group.pk}/delete/", {"post": "yes"})
    assert Group.objects.filter(pk=group.pk).exists()


def test_an_admin_names_a_stand_in_for_somebody(admin_client: Client) -> None:
    ada, ben = member("ada", "Operations"), member("ben")
    values = {"approver": ada.pk, "stand_in": ben.pk, "begins_on": "2026-01-02"}
    wrong = admin_client.post(f"{STAND_INS}add/", values | {"ends_on": "2026-01-01"})
    assert "The last day is before the first day." in said(wrong)
    own = admin_client.post(
        f"{STAND_INS}add/", values | {"stand_in": ada.pk, "ends_on": "2026-01-03"}
    )
    assert "An approver cannot be their own delegate." in said(own)
    admin_client.post(f"{STAND_INS}add/", values | {"ends_on": "2026-01-03"})
    assert str(StandIn.objects.get()) == "ben for ada"


@pytest.mark.parametrize("address", [SECONDS, f"{SECONDS}add/", STAND_INS, f"{STAND_INS}add/"])
def test_members_find_none_of_it(stranger_client: Client, address: str) -> None:
    assert stranger_client.get(address).status_code == 302
    assert stranger_client.post(address, {}).status_code == 302


def test_an_admin_alone_does_not_try_by_hand_what_two_must_sign(admin: Member) -> None:
    service = shop()
    HousePolicy(high_needs=second_signature()).save()
    definition = ToolDefinition.objects.get(service=service, name="delete_label")
    with pytest.raises(Refused, match="This needs a second approval"):
        manual_runs.propose(admin, definition, "{}", uuid.uuid4())
