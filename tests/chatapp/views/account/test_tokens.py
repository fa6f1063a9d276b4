"""The page of access tokens: made once, shown once, revoked by their person or an admin."""

import uuid
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs

import pytest
from django.test import Client
from django.utils import timezone

from chatapp.api import access_tokens
from chatapp.models import AccessToken, LogEntry, Member
from tests.conftest import make_recent
from tests.dom_tree import parse

NEXT = "/settings/confirm/?next"

pytestmark = pytest.mark.django_db


def create_token(person: Member, name: str = "Invoices") -> AccessToken:
    return access_tokens.create(person, name=name, scopes=["mcp"], days=7)[0]


def post(client: Client, **values: Any) -> Any:
    return post_form(make_recent(client), **values)


def post_form(client: Client, **values: Any) -> Any:
    given = {"form_id": uuid.uuid4(), "name": "Invoices", "scopes": ["mcp", "tools"], "days": 30}
    return client.post("/tokens/", given | values)


def text_in(answer: Any) -> str:
    return parse(answer.content.decode()).with_class("made")[0].one("code").text


def test_a_token_is_made_and_its_text_shown_this_once(owner_client: Client, owner: Member) -> None:
    answer = post(owner_client)
    token = AccessToken.objects.get()
    assert token.is_opened_by(text_in(answer))
    assert (token.person, token.scopes) == (owner, ["mcp", "tools"])
    left = token.expires_at - timezone.now()
    assert timedelta(days=29) < left <= timedelta(days=30)
    again = owner_client.get("/tokens/").content.decode()
    assert token.prefix in again and text_in(answer) not in again


def test_a_token_needs_a_recent_sign_in_and_the_form_comes_back_filled(
    owner_client: Client, owner: Member
) -> None:
    answer = post_form(owner_client, name="Books & bills")
    assert answer["Location"].startswith("/settings/confirm/?next=%2Ftokens%2F%3F")
    assert not AccessToken.objects.exists()
    confirm = {"password": "owner-password", "next": parse_qs(answer["Location"])[NEXT][0]}
    back = owner_client.post("/settings/confirm/", confirm)["Location"]
    page = parse(owner_client.get(back).content.decode())
    assert page.one("input", id="id_name")["value"] == "Books & bills"
    ticked = {box["value"] for box in page.all("input", name="scopes") if "checked" in box}
    assert ticked == {"mcp", "tools"}
    assert post_form(owner_client, form_id=page.one("input", name="form_id")["value"]).context
    assert AccessToken.objects.get().person == owner


def test_what_a_link_fills_in_creates_nothing(owner_client: Client) -> None:
    answer = make_recent(owner_client).get("/tokens/?name=%00x&scopes=everything&days=never")
    assert answer.status_code == 200
    assert not AccessToken.objects.exists()


def test_the_same_form_sent_twice_makes_one_token(owner_client: Client) -> None:
    form_id = uuid.uuid4()
    post(owner_client, form_id=form_id)
    again = post(owner_client, form_id=form_id)
    assert again.status_code == 422
    assert parse(again.content.decode()).all(role="alert")
    assert AccessToken.objects.count() == 1


def test_another_persons_form_id_makes_nothing_and_changes_nothing(
    owner_client: Client, stranger_client: Client
) -> None:
    form_id = uuid.uuid4()
    post(owner_client, form_id=form_id)
    assert post(stranger_client, form_id=form_id, name="Mine now").status_code == 422
    assert AccessToken.objects.get().name == "Invoices"


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "x" * 61},
        {"name": "\x00"},
        {"scopes": []},
        {"scopes": ["everything"]},
        {"days": 0},
        {"days": 5_000},
        {"form_id": "none"},
    ],
)
def test_what_is_missing_is_said_and_what_was_typed_stays(
    owner_client: Client, wrong: dict[str, Any]
) -> None:
    answer = post(owner_client, **{"name": "Typed by hand"} | wrong)
    assert answer.status_code == 422
    page = parse(answer.content.decode())
    assert page.with_class("error") or page.with_class("errorlist") or "form_id" in wrong
    if "name" not in wrong:
        assert page.one("input", id="id_name")["value"] == "Typed by hand"
    assert not AccessToken.objects.exists()


def test_more_tokens_than_anybody_needs_are_refused(
    owner_client: Client, owner: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_tokens, "MAX_TOKENS", 2)
    create_token(owner), create_token(owner)
    assert post(owner_client).status_code == 422
    access_tokens.revoke(AccessToken.objects.all()[0])
    assert post(owner_client).status_code == 200


def test_a_person_revokes_their_own(owner_client: Client, owner: Member) -> None:
    token = create_token(owner)
    assert owner_client.post(f"/tokens/{token.pk}/revoke").status_code == 302
    token.refresh_from_db()
    assert token.revoked_at is not None
    page = parse(owner_client.get("/tokens/").content.decode())
    assert "Revoked on" in page.one("article", aria_labelledby=f"token-{token.pk}").text
    assert LogEntry.objects.latest("position").actor_name == "owner"


def test_a_stranger_sees_and_revokes_nothing(
    stranger_client: Client, admin_client: Client, owner: Member
) -> None:
    token = create_token(owner, "Very private")
    for client in (stranger_client, admin_client):
        assert "Very private" not in client.get("/tokens/").content.decode()
        assert client.post(f"/tokens/{token.pk}/revoke").status_code == 404
    assert AccessToken.objects.live().get() == token


def test_signed_out_people_are_shown_the_door(client: Client, owner: Member) -> None:
    assert client.get("/tokens/").status_code == 302
    assert client.post(f"/tokens/{create_token(owner).pk}/revoke")["Location"].startswith(
        "/sign-in/"
    )
    assert AccessToken.objects.live().exists()


def test_a_link_revokes_nothing(owner_client: Client, owner: Member) -> None:
    assert owner_client.get(f"/tokens/{create_token(owner).pk}/revoke").status_code == 405


def test_admins_see_all_tokens_and_revoke_them(admin_client: Client, owner: Member) -> None:
    token = create_token(owner)
    address = "/admin/chatapp/accesstoken/"
    assert token.prefix in admin_client.get(address).content.decode()
    assert admin_client.get(f"{address}{token.pk}/change/").status_code == 200
    admin_client.post(address, {"action": "revoke", "_selected_action": [token.pk]})
    assert not AccessToken.objects.live().exists()
    entry = LogEntry.objects.latest("position")
    assert (entry.kind, entry.actor_name, entry.person_name) == ("token.revoked", "admin", "owner")


def test_nobody_makes_or_changes_a_token_in_the_admin(admin_client: Client, owner: Member) -> None:
    token = create_token(owner)
    assert admin_client.get("/admin/chatapp/accesstoken/add/").status_code == 403
    page = admin_client.get(f"/admin/chatapp/accesstoken/{token.pk}/change/").content.decode()
    assert token.secret_hash not in page
    admin_client.post(f"/admin/chatapp/accesstoken/{token.pk}/change/", {"name": "Changed"})
    token.refresh_from_db()
    assert token.name == "Invoices"
