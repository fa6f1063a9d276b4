"""Deciding: what binds, what is refused, and what a person sees either way."""

import time
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone

from chatapp.models import Approval, Member, ToolCall, Turn
from chatapp.people.refused import CHANGED
from chatapp.rendering import page_values
from chatapp.rendering.pages import fragments
from chatapp.views.approvals.decisions import UNREADABLE
from tests.dom_tree import Element, parse, root_of
from tests.turns import rows

State = ToolCall.State
HTMX = {"HX-Request": "true"}


@pytest.fixture
def call(owner: Member) -> ToolCall:
    return rows.question(rows.turn(owner, text="Tidy up"), definition=rows.definition())


def decide(
    client: Client, call: ToolCall, htmx: bool = True, seconds_ago: float = 5, **values: Any
) -> HttpResponse:
    data = {
        "decision": "run",
        "scope": "once",
        "version": rows.BINDING,
        "shown_at": fragments.sign_shown_at(call.pk, time.time() - seconds_ago),
        **values,
    }
    given = {name: value for name, value in data.items() if value is not None}
    headers = HTMX if htmx else {}
    return client.post(f"/approvals/{call.pk}/decide", given, headers=headers)  # type: ignore[return-value]


def resolve(client: Client, call: ToolCall, verdict: str, htmx: bool = True) -> HttpResponse:
    headers = HTMX if htmx else {}
    address = f"/approvals/{call.pk}/resolve"
    return client.post(address, {"verdict": verdict}, headers=headers)  # type: ignore[return-value]


def card_of(answer: HttpResponse) -> Element:
    return root_of(answer.content.decode())


def state_of(call: ToolCall) -> str:
    return ToolCall.objects.get(pk=call.pk).state


# --- deciding ------------------------------------------------------------------------------
def test_run_once_allows_the_call_and_shows_it_running(
    owner_client: Client, owner: Member, call: ToolCall
) -> None:
    answer = decide(owner_client, call)
    assert answer.status_code == 200
    row = card_of(answer)
    assert (row["id"], row["data-state"]) == (page_values.tool_call_id(call.pk), State.APPROVED)
    assert "running" in row.one("summary").text
    approval = Approval.objects.get()
    assert (approval.state, approval.decided_by) == ("granted", owner)


def test_a_long_value_is_opened_and_read_before_its_call_runs(
    owner_client: Client, owner: Member
) -> None:
    """Nobody can approve a folded value without having opened it."""
    values = {"title": "Old ideas", "text": "x" * 9_999 + "send it to evil.example"}
    call = rows.question(rows.turn(owner), values, definition=rows.definition())
    card = parse(owner_client.get(f"/approvals/{call.pk}/").content.decode())
    inputs = card.all("input")
    (tick,) = [each for each in inputs if each.attributes.get("name", "").startswith("read-")]
    assert tick["form"] in [each.attributes.get("id") for each in card.all("form")]
    assert "send it to evil.example" in card.text

    refused = decide(owner_client, call)
    assert refused.status_code == 422 and "Open it" in refused.content.decode()
    assert decide(owner_client, call, decision="always").status_code == 422
    assert state_of(call) == State.AWAITING_APPROVAL

    ticked: dict[str, Any] = {tick["name"]: "on"}
    assert decide(owner_client, call, **ticked).status_code == 200
    assert state_of(call) == State.APPROVED


def test_a_call_with_a_long_value_is_in_no_batch_and_may_be_refused_unread(
    owner_client: Client, owner: Member
) -> None:
    values = {"text": "x" * 2_001}
    call = rows.question(rows.turn(owner), values, definition=rows.definition(), risk="low")
    assert not call.approval.may_be_batched
    assert decide(owner_client, call, decision="deny").status_code == 200
    assert state_of(call) == State.DENIED


def test_do_not_run_denies_the_call_with_a_word(owner_client: Client, call: ToolCall) -> None:
    answer = decide(owner_client, call, decision="deny", reason="Keep it until Friday.")
    assert state_of(call) == State.DENIED
    assert card_of(answer).one("q").text == "Keep it until Friday."
    assert "denied by owner" in card_of(answer).text


def test_a_word_is_not_needed(owner_client: Client, call: ToolCall) -> None:
    assert decide(owner_client, call, decision="deny").status_code == 200
    assert state_of(call) == State.DENIED


def test_what_the_card_on_the_page_holds_is_a_decision(
    owner_client: Client, call: ToolCall
) -> None:
    html = owner_client.get(f"/approvals/{call.pk}/").content.decode()
    form = parse(html).one("form", class_="decision")
    fields = form.fields() | {"decision": form.button("Deny")["value"]}
    owner_client.post(form["action"], fields)
    assert state_of(call) == State.DENIED


@pytest.mark.parametrize("decision", ["run", "deny"])
def test_without_javascript_a_decision_leads_back_to_its_place(
    owner_client: Client, call: ToolCall, decision: str
) -> None:
    answer = decide(owner_client, call, htmx=False, decision=decision)
    place = f"/c/{call.turn.conversation_id}/#{page_values.tool_call_id(call.pk)}"
    assert (answer.status_code, answer["Location"]) == (302, place)


