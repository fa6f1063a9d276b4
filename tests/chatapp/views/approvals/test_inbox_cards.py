"""The card of a call in its row of the inbox: it is the card of the chat, answered by its form."""

import re
import uuid
from datetime import timedelta

import pytest
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone

from chatapp.consumers import parse_elements, render_elements
from chatapp.models import Approval, Member, ToolCall
from chatapp.rendering import page_values
from chatapp.rendering.pages import fragments
from chatapp.rendering.pages.inbox import build_inbox_address
from tests.chatapp.approvals.test_inbox import signed_first
from tests.conftest import signed_in
from tests.dom_tree import Element, parse
from tests.turns import rows

from .test_decisions import decide, state_of

State = ToolCall.State


@pytest.fixture
def call(owner: Member) -> ToolCall:
    made = rows.turn(owner, text="Tidy up")
    rows.said(made, "I will delete it.")
    values = {"title": "Old\u202e ideas", "text": "long " * 500}
    return rows.question(made, values, definition=rows.definition())


@pytest.fixture
def signer(db: None) -> Member:
    return Member.objects.create_user("signer", password="a-long-password")


def open_in_inbox(client: Client, call: ToolCall) -> HttpResponse:
    return client.get(f"/approvals/?open={call.pk}")  # type: ignore[return-value]


def read_row(answer: HttpResponse, call: ToolCall) -> Element:
    inbox = parse(answer.content.decode()).one(id=page_values.inbox_id(call.pk))
    (row,) = [each for each in inbox.all("li") if each.all("a", id=page_values.waiting_id(call.pk))]
    return row


def read_card(html: str, call: ToolCall) -> str:
    """Return the card without its time and its token, which differ at each load."""
    start = html.index(f'<section class="approval"\n         id="tool-call-{call.pk}"')
    card = fragments.strip_shown_at(html[start : html.index("</section>", start)])
    return re.sub(r'name="csrfmiddlewaretoken" value="\w+"', "", card)


# --- what is shown ---------------------------------------------------------------------------
def test_a_row_leads_to_its_card_and_the_card_is_the_one_of_the_chat(
    owner_client: Client, call: ToolCall
) -> None:
    line = parse(owner_client.get("/approvals/").content.decode()).one(
        id=page_values.waiting_id(call.pk)
    )
    assert line["href"] == build_inbox_address(call.pk)
    answer = open_in_inbox(owner_client, call)
    card = read_card(answer.content.decode(), call)
    alone = owner_client.get(f"/approvals/{call.pk}/").content.decode()
    chat = owner_client.get(f"/c/{call.turn.conversation_id}/").content.decode()
    assert card == read_card(alone, call) == read_card(chat, call)
    assert "I will delete it." in read_row(answer, call).text


def test_a_second_signer_has_their_own_card_and_nothing_of_the_chat(
    owner: Member, signer: Member
) -> None:
    call = signed_first(owner, signer)
    client = signed_in(signer)
    answer = open_in_inbox(client, call)
    alone = client.get(f"/approvals/{call.pk}/").content.decode()
    html = answer.content.decode()
    assert read_card(html, call) == read_card(alone, call)
    assert str(call.turn.conversation_id) not in html


def test_one_card_is_open_and_the_others_are_rows(
    owner_client: Client, owner: Member, call: ToolCall
) -> None:
    other = rows.question(rows.turn(owner))
    main = parse(open_in_inbox(owner_client, call).content.decode()).one("main")
    assert len(main.all("form", id=f"{page_values.tool_call_id(call.pk)}-answer")) == 1
    assert not main.all("form", id=f"{page_values.tool_call_id(other.pk)}-answer")
    assert main.one("a", id=page_values.waiting_id(call.pk))["aria-current"] == "true"


@pytest.mark.parametrize("named", ["stranger", "missing", "no id", "not asked"])
def test_what_is_not_for_this_person_cannot_be_opened(
    owner_client: Client, owner: Member, stranger: Member, named: str
) -> None:
    ids = {
        "stranger": rows.question(rows.turn(stranger)).pk,
        "missing": uuid.uuid4(),
        "no id": "x",
        "not asked": rows.call(rows.turn(owner), {}, State.SUCCEEDED).pk,
    }
    assert owner_client.get(f"/approvals/?open={ids[named]}").status_code == 404


def test_a_live_inbox_keeps_the_card_that_is_open(
    owner: Member, stranger: Member, call: ToolCall
) -> None:
    ids = [page_values.inbox_id(call.pk), page_values.tool_call_id(call.pk)]
    sent = render_elements(owner.pk, None, parse_elements(ids))
    place = parse(sent[ids[0]]).one(id=page_values.opened_id(call.pk))
    assert place["data-keep"] == "opened" and not place.all("section")
    assert "Allow once" in sent[ids[1]]
    assert render_elements(stranger.pk, None, parse_elements(ids)) == {}


