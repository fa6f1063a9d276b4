"""The page of a tool call tells why it asked, ran or was refused, and what happened."""

from datetime import timedelta
from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.contrib.auth.models import Group, Permission
from django.test import Client
from django.utils import timezone

from chatapp.audit import chat_access
from chatapp.models import Approval, Consent, Member, PolicyRule, SecondSignature, ToolCall
from chatapp.permissions import reasons
from tests.conftest import signed_in
from tests.turns import rows

pytestmark = pytest.mark.django_db
CANARY = "canary-5d1f-secret"


def open_story(client: Client, call: ToolCall) -> BeautifulSoup:
    answer: Any = client.get(f"/admin/chatapp/toolcall/{call.pk}/change/")
    assert answer.status_code == 200
    return BeautifulSoup(answer.content, "html.parser")


def words(page: BeautifulSoup, selector: str) -> list[str]:
    return [" ".join(each.text.split()) for each in page.select(selector)]


def test_why_a_call_was_asked_is_three_clicks_away(admin_client: Client, owner: Member) -> None:
    rule = PolicyRule.objects.create(name="Deletions ask", effect="ask")
    call = rows.question(rows.turn(owner), why=reasons.ASKED_BY_RULE, rule=rule)
    overview: Any = admin_client.get("/admin/")
    page = BeautifulSoup(overview.content, "html.parser")
    (link,) = [each for each in page.select(".chart a") if each.text == "View tool calls"]
    listed: Any = admin_client.get(str(link["href"]))
    found = BeautifulSoup(listed.content, "html.parser").select_one("#result_list .field-tool_id a")
    assert found is not None
    story: Any = admin_client.get(str(found["href"]).split("?")[0])
    page = BeautifulSoup(story.content, "html.parser")
    assert words(page, ".card h2")[0] == "Why it asked"
    assert words(page, ".answer") == ["The rule Deletions ask matched. It asks every time."]
    assert str(call.pk)[:8] in page.text
    (deciding,) = page.select(".why [data-state=decides]")
    assert "Rules that ask" in deciding.text and "Deletions ask" in deciding.text
    assert words(page, ".why [data-state=passed] > :first-child") == [
        "Tool and service",
        "Rules that refuse",
        "Plan mode",
    ]


def test_the_permission_that_covered_a_call_is_named(admin_client: Client, owner: Member) -> None:
    service = rows.service()
    consent = Consent.objects.create(
        person=owner, service=service, endpoint=service.endpoint, scope="service", definitions={}
    )
    call = rows.call(rows.turn(owner), why=reasons.ALLOWED_IN_ADVANCE, consent=consent)
    page = open_story(admin_client, call)
    (answer,) = words(page, ".answer")
    assert answer.startswith("owner gave permission in advance on ")
    assert answer.endswith(": this service, always.")
    (link,) = page.select(".answer a")
    assert link["href"] == f"/admin/chatapp/member/{owner.pk}/person/"
    reader = Member.objects.create_user("reader", password="x", is_staff=True)
    reader.user_permissions.set(Permission.objects.filter(codename="view_toolcall"))
    page = open_story(signed_in(reader), call)
    assert words(page, ".answer") == [answer]
    assert page.select(".answer a") == []
    Consent.objects.update(revoked_at=timezone.now())
    assert "This permission was revoked on" in words(open_story(admin_client, call), ".answer")[0]


@pytest.mark.parametrize(
    ("state", "why", "title", "answer"),
    [
        (
            ToolCall.State.SUCCEEDED,
            reasons.RUNS["low"],
            "Why it ran without asking",
            reasons.RUNS["low"],
        ),
        (
            ToolCall.State.SUCCEEDED,
            reasons.ALLOWED_IN_ADVANCE,
            "Why it ran without asking",
            "Runs because owner allowed this tool in advance.",
        ),
        (
            ToolCall.State.REFUSED,
            reasons.NOT_IN_PLAN_MODE,
            "Why it was refused",
            reasons.NOT_IN_PLAN_MODE,
        ),
    ],
)
def test_the_answer_is_first(
    admin_client: Client, owner: Member, state: str, why: str, title: str, answer: str
) -> None:
    page = open_story(admin_client, rows.call(rows.turn(owner), state=state, why=why))
    assert words(page, ".card h2")[0] == title
    assert words(page, ".answer") == [answer]
    assert len(page.select(".why [data-state=decides]")) == 1


def test_a_call_that_policy_never_saw_says_so(admin_client: Client, owner: Member) -> None:
    page = open_story(admin_client, rows.call(rows.turn(owner), state="failed", risk=""))
    assert words(page, ".answer") == ["The call ended before the policy checked it."]
    assert page.select(".why") == []


def answer_twice(owner: Member, signer: Member) -> ToolCall:
    """A call with a secret and an edited value that two people allowed."""
    second = SecondSignature.objects.create(
        name="Finance leads", approvers=Group.objects.create(name="Finance")
    )
    now = timezone.now()
    call = rows.question(
        rows.turn(owner),
        {"id": "C-1187", "notify": False, "api_key": CANARY},
        asked_arguments='{"id": "C-1187", "notify": true}',
        why=reasons.NEEDS_TWO["high"],
    )
    ToolCall.objects.update(
        state=ToolCall.State.SUCCEEDED,
        sent_at=now,
        finished_at=now + timedelta(milliseconds=840),
        attempt=1,
        result={"content": [{"type": "text", "text": "gone"}]},
    )
    Approval.objects.update(
        state=Approval.State.GRANTED,
        second=second,
        created_at=now - timedelta(seconds=400),
        first_by=owner,
        first_at=now - timedelta(seconds=368),
        decided_by=signer,
        decided_at=now - timedelta(seconds=28),
        reason="Checked twice.",
    )
    call.refresh_from_db()
    return call


