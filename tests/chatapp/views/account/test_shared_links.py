"""The pages of a person's shared links: create, copy, update and revoke, and the admin's list."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from chatapp.models import Conversation, LogEntry, Member, SharedLink
from chatapp.sharing import links
from chatapp.sharing.tokens import build_address
from chatapp.views.account import shared_links
from tests.chatapp.sharing.acts import Audience, open_link, share
from tests.conftest import signed_in
from tests.dom_tree import Element, parse
from tests.turns import rows

pytestmark = pytest.mark.django_db
FORM = {"audience": "members", "tools": "outcomes", "days": "7"}


@pytest.fixture
def chat(owner: Member) -> Conversation:
    return rows.turn(owner, "done", text="Where is the pond?").conversation


def load(client: Client, path: str) -> Element:
    return parse(client.get(path).content.decode())


def test_the_menu_of_a_chat_and_the_account_menu_lead_to_the_pages(
    chat: Conversation, owner_client: Client
) -> None:
    page = load(owner_client, f"/c/{chat.pk}/")
    found = {each["href"]: each.text.strip() for each in page.all("a") if "href" in each}
    assert found[f"/c/{chat.pk}/share"] == "Share…"
    assert found["/shared-links/"] == "Shared links"


def test_the_first_choices_are_the_careful_ones(chat: Conversation, owner_client: Client) -> None:
    page = load(owner_client, f"/c/{chat.pk}/share")
    chosen = {each["name"]: each["value"] for each in page.all("input") if "checked" in each}
    chosen |= {"days": next(e["value"] for e in page.all("option") if "selected" in e)}
    assert chosen == {"audience": "members", "tools": "outcomes", "days": "7"}
    assert [each["value"] for each in page.all("input", name="audience")] == ["members"]


def test_anyone_is_offered_only_if_the_server_allows_it(
    chat: Conversation, owner_client: Client, settings: Any
) -> None:
    settings.SHARE_WITH_ANYONE = True
    page = load(owner_client, f"/c/{chat.pk}/share")
    assert [each["value"] for each in page.all("input", name="audience")] == ["members", "anyone"]
    owner_client.post(f"/c/{chat.pk}/share", FORM | {"audience": "anyone", "days": ""})
    link = SharedLink.objects.get()
    assert (link.audience, link.expires_at) == ("anyone", None)
    settings.SHARE_WITH_ANYONE = False
    page = load(owner_client, f"/c/{chat.pk}/share")
    assert "only people who are signed in can open this one" in page.text


def test_a_new_link_is_shown_to_copy_and_again_later(
    chat: Conversation, owner_client: Client, stranger_client: Client
) -> None:
    answer = owner_client.post(f"/c/{chat.pk}/share", FORM, follow=True)
    link = SharedLink.objects.get()
    left = link.expires_at - timezone.now() if link.expires_at else timedelta(0)
    assert timedelta(days=6) < left <= timedelta(days=7)
    made = parse(answer.content.decode()).with_class("made")[0]
    assert made.one("code").text == build_address(link.pk)
    assert made.button("Copy link")["data-copy"] == "code"
    for path in (f"/c/{chat.pk}/share", "/shared-links/"):
        page = load(owner_client, path)
        assert page.one("code").text == build_address(link.pk) and not page.with_class("made")
    assert stranger_client.get(build_address(link.pk)).status_code == 200


def test_the_pages_say_who_how_long_and_how_often(
    chat: Conversation, owner_client: Client, stranger_client: Client
) -> None:
    link = share(chat)
    assert "Not opened yet." in load(owner_client, "/shared-links/").text
    for _ in range(2):
        open_link(stranger_client, link)
    for path in (f"/c/{chat.pk}/share", "/shared-links/"):
        text = " ".join(load(owner_client, path).text.split())
        for words in ("People here", "Expires on", "Opened 2 times, last on", "Shows 2 messages"):
            assert words in text
        assert "Tool calls with names and outcomes." in text


@pytest.mark.parametrize(("page", "back"), [("chat", "/c/{}/share"), ("all", "/shared-links/")])
def test_a_link_is_revoked_from_each_page(
    chat: Conversation, owner_client: Client, page: str, back: str
) -> None:
    link = share(chat)
    answer = owner_client.post(f"/shared-links/{link.pk}/revoke", {"page": page})
    assert answer["Location"] == back.format(chat.pk) + "?done=revoked"
    shown = load(owner_client, answer["Location"])
    assert "The link was revoked." in [each.text for each in shown.all(role="status")]
    assert not shown.all("code") and "Revoked on" in shown.with_class("ended-links")[0].text


def test_an_updated_link_says_so(chat: Conversation, owner_client: Client) -> None:
    link = share(chat)
    answer = owner_client.post(f"/shared-links/{link.pk}/update")
    assert answer["Location"] == f"/c/{chat.pk}/share?updated={link.pk}#link-{link.pk}"
    page = load(owner_client, answer["Location"])
    assert "shows the chat as it is now" in " ".join(each.text for each in page.all(role="status"))


def test_the_buttons_of_several_links_are_told_apart(
    chat: Conversation, owner_client: Client
) -> None:
    for _ in range(2):
        share(chat)
    for path, count in ((f"/c/{chat.pk}/share", 6), ("/shared-links/", 4)):
        page = load(owner_client, path)
        titles = {each["id"]: each.text for each in page.all("h2") if "id" in each}
        buttons = [each for each in page.all("button") if "aria-describedby" in each]
        described = [each["aria-describedby"] for each in buttons]
        assert len(described) == count and len(set(described)) == 2
        assert all("created" in titles[each] for each in described)


def test_active_links_are_all_listed_and_of_ended_ones_the_newest(
    chat: Conversation, owner_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_links, "MAX_ENDED", 2)
    active = [share(chat) for _ in range(4)]
    for _ in range(3):
        links.revoke(share(chat))
    for path in (f"/c/{chat.pk}/share", "/shared-links/"):
        page = load(owner_client, path)
        listed = {each.text for each in page.all("code")}
        assert listed == {build_address(each.pk) for each in active}
        ended = page.with_class("ended-links")[0]
        assert len(ended.all("article")) == 2 and "2 newest ended links" in ended.text


def test_a_refused_link_loses_no_choice(chat: Conversation, owner_client: Client) -> None:
    running = rows.turn(chat.owner, "running").conversation
    form = FORM | {"tools": "full", "days": "30", "includes_files": "on"}
    answer = owner_client.post(f"/c/{running.pk}/share", form)
    page = parse(answer.content.decode())
    assert answer.status_code == 409 and "still working" in page.all(role="alert")[0].text
    checked = [each for each in page.all("input") if "checked" in each]
    values = {each["name"]: each["value"] for each in checked if each["type"] == "radio"}
    assert values["tools"] == "full" and "includes_files" in {each["name"] for each in checked}
    assert next(each["value"] for each in page.all("option") if "selected" in each) == "30"


def test_a_temporary_chat_says_why_it_has_no_form(chat: Conversation, owner_client: Client) -> None:
    Conversation.objects.update(is_temporary=True)
    page = load(owner_client, f"/c/{chat.pk}/share")
    assert "A temporary chat cannot be shared" in page.text
    assert not page.all("input", name="tools")
    assert owner_client.post(f"/c/{chat.pk}/share", FORM).status_code == 409


@pytest.mark.parametrize(
    "wrong",
    [{"audience": "friends"}, {"tools": "all"}, {"days": "-1"}, {"days": "x"}, {"tools": ""}],
)
def test_a_form_with_another_choice_is_refused(
    chat: Conversation, owner_client: Client, wrong: dict[str, str]
) -> None:
    assert owner_client.post(f"/c/{chat.pk}/share", FORM | wrong).status_code == 422
    assert not SharedLink.objects.exists()


def test_nobody_else_finds_changes_or_makes_a_link(
    chat: Conversation, admin: Member, stranger: Member
) -> None:
    link = share(chat)
    for person in (admin, stranger):
        client = signed_in(person)
        assert client.get(f"/c/{chat.pk}/share").status_code == 404
        assert client.post(f"/c/{chat.pk}/share", FORM).status_code == 404
        for act in ("update", "revoke"):
            assert client.post(f"/shared-links/{link.pk}/{act}").status_code == 404
        assert "pond" not in client.get("/shared-links/").content.decode()
    assert SharedLink.objects.live().get() == link


def test_links_of_deleted_chats_are_not_listed(chat: Conversation, owner_client: Client) -> None:
    link = share(chat)
    Conversation.objects.update(deleted_at=timezone.now())
    assert "pond" not in owner_client.get("/shared-links/").content.decode()
    assert owner_client.post(f"/shared-links/{link.pk}/revoke").status_code == 404


def test_the_list_takes_the_same_statements_for_many_links(
    chat: Conversation, owner_client: Client, django_assert_max_num_queries: Any
) -> None:
    for _ in range(5):
        share(chat)
    for path in ("/shared-links/", f"/c/{chat.pk}/share"):
        with django_assert_max_num_queries(12):
            owner_client.get(path)


# --- admins --------------------------------------------------------------------------------------
LIST = "/admin/chatapp/sharedlink/"


def test_an_admin_sees_and_revokes_links_but_cannot_open_or_change_them(
    chat: Conversation, admin: Member, stranger_client: Client
) -> None:
    link = share(chat, audience=Audience.MEMBERS)
    open_link(stranger_client, link)
    client = signed_in(admin)
    pages = [client.get(LIST), client.get(f"{LIST}{link.pk}/change/")]
    for page in pages:
        text = page.content.decode()
        assert page.status_code == 200 and str(link) in text
        assert "pond" not in text and build_address(link.pk) not in text
    assert "stranger" in pages[1].content.decode()
    assert client.get(f"{LIST}add/").status_code == 403
    assert client.post(f"{LIST}{link.pk}/delete/", {"post": "yes"}).status_code == 403

    client.post(LIST, {"action": "revoke", "_selected_action": [str(link.pk)]})
    assert not SharedLink.objects.live().exists()
    assert open_link(stranger_client, link).status_code == 404
    entry = LogEntry.objects.get(kind=LogEntry.Kind.SHARE_REVOKED)
    assert (entry.actor_name, entry.person_name) == (admin.username, chat.owner.username)


def test_members_cannot_open_the_admins_list(chat: Conversation, owner: Member) -> None:
    assert signed_in(owner).get(LIST).status_code in (302, 403)
