"""The trace in the admin: found by what it was, read without effort, changed by nobody."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from bs4 import BeautifulSoup
from django.contrib.auth.models import Permission
from django.test import Client
from django.utils import timezone

from chatapp.models import Member
from mcpconfig.admin import operation_page
from mcpconfig.models import Exchange, Service
from tests.conftest import signed_in

pytestmark = [pytest.mark.timeout(30), pytest.mark.django_db]

LIST = "/admin/mcpconfig/exchange/"
OPERATION = "11111111-1111-1111-1111-111111111111"


@pytest.fixture
def service() -> Service:
    return Service.objects.create(name="box", url="https://box.example/mcp")


def exchange(service: Service, **fields: Any) -> Exchange:
    values = {
        "service": service,
        "operation": "call_tool",
        "operation_id": OPERATION,
        "method": "POST",
        "rpc_method": "tools/call",
        "status": 200,
        "era": "2026-07-28",
    }
    return Exchange.objects.create(**(values | fields))


def rows(client: Client, query: str) -> int:
    page = BeautifulSoup(client.get(f"{LIST}?{query}").content, "html.parser")
    return len(page.select("#result_list tbody tr"))


@pytest.mark.parametrize(
    "query",
    [
        "operation=call_tool",
        "status=200",
        "era=2026-07-28",
        "kind=request",
        f"operation_id={OPERATION}",
        "round_id=call-7",
        f"q={OPERATION}",
        "q=call-7",
    ],
)
def test_exchanges_are_found_by_what_they_were(
    admin_client: Client, service: Service, query: str
) -> None:
    exchange(service, kind="request", round_id="call-7")
    exchange(
        service,
        operation="list_tools",
        operation_id="2" * 32,
        rpc_method="tools/list",
        status=500,
        era="2025-11-25",
    )

    assert rows(admin_client, query) == 1
    assert rows(admin_client, "") == 2


def test_a_service_has_its_own_list(admin_client: Client, service: Service) -> None:
    other = Service.objects.create(name="other", url="https://other.example/mcp")
    exchange(service)
    exchange(other)

    assert rows(admin_client, f"service__id__exact={service.pk}") == 1


def test_the_list_of_a_service_is_one_of_its_tabs(
    admin_client: Client, service: Service, owner: Member
) -> None:
    def find_tabs(client: Client, query: str) -> list[str]:
        page = BeautifulSoup(client.get(f"{LIST}?{query}").content, "html.parser")
        return [link.text for link in page.select("nav.tabs a")]

    exchange(service)
    query = f"service__id__exact={service.pk}"
    page = BeautifulSoup(admin_client.get(f"{LIST}?{query}").content, "html.parser")
    assert [link.text for link in page.select("nav.tabs [aria-current=page]")] == ["Exchanges"]
    assert "Exchanges of box" in page.select_one(".breadcrumbs").text  # type: ignore[union-attr]
    for other in ("", "service__id__exact=0", f"{query}&{query}", "service__id__exact=x"):
        assert find_tabs(admin_client, other) == []
    # Who may read exchanges and not services sees the list as it was.
    owner.is_staff = True
    owner.save()
    owner.user_permissions.set(Permission.objects.filter(codename="view_exchange"))
    reader = signed_in(owner)
    assert reader.get(f"{LIST}?{query}").status_code == 200
    assert find_tabs(reader, query) == []
    owner.user_permissions.add(Permission.objects.get(codename="view_service"))
    assert find_tabs(signed_in(owner), query) == ["Status", "Exchanges", "Settings"]


def test_a_body_is_set_out_and_nothing_in_it_is_markup(
    admin_client: Client, service: Service
) -> None:
    body = '{"x":"<script>alert(1)</script>"}'
    kept = exchange(service, response_body=body, response_bytes=len(body))

    page = BeautifulSoup(admin_client.get(f"{LIST}{kept.pk}/change/").content, "html.parser")

    shown = page.select_one(".field-received_body pre")
    assert shown is not None
    assert shown.get_text() == '{\n  "x": "<script>alert(1)</script>"\n}'
    assert not shown.select("script")


def test_a_body_that_was_cut_says_so(admin_client: Client, service: Service) -> None:
    kept = exchange(service, response_body="x" * 100, response_bytes=5_000_000)

    assert b"of 5,000,000 bytes" in admin_client.get(f"{LIST}{kept.pk}/change/").content


def test_an_exchange_leads_to_the_others_of_its_operation_and_its_call(
    admin_client: Client, service: Service
) -> None:
    kept = exchange(service, round_id="call-7")

    page = BeautifulSoup(admin_client.get(f"{LIST}{kept.pk}/change/").content, "html.parser")

    targets = {link["href"] for link in page.select("a[href*=exchange]")}
    assert f"{LIST}operation/{OPERATION}/" in targets
    assert f"{LIST}?round_id=call-7" in targets


def test_the_messages_that_came_are_listed(admin_client: Client, service: Service) -> None:
    heard = [{"kind": "notification", "method": "notifications/progress", "id": ""}]
    kept = exchange(service, heard=heard, heard_count=9)

    page = admin_client.get(f"{LIST}{kept.pk}/change/").content.decode()

    assert "notification notifications/progress" in page
    assert "and 8 more" in page


def test_nobody_changes_a_trace(admin_client: Client, service: Service) -> None:
    kept = exchange(service)

    assert admin_client.post(f"{LIST}{kept.pk}/change/", {"status": 500}).status_code == 403
    assert admin_client.get(f"{LIST}add/").status_code == 403
    assert admin_client.post(f"{LIST}{kept.pk}/delete/", {"post": "yes"}).status_code == 403


def test_a_stranger_sees_no_trace(stranger_client: Client, service: Service) -> None:
    kept = exchange(service)

    for path in (LIST, f"{LIST}{kept.pk}/change/"):
        assert stranger_client.get(path).status_code in (302, 403)


# --- the page of an operation ------------------------------------------------------------------
def open_operation(client: Client, operation_id: str = OPERATION) -> BeautifulSoup:
    answer = client.get(f"{LIST}operation/{operation_id}/")
    assert answer.status_code == 200
    return BeautifulSoup(answer.content, "html.parser")


def test_an_operation_shows_its_exchanges_side_by_side_in_the_order_of_their_start(
    admin_client: Client, service: Service
) -> None:
    start = timezone.now()
    call = {"request_body": '{"q": "<b>1</b>"}', "response_body": '{"ok": true}'}
    exchange(service, started_at=start + timedelta(milliseconds=40), duration_ms=60, **call)
    exchange(service, rpc_method="initialize", started_at=start, duration_ms=40)
    exchange(service, rpc_method="other", operation_id="2" * 32)
    page = open_operation(admin_client)
    assert [each.text for each in page.select(".waterfall bdi")] == [
        "POST initialize",
        "POST tools/call",
    ]
    bars = [(bar["x"], bar["width"]) for bar in page.select(".waterfall rect")]
    assert bars == [("0", "400"), ("400", "600")]
    sent, received = page.select("#exchange-2 .io > div")
    assert "<b>1</b>" in sent.text
    assert '"ok": true' in received.text
    assert not page.select("#exchange-2 b")
    assert "2 exchanges" in page.text and "100 ms" in page.text


def test_a_failed_exchange_is_told_apart_and_one_without_a_start_is_placed(
    admin_client: Client, service: Service
) -> None:
    exchange(service, status=None, started_at=None, duration_ms=0)
    page = open_operation(admin_client)
    assert page.select("#exchange-1 .badge[data-tone=bad]")
    assert "no response" in page.select("#exchange-1 header")[0].text


def test_the_operations_of_one_tool_call_lead_to_each_other(
    admin_client: Client, service: Service
) -> None:
    other = Service.objects.create(name="other", url="https://other.example/mcp")
    exchange(service, round_id="call-1")
    exchange(service, round_id="call-1", operation="list_tools", operation_id="2" * 32)
    exchange(other, round_id="call-1", operation="of_another", operation_id="3" * 32)
    links = open_operation(admin_client).select(".rows a")
    assert [link.text for link in links] == ["list_tools"]
    exchange(service, round_id="call-2", operation_id="4" * 32)
    assert not open_operation(admin_client, str(UUID("4" * 32))).select(".rows a")


def test_a_long_operation_counts_and_times_all_exchanges_and_says_what_is_left_out(
    admin_client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operation_page, "MOST_EXCHANGES", 3)
    start = timezone.now()
    for number in range(3):
        exchange(service, started_at=start + timedelta(milliseconds=100 * number), duration_ms=100)
    page = open_operation(admin_client)
    assert "3 exchanges" in page.text and "300 ms" in page.text
    assert "Only the first" not in page.text
    exchange(service, started_at=start + timedelta(milliseconds=300), duration_ms=2_000)
    last = exchange(service, started_at=None, duration_ms=250)
    Exchange.objects.filter(pk=last.pk).update(created_at=start + timedelta(milliseconds=2_600))
    page = open_operation(admin_client)
    assert len(page.select(".waterfall li")) == len(page.select(".exchange")) == 3
    assert "5 exchanges" in page.text and "2600 ms" in page.text
    assert "Only the first 3 of 5 exchanges are shown." in page.text


def test_operations_of_one_tool_call_that_are_not_shown_are_counted(
    admin_client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operation_page, "MOST_OPERATIONS", 2)
    for number in (1, 2):
        exchange(service, round_id="call-1", operation_id=str(UUID(str(number) * 32)))
    assert "operations are shown" not in open_operation(admin_client).text
    for number in (2, 3, 4):
        exchange(service, round_id="call-1", operation_id=str(UUID(str(number) * 32)))
    page = open_operation(admin_client)
    assert len(page.select(".rows li")) == 2
    assert "Only the first 2 of 4 operations are shown." in page.text


def test_an_operation_that_is_gone_and_a_person_without_the_right(
    admin_client: Client, stranger_client: Client, stranger: Member, service: Service
) -> None:
    assert admin_client.get(f"{LIST}operation/{OPERATION}/").status_code == 404
    exchange(service)
    stranger.is_staff, stranger.rights = True, ["services"]
    stranger.save()
    assert stranger_client.get(f"{LIST}operation/{OPERATION}/").status_code == 403


def test_the_number_of_statements_does_not_grow_with_the_exchanges(
    admin_client: Client, service: Service, django_assert_max_num_queries: Any
) -> None:
    for _ in range(30):
        exchange(service, round_id="call-1")
    with django_assert_max_num_queries(12):
        open_operation(admin_client)


def test_the_list_groups_the_exchanges_of_one_operation_and_of_one_call(
    admin_client: Client, service: Service
) -> None:
    other = "22222222-2222-2222-2222-222222222222"
    exchange(service, operation_id=other, round_id="call-7")  # answers a question of the service
    exchange(service, round_id="call-7")
    exchange(service, round_id="call-7")
    exchange(service, operation_id="33333333-3333-3333-3333-333333333333")
    page = BeautifulSoup(admin_client.get(LIST).content, "html.parser")
    cells = [cell.get_text(" ", strip=True) for cell in page.select(".field-operation_link")]
    assert cells == ["call_tool", "call_tool", "↳ same operation", "↳ same call call_tool"]
