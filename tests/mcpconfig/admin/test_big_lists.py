"""Lists of tables that grow without end: what is cut off is said on the page."""

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chatapp.models import Conversation, Member
from mcpconfig.admin import big_lists
from mcpconfig.admin.exchanges import ExchangeAdmin
from mcpconfig.models import Exchange, Service

pytestmark = pytest.mark.django_db
LIST = "/admin/mcpconfig/exchange/"


@pytest.fixture(autouse=True)
def exchanges() -> list[Exchange]:
    """One exchange a day, the newest today."""
    service = Service.objects.create(name="shop", url="https://shop.example/mcp")
    rows = [
        Exchange.objects.create(
            service=service,
            operation="call_tool",
            operation_id=uuid.uuid4(),
            method="POST",
            rpc_method=f"tools/call-{number}",
        )
        for number in range(4)
    ]
    for age, row in enumerate(reversed(rows)):
        at = timezone.now() - timedelta(days=age)
        Exchange.objects.filter(pk=row.pk).update(created_at=at)
    return rows


def read(client: Client, query: str = "", address: str = LIST) -> str:
    answer: Any = client.get(f"{address}{query}")
    assert answer.status_code == 200, answer.get("Location")
    return " ".join(answer.content.decode().split())


def test_a_list_counts_up_to_a_limit_and_says_so(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "4 exchanges" in read(admin_client)
    monkeypatch.setattr(big_lists, "MOST_COUNTED", 3)
    page = read(admin_client)
    assert "More than 3." in page
    assert "4 exchanges" not in page
    assert "more than 3 results" in read(admin_client, "?operation=call_tool")


def test_rows_that_fit_on_a_page_are_looked_for_once(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a rare value may be found only by reading the whole table."""

    def count_looks(query: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            assert "tools/call-3" in read(admin_client, query)
        found = [each["sql"].partition(" WHERE ")[2] for each in captured.captured_queries]
        return sum('"operation"' in each and '"id" IN' not in each for each in found)

    assert count_looks("?operation=call_tool") == 1
    monkeypatch.setattr(ExchangeAdmin, "list_per_page", 2)
    assert count_looks("?operation=call_tool") == 3


@pytest.mark.parametrize(
    ("numbers", "found", "is_sorted"), [((0, 2, 3), 3, False), ((0, 1), 1, True)]
)
def test_the_first_page_of_a_filter_is_looked_for_among_the_newest_rows(
    exchanges: list[Exchange],
    monkeypatch: pytest.MonkeyPatch,
    numbers: tuple[int, ...],
    found: int,
    is_sorted: bool,
) -> None:
    """Only if they do not fill it, all rows of the filter are sorted."""
    monkeypatch.setattr(big_lists, "MOST_COUNTED", 1)
    monkeypatch.setattr(big_lists, "MOST_SEARCHED", 2)
    chosen = Exchange.objects.filter(rpc_method__in=[f"tools/call-{each}" for each in numbers])
    paginator = big_lists.CappedPaginator(chosen.order_by("-created_at"), 1)
    paginator.newest_first = "-created_at"
    with CaptureQueriesContext(connection) as captured:
        assert list(paginator.page(1)) == [exchanges[found]]
    ordered = [each["sql"] for each in captured.captured_queries if "ORDER BY" in each["sql"]]
    looks = [each for each in ordered if '"id" AS "pk"' in each]
    assert ['"created_at" >=' in each for each in looks] == [True, False][: 1 + is_sorted]


def test_a_search_reads_the_newest_rows_and_says_so(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "tools/call-0" in read(admin_client, "?q=call-0")
    monkeypatch.setattr(big_lists, "MOST_SEARCHED", 2)
    assert "POST tools/call-0" not in read(admin_client, "?q=call-0")
    assert "POST tools/call-3" in read(admin_client, "?q=call-3")
    assert "Searches the newest" in read(admin_client)


def test_a_search_for_an_id_reaches_rows_of_any_age(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch, exchanges: list[Exchange]
) -> None:
    monkeypatch.setattr(big_lists, "MOST_SEARCHED", 2)
    oldest = exchanges[0]
    page = read(admin_client, f"?q={oldest.operation_id}")
    assert "POST tools/call-0" in page
    assert "POST tools/call-3" not in page
    Exchange.objects.filter(pk=oldest.pk).update(round_id="round-1")
    assert "POST tools/call-0" in read(admin_client, "?q=round-1")


def test_a_search_for_a_user_name_reaches_rows_of_any_age(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(big_lists, "MOST_SEARCHED", 2)
    ada, bob = (Member.objects.create_user(name) for name in ("ada", "bob"))
    for owner in (ada, bob, bob):
        Conversation.objects.create(owner=owner)
    address = "/admin/chatapp/conversation/"
    assert "1 result" in read(admin_client, "?q=ada", address)
    assert "0 results" in read(admin_client, "?q=ad", address)


def test_a_period_reaches_rows_of_any_age(admin_client: Client) -> None:
    ada = Member.objects.create_user("ada")
    now = timezone.now()
    for age in range(4):
        made = Conversation.objects.create(owner=ada, title=f"Chat of age {age}")
        Conversation.objects.filter(pk=made.pk).update(created_at=now - timedelta(days=age))
    address = "/admin/chatapp/conversation/"
    day = (timezone.localtime() - timedelta(days=3)).date().isoformat()
    page = read(admin_client, f"?created_at__first_day={day}&created_at__last_day={day}", address)
    assert "Chat of age 3" in page
    assert "Chat of age 2" not in page
    assert f'value="{day}"' in page
    assert "Chat of age 0" in read(admin_client, "?created_at__first_day=soon", address)
    empty = "?created_at__first_day=&created_at__last_day="
    assert "Chat of age 0" in read(admin_client, empty, address)


def test_the_pages_have_all_rows_in_order(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(big_lists.BigListMixin, "list_per_page", 3)
    first, second = read(admin_client), read(admin_client, "?p=2")
    assert first.index("tools/call-3") < first.index("tools/call-2") < first.index("tools/call-1")
    assert "POST tools/call-0" not in first
    assert "POST tools/call-0" in second
    assert "POST tools/call-1" not in second
