"""The list of exchanges is filtered by what was sent, by whom and what came back, and can be
followed live."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from bs4 import BeautifulSoup
from django.test import Client
from django.utils import timezone

from chatapp.models import Member
from mcpconfig.admin import trace_filters
from mcpconfig.models import Exchange, Service
from tests.conftest import signed_in

pytestmark = [pytest.mark.timeout(30), pytest.mark.django_db]
LIST = "/admin/mcpconfig/exchange/"
MOST_STATEMENTS = 25
LIVE = {"HX-Request": "true", "HX-Current-URL": "http://testserver/admin/mcpconfig/exchange/"}


@pytest.fixture
def service() -> Service:
    return Service.objects.create(name="box", url="https://box.example/mcp")


def exchange(service: Service, **fields: Any) -> Exchange:
    values = {
        "service": service,
        "operation": "call_tool",
        "operation_id": uuid4(),
        "method": "POST",
        "rpc_method": "tools/call",
        "status": 200,
    }
    return Exchange.objects.create(**(values | fields))


def read(client: Client, query: str = "", **headers: Any) -> BeautifulSoup:
    answer: Any = client.get(f"{LIST}?{query}", headers=headers)
    assert answer.status_code == 200
    return BeautifulSoup(answer.content, "html.parser")


def list_ids(page: BeautifulSoup) -> list[int]:
    links = page.select("#result_list a[id^=exchange-]")
    return [int(str(link["id"]).removeprefix("exchange-")) for link in links]


@pytest.mark.parametrize(
    "query",
    [
        "tool=delete_box",
        "person=owner",
        "outcome=failed",
        "slower=900",
        "said=quota+exceeded",
        "tool=delete_box&person=owner&outcome=failed&slower=900&said=Quota",
    ],
)
def test_an_exchange_is_found_by_each_filter(
    admin_client: Client, owner: Member, stranger: Member, service: Service, query: str
) -> None:
    wanted = exchange(
        service,
        tool="delete_box",
        person_id=owner.pk,
        status=500,
        duration_ms=1_000,
        response_body='{"error": {"message": "Quota exceeded"}}',
    )
    exchange(service, tool="read_box", person_id=stranger.pk, duration_ms=10)
    assert list_ids(read(admin_client, query)) == [wanted.pk]


def test_exchanges_are_found_by_their_time(admin_client: Client, service: Service) -> None:
    old, new = exchange(service), exchange(service)
    past = timezone.now() - timedelta(days=10)
    Exchange.objects.filter(pk=old.pk).update(created_at=past)
    day = timezone.localtime(past) + timedelta(days=2)
    between = f"{day:%Y-%m-%dT%H:%M}"
    assert list_ids(read(admin_client, f"from={between}")) == [new.pk]
    assert list_ids(read(admin_client, f"to={between}")) == [old.pk]
    assert list_ids(read(admin_client, f"to={day:%Y-%m-%d}")) == [old.pk]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("slower=soon", "Enter the duration as a number of milliseconds"),
        ("slower=99999999999999", "Enter the duration as a number of milliseconds"),
        ("from=yesterday", "Enter a date and a time"),
        ("to=2026-13-40", "Enter a date and a time"),
        ("person=nobody-like-that", "No member has the user name"),
    ],
)
def test_a_wrong_filter_is_explained_and_kept_in_the_form(
    admin_client: Client, service: Service, query: str, said: str
) -> None:
    exchange(service)
    page = read(admin_client, query)
    assert said in page.get_text()
    name, value = query.split("=")
    field = page.select_one(f"#trace-filters [name={name}]")
    assert field is not None and field["value"] == value


@pytest.mark.parametrize(
    "query", ["from=0001-01-01", "from=0001-01-01T00:00", "to=9999-12-31T23:59-14:00"]
)
def test_a_moment_that_no_clock_can_hold_is_explained(
    admin_client: Client, service: Service, settings: Any, query: str
) -> None:
    settings.TIME_ZONE = "Europe/Berlin"
    exchange(service)
    assert "Enter a date and a time" in read(admin_client, query).get_text()


def test_the_text_of_answers_is_searched_in_the_newest_only(
    admin_client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_filters, "SEARCHED", 2)
    made = [exchange(service, response_body="Broken.") for _ in range(4)]
    assert list_ids(read(admin_client, "said=broken")) == [made[3].pk, made[2].pk]


def test_a_filter_keeps_the_others(admin_client: Client, service: Service) -> None:
    exchange(service)
    page = read(admin_client, f"service__id__exact={service.pk}&live=on&tool=x&p=0")
    kept = {
        str(field["name"]): str(field["value"])
        for field in page.select("#trace-filters [type=hidden]")
    }
    assert kept == {"service__id__exact": str(service.pk), "live": "on"}


# --- live --------------------------------------------------------------------------------------
def test_the_list_asks_for_new_exchanges_only_while_it_is_live(
    admin_client: Client, service: Service
) -> None:
    exchange(service)
    quiet, live = read(admin_client), read(admin_client, "live=on")
    assert not quiet.select("[hx-get]") and not quiet.select("script[src*=htmx]")
    (tail,) = live.select("#tail[hx-get]")
    assert "live=on" in str(tail["hx-get"])
    assert live.select("script[src*=htmx]")
    (pause,) = live.select("#tail-switch")
    assert "live" not in str(pause["href"])


def test_nothing_is_sent_while_nothing_is_new(admin_client: Client, service: Service) -> None:
    kept = exchange(service)
    answer: Any = admin_client.get(f"{LIST}?live=on&since={kept.pk}", headers=LIVE)
    assert (answer.status_code, answer.content) == (204, b"")


def test_new_exchanges_are_sent_with_the_filters_applied(
    admin_client: Client, service: Service
) -> None:
    old = exchange(service, tool="read_box")
    exchange(service, tool="other")
    new = exchange(service, tool="read_box")
    page = read(admin_client, f"live=on&tool=read_box&since={old.pk}", **LIVE)
    assert list_ids(page) == [new.pk, old.pk]
    assert not page.select("nav")
    (since,) = page.select("#tail-since")
    assert since["value"] == str(new.pk)


def test_a_live_list_with_a_wrong_filter_collects_no_messages(
    admin_client: Client, service: Service
) -> None:
    exchange(service)
    for _ in range(2):
        read(admin_client, "live=on&slower=soon&since=0", **LIVE)
    assert "Enter the duration" not in admin_client.get("/admin/").content.decode()


@pytest.mark.parametrize("since", ["", "x", "-1", "9" * 40])
def test_a_wrong_number_gets_the_whole_list(
    admin_client: Client, service: Service, since: str
) -> None:
    kept = exchange(service)
    assert list_ids(read(admin_client, f"live=on&since={since}", **LIVE)) == [kept.pk]


@pytest.mark.parametrize("right", ["services", "policy", "people", "models", "system", "audit"])
def test_an_admin_without_the_right_gets_neither_rows_nor_news(
    service: Service, right: str
) -> None:
    kept = exchange(service)
    clerk = Member.objects.create_user(
        "clerk", password="a-long-password", is_staff=True, rights=[right]
    )
    client = signed_in(clerk)
    for since in (kept.pk, kept.pk - 1):
        answer = client.get(f"{LIST}?live=on&since={since}", headers=LIVE)
        assert answer.status_code == 403


def test_the_list_is_bounded(
    admin_client: Client, owner: Member, service: Service, django_assert_max_num_queries: Any
) -> None:
    for number in range(150):
        exchange(service, person_id=owner.pk, tool=f"tool-{number}")
    with django_assert_max_num_queries(MOST_STATEMENTS):
        page = read(admin_client, "live=on&person=owner&said=&outcome=answered")
    assert len(list_ids(page)) == 50
