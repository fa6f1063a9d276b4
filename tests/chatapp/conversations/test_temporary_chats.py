"""Temporary chats: in no list, search or memory, and removed a day after they were last active."""

from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db.models.functions import Now
from django.test import Client

from chatapp.background import jobs
from chatapp.conversations import chat_list, drafts, intake, search
from chatapp.engine.runtime import EngineRuntime
from chatapp.engine.titles import wants_title
from chatapp.live import page_view
from chatapp.models import (
    Attachment,
    Conversation,
    LogEntry,
    Member,
    MessageDraft,
    Part,
    QueuedMessage,
    ToolCall,
    Turn,
)
from chatapp.models.conversations.conversation import TEMPORARY_KEPT
from chatapp.tools.context import ToolError
from tests import scripted
from tests.chatapp.tools.core import core_calls
from tests.dom_tree import Element, parse
from tests.scripted import calls, text
from tests.turns import rows
from tests.turns.acts import wait_for_rest

pytestmark = pytest.mark.django_db(transaction=True)
SOON = TEMPORARY_KEPT - timedelta(minutes=5)
WORDS = "A surprise for Ada"


def begin(person: Member, words: str = WORDS) -> Turn:
    return intake.receive(person, None, text=words, model=scripted.MODEL, is_temporary=True)


def add_chat(person: Member, state: str = Turn.State.DONE) -> Conversation:
    """A temporary chat with one answer."""
    chat = rows.turn(person, state, WORDS).conversation
    Conversation.objects.filter(pk=chat.pk).update(is_temporary=True)
    return chat


def age(chat: Conversation, by: timedelta = TEMPORARY_KEPT) -> None:
    Conversation.objects.filter(pk=chat.pk).update(active_at=Now() - by)


def list_titles(person: Member) -> list[str]:
    return [
        link.conversation.title for group in page_view.load_sidebar(person) for link in group.links
    ]


def find_titles(person: Member, words: str = "surprise") -> list[str]:
    found = search.search_chats(person, search.Search(text=words))
    return [str(each.conversation) for each in found.chats]


def open_page(client: Client, address: str) -> Element:
    answer = client.get(address)
    assert answer.status_code == 200
    return parse(answer.content.decode())


# --- begin and keep -------------------------------------------------------------------------
def test_a_new_chat_is_temporary_if_its_person_says_so(owner_client: Client, owner: Member) -> None:
    box = open_page(owner_client, "/").one("input", name="temporary")
    assert box.ancestors() and box["form"] == "composer"
    fields = {"text": WORDS, "model": rows.MODEL, box["name"]: box["value"]}
    address = owner_client.post("/c/new/messages", fields)["Location"]
    page = open_page(owner_client, address)
    assert "Deleted 24 hours after the last message" in page.one(id="temporary").text
    assert page.one("span", class_="state").text == "Temporary"
    assert Conversation.objects.get().is_temporary
    ordinary = owner_client.post("/c/new/messages", {"text": WORDS, "model": rows.MODEL})
    page = open_page(owner_client, ordinary["Location"])
    assert not page.all(id="temporary") and not page.with_class("state")


def test_a_refused_message_keeps_the_choice(owner_client: Client) -> None:
    fields = {"text": "", "model": rows.MODEL, "temporary": "on"}
    answer = owner_client.post("/c/new/messages", fields)
    assert answer.status_code == 422
    assert "checked" in parse(answer.content.decode()).one("input", name="temporary")


def test_it_is_in_no_list_and_in_no_search_until_it_is_kept(
    owner_client: Client, owner: Member
) -> None:
    chat = begin(owner).conversation
    hidden = "This person has no chat of this id"
    assert list_titles(owner) == find_titles(owner) == []
    assert core_calls.run("search-conversations", owner, words="surprise")["found"] == []
    with pytest.raises(ToolError, match=hidden):
        core_calls.run("read-conversation", owner, conversation=str(chat.pk))

    keep = open_page(owner_client, f"/c/{chat.pk}/").one(id="temporary").one("form")
    assert owner_client.post(keep["action"])["Location"] == f"/c/{chat.pk}/"
    assert list_titles(owner) == find_titles(owner) == [WORDS]
    assert len(core_calls.run("search-conversations", owner, words="surprise")["found"]) == 1
    assert core_calls.run("read-conversation", owner, conversation=str(chat.pk))["messages"]
    age(chat)
    chat_list.remove_old()
    assert Conversation.objects.filter(pk=chat.pk).exists()


def test_a_script_that_keeps_it_gets_the_heading_and_the_list(
    owner_client: Client, owner: Member
) -> None:
    chat = add_chat(owner)
    answer = owner_client.post(f"/c/{chat.pk}/keep", headers={"HX-Request": "true"})
    changed = parse(answer.content.decode())
    assert WORDS in changed.one("div", id="sidebar-list").text
    assert changed.one("div", id="temporary")["hx-swap-oob"] == "delete"


