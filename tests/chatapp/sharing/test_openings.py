"""Who may open a shared link: members, or anybody if the server allows it, until it ends."""

import json
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from chatapp.conversations import chat_list
from chatapp.models import Conversation, LogEntry, Member, SharedLink, SharedLinkReader
from chatapp.sharing import links
from chatapp.sharing.tokens import make_token, read_token
from tests.turns import rows

from .acts import Audience, get_path, open_link, read, share

pytestmark = pytest.mark.django_db
Kind = LogEntry.Kind


@pytest.fixture
def chat(owner: Member) -> Conversation:
    turn = rows.turn(owner, "done", text="Where is the pond?")
    rows.said(turn, "Behind the **barn**.")
    return turn.conversation


def list_entries(*kinds: LogEntry.Kind) -> list[tuple[str, str, str]]:
    entries = LogEntry.objects.filter(kind__in=kinds)
    return [(each.kind, each.actor_name, each.person_name) for each in entries]


# --- who -----------------------------------------------------------------------------------------
def test_a_member_opens_a_link_for_people_here(chat: Conversation, stranger_client: Client) -> None:
    page = read(open_link(stranger_client, share(chat)))
    assert "Where is the pond?" in page and "<strong>barn</strong>" in page


def test_who_is_not_signed_in_does_not_open_a_link_for_people_here(
    chat: Conversation, settings: Any
) -> None:
    settings.SHARE_WITH_ANYONE = True
    answer = open_link(Client(), share(chat))
    assert answer.status_code == 404
    assert b"pond" not in answer.content


def test_anyone_opens_a_link_for_anyone_only_while_the_server_allows_it(
    chat: Conversation, stranger_client: Client, settings: Any
) -> None:
    settings.SHARE_WITH_ANYONE = True
    link = share(chat, audience=Audience.ANYONE)
    assert "Behind the" in read(open_link(Client(), link))
    settings.SHARE_WITH_ANYONE = False
    assert open_link(Client(), link).status_code == 404
    assert open_link(stranger_client, link).status_code == 200


def test_a_member_who_was_deactivated_opens_nothing(
    chat: Conversation, stranger: Member, stranger_client: Client
) -> None:
    link = share(chat)
    Member.objects.filter(pk=stranger.pk).update(is_active=False)
    assert open_link(stranger_client, link).status_code == 404


def test_the_links_of_a_deactivated_member_open_nothing(
    chat: Conversation, owner: Member, stranger_client: Client
) -> None:
    link = share(chat)
    Member.objects.filter(pk=owner.pk).update(is_active=False)
    assert open_link(stranger_client, link).status_code == 404


# --- how long ------------------------------------------------------------------------------------
def test_an_expired_link_is_answered_like_one_that_never_existed(
    chat: Conversation, stranger_client: Client
) -> None:
    link = share(chat, days=1)
    assert open_link(stranger_client, link).status_code == 200
    SharedLink.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    expired = open_link(stranger_client, link)
    unknown = stranger_client.get(f"/shared/{make_token(uuid.uuid4())}/")
    assert expired.status_code == unknown.status_code == 404
    assert expired.content == unknown.content


def test_a_link_without_an_end_does_not_expire(chat: Conversation, stranger_client: Client) -> None:
    assert share(chat, days=None).expires_at is None
    assert open_link(stranger_client, share(chat, days=None)).status_code == 200


def test_a_revoked_link_opens_nothing_at_once(chat: Conversation, stranger_client: Client) -> None:
    link = share(chat)
    assert links.revoke(link) and not links.revoke(link)
    assert open_link(stranger_client, link).status_code == 404
    assert stranger_client.post(get_path(link) + "continue").status_code == 404
    assert Conversation.objects.count() == 1


def test_the_links_of_a_deleted_chat_work_again_when_it_is_restored(
    chat: Conversation, owner: Member, stranger_client: Client
) -> None:
    link = share(chat)
    chat_list.delete(chat)
    assert open_link(stranger_client, link).status_code == 404
    chat_list.restore(chat_list.find_deleted(owner, chat.pk))
    assert open_link(stranger_client, link).status_code == 200


# --- tokens --------------------------------------------------------------------------------------
def test_a_token_names_its_link_and_is_the_same_each_time() -> None:
    link_id = uuid.uuid4()
    token = make_token(link_id)
    assert token == make_token(link_id)
    assert read_token(token) == link_id


def test_a_token_that_was_changed_or_signed_with_another_key_is_none(settings: Any) -> None:
    token = make_token(uuid.uuid4())
    for place in range(len(token)):
        other = "A" if token[place] != "A" else "B"
        assert read_token(token[:place] + other + token[place + 1 :]) is None
    assert read_token(token[:-1]) is None
    assert read_token("ä" * len(token)) is None
    settings.SECRET_KEY = "another key"
    assert read_token(token) is None


