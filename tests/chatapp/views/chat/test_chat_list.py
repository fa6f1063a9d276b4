"""Chats are renamed, pinned, archived, deleted and restored from their menu."""

import uuid
from typing import Any

import pytest
from django.db.models.functions import Now
from django.test import Client
from django.utils import timezone

from chatapp.approvals import inbox
from chatapp.conversations import chat_list, intake
from chatapp.live import page_view
from chatapp.models import Approval, Attachment, Conversation, LogEntry, Member, Part, Turn
from chatapp.models.conversations.conversation import RESTORABLE
from tests.dom_tree import Element, parse
from tests.turns import rows

pytestmark = pytest.mark.django_db(transaction=True)
Kind = LogEntry.Kind


def add_chat(owner: Member, title: str = "Checkout") -> Conversation:
    return rows.turn(owner, Turn.State.DONE, title).conversation


def read(client: Client, address: str, status: int = 200) -> Element:
    answer = client.get(address)
    assert answer.status_code == status
    return parse(answer.content.decode())


def post(client: Client, chat: Conversation, what: str, **fields: Any) -> str:
    """Send a form of the menu, and return where it leads."""
    answer = client.post(f"/c/{chat.pk}/{what}", fields)
    assert answer.status_code == 302, answer.content
    return str(answer["Location"])


def list_groups(person: Member) -> dict[str, list[str]]:
    return {
        group.label: [link.conversation.title for link in group.links]
        for group in page_view.load_sidebar(person)
    }


def get_kinds(chat: Conversation) -> list[str]:
    entries = LogEntry.objects.filter(conversation_id=chat.pk).order_by("position")
    return list(entries.values_list("kind", flat=True))


# --- rename ---------------------------------------------------------------------------------
def test_a_title_is_saved_on_one_line(owner_client: Client, owner: Member) -> None:
    chat = add_chat(owner)
    form = read(owner_client, f"/c/{chat.pk}/").one("form", class_="rename")
    assert form.one("input", name="title")["value"] == "Checkout"
    assert post(owner_client, chat, "rename", title=" Slow \n checkout ") == f"/c/{chat.pk}/"
    assert read(owner_client, f"/c/{chat.pk}/").one("h1").text == "Slow checkout"
    assert list_groups(owner) == {"Today": ["Slow checkout"]}


@pytest.mark.parametrize(
    ("title", "sentence"),
    [(" \n ", "Enter a title."), ("x" * 81, "This title has 81 characters. The limit is 80.")],
)
def test_a_refused_title_stays_in_its_box_with_the_reason(
    owner_client: Client, owner: Member, title: str, sentence: str
) -> None:
    chat = add_chat(owner)
    answer = owner_client.post(f"/c/{chat.pk}/rename", {"title": title})
    form = parse(answer.content.decode()).one("form", class_="rename")
    assert answer.status_code == 422
    assert form.one("input", name="title")["value"] == title
    assert form.one(role="alert").text == sentence
    assert Conversation.objects.get(pk=chat.pk).title == "Checkout"


def test_a_script_gets_the_heading_and_the_list_alone(owner_client: Client, owner: Member) -> None:
    chat = add_chat(owner)
    headers = {"HX-Request": "true"}
    answer = owner_client.post(f"/c/{chat.pk}/rename", {"title": "Slow"}, headers=headers)
    changed = parse(answer.content.decode())
    assert changed.one("div", id="chat-head").one("h1").text == "Slow"
    assert "Slow" in changed.one("div", id="sidebar-list").text
    assert (answer["HX-Retarget"], changed.all("main")) == ("#chat-head", [])


# --- the row in the list --------------------------------------------------------------------
def change_row(
    client: Client, chat: Conversation, what: str, opened: Conversation, **fields: Any
) -> Element:
    """Press a button in the menu of a row while the other chat is open in the page."""
    headers = {"HX-Request": "true", "HX-Current-URL": f"http://testserver/c/{opened.pk}/"}
    answer = client.post(f"/c/{chat.pk}/{what}?from=list", fields, headers=headers)
    assert (answer.status_code, answer["HX-Retarget"]) == (200, "#sidebar-list")
    return parse(answer.content.decode())


