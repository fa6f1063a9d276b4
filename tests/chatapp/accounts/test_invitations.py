"""Invitations: created, sent, accepted once, and revoked."""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, ClassVar

import pytest
from django.contrib.auth.models import Group
from django.core import mail
from django.core.mail.backends.base import BaseEmailBackend
from django.db import connection
from django.test import Client
from django.utils import timezone

from chatapp.accounts import invitations
from chatapp.models import Invitation, LogEntry, Member
from chatapp.people.refused import Refused
from tests.conftest import make_recent, signed_in
from tests.peers.openid_provider import OpenIDProvider, running_provider

from .test_provider_sign_in import PERSON, begin, configure, find_person, finish

# The link is handed out after the commit.
pytestmark = pytest.mark.django_db(transaction=True)
PASSWORD = "a long enough phrase"
JOINING = {"username": "kim", "password": PASSWORD, "confirmed": PASSWORD}
ADD = "/admin/chatapp/invitation/add/"


@pytest.fixture
def group(db: Any) -> Group:
    return Group.objects.create(name="Release")


@pytest.fixture
def provider() -> Iterator[OpenIDProvider]:
    with running_provider() as found:
        found.claims = dict(PERSON)
        yield found


def invite(client: Client, **fields: Any) -> str:
    """The address of a new invitation, as the page shows it once."""
    page = client.post(ADD, fields, follow=True).content.decode()
    found = re.search(r"<code>http://[^/]+(/invitation/[\w.:-]+/)</code>", page)
    assert found, page
    return found[1]


def test_an_invitation_makes_one_member_in_its_groups(
    admin_client: Client, client: Client, group: Group
) -> None:
    address = invite(admin_client, email="kim@example.com", groups=[group.pk])
    assert not Member.objects.filter(username="kim").exists()
    page = client.get(address).content.decode()
    assert "You join the group Release." in page
    assert client.get(address).status_code == 200, "Looking does not use it up."
    answer = client.post(address, JOINING)
    assert (answer.status_code, answer["Location"]) == (302, "/")
    kim = Member.objects.get(username="kim")
    assert list(kim.groups.all()) == [group]
    assert kim.check_password(PASSWORD)
    assert not (kim.is_staff or kim.is_superuser)
    assert find_person(client) == str(kim.pk)
    again = Client().post(address, {**JOINING, "username": "lee"})
    assert again.status_code == 410
    assert not Member.objects.filter(username="lee").exists()
    acts = LogEntry.objects.filter(kind=LogEntry.Kind.INVITED).order_by("position")
    assert ['"created"' in acts[0].data, '"accepted"' in acts[1].data] == [True, True]


@pytest.mark.parametrize(
    ("username", "status"), [("boss@example.com", 422), ("KIM@example.com", 302)]
)
def test_nobody_chooses_the_address_of_somebody_else_as_username(
    admin_client: Client, client: Client, username: str, status: int
) -> None:
    """A directory would take that account for the other person's."""
    address = invite(admin_client, email="kim@example.com")
    answer = client.post(address, {**JOINING, "username": username})
    assert answer.status_code == status
    assert Member.objects.filter(username=username).exists() is (status == 302)
    if status == 422:
        assert "without “@”" in answer.content.decode()
        assert username in answer.content.decode()


def test_the_link_is_shown_once_and_stored_nowhere(admin_client: Client) -> None:
    address = invite(admin_client)
    token = address.split("/")[2]
    assert token not in str(Invitation.objects.values())
    assert not any(token in entry.data for entry in LogEntry.objects.all())
    for page in ("/admin/chatapp/invitation/", "/admin/"):
        assert token not in admin_client.get(page).content.decode()


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"expires_at": timezone.now() - timedelta(seconds=1)}, 410),
        ({"revoked_at": timezone.now()}, 410),
        ({}, 200),
    ],
)
def test_an_ended_invitation_is_gone(
    admin_client: Client, client: Client, change: dict[str, Any], status: int
) -> None:
    address = invite(admin_client)
    Invitation.objects.update(**change)
    assert client.get(address).status_code == status
    assert client.post(address, JOINING).status_code == (302 if status == 200 else 410)


