"""Several chats are archived, marked, exported, deleted and restored together."""

import io
import uuid
import zipfile
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now
from django.test import Client
from django.utils import timezone

from chatapp.conversations import bulk_actions, chat_list
from chatapp.conversations.search import MOST_CHATS
from chatapp.models import AccessToken, Approval, Conversation, LogEntry, Member, ToolCall, Turn
from chatapp.views.chat import export
from tests.dom_tree import Element, parse
from tests.turns import rows

pytestmark = pytest.mark.django_db(transaction=True)
Kind = LogEntry.Kind


def add_chats(person: Member, *titles: str, **values: Any) -> list[Conversation]:
    chats = [rows.turn(person, Turn.State.DONE, title).conversation for title in titles]
    Conversation.objects.filter(pk__in=[chat.pk for chat in chats]).update(**values)
    return chats


def read(client: Client, query: str = "") -> Element:
    answer = client.get(f"/search/{query}")
    assert answer.status_code == 200
    return parse(answer.content.decode()).one("main")


def post(
    client: Client, do: str, chats: list[Conversation], status: int = 200, query: str = ""
) -> Element:
    fields = {"do": do, "chat": [str(chat.pk) for chat in chats]}
    answer = client.post(f"/search/{query}", fields)
    if status == 200:
        assert answer.status_code == 302
        assert answer["Location"] == f"/search/{query}"
        answer = client.get(answer["Location"])
    assert answer.status_code == status, answer.content
    return parse(answer.content.decode()).one("main")


def undo(client: Client, page: Element) -> Element:
    form = page.one("form", class_="deleted")
    fields = {
        "do": form.one("button")["value"],
        "undo": form.one("input", name="undo")["value"],
        "chat": [each["value"] for each in form.all("input", name="chat")],
    }
    answer = client.post("/search/", fields, follow=True)
    return parse(answer.content.decode()).one("main")


def list_titles(page: Element) -> list[str]:
    found = page.all("ul", class_="results-of-search")
    return [line.one("h2").text for each in found for line in each.all("li")]


def list_selected(page: Element) -> list[str]:
    return [each["value"] for each in page.all("input", name="chat") if "checked" in each]


STATES: list[tuple[str, str, Callable[[Conversation], bool]]] = [
    ("archive", "archived", lambda chat: chat.archived_at is not None),
    ("read", "marked as read", lambda chat: not chat.has_news),
    ("unread", "marked as unread", lambda chat: chat.has_news),
    ("delete", "deleted", lambda chat: chat.deleted_at is not None),
]


@pytest.mark.parametrize(("do", "said", "is_done"), STATES, ids=[each[0] for each in STATES])
def test_the_selected_chats_are_changed_and_undo_takes_it_back(
    owner_client: Client,
    owner: Member,
    do: str,
    said: str,
    is_done: Callable[[Conversation], bool],
) -> None:
    chats = add_chats(owner, "One", "Two", "Three")
    if do == "read":
        for chat in chats:
            chat_list.mark_unread(chat)

    def read_states() -> list[bool]:
        for chat in chats:
            chat.refresh_from_db()
        return [is_done(chat) for chat in chats]

    assert read_states() == [False] * 3
    page = post(owner_client, do, chats[:2])
    assert page.one("form", class_="deleted").one("p").text == f"2 chats {said}."
    assert read_states() == [True, True, False]
    page = undo(owner_client, page)
    assert read_states() == [False] * 3
    assert page.one("form", class_="deleted").all("button") == [], "an undo is not undone"


@pytest.mark.parametrize("do", ["archive", "delete"])
def test_undo_brings_back_pins_and_archived_chats(
    owner_client: Client, owner: Member, do: str
) -> None:
    values = {"pinned_at": timezone.now()}
    if do == "delete":
        values["archived_at"] = timezone.now()
    (chat,) = add_chats(owner, "Plans", **values)
    before = Conversation.objects.filter(pk=chat.pk).values().get()
    undo(owner_client, post(owner_client, do, [chat]))
    assert Conversation.objects.filter(pk=chat.pk).values().get() == before


def test_what_was_done_is_said_once(owner_client: Client, owner: Member) -> None:
    assert "archived." in post(owner_client, "archive", add_chats(owner, "One")).text
    assert "archived." not in read(owner_client).text


