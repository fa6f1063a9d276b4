"""The page of a person: what they have, for whom it is, and what it costs."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from allauth.usersessions.models import UserSession
from django.contrib.auth.models import Group
from django.test import Client
from django.utils import timezone

from chatapp.admin.people.person_things import ROWS_PER_PAGE
from chatapp.api import access_tokens
from chatapp.models import (
    AccessToken,
    Consent,
    Conversation,
    Invitation,
    LogEntry,
    Member,
    Project,
    SharedLink,
    StandIn,
    UsageOfDay,
)
from mcpconfig.models import OAuthGrant, Service
from tests.conftest import signed_in
from tests.dom_tree import parse
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


# --- all things of a kind, and how they end ------------------------------------------------------
ENDED = ("permissions", "sessions", "tokens")


def things_of(member: Member, kind: str) -> str:
    return f"{address_of(member)}{kind}/"


def clerk(*rights: str, **fields: Any) -> Member:
    name = "-".join(rights) or "nothing"
    return Member.objects.create_user(
        name, password="clerk-password", is_staff=True, rights=list(rights), **fields
    )


def sign_in(member: Member, user_agent: str) -> Client:
    """A session as a browser makes it, with its row in the list."""
    client = Client(headers={"User-Agent": user_agent})
    client.post("/sign-in/", {"username": member.username, "password": "owner-password"})
    assert client.get("/").status_code == 200
    return client


def count_left(member: Member, kind: str) -> int:
    match kind:
        case "permissions":
            return Consent.objects.filter(person=member, revoked_at=None).count()
        case "tokens":
            return AccessToken.objects.filter(person=member, revoked_at=None).count()
        case _:
            return int(UserSession.objects.filter(user=member).count())


@pytest.fixture
def rich(owner: Member, stranger: Member) -> Member:
    """Somebody with more of each kind than the page shows, and two sessions."""
    give_everything(owner, stranger, times=8)
    owner.set_password("owner-password")
    owner.save()
    for browser in ("Firefox", "Chrome"):
        sign_in(owner, browser)
    return owner


def read_keys(client: Client, address: str) -> list[str]:
    page = parse(client.get(address).content.decode())
    found = [str(each["value"]) for each in page.all("button", name="end")]
    return [key for key in found if key != "all"]


def list_entries(kind: str) -> list[LogEntry]:
    kinds = {
        "permissions": LogEntry.Kind.CONSENT_REVOKED,
        "tokens": LogEntry.Kind.TOKEN_REVOKED,
        "sessions": LogEntry.Kind.SESSIONS_ENDED,
    }
    return list(LogEntry.objects.filter(kind=kinds[kind]))


def test_every_kind_leads_to_a_page_with_all_of_them(admin_client: Client, rich: Member) -> None:
    html = admin_client.get(address_of(rich)).content.decode()
    for kind in ("services", "permissions", "tokens", "delegates", "projects", "links"):
        page = parse(html).one("section", aria_labelledby=f"{kind}-title")
        assert len(page.all("li")) == 6
        (link,) = [each for each in page.all("a") if each.text.startswith("All of them")]
        assert link["href"] == things_of(rich, kind)
        rest = parse(admin_client.get(str(link["href"])).content.decode())
        count = len(rest.one("section", aria_labelledby=f"{kind}-title").all("li"))
        assert count == (9 if kind == "services" else 8)
        assert f"({count - 6} more)" in page.text


def test_a_long_list_is_paged(admin_client: Client, owner: Member) -> None:
    for number in range(ROWS_PER_PAGE + 1):
        Project.objects.create(owner=owner, name=f"Project {number}")
    address = things_of(owner, "projects")
    first = parse(admin_client.get(address).content.decode())
    assert len(first.one("ul", class_="rows").all("li")) == ROWS_PER_PAGE
    last = parse(admin_client.get(address, {"page": 2}).content.decode())
    assert len(last.one("ul", class_="rows").all("li")) == 1


@pytest.mark.parametrize("kind", ENDED)
def test_the_pages_cost_the_same_however_much_there_is(
    admin_client: Client, rich: Member, kind: str, django_assert_max_num_queries: Any
) -> None:
    with django_assert_max_num_queries(25):
        assert admin_client.get(things_of(rich, kind)).status_code == 200


def test_expired_tokens_are_not_revoked_with_all(admin_client: Client, rich: Member) -> None:
    """The page does not list them."""
    expired = AccessToken.objects.filter(person=rich)[0]
    AccessToken.objects.filter(pk=expired.pk).update(
        expires_at=timezone.now() - timedelta(minutes=1)
    )
    answer = admin_client.post(things_of(rich, "tokens"), {"end": "all"}, follow=True)
    assert "Revoked 7 tokens." in answer.content.decode()
    admin_client.post(things_of(rich, "tokens"), {"end": str(expired.pk)})
    expired.refresh_from_db()
    assert expired.revoked_at is None


@pytest.mark.parametrize("kind", ENDED)
def test_an_admin_ends_one_and_then_all_and_both_are_logged(
    admin_client: Client, admin: Member, rich: Member, kind: str
) -> None:
    there = count_left(rich, kind)
    (key, *_others) = read_keys(admin_client, address_of(rich))[_first_of(kind, rich) :]
    form = {"end": key, "back": "person"}
    answer = admin_client.post(things_of(rich, kind), form)
    assert answer["Location"] == address_of(rich)
    assert count_left(rich, kind) == there - 1
    again = admin_client.post(things_of(rich, kind), form, follow=True)
    assert "Already ended. Nothing was changed." in again.content.decode()
    admin_client.post(things_of(rich, kind), {"end": "all"})
    assert count_left(rich, kind) == 0
    entries = list_entries(kind)
    assert entries and {each.actor_name for each in entries} == {admin.username}
    assert {each.person_id for each in entries} == {rich.pk}


def _first_of(kind: str, person: Member) -> int:
    """The place of the first button of this kind: the page has them in this order, six at most."""
    counts = {"permissions": 6, "sessions": count_left(person, "sessions"), "tokens": 6}
    return sum(counts[each] for each in ENDED[: ENDED.index(kind)])


def test_a_session_that_an_admin_ended_is_over(admin_client: Client, owner: Member) -> None:
    owner.set_password("owner-password")
    owner.save()
    kept, ended = sign_in(owner, "Firefox"), sign_in(owner, "Chrome")
    key = UserSession.objects.get(user_agent="Chrome").pk
    admin_client.post(things_of(owner, "sessions"), {"end": key})
    assert kept.get("/").status_code == 200
    assert ended.get("/").status_code == 302


# Who ends what: each right alone, and the admin of a member with further rights.
@pytest.mark.parametrize(
    ("kind", "rights", "may"),
    [
        ("permissions", ["policy"], True),
        ("permissions", ["people"], False),
        ("permissions", ["audit"], False),
        ("permissions", ["services"], False),
        ("sessions", ["people"], True),
        ("sessions", ["policy"], False),
        ("sessions", ["audit"], False),
        ("sessions", ["policy", "audit"], False),
        ("tokens", ["people"], True),
        ("tokens", ["policy"], False),
        ("tokens", ["audit"], False),
        ("tokens", ["credentials"], False),
    ],
)
def test_each_end_needs_its_right(rich: Member, kind: str, rights: list[str], may: bool) -> None:
    client, there = signed_in(clerk(*rights)), count_left(rich, kind)
    page = client.get(things_of(rich, kind))
    keys = read_keys(client, things_of(rich, kind)) if page.status_code == 200 else []
    assert bool(keys) == may
    answer = client.post(things_of(rich, kind), {"end": "all"})
    assert answer.status_code == (302 if may else 403)
    assert count_left(rich, kind) == (0 if may else there)
    assert bool(list_entries(kind)) == may


@pytest.mark.parametrize("kind", ["sessions", "tokens"])
def test_nobody_ends_what_an_admin_with_further_rights_has(rich: Member, kind: str) -> None:
    Member.objects.filter(pk=rich.pk).update(is_staff=True, rights=["people", "models"])
    there = count_left(rich, kind)
    client = signed_in(clerk("people"))
    assert client.post(things_of(rich, kind), {"end": "all"}).status_code == 403
    assert count_left(rich, kind) == there


def test_an_admin_does_not_end_the_session_that_they_use(
    admin_client: Client, admin: Member
) -> None:
    answer = admin_client.post(things_of(admin, "sessions"), {"end": "all"})
    assert answer.status_code == 403
    assert admin_client.get(address_of(admin)).status_code == 200


@pytest.mark.parametrize("kind", ENDED)
def test_the_key_of_another_person_ends_nothing(
    admin_client: Client, rich: Member, stranger: Member, kind: str
) -> None:
    there = count_left(rich, kind)
    keys = {
        "permissions": Consent.objects.filter(person=rich)[0].pk,
        "tokens": AccessToken.objects.filter(person=rich)[0].pk,
        "sessions": UserSession.objects.filter(user=rich)[0].pk,
    }
    for key in (keys[kind], "x", "", "9" * 5000):
        admin_client.post(things_of(stranger, kind), {"end": key})
    assert count_left(rich, kind) == there


@pytest.mark.parametrize(("kind", "status"), [("nothing", 404), ("services", 403), ("links", 403)])
def test_there_is_nothing_else_to_end(
    admin_client: Client, rich: Member, kind: str, status: int
) -> None:
    assert admin_client.post(things_of(rich, kind), {"end": "all"}).status_code == status
    assert SharedLink.objects.filter(revoked_at=None).count() == 8
