"""Drafts of messages: kept for each chat of their person, restored with the page, and gone once
they are sent."""

import uuid
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.http import HttpResponse
from django.test import Client

from chatapp.conversations import drafts
from chatapp.conversations.uploads import Upload, keep_file
from chatapp.models import Attachment, Conversation, Member, MessageDraft, Turn
from tests.dom_tree import Element, parse
from tests.peers.reading_room import PNG
from tests.turns import rows

pytestmark = pytest.mark.django_db(transaction=True)


def add_chat(owner: Member, title: str = "Checkout") -> Conversation:
    return rows.turn(owner, Turn.State.DONE, title).conversation


# Of the page that tests type in, unless they say otherwise.
BOX = "5d0c1ad0-7a8e-4cf6-8f0c-c5f5f0a6b1de"


def save(client: Client, chat: Conversation | None, text: str, **values: Any) -> int:
    data = {"chat": str(chat.pk) if chat else "", "text": text, "client_id": BOX, **values}
    return client.post("/draft/", data).status_code


def open_page(client: Client, chat: Conversation | None) -> Element:
    answer = client.get(f"/c/{chat.pk}/" if chat else "/")
    assert answer.status_code == 200
    return parse(answer.content.decode())


def read_box(client: Client, chat: Conversation | None) -> str:
    return open_page(client, chat).one("textarea", id="message").text


def send(client: Client, chat: Conversation | None, text: str, **values: Any) -> HttpResponse:
    where = chat.pk if chat else "new"
    answer: Any = client.post(f"/c/{where}/messages", {"text": text, "model": rows.MODEL, **values})
    return answer  # type: ignore[no-any-return]


def add_picture(owner: Member) -> Attachment:
    return keep_file(owner, Upload(name="dot.png", size=len(PNG), data=PNG))


def test_each_chat_and_the_new_chat_have_a_draft_of_their_own(
    owner_client: Client, owner: Member
) -> None:
    checkout, payroll = add_chat(owner), add_chat(owner, "Payroll")
    assert save(owner_client, checkout, "Why is it slow?\r\nSince Monday") == 204
    assert save(owner_client, None, "A new topic") == 204
    assert MessageDraft.objects.get(conversation=checkout).text == "Why is it slow?\nSince Monday"
    assert read_box(owner_client, payroll) == ""
    assert read_box(owner_client, None) == "A new topic"


@pytest.mark.parametrize("in_a_chat", [True, False])
def test_a_later_draft_replaces_the_one_before_and_an_empty_box_leaves_none(
    owner_client: Client, owner: Member, in_a_chat: bool
) -> None:
    chat = add_chat(owner) if in_a_chat else None
    save(owner_client, chat, "First")
    save(owner_client, chat, "Second")
    assert read_box(owner_client, chat) == "Second"
    assert MessageDraft.objects.count() == 1
    assert save(owner_client, chat, "") == 204
    assert MessageDraft.objects.count() == 0


@pytest.mark.parametrize("in_a_chat", [True, False])
def test_a_sent_message_leaves_no_draft_in_its_chat_and_keeps_the_others(
    owner_client: Client, owner: Member, in_a_chat: bool
) -> None:
    chat, other = (add_chat(owner), None) if in_a_chat else (None, add_chat(owner))
    save(owner_client, chat, "Send me")
    save(owner_client, other, "Keep me", client_id=uuid.uuid4())
    assert send(owner_client, chat, "Send me", client_id=BOX).status_code == 302
    assert read_box(owner_client, chat) == ""
    assert read_box(owner_client, other) == "Keep me"


def test_a_message_that_goes_on_a_draft_of_another_device_leaves_none(
    owner_client: Client, owner: Member
) -> None:
    chat = add_chat(owner)
    save(owner_client, chat, "Begun at the desk")
    loaded = open_page(owner_client, chat).one("input", name="draft")["value"]
    assert loaded == BOX
    said = {"client_id": uuid.uuid4(), "draft": loaded}
    assert send(owner_client, chat, "Begun at the desk, sent on the way", **said).status_code == 302
    assert MessageDraft.objects.count() == 0


@pytest.mark.parametrize("does", ["empties its box", "sends something else"])
def test_a_page_that_never_showed_a_draft_does_not_delete_it(
    owner_client: Client, owner: Member, does: str
) -> None:
    chat, other = add_chat(owner), uuid.uuid4()
    save(owner_client, chat, "Written elsewhere")
    if does == "empties its box":
        assert save(owner_client, chat, "", client_id=other) == 204
    else:
        assert send(owner_client, chat, "Quick question", client_id=other).status_code == 302
    assert read_box(owner_client, chat) == "Written elsewhere"


def test_a_page_whose_box_was_changed_by_the_server_saves_nothing_any_more(
    owner_client: Client, owner: Member
) -> None:
    chat = add_chat(owner)
    queued = chat.queued_messages.create(text="Queued", model=rows.MODEL)
    box = {"text": "In the box", "model": rows.MODEL, "client_id": BOX}
    owner_client.post(f"/c/{chat.pk}/queue/{queued.pk}/edit", box)
    assert save(owner_client, chat, "In the box") == 204
    assert read_box(owner_client, chat).split() == ["Queued", "In", "the", "box"]
    save(owner_client, chat, "From the page that was loaded since", client_id=uuid.uuid4())
    assert read_box(owner_client, chat) == "From the page that was loaded since"


def test_a_refused_message_keeps_its_draft(owner_client: Client, owner: Member) -> None:
    chat = add_chat(owner)
    save(owner_client, chat, "Half a message")
    assert send(owner_client, chat, "Half a message", model="openai:unknown").status_code == 422
    assert read_box(owner_client, chat) == "Half a message"


