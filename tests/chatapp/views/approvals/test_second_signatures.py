"""The second signer's card: all about the call, nothing else of the chat, and nobody else's."""

import time
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from chatapp.approvals import decisions
from chatapp.models import Approval, Member, ToolCall
from chatapp.people.refused import CHANGED
from chatapp.rendering import page_values
from chatapp.rendering.pages import fragments
from chatapp.tools.core import core_tool
from mcpconfig.models import Service
from tests.conftest import signed_in
from tests.dom_tree import Element, parse, root_of
from tests.turns import rows
from tests.turns.second_signers import hours_pass, member, second_signature, stand_in

State = ToolCall.State
HTMX = {"HX-Request": "true"}
SECRET = "the merger is called Falcon"


@pytest.fixture
def ada(db: Any) -> Member:
    return member("ada", "Operations")


@pytest.fixture
def ada_client(ada: Member) -> Client:
    return signed_in(ada)


def make_unsigned_call(owner: Member, **fields: Any) -> ToolCall:
    """A call that takes two people and that nobody has signed yet."""
    made = rows.turn(owner, text=SECRET)
    rows.said(made, SECRET)
    values = {"title": "Old ideas"}
    call = rows.question(made, values, definition=rows.definition(), why="It is high.", **fields)
    Approval.objects.update(second=second_signature())
    return call


@pytest.fixture
def call(owner: Member) -> ToolCall:
    """A call that its requester has signed."""
    made = make_unsigned_call(owner)
    decisions.grant(made, by=owner, binding=rows.BINDING, shown_at=None)
    return made


def decide(
    client: Client, call: ToolCall, decision: str = "run", htmx: bool = True, **values: Any
) -> HttpResponse:
    seconds_ago = values.pop("seconds_ago", 5)
    data = {
        "decision": decision,
        "version": rows.BINDING,
        "shown_at": fragments.sign_shown_at(call.pk, time.time() - seconds_ago),
        **values,
    }
    headers = HTMX if htmx else {}
    return client.post(f"/approvals/{call.pk}/decide", data, headers=headers)  # type: ignore[return-value]


def open_call_page(client: Client, call: ToolCall) -> Element:
    answer = client.get(f"/approvals/{call.pk}/")
    assert answer.status_code == 200
    return parse(answer.content.decode()).one("main")


def state_of(call: ToolCall) -> str:
    return ToolCall.objects.get(pk=call.pk).state


# --- what is shown -------------------------------------------------------------------------
def test_the_card_has_all_that_the_requester_saw_of_the_call(
    ada_client: Client, owner: Member, call: ToolCall
) -> None:
    ToolCall.objects.update(asked_arguments='{"title":"Ideas"}', reasons=["Its name says delete."])
    main = open_call_page(ada_client, call)
    card = main.one(role="group")
    assert "owner" in main.one("h1").text
    assert card.one(id=card["aria-labelledby"]).text == (
        "Approve for owner: Delete a note · Demo notebook"
    )
    for said in (
        "Reason shown to owner: “It is high.”",
        "Its name says delete.",
        "High risk",
        "demo service",
    ):
        assert said in card.text
    exact = [each.text for each in card.all("pre")]
    assert exact == ['{"title": "Old ideas"}', '{"title":"Ideas"}']
    assert card.choices() == ["decision=run", "decision=deny"]


def test_it_says_as_whom_the_call_runs(owner: Member, ada_client: Client) -> None:
    service = rows.service("mail", title="Mail", url="https://mail.example/mcp")
    Service.objects.update(authentication=Service.Authentication.OAUTH_USER)
    service.refresh_from_db()
    made = make_unsigned_call(owner, service=service)
    decisions.grant(made, by=owner, binding=rows.BINDING, shown_at=None)
    card = open_call_page(ada_client, made).one(role="group")
    assert [each.text for each in card.with_class("where")[0].all("span")] == [
        "mail.example",
        "runs as owner",
    ]


def test_a_tool_of_ours_runs_as_its_requester(owner: Member, ada_client: Client) -> None:
    made = make_unsigned_call(owner, service=None, tool_id="remember", tool_name="remember")
    ToolCall.objects.update(definition=None)
    decisions.grant(made, by=owner, binding=rows.BINDING, shown_at=None)
    card = open_call_page(ada_client, made).one(role="group")
    places = [each.text for each in card.with_class("where")[0].all("span")]
    assert places == ["runs as owner"]
    remember = core_tool("remember")
    assert remember is not None
    assert remember.description in card.text  # under *Explain*
    assert "as you" not in card.text


@pytest.mark.parametrize("over", [False, True])
def test_nothing_else_of_the_chat_is_shown_and_nothing_leads_into_it(
    ada_client: Client, call: ToolCall, over: bool
) -> None:
    if over:
        decide(ada_client, call)
        content = [{"type": "text", "text": SECRET}]
        ToolCall.objects.update(state=State.SUCCEEDED, result={"content": content})
    html = ada_client.get(f"/approvals/{call.pk}/").content.decode()
    assert SECRET not in html
    assert str(call.turn.conversation_id) not in html


