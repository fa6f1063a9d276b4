"""Times in the zone of their reader: pages, the admin, live pages, mails and exports."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings as django_settings
from django.test import AsyncClient, Client
from django.utils import timezone

from chatapp.models import AccessToken, Member, StandIn
from chatapp.people.delegates import list_delegates
from chatapp.rendering.exports.markdown_file import _format_time
from chatapp.server import time_zones
from chatapp.server.database import in_database
from chatapp.server.locales import carry_locale, get_locale, using_locale
from tests.conftest import signed_in
from tests.dom_tree import parse

pytestmark = pytest.mark.django_db
FAR = "Pacific/Kiritimati"  # UTC+14, all year
EVENING = datetime(2026, 1, 31, 22, 30, tzinfo=UTC)


def choose(person: Member, zone: str) -> Client:
    client = signed_in(person)
    answer = client.post("/settings/profile", {"time_zone": zone})
    assert answer.status_code == 302, answer.content
    return client


def use_token(person: Member, at: datetime) -> None:
    """Give the person an access token that was used at this moment."""
    AccessToken.objects.all().delete()
    AccessToken.make(
        person=person, name="Job", last_used_at=at, expires_at=at + timedelta(days=3_650)
    )


def read_tokens(client: Client) -> str:
    return str(parse(client.get("/tokens/").content.decode()).one("article").text)


def test_a_person_chooses_a_zone_and_keeps_the_rest(owner: Member) -> None:
    client = choose(owner, FAR)
    owner.refresh_from_db()
    assert owner.time_zone == FAR
    page = parse(client.get("/settings/").content.decode())
    chosen = [
        each["value"]
        for each in page.one("select", id="id_time_zone").all("option")
        if "selected" in each
    ]
    assert chosen == [FAR]


@pytest.mark.parametrize(
    "zone", ["Mars/Olympus", "../../etc/passwd", "localtime", "x" * 99, "\x00"]
)
def test_an_unknown_zone_is_refused_and_nothing_typed_is_lost(owner: Member, zone: str) -> None:
    typed = {"first_name": "Typed by hand", "time_zone": zone}
    answer = signed_in(owner).post("/settings/profile", typed)
    assert answer.status_code == 422
    assert "Typed by hand" in answer.content.decode()
    owner.refresh_from_db()
    assert (owner.first_name, owner.time_zone) == ("", "")


def test_pages_show_times_in_the_zone_of_their_reader(owner: Member) -> None:
    client = choose(owner, FAR)
    use_token(owner, EVENING)
    assert "Last used on 1 Feb 2026, 12:30" in read_tokens(client)
    choose(owner, "")
    assert "Last used on 31 Jan 2026, 22:30" in read_tokens(client)


def test_the_hour_changes_with_daylight_saving_time(owner: Member) -> None:
    client = choose(owner, "Europe/Berlin")
    # One hour of the world, and two on the wall: 01:30 and 03:30.
    for at, wall in (
        (datetime(2026, 3, 29, 0, 30, tzinfo=UTC), "01:30"),
        (datetime(2026, 3, 29, 1, 30, tzinfo=UTC), "03:30"),
        (datetime(2026, 10, 25, 0, 30, tzinfo=UTC), "02:30"),
        (datetime(2026, 10, 25, 1, 30, tzinfo=UTC), "02:30"),
    ):
        use_token(owner, at)
        assert f"2026, {wall}" in read_tokens(client)


def test_the_admin_shows_times_in_the_zone_of_the_admin(admin: Member) -> None:
    client = choose(admin, FAR)
    use_token(admin, EVENING)
    assert "1 Feb 2026, 12:30" in client.get("/admin/chatapp/accesstoken/").content.decode()


def test_the_page_of_a_person_shows_days_in_the_zone_of_the_admin(
    admin: Member, owner: Member, stranger: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = choose(admin, FAR)
    Member.objects.filter(pk=owner.pk).update(date_joined=EVENING)
    AccessToken.make(person=owner, name="Job", expires_at=EVENING.replace(year=2036))
    today = time_zones.get_server_day()
    StandIn.objects.create(approver=owner, stand_in=stranger, begins_on=today, ends_on=today)
    late = datetime(today.year, today.month, today.day, 23, tzinfo=UTC)
    monkeypatch.setattr(timezone, "now", lambda: late)
    page = client.get(f"/admin/chatapp/member/{owner.pk}/person/").content.decode()
    assert "1 Feb 2026" in page and "1 Feb 2036" in page and "31 Jan 20" not in page
    assert "stranger signs for them" in page


def test_one_readers_zone_does_not_stay_for_the_next(owner: Member, stranger: Member) -> None:
    choose(owner, FAR).get("/tokens/")
    assert timezone.get_current_timezone_name() == django_settings.TIME_ZONE
    client = signed_in(stranger)
    use_token(stranger, EVENING)
    assert "Last used on 31 Jan 2026, 22:30" in read_tokens(client)


@pytest.mark.django_db(transaction=True)
async def test_requests_of_the_asynchronous_server_have_it_too(owner: Member) -> None:
    await Member.objects.filter(pk=owner.pk).aupdate(time_zone=FAR)
    client = AsyncClient()
    await client.aforce_login(owner)
    await sync_to_async(use_token)(owner, EVENING)
    answer = await client.get("/tokens/")
    assert "1 Feb 2026, 12:30" in answer.content.decode()


def test_a_zone_that_this_server_lost_is_that_of_the_server(owner: Member) -> None:
    Member.objects.update(time_zone="Europe/Atlantis")
    assert signed_in(owner).get("/settings/").status_code == 200
    assert str(time_zones.find_zone("Europe/Atlantis")) == django_settings.TIME_ZONE


@pytest.fixture
def in_far_zone() -> Iterator[None]:
    with time_zones.reading_in(FAR):
        yield


async def test_threads_of_live_pages_have_the_zone_of_the_socket() -> None:
    with time_zones.reading_in(FAR):
        assert await in_database(timezone.get_current_timezone_name) == FAR
        assert await asyncio.to_thread(carry_locale(timezone.get_current_timezone_name)) == FAR
    assert await in_database(timezone.get_current_timezone_name) == django_settings.TIME_ZONE


def test_a_locale_is_used_inside_its_block_only() -> None:
    with time_zones.reading_in(FAR):
        locale = get_locale()
    with using_locale(locale):
        assert timezone.get_current_timezone_name() == FAR
    assert get_locale() != locale


def test_exports_name_the_zone(in_far_zone: None) -> None:
    assert _format_time(EVENING) == "1 Feb 2026, 12:30 +14"


def test_nobody_moves_the_days_of_a_delegate_by_a_zone(
    owner: Member, stranger: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 22:30 UTC it is tomorrow on Kiritimati, and still the last day of the delegate."""
    monkeypatch.setattr(timezone, "now", lambda: EVENING)
    StandIn.objects.create(
        approver=owner, stand_in=stranger, begins_on=date(2026, 1, 31), ends_on=date(2026, 1, 31)
    )
    for zone in (FAR, "Pacific/Pago_Pago", ""):
        with time_zones.reading_in(zone):
            assert time_zones.get_server_day() == date(2026, 1, 31)
            assert len(list_delegates(owner)) == 1


def test_the_choices_are_places_and_not_files_of_the_system() -> None:
    zones = time_zones.list_zones()
    assert zones[0] == "UTC" and "Europe/Berlin" in zones and len(zones) > 300
    assert not {"localtime", "Factory", "posixrules"} & set(zones)
    offset = datetime(2026, 7, 1, tzinfo=ZoneInfo(FAR)).utcoffset()
    assert offset == timedelta(hours=14)
