"""Histories that programs send: which chat goes on, and how little the database is asked for it."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from chatapp.models import AccessToken, Conversation, Member, Message, Turn
from chatapp.turns import access_tokens, program_chats
from chatapp.turns.program_chats import Place
from chatapp.turns.program_histories import MOST_COMPARED, continued, imported
from chatapp.turns.program_requests import Asked, Marks, Said, marks_of
from chatapp.turns.refusals import Refused
from tests.chatapp.views import rows

pytestmark = pytest.mark.django_db
Bounded = Callable[[int], Any]


@pytest.fixture
def token(owner: Member) -> AccessToken:
    return access_tokens.make(owner, name="Job", scopes=["chat"], days=7)[0]


def asked(*texts: str) -> Asked:
    roles = ("user", "assistant")
    said = [Said(role=roles[n % 2], text=text) for n, text in enumerate(texts)]  # type: ignore[arg-type]
    return Asked(model=rows.MODEL, said=tuple(said))


def answered(token: AccessToken, marks: Marks, answer: str, **values: Any) -> Turn:
    """A turn that was asked what stands before the last answer, and gave this one."""
    turn = rows.turn(token.person, Turn.State.DONE, token=token, said_hash=marks.before, **values)
    rows.said(turn, answer)
    return turn


def test_the_chat_that_gave_this_answer_goes_on(token: AccessToken) -> None:
    whole = asked("Hello", "Good morning.", "And then?")
    marks = marks_of(whole)
    meant = answered(token, marks, "Good morning.")
    answered(token, marks, "Hello.")
    assert continued(token, whole, marks) == meant


def test_a_chat_that_went_on_since_is_not_meant(token: AccessToken) -> None:
    whole = asked("Hello", "Good morning.", "And then?")
    before = answered(token, marks_of(whole), "Good morning.")
    rows_later = rows.turn(token.person, Turn.State.DONE)
    Turn.objects.filter(pk=rows_later.pk).update(
        conversation=before.conversation, created_at=timezone.now() + timedelta(seconds=1)
    )
    assert continued(token, whole, marks_of(whole)) is None
    with pytest.raises(Refused):  # it went on after it was looked up
        program_chats._accepted(
            token, whole, marks_of(whole), Place(chat=before.conversation, after=before), [[]]
        )


def test_only_the_latest_of_many_alike_are_compared(
    token: AccessToken, django_assert_max_num_queries: Bounded
) -> None:
    whole = asked("Hello", "Good morning.", "And then?")
    marks = marks_of(whole)
    for _ in range(3 * MOST_COMPARED):
        answered(token, marks, "Something else.")
    with django_assert_max_num_queries(1 + 3 * MOST_COMPARED):
        assert continued(token, whole, marks) is None


def test_a_long_history_is_stored_in_few_statements_and_in_its_order(
    token: AccessToken, django_assert_max_num_queries: Bounded
) -> None:
    texts = [f"Message {number}" for number in range(401)]
    with django_assert_max_num_queries(20):
        chat = imported(token, asked(*texts), [[] for _ in texts[:-1]])
    messages = list(Message.objects.filter(conversation=chat).order_by("created_seq"))
    assert [message.parts.get().text for message in messages[:5]] == texts[:5]
    assert [message.parent for message in messages[1:]] == messages[:-1]
    assert Conversation.objects.get(pk=chat.pk).last_seq == messages[-1].created_seq == 400
