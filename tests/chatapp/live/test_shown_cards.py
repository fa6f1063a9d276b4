"""When a card was first shown: each page that shows it to somebody who may answer counts, once."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chatapp.journal.journal import Event, Kind
from chatapp.live.feed import _render_events
from chatapp.live.open_parts import OpenParts
from chatapp.live.page_changes import render_changes_since
from chatapp.live.page_view import load_changes_and_open_parts
from chatapp.models import Approval, Member, Question, Review, ToolCall
from tests.chatapp.approvals.test_inbox import signed_first
from tests.conftest import signed_in
from tests.turns import rows

SOON = timedelta(days=1)


@pytest.fixture
def call(owner: Member) -> ToolCall:
    return rows.question(rows.turn(owner), {"title": "Old"}, definition=rows.definition())


def open_chat(call: ToolCall, client: Client) -> None:
    client.get(f"/c/{call.turn.conversation_id}/")


def open_in_inbox(call: ToolCall, client: Client) -> None:
    client.get(f"/approvals/?open={call.pk}")


def open_own_page(call: ToolCall, client: Client) -> None:
    client.get(f"/approvals/{call.pk}/")


def receive_frame(call: ToolCall, _client: Client) -> None:
    data = {"message": str(call.turn.answer_id), "call": str(call.pk), "is_new": False}
    event = Event(
        conversation_id=call.turn.conversation_id,
        turn_id=call.turn_id,
        seq=8,
        kind=Kind.TOOL_CALL,
        data=data,
    )
    _render_events(OpenParts(), [event])


def come_back(call: ToolCall, _client: Client) -> None:
    view, _parts = load_changes_and_open_parts(call.turn.conversation, 0)
    render_changes_since(view, 0)


WAYS = (open_chat, open_in_inbox, open_own_page, receive_frame, come_back)


@pytest.mark.parametrize("show", WAYS)
def test_the_first_page_with_the_card_counts_and_later_ones_do_not(
    call: ToolCall, owner_client: Client, show: Callable[..., None]
) -> None:
    before = timezone.now()
    show(call, owner_client)
    first = Approval.objects.get().shown_at
    assert first is not None and before <= first <= timezone.now()
    for again in WAYS:
        again(call, owner_client)
    approval = Approval.objects.get()
    assert (approval.shown_at, approval.second_shown_at) == (first, None)


def test_a_row_of_the_inbox_counts_if_it_has_the_buttons(
    call: ToolCall, owner_client: Client
) -> None:
    ToolCall.objects.update(risk="high")
    owner_client.get("/approvals/")
    assert Approval.objects.get().shown_at is None
    ToolCall.objects.update(risk="low")
    owner_client.get("/approvals/")
    assert Approval.objects.get().shown_at is not None


@pytest.mark.parametrize("state", ["granted", "expired"])
def test_a_request_that_is_over_is_not_shown(
    call: ToolCall, owner_client: Client, state: str
) -> None:
    Approval.objects.update(state=state)
    for show in WAYS:
        show(call, owner_client)
    assert Approval.objects.get().shown_at is None


def test_lists_and_pages_of_others_do_not_count(
    call: ToolCall, owner_client: Client, stranger_client: Client, admin_client: Client
) -> None:
    """The inbox without an open card shows no values."""
    owner_client.get("/approvals/")
    for show in (open_chat, open_in_inbox, open_own_page):
        show(call, stranger_client)
        show(call, admin_client)
    admin_client.get(f"/admin/chatapp/toolcall/{call.pk}/change/", follow=True)
    assert Approval.objects.get().shown_at is None


@pytest.mark.parametrize("show", [open_in_inbox, open_own_page])
def test_the_second_approver_has_a_time_of_their_own(
    owner: Member, stranger: Member, owner_client: Client, show: Callable[..., None]
) -> None:
    call = signed_first(owner, stranger)
    open_chat(call, owner_client)
    assert Approval.objects.get().second_shown_at is None
    show(call, signed_in(stranger))
    approval = Approval.objects.get()
    assert approval.shown_at is None
    assert approval.second_shown_at is not None
    show(call, signed_in(stranger))
    assert Approval.objects.get().second_shown_at == approval.second_shown_at


def test_questions_of_services_and_results_for_review_count_too(
    owner: Member, owner_client: Client
) -> None:
    turn = rows.turn(owner)
    due: dict[str, Any] = {"expires_at": timezone.now() + SOON}
    asking = rows.call(turn, state=ToolCall.State.AWAITING_INPUT)
    Question.objects.create(tool_call=asking, round=1, requests=[], **due)
    reviewed = rows.call(turn, state=ToolCall.State.SUCCEEDED)
    Review.objects.create(tool_call=reviewed, binding="b", **due)
    open_chat(asking, owner_client)
    assert Question.objects.get().shown_at is not None
    assert Review.objects.get().shown_at is not None


def count_updates(show: Callable[..., None], *args: Any) -> int:
    with CaptureQueriesContext(connection) as asked:
        show(*args)
    return sum(
        each["sql"].startswith("UPDATE") and "shown_at" in each["sql"]
        for each in asked.captured_queries
    )


@pytest.mark.parametrize("show", [open_chat, receive_frame])
def test_a_card_costs_one_statement_once_and_other_calls_none(
    call: ToolCall, owner_client: Client, show: Callable[..., None]
) -> None:
    running = rows.call(call.turn, state=ToolCall.State.SENDING)
    assert count_updates(receive_frame, running, owner_client) == 0
    assert count_updates(show, call, owner_client) == 1
    assert count_updates(show, call, owner_client) == 0


@pytest.mark.django_db(transaction=True)
def test_the_card_is_shown_also_where_nothing_can_be_written(
    call: ToolCall, owner_client: Client
) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("A connection of SQLite can be made to refuse writes.")
    owner_client.get("/approvals/")  # stores what a session needs
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA query_only = ON")
    try:
        answer = owner_client.get(f"/approvals/{call.pk}/")
    finally:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA query_only = OFF")
    assert answer.status_code == 200
    assert str(call.pk) in answer.content.decode()
    assert Approval.objects.get().shown_at is None
