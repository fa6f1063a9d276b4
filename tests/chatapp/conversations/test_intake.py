"""Messages: accepted once or refused with a sentence, and never half."""

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar, cast

import pytest
from django.db import connection
from django.http import HttpResponse

from chatapp.conversations import intake
from chatapp.engine import titles
from chatapp.models import (
    Conversation,
    JournalEvent,
    Member,
    Message,
    Part,
    QueuedMessage,
    ToolCall,
    Turn,
)
from chatapp.people.refused import Refused
from tests import scripted
from tests.conftest import signed_in
from tests.turns import rows

R = TypeVar("R")
pytestmark = pytest.mark.django_db(transaction=True)


def send(person: Member, text: str = "Hello", **given: object) -> Turn:
    return intake.receive(person, None, text=text, **{"model": scripted.MODEL} | given)  # type: ignore[arg-type]


def test_the_title_is_the_beginning_of_the_first_message(owner: Member) -> None:
    turn = send(owner, "Please find out\n why the checkout was slow on Tuesday afternoon, will you")
    title = turn.conversation.title
    assert title.startswith("Please find out why the checkout")
    assert len(title) <= titles.TITLE_CHARACTERS + 1
    assert "\n" not in title


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "Enter a message"),
        (" \n\t ", "Enter a message"),
        ("x" * 200_000, "200,000 characters"),
        ("a\x00b", "cannot be stored"),
    ],
)
def test_a_message_that_cannot_be_taken_says_why_and_leaves_nothing(
    owner: Member, text: str, sentence: str
) -> None:
    with pytest.raises(Refused, match=sentence):
        send(owner, text)
    assert not Conversation.objects.exists()


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        ("", "No model is set up"),
        ("gpt", "no model"),
        ("nobody:x", "no model"),
        ("openai:", "no model"),
    ],
)
def test_an_unknown_model_is_refused_with_what_to_do(
    owner: Member, model: str, sentence: str
) -> None:
    with pytest.raises(Refused, match=sentence):
        send(owner, model=model)
    assert not Conversation.objects.exists()