def test_an_earlier_call_of_the_chat_is_not_compared_with_it(
    owner: Member, owner_client: Client, ada_client: Client, call: ToolCall
) -> None:
    """The requester is told what an earlier call of the tool had; the signer is not."""
    earlier = rows.call(call.turn, {"title": "Old ideas", SECRET: SECRET})
    ToolCall.objects.filter(pk=earlier.pk).update(sent_at=call.approval.created_at)
    assert SECRET in open_call_page(owner_client, call).text
    assert SECRET not in ada_client.get(f"/approvals/{call.pk}/").content.decode()


def test_what_the_page_holds_is_a_signature(ada_client: Client, call: ToolCall) -> None:
    form = open_call_page(ada_client, call).one("form", class_="decision")
    fields = form.fields() | {"decision": form.one("button", value="deny")["value"]}
    answer = ada_client.post(form["action"], fields)
    assert (answer.status_code, answer["Location"]) == (302, f"/approvals/{call.pk}/")
    assert state_of(call) == State.DENIED
    assert "denied by ada" in open_call_page(ada_client, call).text


# --- what the requester sees ---------------------------------------------------------------
def test_the_requester_is_told_that_it_takes_two(owner: Member, owner_client: Client) -> None:
    card = open_call_page(owner_client, make_unsigned_call(owner)).one(role="group")
    assert (
        "someone from “Operations” has 24 hours to approve it too"
        in card.with_class("because")[0].text
    )
    assert card.choices()[:2] == ["decision=run", "decision=deny"]
    assert not card.with_class("ways-to-run")


def test_the_requester_sees_who_is_awaited_and_may_still_say_no(
    owner: Member, owner_client: Client
) -> None:
    made = make_unsigned_call(owner)
    card = root_of(decide(owner_client, made).content.decode())
    assert card["id"] == page_values.tool_call_id(made.pk)
    because = card.with_class("because")[0].text
    assert "“Operations”" in because and "Managers" in because
    assert card.choices() == ["decision=deny"]
    fields = card.one("form").fields() | {"decision": "deny", "reason": "On second thoughts."}
    owner_client.post(f"/approvals/{made.pk}/decide", fields)
    assert state_of(made) == State.DENIED


def test_open_pages_replace_the_card_when_it_is_signed(owner: Member, owner_client: Client) -> None:
    """A page keeps an element until its `data-keep` changes."""
    made = make_unsigned_call(owner)
    address, element_id = f"/c/{made.turn.conversation_id}/", page_values.tool_call_id(made.pk)
    before = parse(owner_client.get(address).content.decode()).one(id=element_id)
    decisions.grant(made, by=owner, binding=rows.BINDING, shown_at=None)
    after = parse(owner_client.get(address).content.decode()).one(id=element_id)
    assert "run" in " ".join(before.choices()) and after.choices() == ["decision=deny"]
    assert before["data-keep"] != after["data-keep"]


def test_the_answer_says_what_it_waits_for(owner_client: Client, call: ToolCall) -> None:
    html = owner_client.get(f"/c/{call.turn.conversation_id}/").content.decode()
    status = parse(html).one(id=page_values.status_id(call.turn.answer_id))
    assert "Waiting for a second approval" in status.text


# --- answering -----------------------------------------------------------------------------
def test_run_once_is_the_second_signature(ada_client: Client, ada: Member, call: ToolCall) -> None:
    row = root_of(decide(ada_client, call).content.decode())
    assert "approved by ada" in row.one("summary").text
    approval = Approval.objects.get()
    assert (approval.state, approval.decided_by, state_of(call)) == (
        Approval.State.GRANTED,
        ada,
        State.APPROVED,
    )


def test_a_signature_that_came_too_soon_is_none(ada_client: Client, call: ToolCall) -> None:
    answer = decide(ada_client, call, seconds_ago=-30)
    assert answer.status_code == 409
    card = root_of(answer.content.decode())
    assert card.one(role="alert").text
    assert state_of(call) == State.AWAITING_APPROVAL


def test_what_must_be_typed_the_second_types_as_well_and_nothing_typed_is_lost(
    ada_client: Client, call: ToolCall
) -> None:
    Approval.objects.update(wants_typing=True)
    answer = decide(ada_client, call, typed="delete", reason="Only if it is really old.")
    assert answer.status_code == 422
    card = root_of(answer.content.decode())
    assert card.one("input", name="typed")["value"] == "delete"
    assert card.one("textarea").text == "Only if it is really old."
    assert state_of(call) == State.AWAITING_APPROVAL
    assert decide(ada_client, call, typed="delete_note").status_code == 200


