"""Several calls that wait at once: numbered, answered by one post, each decided by itself."""

import time
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone

from chatapp.approvals.batches import ALONE
from chatapp.models import Approval, LogEntry, Member, SecondSignature, ToolCall, Turn
from chatapp.people.refused import CHANGED
from chatapp.rendering import page_values
from chatapp.rendering.pages import fragments
from chatapp.views.approvals.batches import NOTHING_SELECTED
from chatapp.views.approvals.decisions import UNREADABLE
from tests.dom_tree import Element, parse
from tests.turns import rows

State = ToolCall.State
HTMX = {"HX-Request": "true"}


@pytest.fixture
def waiting(owner: Member) -> Turn:
    return rows.turn(owner, text="Tidy up")


def add_call(waiting: Turn, title: str, risk: str = "medium", **values: Any) -> ToolCall:
    return rows.question(
        waiting, {"title": title}, risk=risk, tool_id=f"notebook_{title}", **values
    )


@pytest.fixture
def calls(waiting: Turn) -> list[ToolCall]:
    """Two that may be run together, and one that may not."""
    return [
        add_call(waiting, "one"),
        add_call(waiting, "two", "low"),
        add_call(waiting, "three", "high"),
    ]


def thread(client: Client, turn: Turn) -> Element:
    return parse(client.get(f"/c/{turn.conversation_id}/").content.decode())


def make_shown_field(call: ToolCall, seconds_ago: float = 5, binding: str = rows.BINDING) -> str:
    return f"{call.pk} {binding} {fragments.sign_shown_at(call.pk, time.time() - seconds_ago)}"


def post(
    client: Client,
    of: list[ToolCall],
    decision: str = "run",
    run: list[Any] | None = None,
    htmx: bool = True,
    **values: Any,
) -> HttpResponse:
    data = {
        "decision": decision,
        "chat": str(of[0].turn.conversation_id),
        "shown": [make_shown_field(call) for call in of],
        "run": [str(getattr(each, "pk", each)) for each in (of if run is None else run)],
    }
    headers = HTMX if htmx else {}
    return client.post("/approvals/decide", data | values, headers=headers)  # type: ignore[return-value]


def states(calls: list[ToolCall]) -> list[str]:
    found = dict(ToolCall.objects.values_list("pk", "state"))
    return [found[call.pk] for call in calls]


def get_sentence(answer: HttpResponse) -> str:
    return parse(answer.content.decode()).one("hx-partial", hx_target="#batch .said").text


def card(answer: HttpResponse, call: ToolCall) -> Element:
    target = f"#{page_values.tool_call_id(call.pk)}"
    return parse(answer.content.decode()).one("hx-partial", hx_target=target)


# --- the page ------------------------------------------------------------------------------------
def test_cards_are_numbered_and_none_is_ticked(
    owner_client: Client, waiting: Turn, calls: list[ToolCall]
) -> None:
    found = thread(owner_client, waiting)
    lines = found.with_class("batch-line")
    numbers = [each.with_class("num")[0].text for each in lines]
    assert numbers == ["1 of 3 waiting for you", "2 of 3 waiting for you", "3 of 3 waiting for you"]
    assert [len(each.all("label")) for each in lines] == [1, 1, 0]
    boxes = found.with_class("batch-pick")
    assert [box["value"] for box in boxes] == [str(call.pk) for call in calls[:2]]
    assert not any("checked" in box for box in boxes)
    assert all(box["form"] == "batch" for box in boxes)


def test_the_lead_says_how_many_wait_and_which_may_not_run_together(
    owner_client: Client, waiting: Turn, calls: list[ToolCall]
) -> None:
    panel = thread(owner_client, waiting).one("form", id="batch")
    assert (panel["data-count"], panel["data-alone"]) == ("3", "1")
    assert panel.choices() == ["decision=run", "decision=select", "decision=deny"]