def test_a_provider_without_a_key_is_refused_with_what_to_do(
    owner: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(Refused, match="OPENAI_API_KEY"):
        send(owner, model="openai:gpt-6-sol")


def test_the_same_message_sent_ten_times_at_once_is_one_turn(owner: Member) -> None:
    """A double click, a retry by a proxy, the back button."""
    client_id = uuid.uuid4()
    assert len(set(at_once(lambda _: send(owner, client_id=client_id).pk, 10))) == 1
    assert Turn.objects.count() == 1
    assert Message.objects.count() == 2


def test_another_person_cannot_fetch_a_turn_by_its_client_id(owner: Member) -> None:
    client_id = uuid.uuid4()
    send(owner, client_id=client_id)
    stranger = Member.objects.create_user("stranger")
    with pytest.raises(Refused):
        send(stranger, client_id=client_id)


def test_a_message_during_a_running_turn_is_refused(owner: Member) -> None:
    turn = send(owner)
    with pytest.raises(Refused) as refused:
        intake.receive(owner, turn.conversation, text="More", model=scripted.MODEL)
    assert refused.value.status == 409
    assert Turn.objects.count() == 1


# --- at the same moment --------------------------------------------------------------------
def at_once(work: Callable[[int], R], times: int = 8) -> list[R]:
    """What each of so many threads got, all of them begun together."""
    together = Barrier(times)

    def one(number: int) -> R:
        try:
            together.wait(60)
            return work(number)
        finally:
            connection.close()

    with ThreadPoolExecutor(times) as pool:
        return list(pool.map(one, range(times)))


def post(person: Member, address: str, client_id: uuid.UUID, text: str = "Hello") -> HttpResponse:
    client = signed_in(person)
    fields = {"text": text, "model": scripted.MODEL, "client_id": str(client_id)}
    return cast(HttpResponse, client.post(address, fields))


def test_the_same_post_from_eight_tabs_begins_one_chat_and_none_is_refused(owner: Member) -> None:
    client_id = uuid.uuid4()
    answers = at_once(lambda _: post(owner, "/c/new/messages", client_id))
    assert {answer.status_code for answer in answers} == {302}
    assert len({answer["location"] for answer in answers}) == 1
    assert (Conversation.objects.count(), Turn.objects.count()) == (1, 1)
    assert Message.objects.count() == 2
    assert Part.objects.count() == 1


def test_the_same_post_to_an_open_chat_is_stored_once_and_none_is_refused(owner: Member) -> None:
    """The chat has a live turn as soon as the first one is in; the others are that one."""
    turn = send(owner)
    Turn.objects.filter(pk=turn.pk).update(state=Turn.State.DONE)
    client_id = uuid.uuid4()
    address = f"/c/{turn.conversation_id}/messages"
    answers = at_once(lambda _: post(owner, address, client_id))
    assert {answer.status_code for answer in answers} == {302}
    assert Turn.objects.count() == 2
    assert Message.objects.filter(client_id=client_id).count() == 1


def test_of_different_messages_at_once_one_is_sent_and_the_others_are_queued(owner: Member) -> None:
    turn = send(owner)
    Turn.objects.filter(pk=turn.pk).update(state=Turn.State.DONE)
    address = f"/c/{turn.conversation_id}/messages"
    answers = at_once(lambda n: post(owner, address, uuid.uuid4(), f"Message {n}"))
    assert {answer.status_code for answer in answers} == {302}
    assert Turn.objects.filter(state__in=Turn.LIVE).count() == 1
    assert Message.objects.count() == 4
    queued = QueuedMessage.objects.filter(conversation=turn.conversation_id)
    assert queued.count() == 7


def test_chats_that_begin_at_once_are_all_whole(owner: Member) -> None:
    turns = at_once(lambda n: send(owner, f"Chat {n}"))
    for number, turn in enumerate(turns):
        chat = Conversation.objects.get(pk=turn.conversation_id)
        assert (chat.title, chat.last_seq) == (f"Chat {number}", 3)
        question, answer = chat.messages.order_by("created_seq")
        assert (question.role, answer.role) == ("user", "assistant")
        assert (question.parent_id, answer.parent_id) == (None, question.pk)
        assert [part.text for part in question.parts.all()] == [f"Chat {number}"]
        assert JournalEvent.objects.filter(conversation=chat).count() == 3


# --- where it goes -------------------------------------------------------------------------
def test_the_next_question_follows_the_latest_answer(owner: Member) -> None:
    first = send(owner)
    Turn.objects.filter(pk=first.pk).update(state=Turn.State.DONE)
    second = intake.receive(owner, first.conversation, text="More", model="openai:other")
    assert second.question.parent_id == first.answer_id
    assert second.answer.parent_id == second.question_id
    chat = Conversation.objects.get()
    assert (chat.title, chat.model) == ("Hello", "openai:other")
    assert chat.active_at > chat.created_at


def test_a_message_instead_of_an_answer_withdraws_what_was_asked(owner: Member) -> None:
    waiting = rows.turn(owner, Turn.State.WAITING)
    call = rows.question(waiting)
    intake.receive(owner, waiting.conversation, text="Never mind", model=scripted.MODEL)
    call.refresh_from_db()
    waiting.refresh_from_db()
    assert (call.state, waiting.state) == (ToolCall.State.WITHDRAWN, Turn.State.STOPPED)


def test_a_refused_message_leaves_nothing_behind(owner: Member) -> None:
    turn = send(owner)
    for _ in range(2):
        with pytest.raises(Refused):
            intake.receive(owner, turn.conversation, text="More", model=scripted.MODEL)
    assert (Message.objects.count(), Part.objects.count()) == (2, 1)
    assert Conversation.objects.get().last_seq == 3