def test_undo_changes_only_what_the_action_changed(owner_client: Client, owner: Member) -> None:
    (new,) = add_chats(owner, "New")
    (old,) = add_chats(owner, "Old", archived_at=timezone.now())
    page = post(owner_client, "archive", [new, old])
    assert page.one("form", class_="deleted").one("p").text == "1 chat archived."
    undo(owner_client, page)
    assert list(chat_list.filter_archived(owner)) == [old]


def test_deleting_several_logs_each_and_ends_their_requests(
    owner_client: Client, owner: Member
) -> None:
    waiting = rows.turn(owner, Turn.State.WAITING)
    call = rows.call(waiting, state=ToolCall.State.AWAITING_APPROVAL)
    approval = Approval.objects.create(
        tool_call=call, binding="b" * 64, expires_at="2099-01-01T00:00Z"
    )
    chats = [waiting.conversation, *add_chats(owner, "Another")]
    post(owner_client, "delete", chats)
    logged = LogEntry.objects.filter(kind=Kind.CHAT_DELETED)
    assert {each.conversation_id for each in logged} == {chat.pk for chat in chats}
    approval.refresh_from_db()
    assert approval.state == Approval.State.WITHDRAWN


@pytest.mark.parametrize("do", [*bulk_actions.ACTIONS, "export"])
def test_chats_of_others_and_temporary_ones_stay_as_they_are(
    owner_client: Client, owner: Member, stranger: Member, do: str
) -> None:
    """The owner's own chat shows that the action works."""
    values: dict[str, Any] = {}
    if do == "restore":
        values = {"deleted_at": Now()}
    elif do == "unarchive":
        values = {"archived_at": Now()}
    elif do == "read":
        values = {"read_at": timezone.now() - timedelta(days=1)}
    theirs = add_chats(stranger, "Theirs", **values)
    temporary = add_chats(owner, "Temporary", is_temporary=True, **values)
    untouched = theirs if do == "restore" else [*theirs, *temporary]
    before = list(Conversation.objects.filter(pk__in=[each.pk for each in untouched]).values())
    page = post(owner_client, do, untouched, status=422)
    assert "gone" in page.text
    after = list(Conversation.objects.filter(pk__in=[each.pk for each in untouched]).values())
    assert after == before
    mine = add_chats(owner, "Mine", **values)
    answer = owner_client.post("/search/", {"do": do, "chat": [str(mine[0].pk)]})
    assert answer.status_code == (200 if do == "export" else 302)


def test_a_selection_that_is_refused_stays(owner_client: Client, owner: Member) -> None:
    chats = add_chats(owner, "One", "Two")
    assert "Select at least one chat." in post(owner_client, "archive", [], status=422).text
    post(owner_client, "archive", chats[:1])
    page = post(owner_client, "archive", chats[:1], status=422, query="?select=all")
    assert list_selected(page) == [str(chats[0].pk)]


def test_too_many_chats_are_refused(
    owner_client: Client, owner: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_actions, "MOST_AT_ONCE", 1)
    chats = add_chats(owner, "One", "Two")
    page = post(owner_client, "delete", chats, status=422)
    assert "Select at most 1 chat at a time." in page.text
    assert not chat_list.filter_deleted(owner).exists()


@pytest.mark.parametrize(
    "fields", [{"do": "burn", "chat": str(uuid.uuid4())}, {"do": "archive", "chat": "x"}, {}]
)
def test_what_no_page_sends_is_not_found(owner_client: Client, fields: dict[str, str]) -> None:
    assert owner_client.post("/search/", fields).status_code == 404


# --- export ---------------------------------------------------------------------------------
def test_the_selected_chats_are_exported_in_one_file(owner_client: Client, owner: Member) -> None:
    chats = add_chats(owner, "Plans", "plans", "Menu")
    fields = {"do": "export", "chat": [str(chat.pk) for chat in chats]}
    answer = owner_client.post("/search/", fields)
    assert answer["Content-Type"] == "application/zip"
    assert answer["Content-Disposition"].startswith("attachment; filename=")
    with zipfile.ZipFile(io.BytesIO(answer.content)) as file:
        day = f"{timezone.localdate():%Y-%m-%d}"
        names = [f"Menu {day}.md", f"plans {day}.md", f"Plans {day} (2).md"]
        assert sorted(file.namelist()) == sorted(names)
        assert file.read(f"Menu {day}.md").decode().startswith("# Menu")


