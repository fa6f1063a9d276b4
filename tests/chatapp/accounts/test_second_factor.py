"""The authenticator app and recovery codes: set up, asked for, limited, encrypted and removed."""

import re
import time
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value
from cryptography.fernet import Fernet
from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.test import Client

from chatapp.accounts.second_factor import SecondFactorAdapter, remove_second_factor
from chatapp.live.rights import Watch, load_watchers
from chatapp.models import CodeUse, LogEntry, Member, SignInLink
from tests.dom_tree import parse

Kind = LogEntry.Kind
PASSWORD = {"username": "owner", "password": "owner-password"}


def make_code(secret: str, steps: int = 0) -> str:
    return str(format_hotp_value(hotp_value(secret, int(time.time()) // 30 + steps)))


def set_up_app(client: Client) -> str:
    """Turn the app on, as the page does it. Return its key."""
    page = parse(client.get("/settings/app/").content.decode())
    secret = next(str(each.text) for each in page.all("code"))
    answer = client.post("/settings/app/", {"code": make_code(secret)})
    assert answer["Location"] == "/settings/codes/", answer.content
    return secret


def read_recovery_codes(client: Client) -> list[str]:
    page = parse(client.get("/settings/codes/").content.decode())
    return [str(each.text) for each in page.all("code")]


@pytest.fixture
def secret(owner: Member, client: Client) -> str:
    """The key of the owner's app; `client` is signed in."""
    client.post("/sign-in/", PASSWORD)
    return set_up_app(client)


def enter_password() -> Client:
    other = Client()
    answer = other.post("/sign-in/", PASSWORD)
    assert answer["Location"] == "/sign-in/code/"
    return other


def is_signed_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


# --- signing in ----------------------------------------------------------------------------------
def test_a_password_alone_does_not_sign_in(secret: str) -> None:
    half = enter_password()
    assert not is_signed_in(half)
    assert half.get("/")["Location"].startswith("/sign-in/")


def test_the_next_code_of_the_app_signs_in(secret: str) -> None:
    half = enter_password()
    answer = half.post("/sign-in/code/", {"code": make_code(secret, 1)})
    assert answer["Location"] == "/"
    assert is_signed_in(half)


def test_the_page_asked_for_is_opened_after_the_code(secret: str) -> None:
    half = Client()
    half.post("/sign-in/", {**PASSWORD, "next": "/memory/"})
    assert half.post("/sign-in/code/", {"code": make_code(secret, 1)})["Location"] == "/memory/"


def test_a_code_works_once(secret: str) -> None:
    code = make_code(secret, 1)
    assert enter_password().post("/sign-in/code/", {"code": code}).status_code == 302
    again = enter_password()
    assert again.post("/sign-in/code/", {"code": code}).status_code == 200
    assert not is_signed_in(again)


def test_an_earlier_code_does_not_work_after_a_later_one(secret: str) -> None:
    enter_password().post("/sign-in/code/", {"code": make_code(secret, 1)})
    again = enter_password()
    again.post("/sign-in/code/", {"code": make_code(secret)})
    assert not is_signed_in(again)


def test_guessing_is_stopped_in_all_sessions_together(secret: str, owner: Member) -> None:
    wrong = "000000" if make_code(secret, 1) != "000000" else "111111"
    for _ in range(CodeUse.TRIES):
        enter_password().post("/sign-in/code/", {"code": wrong})
    half = enter_password()
    answer = half.post("/sign-in/code/", {"code": make_code(secret, 1)})
    assert "Too many codes were tried" in answer.content.decode()
    assert not is_signed_in(half)
    assert LogEntry.objects.filter(kind=Kind.FACTOR_FAILED).count() == CodeUse.TRIES
    CodeUse.objects.filter(member=owner).update(window_ends_at="2020-01-01T00:00Z")
    assert half.post("/sign-in/code/", {"code": make_code(secret, 1)}).status_code == 302


def test_a_recovery_code_works_once(secret: str, client: Client) -> None:
    code, *others = read_recovery_codes(client)
    assert len(others) == 9
    assert enter_password().post("/sign-in/code/", {"code": code}).status_code == 302
    again = enter_password()
    again.post("/sign-in/code/", {"code": code})
    assert not is_signed_in(again)
    assert code not in read_recovery_codes(client)


def test_a_link_also_asks_for_the_second_factor(secret: str, owner: Member) -> None:
    other = Client()
    answer = other.post(f"/sign-in/{SignInLink.issue(owner)}/")
    assert answer["Location"] == "/sign-in/code/"
    assert not is_signed_in(other)


def test_the_session_key_changes_with_the_code(secret: str) -> None:
    half = enter_password()
    before = half.session.session_key
    half.post("/sign-in/code/", {"code": make_code(secret, 1)})
    assert half.session.session_key != before


# --- changing factors ----------------------------------------------------------------------------
@pytest.mark.parametrize(
    "address",
    [
        *("/settings/app/", "/settings/app/remove/", "/settings/codes/", "/settings/codes/new/"),
        *("/settings/codes/download", "/settings/passkeys/add/", "/settings/delete/"),
    ],
)
def test_a_change_needs_a_recent_sign_in(secret: str, owner: Member, address: str) -> None:
    if address == "/settings/app/":
        Authenticator.objects.all().delete()
    stale = Client()
    stale.force_login(owner)
    for answer in (stale.get(address), stale.post(address)):
        # Some are pages only, which no form changes.
        is_page = answer.status_code == 405
        assert is_page or answer["Location"].startswith("/settings/confirm/")


def test_the_password_confirms(secret: str, owner: Member) -> None:
    stale = Client()
    stale.force_login(owner)
    wrong = stale.post("/settings/confirm/", {"password": "x", "next": "/settings/codes/"})
    assert wrong.status_code == 422
    form = {"password": "owner-password", "next": "/settings/codes/"}
    assert stale.post("/settings/confirm/", form)["Location"] == "/settings/codes/"
    assert stale.get("/settings/codes/").status_code == 200


def test_a_code_confirms(secret: str, owner: Member) -> None:
    stale = Client()
    stale.force_login(owner)
    form = {"code": make_code(secret, 1), "next": "/settings/codes/"}
    assert stale.post("/settings/confirm/code/", form)["Location"] == "/settings/codes/"
    assert stale.get("/settings/codes/").status_code == 200


def test_confirming_leads_to_no_other_site(secret: str, owner: Member) -> None:
    stale = Client()
    stale.force_login(owner)
    form = {"password": "owner-password", "next": "https://evil.test/"}
    assert stale.post("/settings/confirm/", form)["Location"] == "/"


def test_a_first_password_by_an_old_link_needs_a_code(secret: str, owner: Member) -> None:
    """The pages that confirm are open to somebody who has no password yet."""
    owner.set_unusable_password()
    owner.save()
    stale = Client()
    stale.force_login(owner)
    assert stale.get("/memory/")["Location"] == "/password/"
    confirm = stale.get("/password/")["Location"]
    assert stale.get(confirm).status_code == 200
    form = {"code": make_code(secret, 1), "next": "/password/"}
    assert stale.post("/settings/confirm/code/", form)["Location"] == "/password/"
    assert stale.get("/password/").status_code == 200


def test_removing_the_app_also_removes_the_recovery_codes(secret: str, client: Client) -> None:
    assert client.post("/settings/app/remove/").status_code == 302
    assert not Authenticator.objects.exists()
    assert LogEntry.objects.filter(kind=Kind.FACTOR_REMOVED).count() == 2
    other = Client()
    assert other.post("/sign-in/", PASSWORD)["Location"] == "/"


# --- at rest -------------------------------------------------------------------------------------
def test_secrets_are_encrypted_and_rotated(secret: str, client: Client, settings: Any) -> None:
    codes = read_recovery_codes(client)
    stored = str(list(Authenticator.objects.values_list("data", flat=True)))
    assert secret not in stored
    new = Fernet.generate_key().decode()
    settings.ENCRYPTION_KEYS = [new, *settings.ENCRYPTION_KEYS]
    call_command("rotate_keys")
    settings.ENCRYPTION_KEYS = [new]
    app = Authenticator.objects.get(type=Authenticator.Type.TOTP)
    assert SecondFactorAdapter().decrypt(app.data["secret"]) == secret
    assert read_recovery_codes(client) == codes


def test_a_lost_key_lets_nobody_in_and_breaks_no_page(
    secret: str, client: Client, settings: Any
) -> None:
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode()]
    half = enter_password()
    assert half.post("/sign-in/code/", {"code": make_code(secret, 1)}).status_code == 200
    assert not is_signed_in(half)
    assert client.get("/settings/").status_code == 200


# --- required ------------------------------------------------------------------------------------
def test_who_must_have_a_factor_sets_it_up_first(
    owner: Member, client: Client, settings: Any
) -> None:
    settings.REQUIRE_TWO_FACTOR = "all"
    client.post("/sign-in/", PASSWORD)
    assert client.get("/")["Location"] == "/settings/second-factor/"
    assert client.post("/c/new/messages", {"text": "x"})["Location"] == "/settings/second-factor/"
    assert client.get("/settings/second-factor/").status_code == 200
    key = client.session.session_key
    assert key
    watch = Watch(key, None)
    assert load_watchers([watch]) == {}
    set_up_app(client)
    assert client.get("/").status_code == 200
    assert load_watchers([watch]) == {watch: owner}


def test_only_admins_need_a_factor_where_the_setting_says_so(
    owner: Member, admin: Member, settings: Any
) -> None:
    settings.REQUIRE_TWO_FACTOR = "admins"
    for person, status in ((owner, 200), (admin, 302)):
        client = Client()
        client.force_login(person)
        assert client.get("/").status_code == status


def test_a_required_factor_is_not_removed(secret: str, client: Client, settings: Any) -> None:
    settings.REQUIRE_TWO_FACTOR = "all"
    assert client.post("/settings/app/remove/").status_code == 200
    assert Authenticator.objects.filter(type=Authenticator.Type.TOTP).exists()


# --- removed by others ---------------------------------------------------------------------------
def test_the_operator_removes_a_factor_and_ends_the_sessions(
    secret: str, owner: Member, client: Client
) -> None:
    call_command("member", "remove-second-factor", "owner")
    assert not Authenticator.objects.exists()
    assert not Session.objects.exists()
    entry = LogEntry.objects.filter(kind=Kind.FACTOR_REMOVED).first()
    assert entry
    assert entry.actor_name == "operator"
    assert Client().post("/sign-in/", PASSWORD)["Location"] == "/"


def test_an_admin_removes_a_factor(
    secret: str, owner: Member, admin: Member, admin_client: Client
) -> None:
    form = {"action": "remove_second_factors", "_selected_action": [owner.pk]}
    answer = admin_client.post("/admin/chatapp/member/?is_active__exact=1", form)
    target = "%2Fadmin%2Fchatapp%2Fmember%2F%3Fis_active__exact%3D1"
    assert answer["Location"] == f"/settings/confirm/?next={target}"
    assert Authenticator.objects.exists()
    admin_client.post("/settings/confirm/", {"password": "admin-password"})
    answer = admin_client.post("/admin/chatapp/member/", form, follow=True)
    assert "Removed the second factor of 1 member" in re.sub(r"\s+", " ", answer.content.decode())
    assert not Authenticator.objects.exists()
    entry = LogEntry.objects.filter(kind=Kind.FACTOR_REMOVED).first()
    assert entry
    assert entry.actor_id == admin.pk


def test_a_member_without_a_factor_has_none_to_remove(owner: Member) -> None:
    assert remove_second_factor(owner) == 0
