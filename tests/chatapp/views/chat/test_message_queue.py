"""The pages of a queue: what is shown, what the buttons do, and that nothing typed is lost."""

import uuid
from typing import Any

import pytest
from django.test import Client

from chatapp.conversations.message_queue import MAX_QUEUED
from chatapp.models import Conversation, Member, QueuedMessage, Turn
from tests.dom_tree import Element, parse
from tests.turns import rows

pytestmark = pytest.mark.django_db(transaction=True)
HTMX = {"HX-Request": "true"}


def add_chat(owner: Member, state: str = Turn.State.RUNNING) -> Conversation:
    return rows.turn(owner, state).conversation


def add_message(chat: Conversation, text: str = "Then this", **more: Any) -> QueuedMessage:
    return QueuedMessage.objects.create(conversation=chat, text=text, model=rows.MODEL, **more)


def send(client: Client, chat: Conversation, text: str, *, htmx: bool = False, **more: Any) -> Any:
    data = {"text": text, "model": rows.MODEL, "client_id": str(uuid.uuid4()), **more}
    return client.post(f"/c/{chat.pk}/messages", data, headers=HTMX if htmx else {})


def press(
    client: Client, message: QueuedMessage, button: str, *, htmx: bool = False, **box: Any
) -> Any:
    address = f"/c/{message.conversation_id}/queue/{message.pk}/{button}"
    data = {"text": "", "model": rows.MODEL, **box}
    return client.post(address, data, headers=HTMX if htmx else {})


def read(answer: Any) -> Element:
    return parse(answer.content.decode())


def read_queue(client: Client, chat: Conversation) -> list[str]:
    page = read(client.get(f"/c/{chat.pk}/"))
    return [each.text for each in page.one(id="queue").all(class_="text")]


@pytest.mark.parametrize("htmx", [True, False])
def test_a_message_to_a_chat_whose_answer_goes_on_is_queued_and_shown(
    owner_client: Client, owner: Member, htmx: bool
) -> None:
    chat = add_chat(owner)
    form = str(uuid.uuid4())
    owner_client.post("/draft/", {"chat": str(chat.pk), "text": "Then this", "client_id": form})
    answer = send(owner_client, chat, "Then this", htmx=htmx, client_id=form)
    assert answer.status_code == (200 if htmx else 302)
    assert read_queue(owner_client, chat) == ["Then this"]
    page = read(owner_client.get(f"/c/{chat.pk}/"))
    assert page.one("textarea", id="message").text == ""
    assert chat.messages.filter(role="user").count() == 1


def test_an_empty_queue_is_hidden(owner_client: Client, owner: Member) -> None:
    chat = add_chat(owner)
    assert "hidden" in read(owner_client.get(f"/c/{chat.pk}/")).one(id="queue")
    add_message(chat)
    assert "hidden" not in read(owner_client.get(f"/c/{chat.pk}/")).one(id="queue")


def test_while_a_request_is_open_both_ways_are_named(owner_client: Client, owner: Member) -> None:
    turn = rows.turn(owner)
    rows.question(turn)
    actions = read(owner_client.get(f"/c/{turn.conversation_id}/")).one(id="composer-actions")
    assert "cancels this request" in actions.text
    labels = {each["aria-label"] for each in actions.all("button") if "aria-label" in each}
    assert labels == {"Stop", "Send"}
    assert actions.one("button", name="queue").text == "Queue"
    assert send(owner_client, turn.conversation, "Later", queue="yes").status_code == 302
    assert read_queue(owner_client, turn.conversation) == ["Later"]
    turn.refresh_from_db()
    assert turn.state == Turn.State.WAITING


def test_a_full_queue_refuses_with_a_sentence_and_keeps_the_box(
    owner_client: Client, owner: Member
) -> None:
    chat = add_chat(owner)
    for number in range(MAX_QUEUED):
        add_message(chat, f"Message {number}")
    answer = send(owner_client, chat, "One too many")
    assert answer.status_code == 409
    assert "10 queued messages" in read(answer).one(id="composer-notice").text
    assert read(answer).one("textarea", id="message").text == "One too many"


