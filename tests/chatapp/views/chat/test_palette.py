"""The command palette finds what its person can do and open, and nothing of others."""

import uuid

import pytest
from django.db.models.functions import Now
from django.test import Client

from chatapp.conversations import forks
from chatapp.models import Conversation, Member, Message, Turn
from tests.dom_tree import Element, parse
from tests.turns import rows

pytestmark = pytest.mark.django_db(transaction=True)


def read(client: Client, text: str = "", page: str = "/") -> Element:
    headers = {"HX-Request": "true", "HX-Current-URL": f"http://testserver{page}"}
    answer = client.get("/palette/", {"q": text}, headers=headers)
    assert answer.status_code == 200
    return parse(answer.content.decode())


def list_labels(page: Element) -> list[str]:
    return [each.one("span").text for each in page.all("li")]


def add_chat(person: Member, title: str, **values: object) -> Conversation:
    chat = rows.turn(person, Turn.State.DONE, title).conversation
    Conversation.objects.filter(pk=chat.pk).update(**values)
    return chat


def test_without_words_it_has_commands_the_latest_chats_and_all_pages(
    owner_client: Client, owner: Member
) -> None:
    for number in range(8):
        add_chat(owner, f"Chat {number}")
    labels = list_labels(read(owner_client))
    assert labels[:2] == ["New chat", "New temporary chat"]
    first = labels.index("Chat 7")
    assert labels[first : first + 6] == [f"Chat {number}" for number in range(7, 1, -1)]
    assert {"Inbox", "All chats", "Usage", "Projects", "Settings: security"} <= set(labels)


def test_each_command_of_a_page_is_there_with_its_key(owner_client: Client, owner: Member) -> None:
    chat = add_chat(owner, "Open")
    page = read(owner_client, page=f"/c/{chat.pk}/")
    labels = list_labels(page)
    assert {"Move this chat to a project", "Regenerate the last answer"} <= set(labels)
    assert {"Choose tools and services", "Use the dark theme"} <= set(labels)
    keys = {each.one("span").text: [key.text for key in each.all("kbd")] for each in page.all("li")}
    assert keys["Rename this chat"] == ["F2"]
    assert keys["Hide or show the list of chats"] == ["Ctrl B"]
    elsewhere = list_labels(read(owner_client, page="/usage/"))
    assert not {"Rename this chat", "Choose tools and services"} & set(elsewhere)
    html = parse(owner_client.get(f"/c/{chat.pk}/").content.decode())
    assert html.one("button", data_shortcut="F2") and html.one("input", data_shortcut="ctrl+KeyB")


def test_an_answer_that_runs_is_stopped_and_not_made_again(
    owner_client: Client, owner: Member
) -> None:
    chat = rows.turn(owner, Turn.State.RUNNING, "Live").conversation
    labels = list_labels(read(owner_client, page=f"/c/{chat.pk}/"))
    assert "Stop the answer" in labels
    assert "Regenerate the last answer" not in labels


def test_a_copied_answer_is_made_again(owner_client: Client, owner: Member) -> None:
    chat = forks.fork_chat(rows.turn(owner, Turn.State.DONE, "Done").answer)
    assert "Regenerate the last answer" in list_labels(read(owner_client, page=f"/c/{chat.pk}/"))
    Message.objects.filter(conversation=chat, role="assistant").delete()
    labels = list_labels(read(owner_client, page=f"/c/{chat.pk}/"))
    assert "Regenerate the last answer" not in labels


def test_the_theme_alone_is_changed_and_leads_back(owner_client: Client, owner: Member) -> None:
    Member.objects.filter(pk=owner.pk).update(language="de")
    for referer, way_back in (
        ("http://testserver/usage/", "http://testserver/usage/"),
        ("http://elsewhere.test/usage/", "/settings/"),
    ):
        answer = owner_client.post(
            "/settings/appearance", {"theme": "dark"}, headers={"Referer": referer}
        )
        assert answer["Location"] == way_back
    owner.refresh_from_db()
    assert (owner.theme, owner.language) == ("dark", "de")


def test_it_has_each_page_of_the_account_menu(owner_client: Client) -> None:
    menu = parse(owner_client.get("/").content.decode()).one(id="account-menu")
    found = {each["href"]: each.text for each in read(owner_client).all("a")}
    for link in menu.all("a"):
        assert found[link["href"]] == link.text


def test_admins_find_the_admin(owner_client: Client, owner: Member) -> None:
    assert "Admin" not in list_labels(read(owner_client))
    Member.objects.filter(pk=owner.pk).update(is_staff=True)
    assert "Admin" in list_labels(read(owner_client))


def test_each_word_begins_a_word_of_what_is_found(owner_client: Client, owner: Member) -> None:
    add_chat(owner, "Slow <b>checkout</b>")
    page = read(owner_client, "ch")
    assert list_labels(page) == [
        "New chat",
        "New temporary chat",
        "Choose tools and services",
        "Hide or show the list of chats",
        "Slow <b>checkout</b>",
        "Search messages for “ch”",
        "All chats",
        "Import chats",
        "Archived chats",
        "Change password",
    ]
    assert page.all("mark")[0].text == "chat"
    assert list_labels(read(owner_client, "chats arch")) == [
        "Search messages for “chats arch”",
        "Archived chats",
    ]
    assert page.one(id="palette-count").text == "10 results"
    assert list_labels(read(owner_client, "…"))[0] == "New chat"


def test_what_is_searched_leads_to_the_search_page(owner_client: Client) -> None:
    (link,) = [each for each in read(owner_client, "a & b").all("a") if "Search" in each.text]
    page = parse(owner_client.get(link["href"]).content.decode())
    assert page.one("main").one("input", name="q")["value"] == "a & b"


def test_a_chat_has_its_commands_on_its_own_page(owner_client: Client, owner: Member) -> None:
    chat = add_chat(owner, "Open")
    page = read(owner_client, page=f"/c/{chat.pk}/")
    assert "Archive this chat" in list_labels(page)
    forms = [each for each in page.all("form") if each["action"].startswith("/c/")]
    for form in forms:
        button = form.one("button")
        fields = {button["name"]: button["value"]}
        assert owner_client.post(form["action"], fields).status_code == 302
    chat.refresh_from_db()
    assert chat.deleted_at


def test_its_commands_follow_the_state_of_the_chat(owner_client: Client, owner: Member) -> None:
    pinned = add_chat(owner, "Pinned", pinned_at=Now())
    assert "Unpin this chat" in list_labels(read(owner_client, page=f"/c/{pinned.pk}/"))
    archived = add_chat(owner, "Old", archived_at=Now())
    labels = list_labels(read(owner_client, page=f"/c/{archived.pk}/"))
    assert "Move this chat back to the list" in labels
    temporary = add_chat(owner, "Secret", is_temporary=True)
    page = read(owner_client, page=f"/c/{temporary.pk}/")
    assert "Pin this chat" not in list_labels(page)
    assert "Delete this chat" in list_labels(page)
    assert "Secret" not in page.text, "a temporary chat is in no list"


def test_a_stranger_gets_nothing_of_a_chat(
    owner_client: Client, owner: Member, stranger: Member
) -> None:
    theirs = add_chat(stranger, "Theirs")
    for place in (f"/c/{theirs.pk}/", f"/c/{uuid.uuid4()}/", "/c/x/"):
        page = read(owner_client, page=place)
        assert [each for each in page.all("form") if "/c/" in each["action"]] == []
        assert "Theirs" not in page.text
    assert "Theirs" not in list_labels(read(owner_client, "Theirs"))