@pytest.mark.parametrize("act", [chat_list.pin, chat_list.archive])
def test_a_chat_that_is_pinned_or_archived_is_not_temporary(owner: Member, act: Any) -> None:
    chat = add_chat(owner)
    act(chat, is_on=True)
    chat.refresh_from_db()
    assert not chat.is_temporary


def test_nobody_else_keeps_it(stranger_client: Client, owner: Member) -> None:
    chat = add_chat(owner)
    assert stranger_client.post(f"/c/{chat.pk}/keep").status_code == 404
    chat.refresh_from_db()
    assert chat.is_temporary


# --- titles and memory ----------------------------------------------------------------------
def test_no_model_titles_it_until_it_is_kept(owner: Member, settings: Any) -> None:
    settings.TITLE_MODEL = ""
    turn = begin(owner)
    assert not wants_title(turn)
    chat_list.keep(turn.conversation)
    assert wants_title(Turn.objects.get(pk=turn.pk))


async def test_its_model_has_no_memory(runtime: EngineRuntime, owner: Member) -> None:
    await sync_to_async(core_calls.run)("remember", owner, text="Reports go out on Mondays.")
    scripted.scenes += [calls(("recall", "{}")), text("Done.")]
    turn = await sync_to_async(begin)(owner)
    await wait_for_rest(runtime, turn)
    first, second = scripted.requests
    offered = {tool.name for tool in first.tools}
    assert "current-time" in offered
    assert not offered & {"recall", "remember", "forget"}
    assert "remembered" not in first.system
    assert "Mondays" not in str(second.history)


# --- removal --------------------------------------------------------------------------------
def test_it_is_removed_a_day_after_it_was_last_active(owner: Member) -> None:
    old, young, ordinary = add_chat(owner), add_chat(owner), rows.turn(owner, "done").conversation
    for chat, by in ((old, TEMPORARY_KEPT), (young, SOON), (ordinary, 9 * TEMPORARY_KEPT)):
        age(chat, by)
    rows.call(old.turns.get(), {"title": "A"}, "succeeded")
    part = rows.said(old.turns.get(), "notes.txt", kind=Part.Kind.FILE)
    values = {"service_name": "notes", "uri": "notes://1", "name": "Notes", "size": 5}
    Attachment.objects.create(owner=owner, part=part, contents=[], **values)
    drafts.store_draft(owner, old, "And then", [])
    QueuedMessage.objects.create(conversation=old, text="And then", model=rows.MODEL)
    for _ in range(2):
        jobs.remove_deleted_chats.call()
    assert set(Conversation.objects.all()) == {young, ordinary}
    for model in (Attachment, MessageDraft, QueuedMessage, ToolCall):
        assert not model.objects.exists()
    [entry] = LogEntry.objects.filter(conversation_id=old.pk)
    assert entry.kind == LogEntry.Kind.CHAT_REMOVED


@pytest.mark.parametrize("state", Turn.LIVE)
def test_it_stays_while_an_answer_runs_or_an_approval_waits(owner: Member, state: str) -> None:
    chat = add_chat(owner, state)
    age(chat)
    chat_list.remove_old()
    assert Conversation.objects.filter(pk=chat.pk).exists()
    Turn.objects.update(state=Turn.State.DONE)
    chat_list.remove_old()
    assert not Conversation.objects.exists()


def test_it_stays_while_an_unknown_outcome_waits_for_its_person(owner: Member) -> None:
    chat = add_chat(owner)
    age(chat)
    rows.call(chat.turns.get(), state="unknown", attempt=1, sent_at=Now())
    chat_list.remove_old()
    assert Conversation.objects.filter(pk=chat.pk).exists()
    ToolCall.objects.update(state=ToolCall.State.SUCCEEDED)
    chat_list.remove_old()
    assert not Conversation.objects.exists()


def test_a_chat_that_was_kept_after_it_was_listed_for_removal_stays(owner: Member) -> None:
    chat = add_chat(owner)
    age(chat)
    [listed] = chat_list.filter_removable().select_related("owner")
    chat_list.keep(chat)
    chat_list._remove(listed)
    assert Conversation.objects.filter(pk=chat.pk).exists()


def test_a_deleted_one_comes_back_by_undo_and_is_not_kept_longer(
    owner_client: Client, owner: Member
) -> None:
    chat = add_chat(owner)
    chat_list.delete(chat)
    assert not open_page(owner_client, "/archived/").all("form", action=f"/c/{chat.pk}/restore")
    undo = open_page(owner_client, f"/?deleted={chat.pk}").one("form", class_="deleted")
    assert owner_client.post(undo["action"]).status_code == 302
    assert open_page(owner_client, f"/c/{chat.pk}/").all(id="temporary")
    chat_list.delete(chat)
    age(chat)
    chat_list.remove_old()
    assert not Conversation.objects.exists()