@pytest.mark.parametrize("in_a_chat", [True, False])
def test_a_draft_that_is_saved_after_its_message_was_sent_does_not_come_back(
    owner_client: Client, owner: Member, in_a_chat: bool
) -> None:
    chat, client_id = add_chat(owner) if in_a_chat else None, uuid.uuid4()
    send(owner_client, chat, "Only once", client_id=client_id)
    assert save(owner_client, chat, "Only once", client_id=client_id) == 204
    assert read_box(owner_client, chat) == ""
    save(owner_client, chat, "The next one", client_id=uuid.uuid4())
    assert read_box(owner_client, chat) == "The next one"


def test_a_message_of_somebody_else_hides_no_draft(
    owner_client: Client, owner: Member, stranger_client: Client
) -> None:
    chat, client_id = add_chat(owner), uuid.uuid4()
    send(stranger_client, None, "Mine", client_id=client_id)
    save(owner_client, chat, "Still here", client_id=client_id)
    assert read_box(owner_client, chat) == "Still here"


def test_attachments_come_back_with_the_text_until_they_are_sent(
    owner_client: Client, owner: Member
) -> None:
    chat, picture = add_chat(owner), add_picture(owner)
    save(owner_client, chat, "", attachments=[picture.pk])
    page = open_page(owner_client, chat)
    assert page.one("input", name="attachments")["value"] == str(picture.pk)
    send(owner_client, None, "In another chat", attachments=[picture.pk])
    assert open_page(owner_client, chat).all("input", name="attachments") == []


def test_attachments_of_somebody_else_are_not_shown(
    owner_client: Client, owner: Member, stranger: Member
) -> None:
    chat, theirs = add_chat(owner), add_picture(stranger)
    assert save(owner_client, chat, "Look", attachments=[theirs.pk]) == 204
    page = open_page(owner_client, chat)
    assert page.one("textarea", id="message").text == "Look"
    assert page.all("input", name="attachments") == []


def test_nobody_else_writes_or_reads_the_draft_of_a_chat(
    owner_client: Client, owner: Member, stranger_client: Client
) -> None:
    chat = add_chat(owner)
    save(owner_client, chat, "Private")
    save(owner_client, None, "Private too")
    assert save(stranger_client, chat, "Overwritten") == 404
    assert read_box(stranger_client, None) == ""
    assert read_box(owner_client, chat) == "Private"
    assert read_box(owner_client, None) == "Private too"


@pytest.mark.parametrize(
    "bad",
    [
        {"text": "a" * (settings.MESSAGE_MAX_CHARACTERS + 1)},
        {"text": "nul \x00"},
        {"attachments": ["not an id"]},
        {"attachments": [str(uuid.uuid4()) for _ in range(settings.MESSAGE_MAX_FILES + 1)]},
        {"client_id": "not an id"},
    ],
    ids=["too long", "character", "attachment", "attachments", "client id"],
)
def test_what_could_not_be_sent_replaces_no_draft(
    owner_client: Client, owner: Member, bad: dict[str, Any]
) -> None:
    chat = add_chat(owner)
    save(owner_client, chat, "Good")
    assert save(owner_client, chat, **{"text": "Bad", **bad}) == 422
    assert read_box(owner_client, chat) == "Good"


def test_a_starter_goes_before_the_draft_of_a_new_chat(owner_client: Client) -> None:
    save(owner_client, None, "My draft")
    page = parse(owner_client.get("/?start=1").content.decode())
    assert page.one("textarea", id="message").text == "What notes are there?"
    assert read_box(owner_client, None) == "My draft"


def test_a_refused_title_keeps_the_draft_on_the_page(owner_client: Client, owner: Member) -> None:
    chat = add_chat(owner)
    save(owner_client, chat, "Not lost")
    refused = owner_client.post(f"/c/{chat.pk}/rename", {"title": " "})
    page = parse(refused.content.decode())
    assert (refused.status_code, page.one("textarea", id="message").text) == (422, "Not lost")


def test_drafts_go_with_their_chat(owner: Member) -> None:
    chat = add_chat(owner)
    drafts.keep_draft(owner, chat, text="Gone with it")
    chat.delete()
    assert MessageDraft.objects.count() == 0


def test_a_save_that_overtakes_a_queued_message_does_not_replace_it(owner: Member) -> None:
    """The box saves itself while its person moves a queued message into it."""
    chat = add_chat(owner)
    box = uuid.UUID(BOX)
    has_moved: list[str] = []

    def move_after_the_first(execute: Any, sql: str, *more: Any) -> Any:
        answer = execute(sql, *more)
        if "chatapp_messagedraft" in sql and not has_moved:
            has_moved.append(sql)
            ids = {"client_id": uuid.uuid4(), "replaced_id": box}
            drafts.store_draft(owner, chat, "Ask Mara\n\ntoday", [], **ids)
        return answer

    with connection.execute_wrapper(move_after_the_first):
        drafts.keep_draft(owner, chat, text="today", client_id=box)
    assert has_moved
    assert MessageDraft.objects.get().text == "Ask Mara\n\ntoday"


@pytest.mark.parametrize("chat_is_new", [True, False])
def test_the_later_of_two_boxes_that_save_wins(owner: Member, chat_is_new: bool) -> None:
    chat = None if chat_is_new else add_chat(owner)
    for text in ("first", "second"):
        drafts.keep_draft(owner, chat, text=text, client_id=uuid.uuid4())
    assert MessageDraft.objects.get().text == "second"