def test_a_row_changes_the_list_and_the_heading_only_of_the_open_chat(
    owner_client: Client, owner: Member
) -> None:
    chat, opened = add_chat(owner, "Row"), add_chat(owner, "Open")
    changed = change_row(owner_client, chat, "pin", opened, pin="yes")
    assert changed.one("button", autofocus="")["id"] == f"more-{chat.pk}"
    assert changed.all("div", id="chat-head") == []
    assert [
        each.attributes.get("hx-swap-oob") for each in changed.all("div", id=f"menu-{chat.pk}")
    ] == [None, "outerHTML"]
    changed = change_row(owner_client, opened, "rename", opened, title="Opened")
    assert changed.one("div", id="chat-head").one("h1").text == "Opened"


@pytest.mark.parametrize(("what", "said"), [("delete", "deleted"), ("archive", "archived")])
def test_the_list_offers_to_undo_for_two_minutes(
    owner_client: Client, owner: Member, stranger_client: Client, what: str, said: str
) -> None:
    chat, opened = add_chat(owner, "Row"), add_chat(owner, "Open")
    notice = change_row(owner_client, chat, what, opened).one("div", class_="list-undo")
    assert notice.one("p").text == f"Chat {said}: Row"
    again = f"/sidebar/?undo={chat.pk}"
    assert read(owner_client, again).one("div", class_="list-undo").text == notice.text
    assert not read(stranger_client, again).all("div", class_="list-undo")
    undo = "restore" if what == "delete" else "archive"
    assert notice.one("button")["hx-post"] == f"/c/{chat.pk}/{undo}?from=list"
    change_row(owner_client, chat, undo, opened, archive="no")
    assert not read(owner_client, again).all("div", class_="list-undo")
    assert sorted(list_groups(owner)["Today"]) == ["Open", "Row"]
    change_row(owner_client, chat, what, opened)
    late = {f"{said}_at": timezone.now() - chat_list.UNDO_OFFERED}
    Conversation.objects.filter(pk=chat.pk).update(**late)
    assert not read(owner_client, again).all("div", class_="list-undo")


def test_the_open_chat_is_left_when_its_row_deletes_it(owner_client: Client, owner: Member) -> None:
    chat = add_chat(owner)
    headers = {"HX-Request": "true", "HX-Current-URL": f"http://testserver/c/{chat.pk}/"}
    answer = owner_client.post(f"/c/{chat.pk}/delete?from=list", headers=headers)
    assert answer["HX-Redirect"] == f"/?deleted={chat.pk}"


# --- pin and archive ------------------------------------------------------------------------
def test_pinned_chats_come_first_whatever_their_age(owner_client: Client, owner: Member) -> None:
    old = add_chat(owner, "Handover")
    Conversation.objects.filter(pk=old.pk).update(active_at="2020-01-01T00:00Z")
    add_chat(owner, "New")
    post(owner_client, old, "pin", pin="yes")
    assert list(list_groups(owner).items()) == [("Pinned", ["Handover"]), ("Today", ["New"])]
    post(owner_client, old, "pin", pin="no")
    assert list_groups(owner) == {"Today": ["New"], "Earlier": ["Handover"]}


def test_an_archived_chat_is_listed_on_its_page_only_until_it_is_moved_back(
    owner_client: Client, owner: Member
) -> None:
    chat = add_chat(owner)
    post(owner_client, chat, "pin", pin="yes")
    post(owner_client, chat, "archive", archive="yes")
    assert list_groups(owner) == {}
    assert read(owner_client, "/archived/").one("a", href=f"/c/{chat.pk}/").text == "Checkout"
    assert read(owner_client, f"/c/{chat.pk}/").one("span", class_="state").text == "Archived"
    post(owner_client, chat, "archive", archive="no")
    assert list_groups(owner) == {"Pinned": ["Checkout"]}
    assert not read(owner_client, "/archived/").one("main").all("a", href=f"/c/{chat.pk}/")


def test_a_new_message_moves_an_archived_chat_back(owner: Member) -> None:
    chat = add_chat(owner)
    chat_list.archive(chat, is_on=True)
    intake.receive(owner, chat, text="And then?", model=rows.MODEL)
    assert list_groups(owner) == {"Today": ["Checkout"]}


# --- delete and restore ---------------------------------------------------------------------
def test_a_deleted_chat_is_out_of_reach_and_comes_back_by_undo(
    owner_client: Client, owner: Member
) -> None:
    chat = add_chat(owner)
    page = read(owner_client, post(owner_client, chat, "delete"))
    assert "Checkout" in page.one("form", class_="deleted").text
    assert list_groups(owner) == {}
    assert owner_client.get(f"/c/{chat.pk}/").status_code == 404
    assert owner_client.post(f"/c/{chat.pk}/messages", {"text": "Hello"}).status_code == 404
    undo = page.one("form", class_="deleted")["action"]
    assert owner_client.post(undo)["Location"] == f"/c/{chat.pk}/"
    assert list_groups(owner) == {"Today": ["Checkout"]}
    assert get_kinds(chat) == [Kind.CHAT_DELETED, Kind.CHAT_RESTORED]


