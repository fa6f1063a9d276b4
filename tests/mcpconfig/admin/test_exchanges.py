"""The trace in the admin: found by what it was, read without effort, changed by nobody."""

from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.test import Client

from mcpconfig.models import Exchange, Service

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
    assert f"{LIST}?operation_id={OPERATION}" in targets
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