def test_why_a_message_was_not_sent_stands_beside_it(owner_client: Client, owner: Member) -> None:
    chat = add_chat(owner, Turn.State.STOPPED)
    add_message(chat, problem="Not sent, because the last answer is not complete.")
    page = read(owner_client.get(f"/c/{chat.pk}/"))
    assert "not complete" in page.one(id="queue").one(role="alert").text


def test_a_message_goes_back_into_the_box_before_what_is_there(
    owner_client: Client, owner: Member
) -> None:
    chat = add_chat(owner)
    answer = press(owner_client, add_message(chat), "edit", text="And this")
    assert (answer.status_code, answer["Location"]) == (302, f"/c/{chat.pk}/")
    page = read(owner_client.get(f"/c/{chat.pk}/"))
    assert page.one("textarea", id="message").text.split() == ["Then", "this", "And", "this"]
    assert read_queue(owner_client, chat) == []


@pytest.mark.parametrize("button", ["send", "remove"])
def test_without_javascript_the_buttons_keep_what_is_typed(
    owner_client: Client, owner: Member, button: str
) -> None:
    chat = add_chat(owner)
    answer = press(owner_client, add_message(chat), button, text="Half a sentence")
    assert answer.status_code == 200
    assert read(answer).one("textarea", id="message").text == "Half a sentence"


def test_sent_now_while_the_assistant_works_a_message_says_that_the_answer_is_stopped(
    owner_client: Client, owner: Member
) -> None:
    chat = add_chat(owner)
    assert press(owner_client, add_message(chat), "send", htmx=True).status_code == 204
    queue = read(owner_client.get(f"/c/{chat.pk}/")).one(id="queue")
    assert "Stopping the answer" in queue.one(role="status").text
    assert chat.turns.get().stop_requested


def test_sent_now_after_an_answer_a_message_is_sent(owner_client: Client, owner: Member) -> None:
    chat = add_chat(owner, Turn.State.STOPPED)
    held = add_message(chat, problem="Not sent, because the last answer is not complete.")
    assert press(owner_client, held, "send", htmx=True).status_code == 204
    assert chat.messages.filter(role="user").count() == 2
    assert read_queue(owner_client, chat) == []


@pytest.mark.parametrize("button", ["send", "edit", "remove"])
def test_nobody_else_reaches_a_queue_and_a_message_only_through_its_own_chat(
    owner_client: Client, stranger_client: Client, owner: Member, button: str
) -> None:
    chat, other = add_chat(owner), add_chat(owner)
    message = add_message(chat)
    assert press(stranger_client, message, button).status_code == 404
    address = f"/c/{other.pk}/queue/{message.pk}/{button}"
    assert owner_client.post(address, {"text": "Typed"}).status_code == 409
    assert read_queue(owner_client, chat) == ["Then this"]


@pytest.mark.parametrize("button", ["send", "edit", "remove"])
def test_a_message_that_is_gone_is_told_and_the_box_keeps_its_text(
    owner_client: Client, owner: Member, button: str
) -> None:
    message = add_message(add_chat(owner))
    QueuedMessage.objects.filter(pk=message.pk).delete()
    answer = press(owner_client, message, button, text="Typed")
    assert answer.status_code == 409
    assert "no longer in the queue" in read(answer).one(id="composer-notice").text
    assert read(answer).one("textarea", id="message").text == "Typed"


def test_a_box_with_an_id_that_no_page_makes_is_refused_and_keeps_its_text(
    owner_client: Client, owner: Member
) -> None:
    chat = add_chat(owner)
    answer = press(owner_client, add_message(chat), "edit", text="Typed", client_id="no id")
    assert answer.status_code == 422
    assert "not valid" in read(answer).one(id="composer-notice").text
    assert read(answer).one("textarea", id="message").text == "Typed"
    assert read_queue(owner_client, chat) == ["Then this"]
