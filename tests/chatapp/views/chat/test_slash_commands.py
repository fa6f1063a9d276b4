"""Commands after `/` in the message box: which there are, and what finds them."""

import uuid

import pytest
from django.test import Client

from chatapp.models import Conversation, Member, SavedPrompt, Turn
from tests.dom_tree import Element, parse
from tests.turns import rows

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}
STEPS = ["/model", "/tools", "/attach", "/prompts"]
MOST_STATEMENTS = 25


def read(client: Client, text: str, chat: Conversation | None = None) -> Element:
    values = {"text": text, "mention": text, "chat": str(chat.pk) if chat else ""}
    answer = client.post("/attach/typed", values, headers=HTMX)
    assert answer.status_code == 200
    return parse(answer.content.decode())


def names(page: Element) -> list[str]:
    return [each.text for each in page.all("small") if each.text.startswith("/")]


@pytest.fixture
def chat(owner: Member) -> Conversation:
    return rows.turn(owner, Turn.State.DONE).conversation


def test_a_new_chat_has_the_steps_of_a_message_and_new_chats(owner_client: Client) -> None:
    page = read(owner_client, "/")
    assert names(page) == [*STEPS, "/new", "/temporary"]
    assert [each.text for each in page.all("h2")] == ["For this message", "Commands"]


def test_an_open_chat_has_its_own_commands(owner_client: Client, chat: Conversation) -> None:
    page = read(owner_client, "/", chat)
    own = [
        "/plan",
        "/instructions",
        "/move",
        "/pin",
        "/archive",
        "/share",
        "/export",
        "/print",
        "/delete",
    ]
    assert names(page) == [*STEPS, "/new", "/temporary", *own]
    form = page.one("form", action=f"/c/{chat.pk}/archive")
    assert (form.one("button")["name"], form.one("button")["value"]) == ("archive", "yes")


def test_a_command_is_offered_for_what_the_chat_is(owner_client: Client, owner: Member) -> None:
    chat = rows.turn(owner, Turn.State.DONE).conversation
    Conversation.objects.filter(pk=chat.pk).update(mode="plan", is_temporary=True)
    page = read(owner_client, "/", chat)
    assert not {"/pin", "/archive", "/share"} & set(names(page))
    assert page.one("form", action=f"/c/{chat.pk}/mode").one("button")["value"] == "act"


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("/mod", ["/model", "/plan"]),
        ("/MODEL", ["/model"]),
        ("/ex", ["/export"]),
        ("/serv", ["/tools"]),
        ("/plan ", ["/plan"]),
        ("/nothing", []),
    ],
)
def test_names_and_words_of_labels_find_a_command(
    owner_client: Client, chat: Conversation, typed: str, found: list[str]
) -> None:
    assert names(read(owner_client, typed, chat)) == found


def test_labels_find_a_command_in_german(owner_client: Client, chat: Conversation) -> None:
    owner_client.cookies["django_language"] = "de"
    assert names(read(owner_client, "/archivieren", chat)) == ["/archive"]
    assert names(read(owner_client, "/archive", chat)) == ["/archive"]


def test_saved_prompts_and_commands_stand_in_one_list(owner_client: Client, owner: Member) -> None:
    SavedPrompt.objects.create(owner=owner, title="Model report", text="Write a report.")
    page = read(owner_client, "/model")
    assert [each.text for each in page.all("h2")] == ["For this message", "Saved prompts"]
    assert {each["data-typed"] for each in page.all("ul", class_="offers")} == {"/model"}
    said = page.one("div", hx_swap_oob="innerHTML:[data-announcements]")
    assert said.text.startswith("2 suggestions")


def test_what_has_no_command_says_so(owner_client: Client) -> None:
    page = read(owner_client, "/nothing")
    assert "No command, prompt or service has this name." in page.text
    assert page.all("ul", class_="offers") == []


def test_a_step_empties_the_message_box_and_markup_stays_text(owner_client: Client) -> None:
    step = read(owner_client, "/mod").one("button", hx_post="/models/")
    assert (step["data-fill"], step["data-named"]) == ("", "/mod")


def test_the_chat_of_somebody_else_has_no_commands(
    stranger_client: Client, chat: Conversation
) -> None:
    values = {"text": "/", "mention": "/", "chat": str(chat.pk)}
    assert stranger_client.post("/attach/typed", values, headers=HTMX).status_code == 404


def test_the_list_takes_few_statements(
    owner_client: Client,
    owner: Member,
    chat: Conversation,
    django_assert_max_num_queries: object,
) -> None:
    for number in range(60):
        SavedPrompt.objects.create(owner=owner, title=f"Prompt {number}", text="x")
    with django_assert_max_num_queries(MOST_STATEMENTS):  # type: ignore[operator]
        page = read(owner_client, "/", chat)
    assert len(page.all("form", action="/attach/saved/form")) <= 5


def test_the_name_of_a_command_is_no_draft(owner_client: Client, chat: Conversation) -> None:
    place = {"chat": str(chat.pk)}
    assert owner_client.post("/draft/", {"text": "/exp", **place}).status_code == 204
    assert parse(owner_client.get(f"/c/{chat.pk}/").content.decode()).one(id="message").text == ""
    owner_client.post("/draft/", {"text": "/exp and more", **place})
    page = parse(owner_client.get(f"/c/{chat.pk}/").content.decode())
    assert page.one(id="message").text == "/exp and more"


@pytest.mark.parametrize("text", ["/archive", "/Archive ", "/model"])
def test_the_name_of_a_command_is_no_message(
    owner_client: Client, chat: Conversation, text: str
) -> None:
    values = {"text": text, "mention": text, "chat": str(chat.pk), "client_id": str(uuid.uuid4())}
    answer = owner_client.post(f"/c/{chat.pk}/messages", values, headers=HTMX)
    assert answer.status_code == 422
    assert text.strip().lower() in names(parse(answer.content.decode()))
    assert chat.turns.count() == 1


@pytest.mark.parametrize(("text", "headers"), [("/etc", HTMX), ("/archive it", HTMX), ("/pin", {})])
def test_other_text_after_a_slash_is_a_message(
    owner_client: Client, chat: Conversation, text: str, headers: dict[str, str]
) -> None:
    """Without JavaScript there is no list, so that names of commands are text like any other."""
    values = {"text": text, "chat": str(chat.pk), "client_id": str(uuid.uuid4())}
    answer = owner_client.post(f"/c/{chat.pk}/messages", values, headers=headers)
    assert names(parse(answer.content.decode())) == []


def test_a_new_temporary_chat_begins_with_its_box_checked(owner_client: Client) -> None:
    for address, is_checked in (("/?temporary=on", True), ("/", False), ("/?temporary=x", False)):
        page = parse(owner_client.get(address).content.decode())
        assert ("checked" in page.one("input", name="temporary")) == is_checked