def test_enter_on_a_check_box_runs_nothing(
    owner_client: Client, waiting: Turn, calls: list[ToolCall]
) -> None:
    first = thread(owner_client, waiting).one("form", id="batch").all("button")[0]
    assert "disabled" in first and "name" not in first


def test_one_alone_has_no_number_and_no_form(owner_client: Client, waiting: Turn) -> None:
    add_call(waiting, "one")
    found = thread(owner_client, waiting)
    assert not found.with_class("batch-line")
    assert not found.all("form", id="batch")


def test_numbers_stay_while_others_are_answered(
    owner_client: Client, waiting: Turn, calls: list[ToolCall]
) -> None:
    post(owner_client, calls, run=calls[:1])
    Turn.objects.update(state=Turn.State.WAITING)
    found = thread(owner_client, waiting)
    assert [each.text[:6] for each in found.with_class("batch-line")] == [
        "2 of 3",
        "3 of 3",
    ]
    assert found.one("form", id="batch")["data-count"] == "2"


def test_where_none_may_run_together_they_can_still_be_denied(
    owner_client: Client, waiting: Turn
) -> None:
    for title in ("one", "two"):
        add_call(waiting, title, "high")
    panel = thread(owner_client, waiting).one("form", id="batch")
    assert panel.choices() == ["decision=deny"]
    assert panel["data-alone"] == "2"


# --- one post ------------------------------------------------------------------------------------
def test_the_selected_run_and_the_others_wait_on(
    owner_client: Client, owner: Member, calls: list[ToolCall]
) -> None:
    answer = post(owner_client, calls, run=calls[:1])
    assert answer.status_code == 200
    assert states(calls) == [State.APPROVED, State.AWAITING_APPROVAL, State.AWAITING_APPROVAL]
    assert get_sentence(answer) == "1 action allowed."
    assert card(answer, calls[0]).one("details")["data-state"] == State.APPROVED
    approval = Approval.objects.get(tool_call=calls[0])
    assert (approval.state, approval.decided_by) == (Approval.State.GRANTED, owner)


def test_none_of_them_runs_where_the_person_says_so_whatever_the_risk(
    owner_client: Client, calls: list[ToolCall]
) -> None:
    answer = post(owner_client, calls, "deny", run=[])
    assert states(calls) == [State.DENIED] * 3
    assert get_sentence(answer) == "3 actions denied."


def test_each_decision_is_logged(
    owner_client: Client, owner: Member, calls: list[ToolCall]
) -> None:
    post(owner_client, calls, run=calls[:2])
    entries = LogEntry.objects.filter(kind="approval.granted")
    assert {entry.call_id for entry in entries} == {call.pk for call in calls[:2]}
    assert {entry.actor_name for entry in entries} == {"owner"}


def test_one_that_changed_is_refused_and_the_others_go_through(
    owner_client: Client, calls: list[ToolCall]
) -> None:
    Approval.objects.filter(tool_call=calls[0]).update(binding="c" * 64)
    answer = post(owner_client, calls, run=calls[:2])
    assert answer.status_code == 200
    assert states(calls[:2]) == [State.AWAITING_APPROVAL, State.APPROVED]
    assert get_sentence(answer) == "1 action allowed. 1 action was refused. Its card says why."
    assert card(answer, calls[0]).one(role="alert").text == str(CHANGED)
    assert not card(answer, calls[1]).all(role="alert")


def test_one_that_was_answered_meanwhile_says_so(
    owner_client: Client, calls: list[ToolCall]
) -> None:
    post(owner_client, calls, "deny", run=[])
    answer = post(owner_client, calls, run=calls[:2])
    assert answer.status_code == 409
    assert states(calls) == [State.DENIED] * 3
    assert all(card(answer, call).one("details")["data-state"] == "denied" for call in calls[:2])