def test_deleting_and_restoring_twice_is_logged_once(owner: Member) -> None:
    chat = add_chat(owner)
    for act in (chat_list.delete, chat_list.delete, chat_list.restore, chat_list.restore):
        act(chat)
    assert get_kinds(chat) == [Kind.CHAT_DELETED, Kind.CHAT_RESTORED]


def test_the_open_request_of_a_deleted_chat_ends_and_waits_for_nobody(owner: Member) -> None:
    turn = rows.turn(owner)
    call = rows.question(turn)
    assert inbox.count_waiting(owner) == 1
    chat_list.delete(turn.conversation)
    assert Approval.objects.get(pk=call.pk).state == Approval.State.WITHDRAWN
    assert inbox.count_waiting(owner) == 0


def test_an_unknown_outcome_in_a_deleted_chat_is_asked_about_after_undo_only(
    owner_client: Client, owner: Member
) -> None:
    turn = rows.turn(owner, Turn.State.DONE)
    call = rows.call(turn, state="unknown", attempt=1)
    assert inbox.count_waiting(owner) == 1
    chat_list.delete(turn.conversation)
    assert inbox.count_waiting(owner) == 0
    assert owner_client.get(f"/approvals/{call.pk}/").status_code == 404
    chat_list.restore(turn.conversation)
    assert inbox.count_waiting(owner) == 1


def test_a_file_in_a_deleted_chat_is_out_of_reach(owner_client: Client, owner: Member) -> None:
    turn = rows.turn(owner, Turn.State.DONE)
    part = rows.said(turn, "notes.txt", kind=Part.Kind.FILE)
    contents = [{"uri": "notes://1", "text": "Hello"}]
    values = {"service_name": "notes", "uri": "notes://1", "name": "Notes", "size": 5}
    file = Attachment.objects.create(owner=owner, part=part, contents=contents, **values)
    assert owner_client.get(f"/attachments/{file.pk}/").status_code == 200
    chat_list.delete(turn.conversation)
    assert owner_client.get(f"/attachments/{file.pk}/").status_code == 404


def test_nobody_else_restores_or_sees_a_deleted_chat(
    stranger_client: Client, owner: Member
) -> None:
    chat = add_chat(owner)
    chat_list.delete(chat)
    assert stranger_client.post(f"/c/{chat.pk}/restore").status_code == 404
    page = read(stranger_client, f"/?deleted={chat.pk}")
    assert not page.all("form", class_="deleted")
    assert not read(stranger_client, "/archived/").all("form", action=f"/c/{chat.pk}/restore")


@pytest.mark.parametrize("given", ["", "x", str(uuid.UUID(int=1))])
def test_an_unknown_id_offers_nothing_to_restore(owner_client: Client, given: str) -> None:
    assert not read(owner_client, f"/?deleted={given}").all("form", class_="deleted")


def test_a_chat_is_removed_for_good_when_nobody_can_restore_it_any_more(
    owner_client: Client, owner: Member
) -> None:
    old, young, kept = (add_chat(owner, title) for title in ("Old", "Young", "Kept"))
    rows.call(old.turns.get(), {"title": "A"}, "succeeded")
    for chat in (old, young):
        chat_list.delete(chat)
    Conversation.objects.filter(pk=old.pk).update(deleted_at=Now() - RESTORABLE)
    assert owner_client.post(f"/c/{old.pk}/restore").status_code == 404
    for _ in range(2):
        chat_list.remove_old()
    assert set(Conversation.objects.all()) == {young, kept}
    assert not Turn.objects.filter(conversation=old.pk).exists()
    assert get_kinds(old) == [Kind.CHAT_DELETED, Kind.CHAT_REMOVED]


def test_a_chat_in_which_something_runs_is_not_removed(owner: Member) -> None:
    turn = rows.turn(owner, Turn.State.RUNNING)
    chat_list.delete(turn.conversation)
    Conversation.objects.update(deleted_at=Now() - RESTORABLE)
    assert not chat_list.filter_removable().exists()
    Turn.objects.update(state=Turn.State.DONE, finished_at=Now())
    chat_list.remove_old()
    assert not Conversation.objects.exists()
