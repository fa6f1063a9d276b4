"""Sending and stopping: what is accepted, what is refused, and that nothing written is lost."""

import uuid
from typing import Any
from urllib.parse import urlencode

import pytest
from django.conf import LazySettings, settings
from django.http import HttpResponse
from django.test import Client
from django.test.client import MULTIPART_CONTENT

from chatapp.models import Conversation, Member, Message, QueuedMessage, Turn
from tests.dom_tree import parse
from tests.turns import rows

HTMX = {"HX-Request": "true"}


def send(client: Client, where: str = "new", htmx: bool = False, **values: Any) -> HttpResponse:
    data = {"text": "Hello", "model": rows.MODEL, **values}
    answer: Any = client.post(f"/c/{where}/messages", data, headers=HTMX if htmx else {})
    return answer  # type: ignore[no-any-return]


def test_a_first_message_starts_a_conversation_and_leads_to_it(
    owner_client: Client, owner: Member
) -> None:
    answer = send(owner_client, text="What is new?\nTell me.")
    conversation = Conversation.objects.get(owner=owner)
    assert (answer.status_code, answer["Location"]) == (302, f"/c/{conversation.pk}/")
    turn = conversation.turns.get()
    assert turn.question.parts.get().text == "What is new?\nTell me."
    assert turn.model == rows.MODEL


@pytest.mark.parametrize(("said", "uses_tools"), [({}, True), ({"tools": "off"}, False)])
def test_a_chat_begins_with_tools_or_without(
    owner_client: Client, owner: Member, said: dict[str, Any], uses_tools: bool
) -> None:
    box = parse(owner_client.get("/").content.decode()).one("input", name="tools")
    assert (box["form"], box["value"], "checked" in box) == ("composer", "off", False)
    send(owner_client, **said)
    conversation = Conversation.objects.get(owner=owner)
    assert conversation.uses_tools is uses_tools
    shown = parse(owner_client.get(f"/c/{conversation.pk}/").content.decode())
    assert shown.all("input", name="tools") == [], "from then on the Tools menu switches it"


def test_a_refused_first_message_and_a_step_aside_keep_that_it_begins_without_tools(
    owner_client: Client,
) -> None:
    refused = parse(send(owner_client, text=" ", tools="off").content.decode())
    assert "checked" in refused.one("input", name="tools")
    aside = owner_client.post("/tools/", {"text": "Hello", "tools": "off"})
    menu = parse(aside.content.decode()).one("form", id="tools-form")
    assert menu.one("input", name="tools")["value"] == "off"


def test_htmx_is_sent_to_a_new_conversation_as_a_whole(owner_client: Client) -> None:
    answer = send(owner_client, htmx=True)
    assert answer["HX-Redirect"] == f"/c/{Conversation.objects.get().pk}/"


def test_a_further_message_makes_the_box_ready_and_leaves_the_painting_to_the_socket(
    owner_client: Client, owner: Member
) -> None:
    conversation = rows.turn(owner, Turn.State.DONE).conversation
    first = uuid.uuid4()
    answer = send(owner_client, str(conversation.pk), htmx=True, text="And now?", client_id=first)
    page = parse(answer.content.decode())
    ready = [each for each in page.all() if "hx-swap-oob" in each]
    assert [each["hx-swap-oob"] for each in ready] == ["true", "innerHTML:#composer-notice"]
    assert uuid.UUID(page.one("input", name="client_id")["value"]) != first
    assert conversation.turns.count() == 2


def test_a_further_message_leads_back_to_the_page_without_htmx(
    owner_client: Client, owner: Member
) -> None:
    conversation = rows.turn(owner, Turn.State.DONE).conversation
    answer = send(owner_client, str(conversation.pk))
    assert answer["Location"] == f"/c/{conversation.pk}/"


@pytest.mark.parametrize("htmx", [True, False])
def test_a_message_that_is_sent_twice_is_accepted_once(owner_client: Client, htmx: bool) -> None:
    client_id = str(uuid.uuid4())
    answers = [send(owner_client, htmx=htmx, client_id=client_id) for _ in range(2)]
    places = [
        answer.headers.get("HX-Redirect", answer.headers.get("Location")) for answer in answers
    ]
    assert places == [f"/c/{Conversation.objects.get().pk}/"] * 2
    assert Message.objects.filter(role="user").count() == 1