def test_what_expired_is_not_run(owner_client: Client, calls: list[ToolCall]) -> None:
    Approval.objects.filter(tool_call=calls[1]).update(expires_at=timezone.now())
    post(owner_client, calls, run=calls[:2])
    assert states(calls[:2]) == [State.APPROVED, State.AWAITING_APPROVAL]


def test_each_has_its_own_moment_in_which_nothing_counts(
    owner_client: Client, calls: list[ToolCall]
) -> None:
    """A card that has just appeared is not run by the click that was meant for others."""
    fields = [make_shown_field(calls[0]), make_shown_field(calls[1], seconds_ago=-30)]
    answer = post(owner_client, calls, run=calls[:2], shown=fields)
    assert states(calls[:2]) == [State.APPROVED, State.AWAITING_APPROVAL]
    assert card(answer, calls[1]).one(role="alert").text
    assert not card(answer, calls[0]).all(role="alert")


def test_nothing_ticked_runs_nothing(owner_client: Client, calls: list[ToolCall]) -> None:
    answer = post(owner_client, calls, run=[])
    assert answer.status_code == 422
    assert get_sentence(answer) == str(NOTHING_SELECTED)
    assert states(calls) == [State.AWAITING_APPROVAL] * 3


# --- what is never in a batch --------------------------------------------------------------------
def forbid_high(call: ToolCall) -> None:
    ToolCall.objects.filter(pk=call.pk).update(risk="high")


def forbid_unknown(call: ToolCall) -> None:
    ToolCall.objects.filter(pk=call.pk).update(risk="")


def forbid_typed(call: ToolCall) -> None:
    Approval.objects.filter(tool_call=call).update(wants_typing=True)


def forbid_second(call: ToolCall) -> None:
    group = Group.objects.create(name="Operations")
    second = SecondSignature.objects.create(name="Operations", approvers=group)
    Approval.objects.filter(tool_call=call).update(second=second)


@pytest.mark.parametrize("forbid", [forbid_high, forbid_unknown, forbid_typed, forbid_second])
def test_a_forged_post_runs_nothing_that_is_decided_by_itself(
    owner_client: Client, calls: list[ToolCall], forbid: Any
) -> None:
    """The server applies the rule, whatever boxes a page sends."""
    forbid(calls[0])
    answer = post(owner_client, calls, run=calls[:2])
    assert states(calls[:2]) == [State.AWAITING_APPROVAL, State.APPROVED]
    assert card(answer, calls[0]).one(role="alert").text == str(ALONE)