def test_nobody_joins_on_the_word_of_an_admin_who_left(
    admin: Member, admin_client: Client, client: Client
) -> None:
    address = invite(admin_client)
    Member.objects.filter(pk=admin.pk).update(is_active=False)
    assert client.get(address).status_code == 410


def test_a_changed_link_opens_nothing(admin_client: Client, client: Client) -> None:
    """Also if its hash is stored, as after a copy of the database was changed."""
    address = invite(admin_client)
    forged = address.split("/")[2].split(".")[0] + ".forged"
    Invitation.objects.update(token_hash=Invitation.hash_of(forged))
    assert client.get(f"/invitation/{forged}/").status_code == 410


def test_two_who_accept_at_once_are_not_both_let_in(admin_client: Client, owner: Member) -> None:
    invite(admin_client)
    invitation = Invitation.objects.get()
    invitations.accept(invitation, owner)
    with pytest.raises(Refused, match="no longer valid"):
        invitations.accept(invitation, owner)


def test_a_revoked_invitation_says_so_in_the_list(admin_client: Client, client: Client) -> None:
    address = invite(admin_client)
    action = {"action": "revoke", "_selected_action": [Invitation.objects.get().pk]}
    page = admin_client.post("/admin/chatapp/invitation/", action, follow=True).content.decode()
    assert "Revoked 1 invitation." in page
    assert client.get(address).status_code == 410


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"username": "owner"}, "This username is taken. Choose another one."),
        ({"password": "123", "confirmed": "123"}, "too short"),
        ({"confirmed": "another phrase"}, "The passwords differ."),
        ({"username": ""}, "This field is required."),
    ],
)
def test_bad_input_keeps_the_invitation_and_what_was_typed(
    admin_client: Client, client: Client, owner: Member, fields: dict[str, str], sentence: str
) -> None:
    address = invite(admin_client)
    answer = client.post(address, {**JOINING, "first_name": "Kim", **fields})
    assert answer.status_code == 422
    page = answer.content.decode()
    assert sentence in page
    assert 'value="Kim"' in page
    assert PASSWORD not in page
    assert Invitation.objects.open().count() == 1


def test_who_is_signed_in_is_told_so(admin_client: Client, owner_client: Client) -> None:
    address = invite(admin_client)
    assert "You are signed in as" in owner_client.get(address).content.decode()
    assert owner_client.post(address, JOINING).status_code == 200
    assert Invitation.objects.open().count() == 1


# --- mail ----------------------------------------------------------------------------------------
def test_a_server_that_sends_mail_sends_the_link(
    admin_client: Client, client: Client, settings: Any
) -> None:
    settings.SENDS_MAIL = True
    page = admin_client.post(ADD, {"email": "kim@example.com"}, follow=True).content.decode()
    assert "The invitation was sent to kim@example.com." in page
    assert "/invitation/" not in page.split("messagelist")[1].split("</ul>")[0]
    (sent,) = mail.outbox
    assert sent.to == ["kim@example.com"]
    found = re.search(r"(/invitation/\S+/)", str(sent.body))
    assert found
    assert client.get(found[1]).status_code == 200


def test_a_mail_that_cannot_be_sent_is_replaced_by_the_link(
    admin_client: Client, settings: Any
) -> None:
    settings.SENDS_MAIL = True
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 9
    assert invite(admin_client, email="kim@example.com")


def test_without_mail_nothing_is_sent(admin_client: Client) -> None:
    invite(admin_client, email="kim@example.com")
    assert mail.outbox == []


# --- other ways in -------------------------------------------------------------------------------
def test_a_provider_makes_the_account_of_an_invited_person(
    admin_client: Client, client: Client, settings: Any, provider: OpenIDProvider, group: Group
) -> None:
    configure(settings, provider, creates_accounts=False)
    settings.PASSWORD_SIGN_IN = False
    address = invite(admin_client, groups=[group.pk])
    assert 'name="password"' not in client.get(address).content.decode()
    assert client.post(address, JOINING).status_code == 422, "Only the provider lets in."
    answer = finish(client, provider.authorize(begin(client, address)))
    assert answer["Location"] == address
    assert client.get(address)["Location"] == "/"
    ada = Member.objects.get(username="ada")
    assert list(ada.groups.all()) == [group]
    assert Invitation.objects.get().accepted_by == ada


