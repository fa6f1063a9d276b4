"""Histories that programs send: which chat goes on, and how little the database is asked for it."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from chatapp.api import access_tokens, chats
from chatapp.api.chats import ChatPlace
from chatapp.api.requests import (
    MAX_COMPARED,
    ChatRequest,
    RequestHashes,
    SentMessage,
    find_continued_turn,
    hash_request,
    import_history,
)
from chatapp.conversations import chat_list
from chatapp.models import AccessToken, Conversation, Member, Message, Turn
from chatapp.people.refused import Refused
from tests.turns import rows

pytestmark = pytest.mark.django_db
Bounded = Callable[[int], Any]


@pytest.fixture
def token(owner: Member) -> AccessToken:
    return access_tokens.create(owner, name="Job", scopes=["chat"], days=7)[0]


def ask(*texts: str) -> ChatRequest:
    roles = ("user", "assistant")
    said = [SentMessage(role=roles[n % 2], text=text) for n, text in enumerate(texts)]  # type: ignore[arg-type]
    return ChatRequest(model=rows.MODEL, said=tuple(said))


def answered(token: AccessToken, marks: RequestHashes, answer: str, **values: Any) -> Turn:
    """A turn that was asked what stands before the last answer, and gave this one."""
    turn = rows.turn(token.person, Turn.State.DONE, token=token, said_hash=marks.before, **values)
    rows.said(turn, answer)
    return turn


def test_the_chat_that_gave_this_answer_goes_on(token: AccessToken) -> None:
    whole = ask("Hello", "Good morning.", "And then?")
    marks = hash_request(whole)
    meant = answered(token, marks, "Good morning.")
    answered(token, marks, "Hello.")
    assert find_continued_turn(token, whole, marks) == meant


def test_a_deleted_chat_does_not_go_on(token: AccessToken) -> None:
    whole = ask("Hello", "Good morning.", "And then?")
    marks = hash_request(whole)
    turn = answered(token, marks, "Good morning.")
    chat_list.delete(turn.conversation)
    assert find_continued_turn(token, whole, marks) is None
    chat_list.restore(turn.conversation)
    assert find_continued_turn(token, whole, marks) == turn


def test_a_chat_that_went_on_since_is_not_meant(token: AccessToken) -> None:
    whole = ask("Hello", "Good morning.", "And then?")
    before = answered(token, hash_request(whole), "Good morning.")
    rows_later = rows.turn(token.person, Turn.State.DONE)
    Turn.objects.filter(pk=rows_later.pk).update(
        conversation=before.conversation, created_at=timezone.now() + timedelta(seconds=1)
    )
    assert find_continued_turn(token, whole, hash_request(whole)) is None
    with pytest.raises(Refused):  # it went on after it was looked up
        chats._accept(
            token,
            whole,
            hash_request(whole),
            ChatPlace(chat=before.conversation, after=before),
            [[]],
        )


def test_only_the_latest_of_many_alike_are_compared(
    token: AccessToken, django_assert_max_num_queries: Bounded
) -> None:
    whole = ask("Hello", "Good morning.", "And then?")
    marks = hash_request(whole)
    for _ in range(3 * MAX_COMPARED):
        answered(token, marks, "Something else.")
    with django_assert_max_num_queries(1 + 3 * MAX_COMPARED):
        assert find_continued_turn(token, whole, marks) is None


def test_a_long_history_is_stored_in_few_statements_and_in_its_order(
    token: AccessToken, django_assert_max_num_queries: Bounded
) -> None:
    texts = [f"Message {number}" for number in range(401)]
    with django_assert_max_num_queries(20):
        chat = import_history(token, ask(*texts), [[] for _ in texts[:-1]])
    messages = list(Message.objects.filter(conversation=chat).order_by("created_seq"))
    assert [message.parts.get().text for message in messages[:5]] == texts[:5]
    assert [message.parent for message in messages[1:]] == messages[:-1]
    assert Conversation.objects.get(pk=chat.pk).last_seq == messages[-1].created_seq == 400
