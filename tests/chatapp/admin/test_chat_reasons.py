"""An admin gives a reason before a page of the admin shows a chat of another person, and the owner
sees it."""

import json
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test import Client

from chatapp.audit import audit_log, chat_access
from chatapp.models import Approval, Conversation, LogEntry, Member, ToolCall
from tests.conftest import signed_in
from tests.dom_tree import parse
from tests.turns import rows

pytestmark = pytest.mark.django_db
MARK = "Plum-7f3c"
REASON = "Ada asked for help with this chat."
Kind = LogEntry.Kind


@pytest.fixture
def call(owner: Member) -> ToolCall:
    """A denied call in a chat of the owner's; each text in it is the mark."""
    made = rows.question(rows.turn(owner, text=MARK), {"title": MARK}, why=MARK)
    Approval.objects.filter(pk=made.approval.pk).update(reason=MARK)
    return made


def pages(call: ToolCall) -> dict[str, str]:
    chat = call.turn.conversation_id
    root = "/admin/chatapp"
    return {
        "conversation": f"{root}/conversation/{chat}/change/",
        "evidence": f"{root}/conversation/{chat}/evidence/",
        "turn": f"{root}/turn/{call.turn_id}/change/",
        "call": f"{root}/toolcall/{call.pk}/change/",
        "approval": f"{root}/approval/{call.pk}/change/",
    }


PAGES = ("conversation", "evidence", "turn", "approval")


def opened() -> list[LogEntry]:
    return list(LogEntry.objects.filter(kind=Kind.CHAT_OPENED))


def give(client: Client, asking: str, reason: str) -> Any:
    """Fill in the form at this address."""
    page = parse(client.get(asking).content.decode())
    target = page.one("input", name="next")["value"]
    return client.post(asking, {"next": target, "reason": reason})


@pytest.mark.parametrize("page", PAGES)
def test_a_chat_is_shown_only_after_a_reason(
    admin_client: Client, admin: Member, owner: Member, call: ToolCall, page: str
) -> None:
    """Threat: `admin-reads-unnoticed`."""
    address, chat = pages(call)[page], call.turn.conversation_id
    asked = admin_client.get(address)
    assert asked.status_code == 302
    asking = asked["Location"]
    assert asking.startswith(f"/admin/chatapp/conversation/{chat}/open/")
    assert MARK not in admin_client.get(asking).content.decode()

    for nothing in ("", "   ", "x" * 501):
        refused = give(admin_client, asking, nothing)
        assert refused.status_code == 422
    assert opened() == []
    assert admin_client.get(address).status_code == 302

    answer = give(admin_client, asking, REASON)
    assert (answer.status_code, answer["Location"]) == (302, address)
    (entry,) = opened()
    assert (entry.actor_id, entry.person_id, entry.conversation_id) == (admin.pk, owner.pk, chat)
    assert json.loads(entry.data) == {"reason": REASON}
    assert audit_log.verify() == (audit_log.read_end(), "")
    shown = admin_client.get(address)
    assert shown.status_code == 200
    assert MARK in b"".join(shown).decode()


def test_the_story_of_a_call_shows_what_the_chat_says_only_after_a_reason(
    admin_client: Client, admin: Member, call: ToolCall
) -> None:
    """Threat: `admin-reads-unnoticed`. Why it asked is policy, and needs no reason."""
    edited, result = f'{{"title": "{MARK}"}}', {"content": [{"type": "text", "text": MARK}]}
    ToolCall.objects.update(asked_arguments=edited, result=result, sent_at=Now(), why=MARK)
    Approval.objects.update(first_at=Now(), state=Approval.State.DENIED, decided_at=Now())
    for address in (
        pages(call)["call"],
        f"/admin/chatapp/toolcall/{call.pk.hex}/change/",
        f"/admin/chatapp/toolcall/{call.pk}/change/?_to_field=id",
        f"/admin/chatapp/toolcall/{call.pk}/change/?_popup=1",
        "/admin/chatapp/toolcall/",
        "/admin/",
        "/admin/live/",
    ):
        answer = admin_client.get(address)
        assert answer.status_code == 200
        assert MARK not in b"".join(answer).decode(), address
    asking = f"/admin/chatapp/conversation/{call.turn.conversation_id}/open/"
    page = admin_client.get(pages(call)["call"]).content.decode()
    assert asking in page
    chat_access.open_chat(admin, call.turn.conversation_id, REASON)
    shown = admin_client.get(pages(call)["call"]).content.decode()
    assert shown.count(MARK) >= 5
    assert asking not in shown