def test_a_provider_makes_no_account_of_an_invitation_that_ended_meanwhile(
    admin_client: Client, client: Client, settings: Any, provider: OpenIDProvider
) -> None:
    configure(settings, provider, creates_accounts=False)
    address = invite(admin_client)
    back = provider.authorize(begin(client, address))
    Invitation.objects.update(revoked_at=timezone.now())
    assert finish(client, back).status_code == 403
    assert not Member.objects.filter(username="ada").exists()


def test_a_required_second_factor_is_set_up_first(
    admin_client: Client, client: Client, settings: Any
) -> None:
    address = invite(admin_client)
    settings.REQUIRE_TWO_FACTOR = "all"
    client.post(address, JOINING)
    assert find_person(client) is not None
    assert client.get("/").status_code == 302, "The page to set one up."
    assert client.get("/")["Location"] != "/"


def test_without_passwords_and_providers_a_username_is_enough(
    admin_client: Client, client: Client, settings: Any
) -> None:
    settings.PASSWORD_SIGN_IN = False
    address = invite(admin_client)
    client.post(address, {"username": "kim"})
    assert find_person(client) == str(Member.objects.get(username="kim").pk)
    assert not Member.objects.get(username="kim").has_usable_password()


# --- who may invite ------------------------------------------------------------------------------
def test_nobody_invites_into_a_group_with_rights_that_they_lack(group: Group) -> None:
    clerk = Member.objects.create_user(
        "clerk", password="clerk-password", is_staff=True, rights=["people"]
    )
    invite(signed_in(clerk), groups=[group.pk])
    rights = group.permissions.model.objects
    group.permissions.add(rights.get(codename="change_policyrule"))
    answer = signed_in(clerk).post(ADD, {"groups": [group.pk]})
    assert "One of these groups has rights that you don’t have." in answer.content.decode()
    assert Invitation.objects.count() == 1


def test_the_list_costs_the_same_however_long(
    admin_client: Client, group: Group, django_assert_max_num_queries: Any
) -> None:
    for number in range(30):
        invite(admin_client, email=f"kim{number}@example.com", groups=[group.pk])
    with django_assert_max_num_queries(25):
        assert admin_client.get("/admin/chatapp/invitation/").status_code == 200


class WatchingBackend(BaseEmailBackend):
    """Notes whether a transaction is open while it sends."""

    seen: ClassVar[list[bool]] = []

    def send_messages(self, email_messages: Any) -> int:
        self.seen.append(connection.in_atomic_block)
        return len(email_messages)


def test_no_transaction_waits_for_the_mail_server(admin_client: Client, settings: Any) -> None:
    settings.SENDS_MAIL = True
    settings.EMAIL_BACKEND = f"{__name__}.WatchingBackend"
    WatchingBackend.seen.clear()
    admin_client.post(ADD, {"email": "kim@example.com"})
    assert WatchingBackend.seen == [False]


@pytest.mark.parametrize("rights", [["policy"], []])
def test_invitations_of_an_admin_who_may_invite_no_more_end(
    admin_client: Client, client: Client, rights: list[str]
) -> None:
    clerk = Member.objects.create_user(
        "clerk", password="clerk-password", is_staff=True, rights=["people"]
    )
    address = invite(signed_in(clerk))
    page = f"/admin/chatapp/member/{clerk.pk}/change/"
    form = {"username": "clerk", "is_active": "on", "first_name": "Kit"}
    make_recent(admin_client).post(page, {**form, "rights": ["people"]})
    assert client.get(address).status_code == 200
    admin_client.post(page, {**form, "rights": rights})
    assert client.post(address, JOINING).status_code == 410
    assert not Member.objects.filter(username="kim").exists()
    last = LogEntry.objects.filter(kind=LogEntry.Kind.INVITED).order_by("position").last()
    assert last is not None
    assert '"revoked"' in last.data and last.actor_name == "admin"
