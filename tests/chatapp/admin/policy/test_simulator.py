"""The simulator and the page of questions, as an admin reads them."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client
from django.utils import timezone

from chatapp.models import (
    Approval,
    Consent,
    HousePolicy,
    Member,
    PolicyRule,
    Question,
    Review,
    ToolCall,
    ToolLimit,
    Turn,
)
from chatapp.permissions import reasons
from chatapp.simulation.ask_rate import AskRate, measure_ask_rate
from mcpconfig.models import Service
from tests.dom_tree import Element, parse
from tests.turns import rows as rows_of
from tests.turns.past_turns import past, shop
from tests.turns.second_signers import second_signature

from .policy_rows import rule

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(300)]
SIMULATOR = "/admin/chatapp/policyrule/simulator/"
QUESTIONS = "/admin/chatapp/policyrule/questions/"


@pytest.fixture
def service(owner: Member, stranger: Member) -> Service:
    """Thirty calls, of ten messages and two people: twenty were asked about."""
    made = shop()
    past([owner, stranger], made, 30)
    return made


def opened(client: Client, address: str, **query: Any) -> Element:
    answer = client.get(address, query or None)
    assert answer.status_code == 200
    return parse(answer.content.decode()).one(id="content-main")


def rows(page: Element, name: str) -> list[list[str]]:
    table = page.one("div", role="region", aria_label=name)
    found = table.one("tbody").all("tr")
    return [[cell.text for cell in row.elements] for row in found]


def facts(page: Element) -> dict[str, str]:
    found = page.one("dl").elements
    return {each.one("dt").text: each.one("dd").text for each in found}


def test_the_simulator_begins_with_what_is_stored(admin_client: Client, service: Service) -> None:
    on, off = rule("deny", tool="a"), rule("deny", tool="b", name="Draft", is_enabled=False)
    HousePolicy(runs_up_to="medium", asks_everything=True).save()
    page = opened(admin_client, SIMULATOR)
    boxes = {each["value"]: "checked" in each for each in page.all("input", name="rules")}
    assert boxes == {str(on.pk): True, str(off.pk): False}
    assert "Draft (off): Refuses “b” of any service." in page.text
    assert "checked" in page.one("input", name="asks_everything")
    chosen = [each["value"] for each in page.one("select", name="runs_up_to").all("option")]
    assert chosen == ["", "low", "medium"]
    assert "selected" in page.one("select", name="runs_up_to").all("option")[2]
    assert not page.all("dl"), "Nothing is replayed before it is asked for."


def test_a_rule_leads_to_the_simulator_in_which_it_counts(
    admin_client: Client, service: Service
) -> None:
    draft = rule("deny", tool="a", is_enabled=False)
    page = opened(admin_client, f"/admin/chatapp/policyrule/{draft.pk}/change/")
    (link,) = [each for each in page.all("a") if each.text == "Try it on past calls"]
    assert "checked" in opened(admin_client, link["href"]).one("input", name="rules")
    for odd in ("x", "²", "99", "9" * 30, ""):
        assert "checked" not in opened(admin_client, f"{SIMULATOR}?with={odd}").one(
            "input", name="rules"
        )


def test_a_draft_is_replayed_and_nothing_of_it_is_stored(
    admin_client: Client, service: Service
) -> None:
    draft = rule("allow", tool="change_label", is_enabled=False)
    limit = ToolLimit.objects.create(tool="read_label", calls=2)
    query = {"days": 30, "runs_up_to": "low", "rules": draft.pk, "limits": limit.pk}
    page = opened(admin_client, SIMULATOR, **query)
    assert facts(page) == {
        "Calls": "30",
        "Would run without asking": "14 (actually: 10)",
        "Would ask": "16 (actually: 20)",
        "Would be refused": "0 (actually: 0)",
    }
    assert rows(page, "Changes")[0] == [
        "shop_change_label",
        "10",
        "asked",
        "would run",
        reasons.ALLOWED_BY_RULE,
    ]
    people = {row[0]: row[1:] for row in rows(page, "Questions per member")}
    assert set(people) == {"owner", "stranger"}
    draft.refresh_from_db()
    assert not draft.is_enabled
    assert page.one("input", name="rules")["value"] == str(draft.pk)


@pytest.mark.parametrize(
    ("query", "calls"),
    [({"runs_up_to": ""}, "30"), ({"person": "owner"}, "20"), ({"service": "other"}, "0")],
)
def test_the_past_can_be_narrowed(
    admin_client: Client, service: Service, owner: Member, query: dict[str, Any], calls: str
) -> None:
    other = Service.objects.create(
        name="other", url="https://other.example/mcp", visibility="everyone"
    )
    ids = {"owner": owner.pk, "other": other.pk}
    chosen = {name: ids.get(value, value) for name, value in query.items()}
    page = opened(admin_client, SIMULATOR, days=30, **chosen)
    assert facts(page)["Calls"] == calls


@pytest.mark.parametrize("days", ["0", "many", "9999", ""])
def test_a_time_that_cannot_be_is_said_at_its_field(
    admin_client: Client, service: Service, days: str
) -> None:
    page = opened(admin_client, SIMULATOR, days=days)
    assert page.with_class("errors-said")
    assert not page.all("dl")
    assert "20" in opened(admin_client, QUESTIONS, days=days).text


def answer(state: str, seconds: int, count: int) -> None:
    asked = Approval.objects.filter(state="open")[:count]
    for each in asked:
        Approval.objects.filter(pk=each.pk).update(
            state=state, decided_at=each.created_at + timedelta(seconds=seconds)
        )


def test_the_page_of_questions_says_who_is_asked_how_often_and_how_they_answer(
    admin_client: Client, service: Service
) -> None:
    Approval.objects.update(state="open")
    for state, seconds, count in (("granted", 2, 3), ("denied", 8, 2), ("expired", 900, 4)):
        answer(state, seconds, count)
    page = opened(admin_client, QUESTIONS)
    assert "20 questions. Messages from members: 3. Questions per message: 6.67." in page.text
    (day,) = rows(page, "By day")
    today = timezone.localtime().date().isoformat()
    assert day == [today, "20", "3", "0 (0 %)", "2", "4", "11", "2.0 s"]
    assert [row[:2] for row in rows(page, "By tool")] == [
        ["shop_change_label", "10"],
        ["shop_delete_label", "10"],
    ]
    assert sum(int(row[1]) for row in rows(page, "By member")) == 20


def test_only_the_asked_for_time_counts_and_the_median_is_of_answers(service: Service) -> None:
    Approval.objects.update(state="open")
    answer("granted", 1, 2)
    answer("granted", 60, 1)
    answer("withdrawn", 9_000, 5)
    found = measure_ask_rate(7)
    assert (found.total.median_seconds, found.total.unanswered) == (1.0, 5)
    Turn.objects.update(created_at=timezone.now() - timedelta(days=9))
    Approval.objects.update(created_at=timezone.now() - timedelta(days=9))
    empty = measure_ask_rate(7)
    assert (empty.total.asked, empty.total.median_seconds, empty.per_turn) == (0, None, 0.0)
    assert measure_ask_rate(10).total.asked == 20


def test_who_approves_most_requests_within_two_seconds_is_called_hasty(service: Service) -> None:
    Approval.objects.update(state="open")
    answer("granted", 1, 6)
    answer("granted", 60, 5)
    total = measure_ask_rate(7).total
    assert (total.granted, total.quick, total.quick_percent, total.is_hasty) == (11, 6, 55, True)
    Approval.objects.filter(state="granted").update(state="denied")
    assert not measure_ask_rate(7).total.is_hasty


def test_the_time_to_an_answer_counts_from_when_the_card_was_shown(
    admin_client: Client, service: Service
) -> None:
    """Who opens a request after an hour and approves it at once has not read it for an hour."""
    Approval.objects.update(state="open")
    answer("granted", 3_601, 12)
    shown = Approval.objects.filter(state="granted")
    for each in shown[:11]:
        Approval.objects.filter(pk=each.pk).update(shown_at=each.created_at + timedelta(hours=1))
    total = measure_ask_rate(7).total
    assert (total.median_seconds, total.quick, total.is_hasty) == (1.0, 11, True)
    assert (total.not_shown, total.answered) == (1, 12)
    text = opened(admin_client, QUESTIONS).text
    assert "counts from the moment when a page first showed the request" in text
    assert "For 1 of 12 answers, the time counts from the request." in text
    shown.update(shown_at=timezone.now())
    assert "counts from the request" not in opened(admin_client, QUESTIONS).text


def test_the_second_approver_is_measured_from_their_own_page(
    owner: Member, stranger: Member
) -> None:
    call = rows_of.question(rows_of.turn(owner))
    Approval.objects.filter(pk=call.pk).update(
        second=second_signature(), created_at=at(0), shown_at=at(2), first_by=owner,
        first_at=at(5), second_shown_at=at(304), state="granted", decided_by=stranger,
        decided_at=at(305),
    )  # fmt: skip
    times = {name: row[2] for name, row in asked_of(measure_ask_rate(7)).items()}
    assert times == pytest.approx({"owner": 3.0, "stranger": 1.0}, abs=0.1)


@pytest.mark.parametrize("address", [SIMULATOR, QUESTIONS])
def test_only_admins_see_these_pages(
    stranger_client: Client, stranger: Member, admin_client: Client, address: str
) -> None:
    assert stranger_client.get(address).status_code == 302
    stranger.is_staff = True
    stranger.save()
    assert stranger_client.get(address).status_code == 403
    links = parse(admin_client.get("/admin/chatapp/policyrule/").content.decode()).all("a")
    assert address in [link.attributes.get("href") for link in links]
    assert "style=" not in admin_client.get(address, {"days": "30"}).content.decode()


# --- questions of every kind ---------------------------------------------------------------------
def at(seconds: int) -> datetime:
    return timezone.now() - timedelta(minutes=10) + timedelta(seconds=seconds)


def asked_of(found: AskRate) -> dict[str, tuple[int, int, float | None]]:
    return {row.label: (row.asked, row.granted, row.median_seconds) for row in found.by_person}


@pytest.mark.parametrize(
    ("state", "by", "said"),
    [
        ("granted", "stranger", {"owner": (1, 1, 5.0), "stranger": (1, 1, 300.0)}),
        ("denied", "stranger", {"owner": (1, 1, 5.0), "stranger": (1, 0, 300.0)}),
        ("expired", "", {"owner": (1, 1, 5.0), "“Operations”": (1, 0, None)}),
        ("denied", "owner", {"owner": (1, 1, 5.0), "“Operations”": (1, 0, None)}),
    ],
)
def test_each_who_signs_is_asked_once_and_has_a_time_of_their_own(
    owner: Member, stranger: Member, state: str, by: str, said: dict[str, Any]
) -> None:
    call = rows_of.question(rows_of.turn(owner))
    signers = {"owner": owner, "stranger": stranger}
    Approval.objects.filter(pk=call.pk).update(
        second=second_signature(), created_at=at(0), first_by=owner, first_at=at(5),
        state=state, decided_by=signers.get(by), decided_at=at(305),
    )  # fmt: skip
    found = measure_ask_rate(7)
    people = asked_of(found)
    assert {name: row[:2] for name, row in people.items()} == {
        name: row[:2] for name, row in said.items()
    }
    times = {name: row[2] for name, row in people.items()}
    assert times == pytest.approx({name: row[2] for name, row in said.items()}, abs=1)
    assert {row.label for row in found.by_kind} == {"Approval", "Second approval"}


def test_questions_of_services_and_looks_at_results_count_for_whoever_was_asked(
    admin_client: Client, owner: Member
) -> None:
    call = rows_of.call(rows_of.turn(owner))
    due, asked = timezone.now() + timedelta(days=7), [{"key": "a"}]
    for number, state in enumerate(("answered", "declined", "cancelled", "expired")):
        Question.objects.create(
            tool_call=call, round=number, requests=asked, state=state, expires_at=due
        )
    Question.objects.create(tool_call=call, round=9, requests=[], expires_at=due)
    Review.objects.create(tool_call=call, binding="b", state="held_back", expires_at=due)
    page = opened(admin_client, QUESTIONS)
    assert rows(page, "By kind") == [
        ["Question from a service", "4", "1", "0 (0 %)", "2", "1", "0", "–"],
        ["Review of a result", "1", "0", "–", "1", "0", "0", "–"],
    ]
    assert [row[:2] for row in rows(page, "By member")] == [["owner", "5"]]


# --- drafts of limits and consents ---------------------------------------------------------------
RAN, ASKED = "Would run without asking", "Would ask"


def test_a_stored_limit_counts_while_it_is_ticked(admin_client: Client, service: Service) -> None:
    limit = ToolLimit.objects.create(tool="read_label", calls=2)
    page = opened(admin_client, SIMULATOR)
    assert "checked" in page.one("input", name="limits")
    assert (
        "For each member, calls of “read_label” of any service need approval after 2 per day."
        in page.text
    )
    query = {"days": 30, "runs_up_to": "low"}
    assert (
        facts(opened(admin_client, SIMULATOR, **query, limits=limit.pk))[RAN] == "4 (actually: 10)"
    )
    assert facts(opened(admin_client, SIMULATOR, **query))[RAN] == "10 (actually: 10)"


def test_a_limit_is_drafted_and_not_stored(
    admin_client: Client, service: Service, owner: Member
) -> None:
    group = Group.objects.create(name="Sales")
    owner.groups.add(group)
    query = {"days": 30, "runs_up_to": "low", "limit_calls": 0, "limit_tool": "read_label"}
    assert facts(opened(admin_client, SIMULATOR, **query))[ASKED] == "30 (actually: 20)"
    narrow = query | {"limit_group": group.pk, "limit_service": service.pk}
    read = ToolCall.objects.filter(tool_name="read_label", turn__conversation__owner=owner).count()
    assert facts(opened(admin_client, SIMULATOR, **narrow))[ASKED] == f"{20 + read} (actually: 20)"
    assert not ToolLimit.objects.exists()


def test_a_rule_is_drafted_and_not_stored(admin_client: Client, service: Service) -> None:
    query = {"days": 30, "runs_up_to": "low", "rule-effect": "allow", "rule-levels": "medium"}
    page = opened(admin_client, SIMULATOR, **query)
    assert facts(page)[RAN] == "20 (actually: 10)"
    assert "checked" in page.one("input", name="rule-levels", value="medium")
    assert not PolicyRule.objects.exists()


def test_a_consent_is_drafted_for_everybody_and_not_stored(
    admin_client: Client, service: Service
) -> None:
    query: dict[str, Any] = {"days": 30, "runs_up_to": "low", "widest_consent": "service"}
    query["allowed_service"] = service.pk
    assert facts(opened(admin_client, SIMULATOR, **query))[RAN] == "20 (actually: 10)"
    one = query | {"allowed_tool": "delete_label"}
    assert facts(opened(admin_client, SIMULATOR, **one))[RAN] == "10 (actually: 10)"
    high = one | {"consents_to_high": "on"}
    assert facts(opened(admin_client, SIMULATOR, **high))[RAN] == "20 (actually: 10)"
    assert not Consent.objects.exists()


@pytest.mark.parametrize(("widest", "ran"), [("once", 10), ("always", 10), ("service", 20)])
def test_what_people_may_allow_is_drafted_too(
    admin_client: Client, service: Service, widest: str, ran: int
) -> None:
    query = {"days": 30, "runs_up_to": "low", "allowed_service": service.pk}
    found = facts(opened(admin_client, SIMULATOR, **query, widest_consent=widest))
    assert found[RAN] == f"{ran} (actually: 10)"


def test_a_drafted_consent_is_to_tools_as_they_are_now(
    admin_client: Client, service: Service
) -> None:
    service.definitions.update(is_current=False)
    query = {"days": 30, "runs_up_to": "low", "widest_consent": "service"}
    found = facts(opened(admin_client, SIMULATOR, **query, allowed_service=service.pk))
    assert found[RAN] == "10 (actually: 10)"


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ({"allowed_tool": "read_label"}, "Choose the service of this tool."),
        ({"limit_tool": "read_label"}, "Enter the number of calls per day."),
        ({"limit_calls": "-1"}, "greater than or equal to 0"),
        ({"widest_consent": "all of it"}, "Select a valid choice"),
        ({"rule-tool": "read_label"}, "Choose the effect of the rule."),
        ({"rule-effect": "deny", "rule-condition": "amount <"}, "condition"),
    ],
)
def test_half_a_draft_is_said_at_its_field(
    admin_client: Client, service: Service, query: dict[str, Any], sentence: str
) -> None:
    page = opened(admin_client, SIMULATOR, days=30, **query)
    assert sentence in " ".join(each.text for each in page.with_class("errors-said"))
    assert not page.all("dl")
