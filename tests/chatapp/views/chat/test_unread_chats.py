"""The list of chats says which answers a person has not seen yet, and which of them failed."""

import pytest
from django.db import connection, transaction
from django.test import Client

from chatapp.calls.transitions import Actor
from chatapp.conversations import intake, retry
from chatapp.engine.ending import end_turn
from chatapp.engine.next_action import Reason
from chatapp.models import Conversation, Member, Turn
from tests.dom_tree import Element, parse
from tests.turns import rows

from .test_older_messages import counted

pytestmark = pytest.mark.django_db(transaction=True)


def begin(person: Member, text: str = "Hello") -> Turn:
    """A new chat of this person, whose page was not loaded yet."""
    return intake.receive(person, None, text=text, model=rows.MODEL)


def end(turn: Turn, reason: Reason = "complete") -> Conversation:
    with transaction.atomic():
        end_turn(turn, reason, "It ended.", by=Actor.PERSON)
    return turn.conversation


def read_list(client: Client, address: str = "") -> Element:
    headers = {"HX-Current-URL": f"http://testserver{address}"} if address else {}
    answer = client.get("/sidebar/", headers=headers)
    assert answer.status_code == 200
    return parse(answer.content.decode())


def find_mark(client: Client, address: str = "") -> tuple[str, str] | None:
    """Return the state of the only chat of the list and the words for it."""
    dots = read_list(client, address).with_class("dot")
    return (dots[0]["data-state"], dots[0].text) if dots else None


@pytest.mark.parametrize(
    ("reason", "mark"),
    [
        ("complete", ("unread", "unread")),
        ("refused", ("unread", "unread")),
        ("failed", ("failed", "the answer failed")),
        ("stopped", None),
    ],
)
def test_an_answer_that_ended_unseen_is_marked_until_its_page_is_opened(
    owner_client: Client, owner: Member, reason: Reason, mark: tuple[str, str] | None
) -> None:
    chat = end(begin(owner), reason)
    assert find_mark(owner_client) == mark
    page = owner_client.get(f"/c/{chat.pk}/")
    assert not parse(page.content.decode()).with_class("dot")
    assert find_mark(owner_client) is None


def test_an_answer_in_progress_is_not_unread(owner_client: Client, owner: Member) -> None:
    turn = begin(owner)
    assert find_mark(owner_client) == ("running", "answering")
    Turn.objects.filter(pk=turn.pk).update(state=Turn.State.WAITING)
    assert find_mark(owner_client) == ("waiting", "waiting for your approval")


def test_an_open_page_of_the_chat_that_asks_for_the_list_has_shown_the_end(
    owner_client: Client, owner: Member
) -> None:
    chat = end(begin(owner))
    assert find_mark(owner_client, "/") == ("unread", "unread")
    assert find_mark(owner_client, f"/c/{chat.pk}/") is None
    assert find_mark(owner_client, "/") is None


def test_a_failed_answer_that_is_tried_again_is_marked_as_running(
    owner_client: Client, owner: Member
) -> None:
    chat = end(begin(owner), "failed")
    retry.ask_again(chat, owner, rows.MODEL)
    assert find_mark(owner_client) == ("running", "answering")


def test_a_later_answer_is_unread_again(owner_client: Client, owner: Member) -> None:
    chat = end(begin(owner), "failed")
    owner_client.get(f"/c/{chat.pk}/")
    end(intake.receive(owner, chat, text="And then?", model=rows.MODEL))
    assert find_mark(owner_client) == ("unread", "unread")


def test_a_chat_that_its_person_never_opened_has_no_mark(
    owner_client: Client, owner: Member
) -> None:
    """Such as those that programs began, or that are older than the marks."""
    rows.turn(owner, Turn.State.FAILED)
    assert find_mark(owner_client) is None


def test_somebody_else_leaves_the_mark(
    owner_client: Client, stranger_client: Client, owner: Member
) -> None:
    chat = end(begin(owner))
    assert stranger_client.get(f"/c/{chat.pk}/").status_code == 404
    assert find_mark(stranger_client, f"/c/{chat.pk}/") is None
    assert find_mark(owner_client) == ("unread", "unread")


def test_a_page_writes_only_if_its_chat_is_unread(owner_client: Client, owner: Member) -> None:
    chat = end(begin(owner))
    counts = []
    for _ in range(3):
        with counted() as statements:
            owner_client.get(f"/c/{chat.pk}/")
        counts.append(sum(each.startswith("UPDATE") for each in statements))
    assert counts == [1, 0, 0]


@pytest.mark.skipif(connection.vendor != "sqlite", reason="SQLite has a switch for this.")
def test_an_unread_chat_opens_while_nothing_can_be_written(
    owner_client: Client, owner: Member
) -> None:
    chat = end(begin(owner))
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA query_only = ON")
        try:
            assert owner_client.get(f"/c/{chat.pk}/").status_code == 200
        finally:
            cursor.execute("PRAGMA query_only = OFF")
    assert find_mark(owner_client) == ("unread", "unread")