def test_nothing_stored_opens_a_link(chat: Conversation, stranger_client: Client) -> None:
    link = share(chat)
    stored = [str(value) for row in SharedLink.objects.values_list() for value in row]
    assert not {make_token(link.pk), make_token(link.pk)[22:]} & set(stored)
    for value in [link.pk, link.pk.hex]:
        assert stranger_client.get(f"/shared/{value}/").status_code == 404


# --- what is noted -------------------------------------------------------------------------------
def test_openings_are_counted_and_those_of_the_owner_are_not(
    chat: Conversation, owner_client: Client, stranger_client: Client
) -> None:
    link = share(chat)
    stranger_client.head(get_path(link))
    assert not list_entries(Kind.SHARE_OPENED) and not SharedLinkReader.objects.exists()
    read(open_link(owner_client, link))
    assert SharedLink.objects.get().opened == 0
    for _ in range(2):
        open_link(stranger_client, link)
    stored = SharedLink.objects.get()
    assert stored.opened == 2 and stored.opened_at is not None


def test_the_life_of_a_link_is_in_the_log(
    chat: Conversation, owner: Member, stranger: Member, owner_client: Client, settings: Any
) -> None:
    form = {"audience": "members", "tools": "outcomes", "days": "7"}
    owner_client.post(f"/c/{chat.pk}/share", form)
    link = SharedLink.objects.get()
    readers = Client()
    readers.force_login(stranger)
    for _ in range(2):
        open_link(readers, link)
    owner_client.post(f"/shared-links/{link.pk}/update")
    owner_client.post(f"/shared-links/{link.pk}/revoke")
    one = owner.username
    assert list_entries(
        Kind.SHARE_MADE, Kind.SHARE_OPENED, Kind.SHARE_UPDATED, Kind.SHARE_REVOKED
    ) == [
        ("share.made", one, one),
        ("share.opened", stranger.username, one),
        ("share.updated", one, one),
        ("share.revoked", one, one),
    ]
    entry = LogEntry.objects.filter(kind=Kind.SHARE_MADE).get()
    assert json.loads(entry.data)["link"] == str(link.pk)
    assert not any("pond" in each.data for each in LogEntry.objects.all())
    assert SharedLinkReader.objects.count() == 1
    page = owner_client.get("/log/").content.decode()
    assert "People here; names and outcomes of tool calls" in page


def test_who_is_not_signed_in_opens_links_so_often_a_minute(
    chat: Conversation, stranger_client: Client, settings: Any
) -> None:
    settings.SHARE_WITH_ANYONE, settings.SHARED_REQUESTS_PER_MINUTE = True, 2
    link = share(chat, audience=Audience.ANYONE)
    assert Client().get("/shared/guess/").status_code == 404
    assert open_link(Client(), link).status_code == 200
    answer = open_link(Client(), link)
    assert answer.status_code == 429 and int(answer["Retry-After"]) > 0
    assert Client().get("/shared/guess/").status_code == 429
    assert open_link(Client(REMOTE_ADDR="192.0.2.7"), link).status_code == 200
    assert open_link(stranger_client, link).status_code == 200


def test_files_have_a_limit_of_their_own(chat: Conversation, settings: Any) -> None:
    settings.SHARE_WITH_ANYONE, settings.SHARED_REQUESTS_PER_MINUTE = True, 1
    settings.SHARED_FILES_PER_MINUTE = 2
    link = share(chat, audience=Audience.ANYONE)
    file = f"{get_path(link)}files/{uuid.uuid4()}"
    assert [Client().get(file).status_code for _ in range(3)] == [404, 404, 429]
    assert open_link(Client(), link).status_code == 200
    assert open_link(Client(), link).status_code == 429


@pytest.mark.parametrize("path", ["", "files/00000000-0000-0000-0000-000000000000"])
def test_no_cache_no_search_engine_and_no_other_site_learns_of_a_link(
    chat: Conversation, path: str, settings: Any
) -> None:
    settings.SHARE_WITH_ANYONE = True
    link = share(chat, audience=Audience.ANYONE)
    answer = Client().get(get_path(link) + path)
    assert answer["Referrer-Policy"] == "no-referrer"
    assert answer["X-Robots-Tag"] == "noindex, nofollow"
    assert "no-store" in answer["Cache-Control"]
    assert b"<script" not in answer.content and b"<form" not in answer.content
    assert not answer.cookies