@pytest.mark.parametrize(
    "values",
    [
        {"decision": "always"},
        {"decision": "conversation"},
        {"decision": "change", "exact": "{}"},
        {"scope": "service"},
        {"arguments": '{"title":"New ideas"}'},
    ],
)
def test_a_second_signature_changes_nothing_and_allows_nothing_in_advance(
    ada_client: Client, call: ToolCall, values: dict[str, Any]
) -> None:
    answer = decide(ada_client, call, **values)
    assert answer.status_code == 422
    assert root_of(answer.content.decode()).one(role="alert").text
    assert state_of(call) == State.AWAITING_APPROVAL


def test_without_javascript_a_refusal_is_shown_on_the_page(
    ada_client: Client, call: ToolCall
) -> None:
    answer = decide(ada_client, call, htmx=False, version="c" * 64)
    assert answer.status_code == 409
    assert parse(answer.content.decode()).one(role="alert").text == str(CHANGED)


def test_of_two_approvers_the_first_counts_and_the_other_is_told(
    ada_client: Client, call: ToolCall
) -> None:
    ben = signed_in(member("ben", "Operations"))
    decide(ada_client, call, "deny", reason="Not this week.")
    answer = decide(ben, call)
    assert answer.status_code == 409
    row = root_of(answer.content.decode())
    assert "Already denied by ada." in row.one(role="alert").text
    assert state_of(call) == State.DENIED


# --- who may -------------------------------------------------------------------------------
def not_allowed(name: str, owner: Member) -> Client:
    match name:
        case "stranger":
            return signed_in(member("stranger"))
        case "admin":
            return signed_in(Member.objects.create_superuser("admin", password="admin-password"))
        case "another group":
            return signed_in(member("bob", "Finance"))
        case "not escalated yet":
            return signed_in(member("mia", "Managers"))
        case "removed between page and click":
            left = member("left", "Operations")
            client = signed_in(left)
            assert client.get("/approvals/").status_code == 200
            left.groups.clear()
            return client
        case _:
            owner.groups.add(second_signature().approvers)
            return signed_in(stand_in(owner, member("mate")).stand_in)


@pytest.mark.parametrize(
    "name",
    [
        "stranger",
        "admin",
        "another group",
        "not escalated yet",
        "removed between page and click",
        "stand-in of the requester",
    ],
)
def test_nobody_else_sees_or_signs_it(owner: Member, call: ToolCall, name: str) -> None:
    """Threat: `approval-by-another-person`."""
    client = not_allowed(name, owner)
    assert client.get(f"/approvals/{call.pk}/").status_code == 404
    for decision in ("run", "deny"):
        for htmx in (True, False):
            assert decide(client, call, decision, htmx=htmx).status_code == 404
    assert state_of(call) == State.AWAITING_APPROVAL


def test_one_who_is_deactivated_between_page_and_click_is_shown_the_door(
    ada_client: Client, call: ToolCall
) -> None:
    open_call_page(ada_client, call)
    Member.objects.filter(username="ada").update(is_active=False)
    answer = decide(ada_client, call, htmx=False)
    assert answer["Location"].startswith("/sign-in/")
    assert state_of(call) == State.AWAITING_APPROVAL


def test_the_requester_cannot_sign_twice(
    owner: Member, owner_client: Client, call: ToolCall
) -> None:
    owner.groups.add(second_signature().approvers)
    answer = decide(owner_client, call)
    assert answer.status_code == 409
    assert root_of(answer.content.decode()).one(role="alert").text
    assert state_of(call) == State.AWAITING_APPROVAL


def test_an_approver_does_not_see_what_its_requester_has_not_signed(
    owner: Member, ada_client: Client
) -> None:
    made = make_unsigned_call(owner)
    assert ada_client.get(f"/approvals/{made.pk}/").status_code == 404
    assert decide(ada_client, made).status_code == 404
    assert state_of(made) == State.AWAITING_APPROVAL


@pytest.mark.parametrize("act", ["resolve", "cancel", "do-not-sign-in", "review"])
def test_an_approver_has_no_other_say(ada_client: Client, call: ToolCall, act: str) -> None:
    prefix = "calls" if act == "cancel" else "approvals"
    answer = ada_client.post(f"/{prefix}/{call.pk}/{act}", {"verdict": "worked"})
    assert answer.status_code == 404


def test_the_chat_stays_the_owners(ada_client: Client, call: ToolCall) -> None:
    assert ada_client.get(f"/c/{call.turn.conversation_id}/").status_code == 404
    assert ada_client.get(f"/calls/{call.pk}/content/0").status_code == 404


def test_others_sign_once_it_has_waited(call: ToolCall) -> None:
    hours_pass(4.5)
    mia = signed_in(member("mia", "Managers"))
    assert "approved by <bdi>mia</bdi>" in decide(mia, call).content.decode()
    assert state_of(call) == State.APPROVED