def test_a_decision_that_came_too_soon_is_not_one(owner_client: Client, call: ToolCall) -> None:
    # A card from a moment ahead is too new however long the request takes.
    answer = decide(owner_client, call, seconds_ago=-30)
    assert answer.status_code == 409
    card = card_of(answer)
    assert card.one(role="alert").text
    assert card.choices()[:2] == ["decision=run", "decision=deny"]
    assert state_of(call) == State.AWAITING_APPROVAL


def test_a_decision_about_something_else_is_refused(owner_client: Client, call: ToolCall) -> None:
    answer = decide(owner_client, call, version="c" * 64)
    assert answer.status_code == 409
    assert card_of(answer).one(role="alert").text == str(CHANGED)
    assert state_of(call) == State.AWAITING_APPROVAL


@pytest.mark.parametrize("second", ["run", "deny"])
def test_the_first_decision_counts(owner_client: Client, call: ToolCall, second: str) -> None:
    decide(owner_client, call, decision="deny")
    answer = decide(owner_client, call, decision=second)
    assert answer.status_code == 409
    assert card_of(answer)["data-state"] == State.DENIED
    assert state_of(call) == State.DENIED


def test_a_decision_that_came_too_late_is_refused(owner_client: Client, call: ToolCall) -> None:
    Approval.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    answer = decide(owner_client, call)
    assert answer.status_code == 409
    assert "expired" in card_of(answer).one(role="alert").text
    assert state_of(call) == State.AWAITING_APPROVAL


@pytest.mark.parametrize(
    "values",
    [
        {"decision": None},
        {"decision": "perhaps"},
        {"scope": "for ever"},
        {"version": None},
        {"version": "b" * 65},
        {"reason": "x" * 2_001},
        {"shown_at": "forged"},
        {"shown_at": fragments.sign_shown_at(uuid.uuid4(), 1.0)},
    ],
)
def test_what_cannot_be_read_decides_nothing(
    owner_client: Client, call: ToolCall, values: dict[str, Any]
) -> None:
    answer = decide(owner_client, call, **values)
    assert answer.status_code == 422
    assert card_of(answer).one(role="alert").text == str(UNREADABLE)
    assert state_of(call) == State.AWAITING_APPROVAL


def test_a_program_may_decide_without_having_been_shown_a_card(
    owner_client: Client, call: ToolCall
) -> None:
    assert decide(owner_client, call, shown_at=None, scope=None).status_code == 200
    assert state_of(call) == State.APPROVED


def test_without_javascript_a_refusal_comes_with_the_card(
    owner_client: Client, call: ToolCall
) -> None:
    answer = decide(owner_client, call, htmx=False, version="c" * 64)
    assert answer.status_code == 409
    card = parse(answer.content.decode()).one(id=page_values.tool_call_id(call.pk))
    assert card.one(role="alert").text == str(CHANGED)


# --- an outcome that nobody knows ------------------------------------------------------------
@pytest.mark.parametrize(
    ("verdict", "state"),
    [("worked", State.SUCCEEDED), ("did-not", State.FAILED), ("again", State.APPROVED)],
)
def test_a_person_says_what_became_of_a_call(
    owner_client: Client, owner: Member, verdict: str, state: str
) -> None:
    call = rows.call(rows.turn(owner), {}, State.UNKNOWN, definition=rows.definition())
    answer = resolve(owner_client, call, verdict)
    assert (answer.status_code, card_of(answer)["data-state"]) == (200, state)
    found = ToolCall.objects.get()
    assert (found.state, found.resolution, found.resolved_by) == (state, verdict, owner)


def test_what_became_of_a_call_is_said_once(owner_client: Client, owner: Member) -> None:
    call = rows.call(rows.turn(owner), {}, State.UNKNOWN)
    resolve(owner_client, call, "worked")
    assert resolve(owner_client, call, "again").status_code == 409
    assert state_of(call) == State.SUCCEEDED


@pytest.mark.parametrize("verdict", ["", "maybe", "run"])
def test_an_unknown_word_resolves_nothing(
    owner_client: Client, owner: Member, verdict: str
) -> None:
    call = rows.call(rows.turn(owner), {}, State.UNKNOWN)
    answer = resolve(owner_client, call, verdict)
    assert answer.status_code == 422
    assert card_of(answer).one(role="alert").text == str(UNREADABLE)
    assert state_of(call) == State.UNKNOWN


def test_a_call_of_a_turn_that_is_over_is_not_sent_again(
    owner_client: Client, owner: Member
) -> None:
    call = rows.call(rows.turn(owner, Turn.State.STOPPED), {}, State.UNKNOWN)
    answer = resolve(owner_client, call, "again", htmx=False)
    assert answer.status_code == 409
    assert state_of(call) == State.UNKNOWN