def test_the_rule_is_what_keeps_a_high_risk_out(
    owner_client: Client, calls: list[ToolCall], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted fault: without the rule the same post runs it."""
    monkeypatch.setattr(Approval, "may_be_batched", True)
    post(owner_client, calls, run=calls[2:])
    assert states(calls[2:]) == [State.APPROVED]


# --- select all ----------------------------------------------------------------------------------
def test_select_all_ticks_what_may_run_together_and_decides_nothing(
    owner_client: Client, calls: list[ToolCall]
) -> None:
    answer = post(owner_client, calls, "select", run=[])
    boxes = parse(answer.content.decode()).all("input")
    assert [box["value"] for box in boxes] == [str(call.pk) for call in calls[:2]]
    assert all("checked" in box for box in boxes)
    assert states(calls) == [State.AWAITING_APPROVAL] * 3


def test_select_all_leaves_out_what_waits_no_more(
    owner_client: Client, calls: list[ToolCall]
) -> None:
    post(owner_client, calls, run=calls[:1])
    boxes = parse(post(owner_client, calls, "select").content.decode()).all("input")
    assert [box["value"] for box in boxes] == [str(calls[1].pk)]


# --- without JavaScript --------------------------------------------------------------------------
def fields_of(client: Client, turn: Turn) -> dict[str, Any]:
    """What a browser sends of the form, with the boxes that stand elsewhere on the page."""
    page_now = thread(client, turn)
    outside = [each for each in page_now.all("input") if each.attributes.get("form") == "batch"]
    return page_now.one("form", id="batch").fields() | {
        "shown": [each["value"] for each in outside if each["name"] == "shown"]
    }


def test_what_the_page_holds_is_an_answer(
    owner_client: Client, waiting: Turn, calls: list[ToolCall]
) -> None:
    fields = fields_of(owner_client, waiting) | {"decision": "deny"}
    answer = owner_client.post("/approvals/decide", fields)
    assert answer["Location"] == f"/c/{waiting.conversation_id}/"
    assert states(calls) == [State.DENIED] * 3


def test_a_refusal_is_a_page_with_the_card(owner_client: Client, calls: list[ToolCall]) -> None:
    answer = post(owner_client, calls, run=[calls[0], calls[2]], htmx=False)
    found = parse(answer.content.decode())
    refused = found.one(id=page_values.tool_call_id(calls[2].pk))
    assert refused.one(role="alert").text == str(ALONE)
    assert states(calls)[0] == State.APPROVED


def test_select_all_is_a_page_with_ticked_boxes(
    owner_client: Client, calls: list[ToolCall]
) -> None:
    found = parse(post(owner_client, calls, "select", htmx=False).content.decode())
    assert ["checked" in box for box in found.with_class("batch-pick")] == [True, True]
    assert found.one("form", id="batch")


# --- bad input and strangers ---------------------------------------------------------------------
@pytest.mark.parametrize("htmx", [True, False])
@pytest.mark.parametrize(
    "values",
    [
        {"decision": "everything"},
        {"chat": "here"},
        {"shown": []},
        {"shown": ["x"]},
        {"shown": ["1 2 3"]},
        {"run": ["no id"]},
        {"shown": [f"{page_values.THREAD_ID} {rows.BINDING} forged"]},
    ],
)
def test_what_cannot_be_read_decides_nothing(
    owner_client: Client, calls: list[ToolCall], values: dict[str, Any], htmx: bool
) -> None:
    answer = post(owner_client, calls, htmx=htmx, **values)
    assert answer.status_code == 422
    assert str(UNREADABLE) in answer.content.decode()
    assert states(calls) == [State.AWAITING_APPROVAL] * 3


def test_a_moment_that_was_signed_for_another_card_is_refused(
    owner_client: Client, calls: list[ToolCall]
) -> None:
    moment = fragments.sign_shown_at(calls[1].pk, time.time() - 5)
    answer = post(owner_client, calls, shown=[f"{calls[0].pk} {rows.BINDING} {moment}"])
    assert answer.status_code == 422
    assert states(calls) == [State.AWAITING_APPROVAL] * 3


def test_too_many_at_once_are_refused(owner_client: Client, calls: list[ToolCall]) -> None:
    assert post(owner_client, calls, shown=[make_shown_field(calls[0])] * 201).status_code == 422
    assert states(calls) == [State.AWAITING_APPROVAL] * 3


@pytest.mark.parametrize("decision", ["run", "select", "deny"])
def test_a_stranger_decides_nothing(
    stranger_client: Client, stranger: Member, calls: list[ToolCall], decision: str
) -> None:
    """Neither with the owner's chat nor with the owner's calls in a chat of their own."""
    own = rows.turn(stranger)
    mine = add_call(own, "mine", binding="d" * 64)
    assert post(stranger_client, calls, decision).status_code == 404
    chat = str(own.conversation_id)
    assert post(stranger_client, [mine, *calls], decision, chat=chat).status_code == 404
    assert states([mine, *calls]) == [State.AWAITING_APPROVAL] * 4


def test_calls_of_another_chat_are_not_decided_with_this_one(
    owner_client: Client, owner: Member, calls: list[ToolCall]
) -> None:
    elsewhere = add_call(rows.turn(owner), "elsewhere")
    assert post(owner_client, [calls[0], elsewhere]).status_code == 404
    assert states([calls[0], elsewhere]) == [State.AWAITING_APPROVAL] * 2
