"""A long conversation: the newest messages at once, the older ones by a link, and a number of
statements that does not grow with its length."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from chatapp.live.page_view import PART_LENGTH
from chatapp.models import Conversation, Member, Plan, Summary, ToolCall, Turn
from chatapp.rendering import page_values as ids
from chatapp.views.chat.conversations import build_call_address
from tests.dom_tree import Element, parse
from tests.turns import rows

HTMX = {"HX-Request": "true"}


@pytest.fixture
def turns(owner: Member) -> list[Turn]:
    """50 questions and answers: a part of 20 of each, and again, and a last one of 10."""
    return rows.turns_of_chat(owner, 50)


def open_part(client: Client, url: str, **headers: str) -> Element:
    answer = client.get(url, headers=headers)
    assert answer.status_code == 200
    return parse(answer.content.decode())


def list_questions(page: Element) -> list[str]:
    return [each.text for each in page.with_class("bubble")]


def expect_questions(first: int, after: int) -> list[str]:
    return [f"Question {number}." for number in range(first, after)]


def follow(page: Element, words: str) -> str:
    return next(link["href"] for link in page.all("a") if link.text == words)


@contextmanager
def counted() -> Iterator[list[str]]:
    found: list[str] = []

    def count(execute: Any, sql: str, *rest: Any) -> Any:
        found.append(sql)
        return execute(sql, *rest)

    with connection.execute_wrapper(count):
        yield found


# --- parts ---------------------------------------------------------------------------------
def test_a_page_has_the_newest_messages_and_links_lead_to_all_others(
    owner_client: Client, turns: list[Turn]
) -> None:
    newest = open_part(owner_client, f"/c/{turns[0].conversation_id}/")
    assert list_questions(newest) == expect_questions(30, 50)
    assert len(newest.one(id=ids.THREAD_ID).with_class("turn")) == PART_LENGTH
    middle = open_part(owner_client, follow(newest, "Earlier messages"))
    assert list_questions(middle) == expect_questions(10, 30)
    first = open_part(owner_client, follow(middle, "Earlier messages"))
    assert list_questions(first) == expect_questions(0, 10)
    assert first.all(id="earlier") == []
    again = open_part(owner_client, follow(first, "Later messages"))
    assert list_questions(again) == expect_questions(10, 30)
    assert "Later messages" not in [link.text for link in again.all("a")]
    assert follow(again, "Newest messages") == f"/c/{turns[0].conversation_id}/"


def test_a_part_as_long_as_a_page_has_no_link_to_earlier_messages(
    owner_client: Client, owner: Member
) -> None:
    turn = rows.turns_of_chat(owner, PART_LENGTH // 2)[0]
    assert open_part(owner_client, f"/c/{turn.conversation_id}/").all(id="earlier") == []


def test_an_older_part_takes_no_new_messages_and_has_no_message_box(
    owner_client: Client, turns: list[Turn]
) -> None:
    page = open_part(owner_client, f"/c/{turns[0].conversation_id}/?before=21")
    assert page.all(id=ids.THREAD_ID) == [] and page.all("textarea") == []
    assert page.one(aria_label="Conversation")["data-after"] == "100"


def test_a_script_gets_the_messages_of_a_part_alone(
    owner_client: Client, turns: list[Turn]
) -> None:
    newest = open_part(owner_client, f"/c/{turns[0].conversation_id}/")
    part = open_part(owner_client, newest.one(id="earlier").one("a")["hx-get"], **HTMX)
    assert list_questions(part) == expect_questions(10, 30)
    assert part.all("main") == [] and part.one(id="earlier").one("a")["hx-get"].endswith("=21")


@pytest.mark.parametrize("before", ["", "x", "-1", "²", "9" * 30])
def test_a_number_that_is_none_leads_to_the_newest_messages(
    owner_client: Client, turns: list[Turn], before: str
) -> None:
    page = open_part(owner_client, f"/c/{turns[0].conversation_id}/?before={before}")
    assert list_questions(page) == expect_questions(30, 50)


def test_before_the_first_message_there_is_no_page(owner_client: Client, turns: list[Turn]) -> None:
    assert owner_client.get(f"/c/{turns[0].conversation_id}/?before=1").status_code == 404


def test_a_stranger_gets_no_older_part(stranger_client: Client, turns: list[Turn]) -> None:
    address = f"/c/{turns[0].conversation_id}/?before=21"
    assert stranger_client.get(address).status_code == 404
    assert stranger_client.get(address, headers=HTMX).status_code == 404


@pytest.mark.parametrize("number", [0, 9, 10, 29, 30, 49])
def test_a_link_to_a_call_leads_to_the_part_that_has_it(
    owner_client: Client, turns: list[Turn], number: int
) -> None:
    call = rows.call(turns[number])
    address, _, place = build_call_address(call).partition("#")
    assert open_part(owner_client, address).one(id=place)
    assert ("?" in address) == (number < 30)


# --- statements ----------------------------------------------------------------------------
def fill(turns: list[Turn]) -> Conversation:
    """Answers that once needed a statement each: failed ones, plans, summaries."""
    for turn in turns:
        Turn.objects.filter(pk=turn.pk).update(state=Turn.State.FAILED)
        plan = rows.call(turn, service=None, tool_id="make-plan", tool_name="make-plan")
        Plan.objects.create(call=plan, conversation=turn.conversation, steps=[])
        notice = rows.said(turn, "Shortened.", "notice", notice_kind="summary")
        Summary.objects.create(
            conversation=turn.conversation, part=notice, turns=1, text="Short.", model=rows.MODEL
        )
    return turns[0].conversation


def test_a_page_of_a_finished_conversation_takes_twelve_statements(
    owner_client: Client, owner: Member
) -> None:
    turn = rows.turn(owner, state=Turn.State.DONE)
    rows.said(turn, "Hello.")
    for _ in range(2):  # the first page compiles and caches
        with counted() as statements:
            assert owner_client.get(f"/c/{turn.conversation_id}/").status_code == 200
    assert len(statements) == 12


def test_the_statements_of_a_page_do_not_grow_with_the_conversation(
    owner_client: Client, owner: Member
) -> None:
    found = []
    for count in (2, 60):
        chat = fill(rows.turns_of_chat(owner, count, calls=2))
        owner_client.get(f"/c/{chat.pk}/")
        with counted() as statements:
            assert owner_client.get(f"/c/{chat.pk}/").status_code == 200
        found.append(len(statements))
    assert found[0] == found[1]


def test_the_statements_of_a_page_do_not_grow_with_the_calls_that_wait(
    owner_client: Client, owner: Member
) -> None:
    found = []
    for count in (2, 6):
        turn = rows.turn(owner)
        definition = rows.definition(f"delete_{uuid.uuid4().hex}")
        for number in range(count):
            rows.question(turn, {"title": f"Note {number}"}, definition=definition)
        with counted() as statements:
            page = open_part(owner_client, f"/c/{turn.conversation_id}/")
        assert len(page.all(role="group")) >= count
        found.append(len(statements))
        ToolCall.objects.all().delete()
    assert found[0] == found[1]
