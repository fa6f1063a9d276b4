"""The simulator tells what a policy would have done with past calls, and does nothing."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F
from django.utils import timezone

from chatapp.models import (
    Attachment,
    Consent,
    Conversation,
    Member,
    Part,
    PolicyRule,
    ToolCall,
    ToolLimit,
    Turn,
)
from chatapp.permissions import reasons
from chatapp.policy.policy_set import PolicySet, load_policy_set
from chatapp.simulation.past_calls import Scope
from chatapp.simulation.simulator import Change, Questions, Simulation, simulate
from chatapp.tools.core import FIND_TOOLS
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from tests.turns.past_turns import past, shop

pytestmark = [pytest.mark.gate, pytest.mark.django_db, pytest.mark.timeout(300)]


@pytest.fixture
def service(db: Any) -> Service:
    return shop()


def replayed(**scope: Any) -> Simulation:
    return simulate(load_policy_set(), Scope(**scope))


def rule(effect: str, **fields: Any) -> None:
    PolicyRule.objects.create(name="A rule", effect=effect, **fields)


def outcomes(**scope: Any) -> tuple[int, int, int]:
    would = replayed(**scope).would
    return would["allow"], would["ask"], would["deny"]


def test_the_policy_that_decided_them_changes_nothing(owner: Member, service: Service) -> None:
    past([owner], service, 30)
    found = replayed()
    assert found.happened == found.would == {"allow": 10, "ask": 20, "deny": 0}
    assert found.changes == []
    assert found.questions == [Questions(person="owner", calls=30, asked=20, would_ask=20)]


def test_a_draft_says_what_would_have_changed_for_which_tool_and_person(
    owner: Member, stranger: Member, service: Service
) -> None:
    past([owner, stranger], service, 40)
    rule("allow", tool="change_label", condition="amount < 20")
    rule("deny", tool="delete_label")
    found = replayed()
    assert found.would == {"allow": 21, "ask": 6, "deny": 13}
    assert found.changes == [
        Change(
            tool_id="shop_delete_label",
            happened="ask",
            would="deny",
            calls=13,
            reason=reasons.FORBIDDEN_BY_RULE,
        ),
        Change(
            tool_id="shop_change_label",
            happened="ask",
            would="allow",
            calls=7,
            reason=reasons.ALLOWED_BY_RULE,
        ),
    ]
    assert {each.person: (each.asked, each.would_ask) for each in found.questions} == {
        "owner": (13, 3),
        "stranger": (13, 3),
    }


def house(**changes: Any) -> PolicySet:
    word = load_policy_set()
    return word.with_house(replace(word.house, **changes))


@pytest.mark.parametrize(
    ("changes", "would"),
    [
        ({"asks_everything": True}, {"allow": 0, "ask": 9, "deny": 0}),
        ({"runs_up_to": "medium"}, {"allow": 6, "ask": 3, "deny": 0}),
        ({"runs_up_to": None}, {"allow": 0, "ask": 9, "deny": 0}),
    ],
)
def test_what_holds_for_everybody_can_be_drafted(
    owner: Member, service: Service, changes: dict[str, Any], would: dict[str, int]
) -> None:
    past([owner], service, 9)
    assert simulate(house(**changes), Scope()).would == would


def test_calls_to_free_destinations_ask_unless_their_host_is_allowed(
    owner: Member, service: Service
) -> None:
    past([owner], service, 9)
    for number, call in enumerate(ToolCall.objects.filter(tool_name="read_label")):
        arguments = json.dumps({"url": f"https://a.test/{number}"})
        ToolCall.objects.filter(pk=call.pk).update(arguments=arguments)
    assert simulate(load_policy_set(), Scope()).would == {"allow": 3, "ask": 6, "deny": 0}
    strangers_attachments()
    assert simulate(load_policy_set(), Scope()).would == {"allow": 0, "ask": 9, "deny": 0}
    allowed = house(allowed_hosts=("a.test",))
    assert simulate(allowed, Scope()).would == {"allow": 3, "ask": 6, "deny": 0}


# --- what is taken into account ------------------------------------------------------------


def unconfirm() -> None:
    ToolSetting.objects.filter(name="read_label").update(confirmed_hash="")


def admin_level() -> None:
    ToolSetting.objects.filter(name="read_label").update(level="high")


def plan() -> None:
    Conversation.objects.update(mode="plan")


def limit() -> None:
    ToolLimit.objects.create(calls=2, tool="read_label")


def strangers_words() -> None:
    """All that comes after the first result in each answer is medium or high."""
    Service.objects.update(is_open=True)
    rule("allow", levels=["medium"])


def strangers_attachments() -> None:
    for turn in Turn.objects.all():
        part = Part.objects.create(message=turn.question, position=9, kind=Part.Kind.FILE)
        Attachment.objects.create(
            owner=turn.conversation.owner, part=part, size=0, contents=[], tainted_by="web"
        )
    rule("allow", levels=["medium"])


def copies_of_shared_chats() -> None:
    Conversation.objects.update(is_shared_copy=True, tainted_by="chat shared by Mara")
    rule("allow", levels=["medium"])


@pytest.mark.parametrize(
    ("change", "would"),
    [
        (unconfirm, (0, 9, 0)),
        (admin_level, (0, 9, 0)),
        (plan, (3, 0, 6)),
        (limit, (2, 7, 0)),
        (strangers_words, (3, 6, 0)),
        (strangers_attachments, (3, 6, 0)),
        (copies_of_shared_chats, (3, 6, 0)),
    ],
)
def test_what_counts_for_a_call_counts_here(
    owner: Member,
    service: Service,
    change: Callable[[], None],
    would: tuple[int, int, int],
) -> None:
    past([owner], service, 9)
    change()
    assert outcomes() == would


def test_calls_of_one_step_are_decided_before_any_of_them_has_a_result(
    owner: Member, service: Service
) -> None:
    past([owner], service, 6)
    strangers_words()
    assert outcomes() == (2, 4, 0)
    ToolCall.objects.update(step=1, position=F("step"))
    assert outcomes() == (4, 2, 0)


def ours(call: ToolCall, tool: str, **fields: Any) -> None:
    """The call, as if it had been of one of our own tools."""
    own = {"tool_id": tool, "tool_name": tool, "service": None, "definition": None}
    ToolCall.objects.filter(pk=call.pk).update(**own | fields)


def test_strangers_words_that_our_own_tools_brought_count_too(
    owner: Member, service: Service
) -> None:
    first = past([owner], service, 9)[0]
    rule("allow", levels=["medium"])
    ours(first, "recall")
    assert outcomes() == (6, 3, 0)
    ours(first, "recall", tainted_by="web")
    assert outcomes() == (3, 6, 0)


@pytest.mark.parametrize(("tool", "asks"), [("remember", True), ("forget", False)])
def test_what_outlives_a_chat_is_tainted_by_all_of_it(
    owner: Member, service: Service, tool: str, asks: bool
) -> None:
    made = past([owner], service, 11)
    Turn.objects.filter(pk=made[10].turn_id).update(
        conversation=made[0].turn.conversation, created_at=timezone.now() + timedelta(minutes=1)
    )
    rule("allow", levels=["medium"])
    ours(made[10], tool)
    ours(made[9], "recall", tainted_by="web")
    ToolCall.objects.filter(pk__in=[each.pk for each in made[:9]]).delete()
    assert outcomes() == ((1, 1, 0) if asks else (2, 0, 0))


def test_the_third_same_call_in_an_answer_asks(owner: Member, service: Service) -> None:
    past([owner], service, 15)
    reads = ToolCall.objects.filter(tool_name="read_label")
    reads.update(arguments="{}")
    assert outcomes() == (2 + 1, 12, 0), "Four of them are in the first answer, one in the next."


def consent(person: Member, service: Service, **fields: Any) -> Consent:
    row = Consent.objects.create(
        person=person,
        service=service,
        endpoint=service.endpoint,
        scope="always",
        definitions={"change_label": "hash-change_label"},
    )
    Consent.objects.update(**{"created_at": timezone.now() - timedelta(hours=2)} | fields)
    return row


@pytest.mark.parametrize(
    ("fields", "allowed"),
    [
        ({}, 6),
        ({"revoked_at": timezone.now() + timedelta(hours=1)}, 6),
        ({"revoked_at": timezone.now() - timedelta(hours=1)}, 3),
        ({"created_at": timezone.now() + timedelta(hours=1)}, 3),
    ],
)
def test_consents_count_as_they_stood_when_the_call_was_made(
    owner: Member, stranger: Member, service: Service, fields: dict[str, Any], allowed: int
) -> None:
    past([owner], service, 9)
    consent(owner, service, **fields)
    assert outcomes()[0] == allowed
    Consent.objects.update(person=stranger)
    assert outcomes()[0] == 3


@pytest.mark.parametrize(
    ("days_ago", "used_days_ago", "days", "allowed"),
    [(89, None, 30, 6), (91, None, 30, 3), (91, 50, 30, 6), (91, 50, 60, 7)],
)
def test_a_consent_that_nobody_used_for_long_had_lapsed(
    owner: Member,
    service: Service,
    days_ago: int,
    used_days_ago: int | None,
    days: int,
    allowed: int,
) -> None:
    """Its use counts whether it is replayed, too, or was before that."""
    given = consent(owner, service, created_at=timezone.now() - timedelta(days=days_ago))
    if used_days_ago is not None:
        past([owner], service, 1, consent=given)
        Turn.objects.update(created_at=timezone.now() - timedelta(days=used_days_ago))
    past([owner], service, 9)
    assert outcomes(days=days)[0] == allowed


def test_a_consent_that_runs_a_call_again_and_again_does_not_lapse(
    owner: Member, service: Service
) -> None:
    """Under the draft it would have been used, though the call was asked about then."""
    consent(owner, service, created_at=timezone.now() - timedelta(days=100))
    made = past([owner], service, 12)
    Turn.objects.filter(pk=made[0].turn_id).update(created_at=timezone.now() - timedelta(days=50))
    assert outcomes(days=60)[0] == 8


def test_a_refused_call_counts_as_refused(owner: Member, service: Service) -> None:
    past([owner], service, 3, state="refused", sent_at=None, result=None)
    assert replayed().happened == {"allow": 0, "ask": 0, "deny": 3}


def test_only_the_asked_for_past_is_replayed(
    owner: Member, stranger: Member, service: Service
) -> None:
    past([owner], service, 3)
    past([stranger], service, 6)
    other = Service.objects.create(
        name="other", url="https://other.example/mcp", visibility="everyone"
    )
    assert replayed(person=owner).calls == 3
    assert replayed(service=other).calls == 0
    assert replayed(service=service).calls == 9
    Turn.objects.update(created_at=timezone.now() - timedelta(days=5))
    assert (replayed(days=4).calls, replayed(days=6).calls) == (0, 9)


def test_calls_whose_service_is_gone_are_counted_apart(owner: Member, service: Service) -> None:
    past([owner], service, 6)
    ToolDefinition.objects.filter(name="read_label").delete()
    found = replayed()
    assert (found.calls, found.left_out) == (4, 2)
    service.delete()
    assert replayed().left_out == 6


def test_calls_that_policy_never_saw_are_left_alone(owner: Member, service: Service) -> None:
    past([owner], service, 3, risk="")
    assert (replayed().calls, replayed().left_out) == (0, 0)


def test_core_tools_are_replayed_as_well(owner: Member, service: Service) -> None:
    past([owner], service, 1, tool_id=FIND_TOOLS, tool_name=FIND_TOOLS, definition=None)
    ToolCall.objects.update(service=None)
    assert outcomes() == (1, 0, 0)


def test_thousands_of_calls_are_replayed_at_once_with_few_queries_and_nothing_is_stored(
    owner: Member,
    stranger: Member,
    service: Service,
    django_assert_max_num_queries: Any,
) -> None:
    past([owner, stranger], service, 5_000)
    rule("allow", tool="change_label", condition="amount < 1000")
    before = list(ToolCall.objects.order_by("pk").values())
    with django_assert_max_num_queries(20):
        found = replayed()
    assert found.calls == 5_000
    assert list(ToolCall.objects.order_by("pk").values()) == before