# --- the answer ------------------------------------------------------------------------------
@pytest.mark.parametrize(("decision", "word"), [("run", "running"), ("deny", "denied by owner")])
def test_without_javascript_an_answer_leads_back_to_the_row_which_says_it(
    owner_client: Client, owner: Member, decision: str, word: str
) -> None:
    call, other = rows.question(rows.turn(owner)), rows.question(rows.turn(owner))
    shown = parse(open_in_inbox(owner_client, call).content.decode())
    back = shown.one("input", name="back")
    assert back["form"] == f"{page_values.tool_call_id(call.pk)}-answer"
    answer = decide(owner_client, call, htmx=False, decision=decision, back=back["value"])
    assert (answer.status_code, answer["Location"]) == (302, build_inbox_address(call.pk))
    row = read_row(open_in_inbox(owner_client, call), call)
    assert word in row.text and not row.all("form", id=back["form"])
    # In its place, and only as long as it is open.
    lines = [page_values.waiting_id(each.pk) for each in (call, other)]
    main = parse(open_in_inbox(owner_client, call).content.decode()).one("main")
    assert [each["id"] for each in main.all("a") if each.attributes.get("id") in lines] == lines
    main = parse(owner_client.get("/approvals/").content.decode()).one("main")
    assert [each["id"] for each in main.all("a") if each.attributes.get("id") in lines] == lines[1:]


def test_a_refused_answer_comes_back_in_the_row_with_what_was_typed(
    owner_client: Client, call: ToolCall
) -> None:
    answer = decide(owner_client, call, htmx=False, back="inbox", reason="Not that one")
    assert answer.status_code == 422
    row = read_row(answer, call)
    assert "is long" in row.one(role="alert").text
    assert row.one("textarea", name="reason").text.strip() == "Not that one"
    assert row.one("input", name="back")["value"] == "inbox"
    assert state_of(call) == State.AWAITING_APPROVAL


def test_an_answer_too_soon_is_refused_in_the_inbox_as_well(
    owner_client: Client, owner: Member
) -> None:
    call = rows.question(rows.turn(owner))
    answer = decide(owner_client, call, htmx=False, seconds_ago=-30, back="inbox")
    assert answer.status_code == 409
    assert read_row(answer, call).one(role="alert").text
    assert state_of(call) == State.AWAITING_APPROVAL


@pytest.mark.parametrize("htmx", [False, True])
def test_an_answer_after_another_one_says_so_in_the_row(
    owner_client: Client, owner: Member, htmx: bool
) -> None:
    call = rows.question(rows.turn(owner))
    decide(owner_client, call, decision="deny")
    answer = decide(owner_client, call, htmx=htmx, back="inbox")
    assert answer.status_code == 409
    said = parse(answer.content.decode()).one(class_="reason", role="alert").text
    assert said == "Already denied by owner."
    assert state_of(call) == State.DENIED


@pytest.mark.parametrize("htmx", [False, True])
def test_an_answer_after_the_deadline_says_so_in_the_row(
    owner_client: Client, owner: Member, htmx: bool
) -> None:
    call = rows.question(rows.turn(owner))
    Approval.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    answer = decide(owner_client, call, htmx=htmx, back="inbox")
    assert answer.status_code == 409
    assert "has expired" in parse(answer.content.decode()).one(role="alert").text
    assert state_of(call) != State.APPROVED


def test_a_second_signer_answers_in_the_row(owner: Member, signer: Member) -> None:
    call = signed_first(owner, signer)
    client = signed_in(signer)
    answer = decide(client, call, htmx=False, decision="deny", back="inbox")
    assert (answer.status_code, answer["Location"]) == (302, build_inbox_address(call.pk))
    row = read_row(open_in_inbox(client, call), call)
    assert "denied by" in row.text
    late = decide(client, call, htmx=False, back="inbox")
    assert late.status_code == 409
    assert "Already denied" in read_row(late, call).one(role="alert").text


def test_the_first_of_two_approvals_leaves_the_row_waiting_for_the_second(
    owner: Member, signer: Member
) -> None:
    owner.set_password("a-long-password")
    owner.save()
    call = signed_first(owner, signer)
    row = read_row(open_in_inbox(signed_in(owner), call), call)
    assert "waiting for a second approval" in row.all("a")[0].text
    assert "Withdraw approval" in row.text


def test_an_answer_elsewhere_does_not_lead_to_the_inbox(
    owner_client: Client, owner: Member
) -> None:
    call = rows.question(rows.turn(owner))
    answer = decide(owner_client, call, htmx=False, decision="deny")
    assert answer["Location"].startswith("/c/")
