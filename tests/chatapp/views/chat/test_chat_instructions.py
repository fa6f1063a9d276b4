"""The page of the instructions for one chat."""

import pytest
from django.test import Client

from chatapp.api import access_tokens
from chatapp.conversations import chat_list
from chatapp.live import page_view
from chatapp.models import Conversation, Member, Turn
from tests.dom_tree import Element, parse
from tests.turns import rows

pytestmark = pytest.mark.django_db(transaction=True)
LONG = "x" * 8_001
OF_PROGRAM = "They are not used for the program’s own messages."


@pytest.fixture
def chat(owner: Member) -> Conversation:
    return rows.turn(owner, Turn.State.DONE, "Checkout <1>").conversation


def find_address(chat: Conversation) -> str:
    return f"/c/{chat.pk}/instructions"


def read(client: Client, address: str) -> Element:
    answer = client.get(address)
    assert answer.status_code == 200
    return parse(answer.content.decode())


def find_box(page: Element) -> Element:
    return page.one("main").one("textarea", name="text")


def save(client: Client, chat: Conversation, text: str) -> None:
    answer = client.post(find_address(chat), {"text": text})
    assert (answer.status_code, answer["Location"]) == (302, f"/c/{chat.pk}/")


def load_text(chat: Conversation) -> str:
    return Conversation.objects.get(pk=chat.pk).instructions


def test_instructions_are_saved_changed_and_removed(
    owner_client: Client, chat: Conversation
) -> None:
    page = read(owner_client, find_address(chat))
    assert find_box(page).text == ""
    assert "Checkout <1>" in page.one("p", class_="lead").text
    assert page.one("a", class_="back")["href"] == f"/c/{chat.pk}/"
    assert "To remove the instructions" not in page.text
    save(owner_client, chat, " Answer in German.\r\n\r\nTimes are UTC. \r\n")
    assert load_text(chat) == "Answer in German.\n\nTimes are UTC."
    page = read(owner_client, find_address(chat))
    assert "Answer in German." in find_box(page).text
    assert "To remove the instructions" in page.text
    save(owner_client, chat, " \r\n ")
    assert load_text(chat) == ""


def test_the_chat_menu_leads_to_them(owner_client: Client, chat: Conversation) -> None:
    page = read(owner_client, f"/c/{chat.pk}/")
    assert page.one("a", href=find_address(chat)).text == "Instructions and parameters"
    # A form of the menu answers with the same menu.
    headers = {"HX-Request": "true"}
    answer = owner_client.post(f"/c/{chat.pk}/pin", {"pin": "yes"}, headers=headers)
    changed = parse(answer.content.decode())
    assert changed.one("a", href=find_address(chat)).text == "Instructions and parameters"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (LONG, "These instructions have 8,001 characters. The limit is 8,000."),
        ("a\x00b", "Null characters are not allowed."),
    ],
)
def test_a_refused_text_stays_in_its_box_with_the_reason(
    owner_client: Client, chat: Conversation, text: str, sentence: str
) -> None:
    save(owner_client, chat, "Answer in German.")
    answer = owner_client.post(find_address(chat), {"text": text})
    page = parse(answer.content.decode())
    assert answer.status_code == 422
    assert find_box(page).text.replace("\ufffd", "\x00") == text
    assert find_box(page)["aria-invalid"] == "true"
    assert page.one("main").one(role="alert").text == f"Nothing was saved. {sentence}"
    assert load_text(chat) == "Answer in German."


def test_line_ends_of_browsers_do_not_count_twice(owner_client: Client, chat: Conversation) -> None:
    save(owner_client, chat, "x\r\n" * 3_999 + "xx")
    assert len(load_text(chat)) == 8_000


def test_nobody_else_and_nobody_after_a_deletion_reads_or_changes_them(
    owner_client: Client, stranger_client: Client, admin_client: Client, chat: Conversation
) -> None:
    save(owner_client, chat, "Answer in German.")
    for client in (stranger_client, admin_client):
        assert client.get(find_address(chat)).status_code == 404
        assert client.post(find_address(chat), {"text": "Obey me."}).status_code == 404
    chat_list.delete(chat)
    assert owner_client.get(find_address(chat)).status_code == 404
    assert owner_client.post(find_address(chat), {"text": ""}).status_code == 404
    chat_list.restore(chat)
    assert load_text(chat) == "Answer in German."


def test_the_page_of_a_programs_chat_says_that_its_messages_do_not_have_them(
    owner: Member, owner_client: Client, chat: Conversation
) -> None:
    assert OF_PROGRAM not in read(owner_client, find_address(chat)).text
    token, _ = access_tokens.create(owner, name="Job", scopes=["chat"], days=7)
    Conversation.objects.filter(pk=chat.pk).update(token=token)
    assert OF_PROGRAM in read(owner_client, find_address(chat)).text


def test_the_list_of_chats_does_not_load_them(owner: Member, chat: Conversation) -> None:
    (group,) = page_view.load_sidebar(owner)
    assert group.links[0].conversation.get_deferred_fields() == {"instructions"}
