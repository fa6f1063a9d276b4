"""What pages say about the passwords of an LDAP directory. None of them asks the directory."""

from typing import Any
from urllib.parse import urlencode

import pytest
from allauth.socialaccount.models import SocialAccount
from django.test import Client

from chatapp.models import Member, SignInLink
from tests.conftest import make_recent, signed_in
from tests.dom_tree import parse

from .ldap_setting import configure
from .test_invitations import invite

pytestmark = pytest.mark.django_db
KEPT = "Your password is kept in Company. Change it there."


@pytest.fixture(autouse=True)
def configured(settings: Any) -> None:
    configure(settings, {})


@pytest.fixture
def ada(db: Any) -> Member:
    """A member whose only password is the directory's."""
    member = Member(username="ada")
    member.set_unusable_password()
    member.save()
    SocialAccount.objects.create(
        user=member, provider="company", uid="entry-1", extra_data={"login": "ada.l"}
    )
    return member


def read(client: Client, address: str) -> str:
    return client.get(address).content.decode()


def test_the_form_says_whose_passwords_it_takes(client: Client) -> None:
    page = read(client, "/sign-in/")
    assert "Your username and password of Company work here." in page
    assert "Sign in with Company" not in page


def test_the_directory_is_no_page_to_go_to(client: Client) -> None:
    assert client.get("/sign-in/with/company/").status_code == 404
    assert client.get("/sign-in/with/company/callback/").status_code == 404
    assert client.get("/sign-in/with/company/saml/finish/").status_code == 404


def test_the_password_is_changed_elsewhere(ada: Member) -> None:
    client = make_recent(signed_in(ada))
    assert "Kept in Company. Change it there." in read(client, "/settings/")
    for answer in (client.get("/password/"), client.post("/password/")):
        assert answer.status_code == 409
        assert KEPT in answer.content.decode()
    ada.refresh_from_db()
    assert not ada.has_usable_password()


def test_a_password_of_this_server_is_changed_here(ada: Member) -> None:
    ada.set_password("ada-password")
    ada.save()
    client = make_recent(signed_in(ada))
    assert "Change password" in read(client, "/settings/")
    assert client.get("/password/").status_code == 200


def test_a_link_needs_no_new_password(ada: Member, client: Client) -> None:
    """The operator gets people in while the directory fails."""
    token = SignInLink.issue(ada)
    client.post(f"/sign-in/{token}/")
    assert client.get("/memory/").status_code == 200


def test_who_has_only_the_directory_confirms_by_its_password(ada: Member) -> None:
    assert 'name="password"' in read(signed_in(ada), "/settings/confirm/")


def test_a_member_can_connect_after_a_recent_sign_in(owner: Member) -> None:
    client = signed_in(owner)
    answer = client.post("/settings/providers/connect/", {"username": "a", "password": "b"})
    assert answer["Location"] == "/settings/confirm/?next=%2Fsettings%2Fproviders%2Fconnect%2F"
    assert "Company" in read(client, "/settings/")
    page = read(make_recent(client), "/settings/providers/connect/")
    assert "Enter your username and password of Company." in page


@pytest.mark.django_db(transaction=True)
def test_an_invited_person_finds_the_form(admin_client: Client, client: Client) -> None:
    """The link to the form leads back to the invitation."""
    address = invite(admin_client, email="kim@example.com")
    page = parse(client.get(address).content.decode())
    link = next(each for each in page.all("a") if "Sign in with Company" in str(each.text))
    assert link["href"] == f"/sign-in/?{urlencode({'next': address})}"
