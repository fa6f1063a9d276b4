"""Policy holds for trials as it does in chats: rules about values, daily limits, typed names."""

import json
import uuid
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from chatapp.models import HousePolicy, Member, PolicyRule, ToolLimit, Trial, Turn
from chatapp.people.refused import Refused
from chatapp.simulation import manual_runs
from chatapp.simulation.manual_runs import NotTyped, Proposal
from mcpconfig.models import Service
from mcpconfig.services import tool_definitions
from tests.peers.bench import Bench
from tests.turns import rows

from .try_tool_page import Desk

pytestmark = pytest.mark.timeout(30)


def proposed(person: Member, service: Service, tool: str, **values: Any) -> Proposal:
    definition = service.definitions.get(name=tool)
    return manual_runs.propose(person, definition, json.dumps(values), uuid.uuid4())


def run(proposal: Proposal, **answer: str) -> None:
    given = {"confirmed": "", **answer}
    manual_runs.run(proposal, on_stored=lambda _: None, **given)


@pytest.fixture
def confirmed(shop: Service) -> Service:
    tool_definitions.confirm_tools(tool_definitions.list_current_tools(shop))
    return shop


def rule(effect: str, condition: str, **fields: Any) -> PolicyRule:
    return PolicyRule.objects.create(name="Rule", effect=effect, condition=condition, **fields)


@pytest.mark.parametrize(
    ("effect", "condition", "name", "expected"),
    [
        ("deny", 'name == "prod"', "prod", "deny"),
        ("deny", 'name == "prod"', "test", "ask"),
        ("allow", 'name != "prod"', "prod", "ask"),
        ("allow", 'name != "prod"', "test", "allow"),
    ],
)
def test_a_rule_about_values_reads_the_values_of_a_trial(
    admin: Member, confirmed: Service, effect: str, condition: str, name: str, expected: str
) -> None:
    rule(effect, condition)
    if expected == "deny":
        with pytest.raises(Refused, match="forbids"):
            proposed(admin, confirmed, "delete_order", name=name)
        return
    proposal = proposed(admin, confirmed, "delete_order", name=name)
    assert proposal.judgement.decision.effect == expected


def test_a_rule_that_came_meanwhile_counts_as_it_is_sent(
    admin: Member, confirmed: Service, bench: Bench
) -> None:
    proposal = proposed(admin, confirmed, "delete_order", name="prod")
    rule("deny", 'name == "prod"')
    with pytest.raises(Refused, match="forbids"):
        run(proposal, confirmed=proposal.binding)
    assert bench.ran == []


def test_the_form_stays_open_where_only_some_values_are_forbidden(
    admin_client: Client, confirmed: Service, bench: Bench
) -> None:
    rule("deny", 'name == "prod"', note="Never in production.")
    tried = Desk(client=admin_client, service=confirmed, tool="delete_order")
    page = tried.open()
    assert "A rule checks the arguments." in page.said

    refused = tried.send(page, name="prod")

    assert refused.status == 403 and refused.values["name"] == "prod"
    assert "forbids it. Never in production." in refused.said
    assert tried.send(page, name="test").status == 200 and bench.ran == []


def test_a_daily_limit_counts_trials_and_calls_of_chats(
    admin: Member, stranger: Member, confirmed: Service, bench: Bench
) -> None:
    ToolLimit.objects.create(service=confirmed, tool="get_receipt", calls=2)
    run(proposed(admin, confirmed, "get_receipt"))
    proposal = proposed(admin, confirmed, "get_receipt")
    assert proposal.judgement.decision.effect == "allow"
    used: dict[str, Any] = {
        "service": confirmed,
        "tool_name": "get_receipt",
        "sent_at": timezone.now(),
    }
    rows.call(rows.turn(admin, Turn.State.DONE), **used)

    with pytest.raises(Refused):
        run(proposal)

    asked = proposed(admin, confirmed, "get_receipt").judgement.decision
    assert "you used this tool 2 times today" in asked.reason
    other = proposed(stranger, confirmed, "get_receipt").judgement.decision
    assert other.effect == "allow" and bench.ran == ["get_receipt"]


@pytest.mark.parametrize("typed", ["", "delete", "DELETE_ORDER"])
def test_a_name_that_must_be_typed_is_typed_before_it_runs(
    admin: Member, confirmed: Service, bench: Bench, typed: str
) -> None:
    HousePolicy(types_high=True).save()
    proposal = proposed(admin, confirmed, "delete_order", name="A-17")
    with pytest.raises(NotTyped):
        run(proposal, confirmed=proposal.binding, typed=typed)
    assert bench.ran == [] and not Trial.objects.exists()


def test_the_page_asks_for_the_name_and_runs_once_it_is_there(
    admin_client: Client, confirmed: Service, bench: Bench
) -> None:
    HousePolicy(types_high=True).save()
    tried = Desk(client=admin_client, service=confirmed, tool="delete_order")
    asked = tried.ask(name="A-17")

    again = tried.send(asked, act="run", typed="delete")

    assert again.status == 422 and again.fields["typed"] == "delete"
    assert "To run this, type the tool’s name: delete_order" in again.said
    assert bench.ran == []
    done = tried.send(asked, act="run", typed=" delete_order ")
    assert done.status == 302 and bench.ran == ["delete_order A-17"]
