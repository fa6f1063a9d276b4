"""Messages: accepted once or refused with a sentence, and never half."""

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from chatapp.models import Conversation, Member, Message, Turn
from chatapp.turns import intake
from chatapp.turns.refusals import Refused
from tests import scripted

pytestmark = pytest.mark.django_db(transaction=True)


def send(person: Member, text: str = "Hello", **given: object) -> Turn:
    return intake.receive(person, None, text=text, **{"model": scripted.MODEL} | given)  # type: ignore[arg-type]


def test_the_title_is_the_beginning_of_the_first_message(owner: Member) -> None:
    turn = send(owner, "Please find out\n why the checkout was slow on Tuesday afternoon, will you")
    title = turn.conversation.title
    assert title.startswith("Please find out why the checkout")
    assert len(title) <= intake.TITLE_CHARACTERS + 1
    assert "\n" not in title


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "Write a message first"),
        (" \n\t ", "Write a message first"),
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
    [("", "no model"), ("gpt", "no model"), ("nobody:x", "no model"), ("openai:", "no model")],
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
    """F15, P8: a double click, a retry by a proxy, the back button."""
    client_id = uuid.uuid4()

    def once(_: int) -> uuid.UUID:
        try:
            return send(owner, client_id=client_id).pk
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(once, range(10)))) == 1
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