def test_a_chat_that_is_deleted_during_an_export_is_left_out(
    owner_client: Client, owner: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    chats = add_chats(owner, "Stays", "Goes")

    def delete_another(chat: Conversation) -> str:
        """Name the first file, while another device deletes the second chat."""
        Conversation.objects.exclude(pk=chat.pk).update(deleted_at=Now())
        return str(chat)

    monkeypatch.setattr(export, "build_file_name", delete_another)
    fields = {"do": "export", "chat": [str(chat.pk) for chat in chats]}
    answer = owner_client.post("/search/", fields)
    with zipfile.ZipFile(io.BytesIO(answer.content)) as file:
        assert len(file.namelist()) == 1


# --- the list -------------------------------------------------------------------------------
def test_without_words_all_chats_are_listed_in_pages(owner_client: Client, owner: Member) -> None:
    titles = [f"Chat {number}" for number in range(MOST_CHATS + 2)]
    add_chats(owner, *titles)
    add_chats(owner, "Hidden", is_temporary=True)
    first, second = read(owner_client), read(owner_client, "?page=2")
    assert list_titles(first) == titles[:1:-1]
    assert list_titles(second) == titles[1::-1]
    assert [each.text for each in first.one("nav", class_="ways").all("a")] == ["Older chats"]
    assert [each.text for each in second.one("nav", class_="ways").all("a")] == ["Newer chats"]


def test_a_filter_limits_the_list(owner_client: Client, owner: Member) -> None:
    add_chats(owner, "New")
    add_chats(owner, "Old", archived_at=Now())
    assert list_titles(read(owner_client, "?archived=yes")) == ["Old"]
    assert list_titles(read(owner_client, "?archived=no")) == ["New"]
    Conversation.objects.update(active_at=timezone.now() - timedelta(days=40))
    assert "No chats match these filters." in read(owner_client, "?age=30").text
    assert list_titles(read(owner_client, "?age=365")) != []


@pytest.mark.parametrize("page", ["0", "-1", "x", "1234567", "99"])
def test_a_page_that_there_is_not_leads_back(
    owner_client: Client, owner: Member, page: str
) -> None:
    add_chats(owner, "Only")
    shown = read(owner_client, f"?page={page}")
    links = [each.text for each in shown.all("a")]
    assert "Only" in list_titles(shown) or "Newer chats" in links


def test_chats_of_programs_are_named_and_filtered(owner_client: Client, owner: Member) -> None:
    add_chats(owner, "Mine")
    token = AccessToken.objects.create(person=owner, name="Nightly", expires_at="2099-01-01T00:00Z")
    add_chats(owner, "Theirs", token=token)
    assert list_titles(read(owner_client, "?begun=person")) == ["Mine"]
    page = read(owner_client, "?begun=program")
    assert list_titles(page) == ["Theirs"]
    assert "Nightly" in page.one("ul", class_="results-of-search").text


def test_a_side_without_words_asks_for_words(owner_client: Client, owner: Member) -> None:
    add_chats(owner, "Mine")
    page = read(owner_client, "?side=user")
    assert list_titles(page) == []
    assert "enter words" in page.text


def test_all_chats_of_a_page_are_selected_and_the_search_stays(
    owner_client: Client, owner: Member
) -> None:
    chats = add_chats(owner, "Pool one", "Pool two")
    add_chats(owner, "Menu")
    assert list_selected(read(owner_client, "?q=pool")) == []
    page = read(owner_client, "?q=pool&select=all")
    assert set(list_selected(page)) == {str(chat.pk) for chat in chats}
    assert [each["href"] for each in page.all("a") if each.text == "Select none"] == ["?q=pool"]
    page = post(owner_client, "archive", chats[:1], query="?q=pool&select=all")
    assert page.one("input", name="q")["value"] == "pool"
    assert list_selected(page) == []


def test_the_choice_to_hide_the_list_is_remembered(owner_client: Client) -> None:
    def is_hidden() -> bool:
        page = parse(owner_client.get("/").content.decode())
        return "checked" in page.one("input", name="hidden")

    assert not is_hidden()
    assert owner_client.post("/sidebar/hide", {"hidden": "yes"}).status_code == 204
    assert is_hidden()
    assert owner_client.post("/sidebar/hide").status_code == 204
    assert not is_hidden()