def test_both_answers_their_times_and_the_values_are_told(
    admin_client: Client, admin: Member, owner: Member, stranger: Member
) -> None:
    call = answer_twice(owner, stranger)
    chat_access.open_chat(admin, call.turn.conversation_id, "A complaint.")
    page = open_story(admin_client, call)
    told = " ".join(words(page, ".timeline"))
    for text in (
        "Policy: needs two approvals",
        "Waited 32.0 s for owner",
        "owner edited values and approved first",
        "Waited 5 min 40 s for Finance leads",
        "stranger gave the second approval",
        "Checked twice.",
        "over after 0.8 s",
        "The result went to the model",
        '"notify": true',
        '"notify": false',
        "gone",
        "Hello",
    ):
        assert text in told, text
    assert "then of Finance leads" in words(page, ".answer")[0]


def test_a_secret_is_in_no_page_of_the_workbench(
    admin_client: Client, admin: Member, owner: Member, stranger: Member
) -> None:
    call = answer_twice(owner, stranger)
    chat_access.open_chat(admin, call.turn.conversation_id, "A complaint.")
    policy = "/admin/chatapp/policyrule"
    for address in (
        f"/admin/chatapp/toolcall/{call.pk}/change/",
        "/admin/chatapp/toolcall/",
        "/admin/",
        "/admin/live/",
        "/admin/checks/",
        f"{policy}/who-can/?service={call.service_id}&kind=all",
        f"{policy}/as-member/?person={owner.pk}",
    ):
        answer = admin_client.get(address)
        assert answer.status_code == 200
        assert CANARY not in answer.content.decode(), address


def test_an_admin_without_the_right_sees_no_story(owner: Member) -> None:
    call = rows.question(rows.turn(owner), why=reasons.NEEDS_APPROVAL["high"])
    clerk = Member.objects.create_user("clerk", password="clerk-password", is_staff=True)
    address = f"/admin/chatapp/toolcall/{call.pk}/change/"
    assert signed_in(clerk).get(address).status_code == 403
    clerk.user_permissions.add(Permission.objects.get(codename="view_toolcall"))
    page = open_story(signed_in(clerk), call)
    assert words(page, ".links a") == [], "Each link needs a right of its own."


def test_what_the_model_wrote_is_in_no_part_of_the_story_before_a_reason(
    admin_client: Client, admin: Member, owner: Member
) -> None:
    """Also the names of the arguments, which a reason of policy repeats."""
    why = reasons.SENDS_TO_ADDRESS % {"service": "web", "names": CANARY}
    call = rows.question(rows.turn(owner, text=CANARY), {CANARY: 1}, why=why)
    ToolCall.objects.update(
        error={"kind": "not_run", "message": f"{CANARY} is missing.", "hint": CANARY}
    )
    Approval.objects.update(reason=CANARY)
    page = open_story(admin_client, call)
    assert CANARY not in str(page)
    assert "an address that the content may have chosen: …." in words(page, ".answer")[0]
    chat_access.open_chat(admin, call.turn.conversation_id, "A complaint.")
    page = open_story(admin_client, call)
    assert f"may have chosen: {CANARY}." in words(page, ".answer")[0]
    assert words(page, ".timeline .io h4") == ["Arguments", "Error"]
    assert f"{CANARY} is missing." in words(page, ".timeline")[0]


@pytest.mark.parametrize("why", [reasons.NO_POLICY, reasons.TOOL_CHANGED])
def test_a_reason_that_belongs_to_no_check_is_told(
    admin_client: Client, owner: Member, why: str
) -> None:
    page = open_story(admin_client, rows.question(rows.turn(owner), why=why))
    assert words(page, ".answer") == [why]


def test_a_reason_of_an_unknown_form_is_told_after_the_reason_of_the_admin(
    admin_client: Client, owner: Member
) -> None:
    page = open_story(admin_client, rows.question(rows.turn(owner), why=CANARY))
    assert words(page, ".answer") == ["The reason is shown after you open the values."]
    assert CANARY not in str(page)


@pytest.mark.parametrize(
    ("query", "count"), [("ran", 1), ("asked", 1), ("refused", 1), ("two", 0), ("x", 4)]
)
def test_calls_are_filtered_by_the_decision(
    admin_client: Client, owner: Member, query: str, count: int
) -> None:
    made = rows.turn(owner)
    rows.call(made)
    rows.question(made)
    rows.call(made, state=ToolCall.State.REFUSED)
    rows.call(made, state=ToolCall.State.FAILED, risk="")
    answer: Any = admin_client.get(f"/admin/chatapp/toolcall/?decision={query}")
    assert answer.context["cl"].result_count == count


def test_the_story_costs_few_statements(
    admin_client: Client, owner: Member, stranger: Member, django_assert_max_num_queries: Any
) -> None:
    call = answer_twice(owner, stranger)
    with django_assert_max_num_queries(15):
        open_story(admin_client, call)