def test_another_way_to_write_the_address_shows_no_chat(
    admin_client: Client, call: ToolCall
) -> None:
    """Ids have several forms, and the admin finds rows by other keys."""
    for address in (
        f"/admin/chatapp/turn/{call.turn_id.hex}/change/",
        f"/admin/chatapp/turn/{call.turn_id}/change/?_to_field=id",
        f"/admin/chatapp/turn/{call.turn_id}/change/?_popup=1",
    ):
        answer = admin_client.get(address)
        assert answer.status_code == 302
        assert f"/conversation/{call.turn.conversation_id}/open/" in answer["Location"]


def test_the_owner_sees_who_opened_the_chat_and_why(
    owner_client: Client, stranger_client: Client, admin_client: Client, call: ToolCall
) -> None:
    """Threat: `admin-reads-unnoticed`."""
    asking = admin_client.get(pages(call)["conversation"])["Location"]
    give(admin_client, asking, REASON + " <b>\u202e")
    entry = parse(owner_client.get("/log/").content.decode()).with_class("entry")[0]
    assert "Chat opened in the admin · by admin" in " ".join(entry.text.split())
    assert f"{REASON} <b>⟨U+202E⟩" in entry.text
    assert entry.one("a")["href"] == f"/c/{call.turn.conversation_id}/"
    assert REASON not in stranger_client.get("/log/").content.decode()


def test_a_reason_is_for_one_chat_and_one_admin(
    admin_client: Client, admin: Member, owner: Member, call: ToolCall
) -> None:
    chat_access.open_chat(admin, call.turn.conversation_id, REASON)
    other = rows.question(rows.turn(owner, text=MARK), {"title": MARK})
    colleague = signed_in(Member.objects.create_superuser("colleague", password="a-long-password"))
    assert admin_client.get(pages(call)["turn"]).status_code == 200
    assert admin_client.get(pages(other)["turn"]).status_code == 302
    assert colleague.get(pages(call)["turn"]).status_code == 302
    assert MARK in admin_client.get(pages(call)["call"]).content.decode()
    for client, closed in ((admin_client, other), (colleague, call)):
        assert MARK not in client.get(pages(closed)["call"]).content.decode()


def test_a_reason_counts_for_a_limited_time(
    admin_client: Client, admin: Member, call: ToolCall
) -> None:
    chat_access.open_chat(admin, call.turn.conversation_id, REASON)
    before = opened()[0].at - chat_access.READING_TIME
    with connection.cursor() as cursor:
        cursor.execute("UPDATE chatapp_logentry SET at = %s", [str(before.replace(tzinfo=None))])
    assert admin_client.get(pages(call)["conversation"]).status_code == 302


def test_no_reason_is_needed_for_an_own_chat(admin_client: Client, admin: Member) -> None:
    own = rows.question(rows.turn(admin, text=MARK), {"title": MARK})
    for address in pages(own).values():
        assert admin_client.get(address).status_code == 200
    assert opened() == []