def test_an_id_that_somebody_else_used_gives_nothing_of_theirs(
    owner_client: Client, stranger_client: Client
) -> None:
    client_id = str(uuid.uuid4())
    theirs = send(owner_client, client_id=client_id)["Location"]
    answer = send(stranger_client, client_id=client_id)
    assert answer.headers.get("Location") != theirs


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"text": ""}, "Enter a message."),
        ({"text": " \n "}, "Enter a message."),
        ({"text": "x" * 51}, "The limit is 50"),
        ({"model": "nobody:knows"}, "nobody:knows"),
        ({"model": ""}, "model"),
        ({"client_id": "not-an-id"}, "is not valid"),
    ],
)
def test_a_refused_message_stays_in_the_box_with_the_reason_beside_it(
    owner_client: Client,
    owner: Member,
    settings: LazySettings,
    values: dict[str, Any],
    sentence: str,
) -> None:
    settings.MESSAGE_MAX_CHARACTERS = 50
    conversation = rows.turn(owner, Turn.State.DONE).conversation
    for where in ("new", str(conversation.pk)):
        answer = send(owner_client, where, **values)
        page = parse(answer.content.decode())
        assert answer.status_code == 422
        assert sentence in page.one(id="composer-notice").text
        form = page.one("form", id="composer").fields()
        assert form["text"] == values.get("text", "Hello")
        assert form["model"] == (values.get("model", rows.MODEL) or rows.MODEL)
    assert Turn.objects.count() == 1


@pytest.mark.parametrize("content_type", [MULTIPART_CONTENT, "application/x-www-form-urlencoded"])
def test_a_text_beyond_what_a_form_may_hold_is_refused_in_the_words_for_a_long_message(
    owner_client: Client, caplog: pytest.LogCaptureFixture, content_type: str
) -> None:
    values: Any = {"text": "ä" * 2_000_000, "model": rows.MODEL}
    body = values if content_type == MULTIPART_CONTENT else urlencode(values)
    answer = owner_client.post("/c/new/messages", body, content_type=content_type, headers=HTMX)

    assert (answer.status_code, answer["HX-Retarget"]) == (413, "#composer-notice")
    assert "100,000" in parse(answer.content.decode()).one("p").text
    assert [record.exc_info for record in caplog.records] == [None]
    assert not Turn.objects.exists()


def test_too_long_a_text_is_refused_on_a_page_of_its_own_without_javascript(
    owner_client: Client,
) -> None:
    answer = send(owner_client, text="x" * 3_000_000)

    card = parse(answer.content.decode()).one("main")
    assert answer.status_code == 413
    assert "100,000" in card.text


def test_too_long_a_text_in_another_form_is_not_called_a_message(
    owner_client: Client, client: Client
) -> None:
    memory = owner_client.post("/memory/", {"text": "x" * 3_000_000})
    sign_in = client.post("/sign-in/", {"username": "x" * 3_000_000})

    for answer in (memory, sign_in):
        text = parse(answer.content.decode()).one("main").text
        assert answer.status_code == 413
        assert "100,000" not in text and "message" not in text


def test_a_longest_message_fits_whatever_its_characters_weigh(owner_client: Client) -> None:
    text = "\N{OLD ITALIC LETTER A}" * settings.MESSAGE_MAX_CHARACTERS
    body = urlencode({"text": text, "model": rows.MODEL})

    answer = owner_client.post(
        "/c/new/messages", body, content_type="application/x-www-form-urlencoded"
    )

    assert answer.status_code == 302
    assert settings.DATA_UPLOAD_MAX_MEMORY_SIZE > 12 * settings.MESSAGE_MAX_CHARACTERS


def test_htmx_gets_the_reason_alone(owner_client: Client) -> None:
    answer = send(owner_client, htmx=True, text="")
    assert answer.status_code == 422
    assert parse(answer.content.decode()).one("p", class_="notice refused").text


@pytest.mark.parametrize("state", [Turn.State.QUEUED, Turn.State.RUNNING])
def test_a_message_while_the_assistant_works_begins_no_other_turn(
    owner_client: Client, owner: Member, state: str
) -> None:
    conversation = rows.turn(owner, state).conversation
    answer = send(owner_client, str(conversation.pk), htmx=True)
    assert answer.status_code == 200
    assert conversation.turns.count() == 1
    assert QueuedMessage.objects.get(conversation=conversation).text == "Hello"


def test_markup_in_a_message_comes_back_as_words(owner_client: Client) -> None:
    lure = "</textarea><b id=zz>"
    page = parse(send(owner_client, text=lure, model="nobody:<b id=zz>").content.decode())
    assert page.one("form", id="composer").fields()["text"] == lure
    assert page.all(id="zz") == []


@pytest.mark.parametrize(("htmx", "expected"), [(True, (204, None)), (False, (302, "/c/{}/"))])
def test_stop_ends_what_waits_and_can_be_pressed_again(
    owner_client: Client, owner: Member, htmx: bool, expected: tuple[int, str | None]
) -> None:
    call = rows.question(rows.turn(owner))
    conversation = call.turn.conversation
    for _ in range(2):
        answer = owner_client.post(f"/c/{conversation.pk}/stop", headers=HTMX if htmx else {})
        place = expected[1].format(conversation.pk) if expected[1] else None
        assert (answer.status_code, answer.headers.get("Location")) == (expected[0], place)
    assert Turn.objects.get().state == Turn.State.STOPPED
    call.refresh_from_db()
    assert call.state == "withdrawn"
