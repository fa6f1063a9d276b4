"""The page of a person: what they have, for whom it is, and what it costs."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client
from django.utils import timezone

from chatapp.api import access_tokens
from chatapp.models import (
    Consent,
    Conversation,
    Invitation,
    Member,
    Project,
    SharedLink,
    StandIn,
    UsageOfDay,
)
from mcpconfig.models import OAuthGrant, Service
from tests.conftest import signed_in
from tests.turns import rows

CANARY = "canary-Zq8"


def address_of(member: Member) -> str:
    return f"/admin/chatapp/member/{member.pk}/person/"


def give_everything(owner: Member, other: Member, times: int = 1) -> str:
    """One of each thing that a person can have, or many. Returns the text of a token."""
    text = ""
    for number in range(times):
        service = Service.objects.create(
            name=f"shop{number}",
            title=f"Shop {number}",
            url=f"https://shop{number}.example/mcp",
            authentication=Service.Authentication.OAUTH_USER,
            visibility=Service.Visibility.GROUPS,
        )
        group = Group.objects.create(name=f"Release {number}")
        service.groups.add(group)
        owner.groups.add(group)
        OAuthGrant.objects.create(
            service=service,
            person=owner,
            endpoint=service.endpoint,
            access=CANARY.encode(),
            refresh=CANARY.encode(),
        )
        Consent.objects.create(
            person=owner, service=service, endpoint=service.endpoint, scope="always", definitions={}
        )
        _token, text = access_tokens.create(owner, name=f"Bot {number}", scopes=("chat",), days=7)
        Project.objects.create(owner=owner, name=f"Project {number}")
        today = timezone.localdate()
        StandIn.objects.create(approver=owner, stand_in=other, begins_on=today, ends_on=today)
        call = rows.question(rows.turn(owner), service=service)
        SharedLink.objects.create(
            conversation=call.turn.conversation,
            title=f"Link {number}",
            audience=SharedLink.Audience.MEMBERS,
            tools=SharedLink.Tools.NONE,
            includes_files=False,
            last_message=call.turn.answer,
            last_part=0,
            taken_at=timezone.now(),
            messages=2,
        )
        UsageOfDay.objects.create(
            person=owner,
            day=date.today() - timedelta(days=number),
            model="demo",
            currency="EUR",
            cost=3,
        )
    return text


def test_the_page_shows_what_a_person_has(
    admin_client: Client, owner: Member, stranger: Member
) -> None:
    give_everything(owner, stranger)
    page = admin_client.get(address_of(owner)).content.decode()
    for shown in ("Shop 0", "through Release 0", "Bot 0", "Project 0", "Signed in", "3.00 EUR"):
        assert shown in page, shown
    assert "signs for them" in page
    assert f"/admin/chatapp/member/{owner.pk}/off-board/" in page


def test_the_list_leads_to_the_page(admin_client: Client, owner: Member) -> None:
    page = admin_client.get("/admin/chatapp/member/").content.decode()
    assert f'href="{address_of(owner)}' in page


def test_the_page_costs_the_same_however_much_there_is(
    admin_client: Client,
    owner: Member,
    stranger: Member,
    django_assert_max_num_queries: Any,
) -> None:
    give_everything(owner, stranger, times=12)
    with django_assert_max_num_queries(25):
        assert admin_client.get(address_of(owner)).status_code == 200
    with django_assert_max_num_queries(25):
        assert admin_client.get("/admin/chatapp/member/").status_code == 200
    with django_assert_max_num_queries(25):
        assert admin_client.get(f"/admin/chatapp/member/{owner.pk}/off-board/").status_code == 200


def test_the_page_shows_which_rights_an_admin_has(admin_client: Client, owner: Member) -> None:
    Member.objects.filter(pk=owner.pk).update(is_staff=True, rights=["policy"])
    page = admin_client.get(address_of(owner)).content.decode()
    assert "What may this admin do?" in page
    assert "Change rules, limits, second approvals and policy tests." in page


@pytest.mark.parametrize("rights", [["people"], ["audit"], ["policy"]])
def test_no_secret_is_on_a_page_about_a_person(
    owner: Member, stranger: Member, rights: list[str]
) -> None:
    text = give_everything(owner, stranger)
    owner.set_password(CANARY)
    owner.save()
    invitation = Invitation(email="new@example.com", invited_by=owner)
    token = invitation.set_token()
    invitation.save()
    clerk = Member.objects.create_user(
        "clerk", password="clerk-password", is_staff=True, rights=rights
    )
    secrets = (CANARY, text, text.partition("_")[2], token, owner.password, invitation.token_hash)
    for page in (
        address_of(owner),
        f"/admin/chatapp/member/{owner.pk}/change/",
        f"/admin/chatapp/member/{owner.pk}/off-board/",
        "/admin/chatapp/member/",
        "/admin/chatapp/invitation/",
        f"/admin/chatapp/invitation/{invitation.pk}/change/",
        "/admin/chatapp/accesstoken/",
    ):
        shown = signed_in(clerk).get(page).content.decode()
        assert not any(secret in shown for secret in secrets), page


def test_an_auditor_reads_the_page_and_sees_no_button(owner: Member) -> None:
    auditor = Member.objects.create_user(
        "auditor", password="auditor-password", is_staff=True, rights=["audit"]
    )
    page = signed_in(auditor).get(address_of(owner)).content.decode()
    assert "off-board/" not in page
    assert signed_in(auditor).get(f"/admin/chatapp/member/{owner.pk}/off-board/").status_code == 403


def test_no_chat_is_named_on_the_page(admin_client: Client, owner: Member) -> None:
    Conversation.objects.create(owner=owner, title=CANARY)
    assert CANARY not in admin_client.get(address_of(owner)).content.decode()


def test_the_page_shows_only_what_the_lists_would(owner: Member, stranger: Member) -> None:
    give_everything(owner, stranger)
    link = str(SharedLink.objects.get())
    for rights, expected in (
        (["people"], {"Bot 0", "Sessions", link, "Spending"}),
        (["audit"], {"Bot 0", "Sessions", link}),
        (["policy"], set()),
    ):
        clerk = Member.objects.create_user(
            rights[0], password="clerk-password", is_staff=True, rights=rights
        )
        page = signed_in(clerk).get(address_of(owner)).content.decode()
        assert "Project 0" in page
        shown = {each for each in ("Bot 0", "Sessions", link, "Spending") if each in page}
        assert shown == expected, rights


def test_days_are_those_of_the_reader(admin_client: Client, admin: Member, owner: Member) -> None:
    """Half past eleven in the evening in UTC is the next day in Kiritimati."""
    joined = datetime(2026, 3, 30, 23, 30, tzinfo=UTC)
    Member.objects.filter(pk=owner.pk).update(date_joined=joined)
    Member.objects.filter(pk=admin.pk).update(time_zone="Pacific/Kiritimati")
    page = admin_client.get(address_of(owner)).content.decode()
    assert "31 Mar 2026" in page and "30 Mar 2026" not in page


def test_no_title_of_a_shared_chat_can_be_guessed(owner: Member, stranger: Member) -> None:
    give_everything(owner, stranger)
    auditor = Member.objects.create_user(
        "auditor", password="auditor-password", is_staff=True, rights=["audit"]
    )
    client, address = signed_in(auditor), "/admin/chatapp/sharedlink/"
    assert client.get(f"{address}?audience__in=members").status_code == 200
    assert client.get(f"{address}?title__startswith=L").status_code == 400
