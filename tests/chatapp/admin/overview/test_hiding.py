"""An admin hides items of the overview for themselves: until they change, or for a time."""

from datetime import timedelta
from typing import Any

import pytest
from axes.models import AccessFailureLog
from django.test import Client
from django.utils import timezone

from chatapp.admin.overview import needs
from chatapp.models import HiddenNeed, LogEntry, Member
from mcpconfig.models import Service
from tests.conftest import signed_in
from tests.dom_tree import parse

pytestmark = pytest.mark.django_db
HIDE = "/admin/hide/"


@pytest.fixture
def lost() -> Service:
    return Service.objects.create(
        name="lost", url="https://lost.example/mcp", last_error=fail(401), visibility="everyone"
    )


def fail(status: int, kind: str = "refused") -> dict[str, str]:
    message = f"It answered {status}."
    return {"kind": kind, "message": message, "hint": "", "at": "2026-01-01T00:00:00+00:00"}


def list_shown(client: Client) -> list[dict[str, str]]:
    """Return the items with what their forms send."""
    page = parse(client.get("/admin/").content.decode())
    forms = [form for form in page.all("form") if "ways" in form.attributes.get("class", "")]
    return [
        {field["name"]: field["value"] for field in form.all("input") if "value" in field}
        for form in forms
    ]


def hide(client: Client, way: str, **changed: str) -> Any:
    (shown,) = list_shown(client)
    shown.pop("csrfmiddlewaretoken", None)
    return client.post(HIDE, shown | {"act": way} | changed, follow=True)


def test_a_dismissed_item_comes_back_when_it_changes(admin_client: Client, lost: Service) -> None:
    hide(admin_client, "dismiss")
    assert list_shown(admin_client) == []
    Service.objects.update(last_error=fail(500))
    assert len(list_shown(admin_client)) == 1


def test_a_dismissed_item_stays_away_while_it_says_the_same(
    admin_client: Client, lost: Service
) -> None:
    hide(admin_client, "dismiss")
    HiddenNeed.objects.update(until=None)
    assert list_shown(admin_client) == []


def test_a_dismissed_item_that_was_gone_is_new_when_it_comes_again(
    admin_client: Client, lost: Service
) -> None:
    hide(admin_client, "dismiss")
    Service.objects.update(last_error=None)
    assert list_shown(admin_client) == []
    Service.objects.update(last_error=fail(401))
    assert len(list_shown(admin_client)) == 1


def test_more_failed_sign_ins_come_back(admin_client: Client, owner: Member) -> None:
    def guess(minutes: int) -> None:
        AccessFailureLog.objects.all().delete()
        for _ in range(needs.FAILED_SIGN_INS):
            AccessFailureLog.objects.create(username=owner.username)
        moment = timezone.now() - timedelta(minutes=minutes)
        AccessFailureLog.objects.update(attempt_time=moment)

    guess(60)
    hide(admin_client, "dismiss")
    assert list_shown(admin_client) == []
    guess(1)
    assert len(list_shown(admin_client)) == 1


def test_an_item_that_is_hidden_again_is_not_the_oldest(
    admin_client: Client, admin: Member, lost: Service
) -> None:
    hide(admin_client, "day")
    until = timezone.now() + timedelta(days=1)
    HiddenNeed.objects.bulk_create(
        HiddenNeed(person=admin, name=f"new-{each}", facts="a" * 64, rank=1, until=until)
        for each in range(120)
    )
    HiddenNeed.objects.filter(name=f"failing-{lost.pk}").update(until=timezone.now())
    hide(admin_client, "day")
    assert list_shown(admin_client) == []


@pytest.mark.parametrize(("act", "days"), [("day", 1), ("week", 7)])
def test_a_snoozed_item_comes_back_after_its_time(
    admin_client: Client, lost: Service, act: str, days: int
) -> None:
    hide(admin_client, act)
    until = HiddenNeed.objects.get().until
    assert until is not None
    assert timedelta(days=days, minutes=-5) < until - timezone.now() <= timedelta(days=days)
    Service.objects.update(last_error=fail(500))
    assert list_shown(admin_client) == []
    HiddenNeed.objects.update(until=timezone.now() - timedelta(seconds=1))
    assert len(list_shown(admin_client)) == 1


def test_an_item_that_got_more_urgent_comes_back(admin_client: Client, lost: Service) -> None:
    hide(admin_client, "week")
    HiddenNeed.objects.update(rank=50)  # it failed with less urgency when it was snoozed
    assert len(list_shown(admin_client)) == 1


def test_other_admins_still_see_it(admin_client: Client, lost: Service) -> None:
    hide(admin_client, "dismiss")
    other = Member.objects.create_user(
        "other", password="a-long-password", is_staff=True, rights=["services"]
    )
    assert len(list_shown(signed_in(other))) == 1


def test_hidden_items_are_counted_and_shown_again(admin_client: Client, lost: Service) -> None:
    hide(admin_client, "dismiss")
    assert "You hid 1 item." in admin_client.get("/admin/").content.decode()
    admin_client.post(HIDE, {"show": "1"})
    assert len(list_shown(admin_client)) == 1


def test_hiding_is_in_the_log(admin_client: Client, admin: Member, lost: Service) -> None:
    hide(admin_client, "day")
    entry = LogEntry.objects.get(kind=LogEntry.Kind.NEED_HIDDEN)
    assert entry.actor_id == admin.pk
    assert f"failing-{lost.pk}" in entry.data


@pytest.mark.parametrize(
    "changed",
    [
        {"act": "for ever"},
        {"name": ""},
        {"name": "x" * 300},
        {"facts": "no hash"},
        {"rank": "-1"},
        {"rank": "9" * 30},
    ],
)
def test_what_no_page_sends_hides_nothing(
    admin_client: Client, lost: Service, changed: dict[str, str]
) -> None:
    answer = hide(admin_client, "day", **changed)
    assert "could not be hidden" in answer.content.decode()
    assert not HiddenNeed.objects.exists()


def test_a_member_hides_nothing(owner_client: Client) -> None:
    assert owner_client.post(HIDE, {"act": "day"}).status_code == 302
    assert not HiddenNeed.objects.exists()


def test_an_admin_has_a_bounded_number_of_hidden_items(
    admin_client: Client, admin: Member, lost: Service
) -> None:
    HiddenNeed.objects.bulk_create(
        HiddenNeed(
            person=admin,
            name=f"old-{each}",
            facts="a" * 64,
            rank=1,
            until=timezone.now() + timedelta(days=1),
        )
        for each in range(120)
    )
    hide(admin_client, "dismiss")
    assert HiddenNeed.objects.count() == 100
    assert list_shown(admin_client) == []