def test_evidence_needs_the_right_to_view_conversations(owner: Member, call: ToolCall) -> None:
    """Nobody else may give a reason, whatever part of the chat they have a right to."""
    clerk = Member.objects.create_user("clerk", password="clerk-password", is_staff=True)
    client = signed_in(clerk)
    address, asking = (
        pages(call)["evidence"],
        f"/admin/chatapp/conversation/{call.turn.conversation_id}/open/",
    )
    assert client.get(address).status_code == 403
    assert client.post(asking, {"reason": REASON}).status_code == 403
    rights = clerk.user_permissions.model.objects
    clerk.user_permissions.add(rights.get(codename="view_toolcall"))
    assert client.post(asking, {"reason": REASON}).status_code == 403
    story = client.get(pages(call)["call"])
    assert story.status_code == 200
    assert MARK not in story.content.decode()
    assert asking not in story.content.decode(), "It leads nowhere."
    assert client.get(address).status_code == 403
    clerk.user_permissions.add(rights.get(codename="view_conversation"))
    assert client.get(address)["Location"].startswith(asking)
    assert client.post(asking, {"reason": REASON}).status_code == 302
    assert client.get(address).status_code == 200
    assert MARK in client.get(pages(call)["call"]).content.decode()
    clerk.user_permissions.remove(rights.get(codename="view_conversation"))
    assert MARK not in client.get(pages(call)["call"]).content.decode(), "The right is gone."


def test_the_evidence_of_a_deleted_chat_is_taken_with_a_reason_too(
    admin_client: Client, admin: Member, owner: Member, call: ToolCall
) -> None:
    chat, address = call.turn.conversation_id, pages(call)["evidence"]
    chat_access.open_chat(admin, chat, REASON)
    Conversation.objects.all().delete()
    colleague = signed_in(Member.objects.create_superuser("colleague", password="a-long-password"))
    assert give(colleague, colleague.get(address)["Location"], REASON)["Location"] == address
    assert json.loads(b"".join(colleague.get(address)))["conversation"] == str(chat)
    assert {entry.person_id for entry in opened()} == {owner.pk}


@pytest.mark.parametrize(
    "target", ["https://evil.example/", "//evil.example/", "/c/", "javascript:1"]
)
def test_the_form_leads_to_no_other_site(admin_client: Client, call: ToolCall, target: str) -> None:
    chat = call.turn.conversation_id
    asking = f"/admin/chatapp/conversation/{chat}/open/"
    leads_to = admin_client.post(asking, {"next": target, "reason": REASON})["Location"]
    assert leads_to.startswith("/admin/")


@pytest.mark.parametrize(
    "lookup",
    [
        *(
            "toolcall/?arguments__contains=",
            "toolcall/?result__icontains=",
            "toolcall/?why__regex=",
        ),
        *("toolcall/?error__contains=", "approval/?reason__startswith=", "approval/?reason="),
        "toolcall/?turn__conversation__title__contains=",
        "turn/?question__parts__text__contains=",
    ],
)
def test_no_list_is_filtered_by_what_a_chat_says(
    admin_client: Client, call: ToolCall, lookup: str
) -> None:
    """Threat: `admin-reads-unnoticed`. Such a filter would find out a text letter by letter."""
    for guess in (MARK, "another guess"):
        answer = admin_client.get(f"/admin/chatapp/{lookup}{guess}")
        assert answer.status_code == 400


@pytest.mark.parametrize("name", ["toolcall", "approval", "turn", "conversation"])
def test_each_filter_that_a_list_offers_still_works(
    admin_client: Client, call: ToolCall, name: str
) -> None:
    address = f"/admin/chatapp/{name}/"
    page = parse(admin_client.get(address).content.decode())
    links = {link["href"] for link in page.all("a") if "href" in link}
    links = {link for link in links if link.startswith("?")}
    assert len(links) > 3
    for link in links:
        answer = admin_client.get(address + link)
        assert (answer.status_code, answer.headers.get("Location")) == (200, None), link


def test_the_chat_shows_its_owner_that_it_was_opened(
    owner_client: Client, admin: Member, call: ToolCall
) -> None:
    address = f"/c/{call.turn.conversation_id}/"
    assert "Opened by an admin" not in owner_client.get(address).content.decode()
    chat_access.open_chat(admin, call.turn.conversation_id, REASON)
    assert "Opened by an admin" in owner_client.get(address).content.decode()
    assert REASON in owner_client.get("/log/").content.decode()
