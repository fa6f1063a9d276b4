"""The admins' workbench: it works without scripts, and no secret ever comes back."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from chatapp.models import Member
from mcpconfig.models import Credential, Exchange, Service, ToolSetting
from mcpconfig.secrets import credentials
from tests.peers.hostile import Hostile
from tests.peers.serving import Served
from tests.peers.toolbox import BEARER

CANARY = "canary-token-0123456789"

pytestmark = pytest.mark.timeout(30)


def form(**changes: Any) -> dict[str, Any]:
    """What the page's form posts for a new service."""
    inline = {"TOTAL_FORMS": 0, "INITIAL_FORMS": 0, "MIN_NUM_FORMS": 0, "MAX_NUM_FORMS": 1000}
    management = {f"settings-{name}": value for name, value in inline.items()}
    fields = {
        "name": "one",
        "title": "One",
        "description": "",
        "url": "https://one.example/mcp",
        "transport": "auto",
        "icon": "",
        "colour": "grey",
        "authentication": "none",
        "is_enabled": "on",
        "bearer": "",
        "headers": "",
        "client_id": "",
        "client_secret": "",
        "scopes": "",
        "visibility": "everyone",
        "owner": "",
        "shares_tools": "on",
        "new_tools": "wait",
        "reconnects": "on",
        "most_retries": 5,
    }
    return management | fields | changes


def add(client: Client, **changes: Any) -> Any:
    return client.post(reverse("admin:mcpconfig_service_add"), form(**changes))


def change(client: Client, service: Service, **changes: Any) -> Any:
    url = reverse("admin:mcpconfig_service_change", args=[service.pk])
    return client.post(url, form(**changes))


def press(client: Client, button: str, service: Service, data: Any = None) -> str:
    response = client.post(reverse(f"admin:mcpconfig_service_{button}", args=[service.pk]), data)
    assert response.status_code == 200
    return response.content.decode()


@pytest.fixture
def guarded_service(guarded: Served) -> Iterator[Service]:
    service = Service.objects.create(
        name="one",
        url=guarded.url,
        authentication="bearer",
        allows_private_addresses=True,
    )
    credentials.set_bearer(service, BEARER)
    yield service


def test_a_service_is_added_with_its_token(admin_client: Client) -> None:
    response = add(admin_client, authentication="bearer", bearer=CANARY)

    assert response.status_code == 302
    service = Service.objects.get()
    stored = Credential.objects.get(service=service)
    assert credentials.load_request_headers(service, stored) == {
        "authorization": f"Bearer {CANARY}"
    }


def test_headers_are_read_line_by_line(admin_client: Client) -> None:
    add(admin_client, authentication="headers", headers="X-One: 1\nX-Two: a: b\n")

    service = Service.objects.get()
    stored = Credential.objects.get(service=service)
    assert credentials.load_request_headers(service, stored) == {"X-One": "1", "X-Two": "a: b"}


@pytest.mark.parametrize(
    "changes",
    [
        {"url": "http://one.example/mcp"},
        {"url": "javascript:alert(1)"},
        {"url": "https://user:pass@one.example/mcp"},
        {"authentication": "bearer"},
        {"authentication": "headers", "headers": "no colon"},
        {"name": "not a slug"},
    ],
)
def test_a_service_that_cannot_work_is_not_saved(
    admin_client: Client, changes: dict[str, Any]
) -> None:
    assert add(admin_client, **changes).status_code == 200
    assert not Service.objects.exists()


def test_an_empty_secret_keeps_the_stored_one(admin_client: Client) -> None:
    add(admin_client, authentication="bearer", bearer=CANARY)
    service = Service.objects.get()

    response = change(admin_client, service, authentication="bearer", title="Renamed")

    assert response.status_code == 302
    assert Credential.objects.filter(service=service).exists()


def test_a_new_url_asks_for_the_token_again(admin_client: Client) -> None:
    add(admin_client, authentication="bearer", bearer=CANARY)
    service = Service.objects.get()
    moved = {"authentication": "bearer", "url": "https://attacker.example/mcp"}

    assert change(admin_client, service, **moved).status_code == 200
    assert change(admin_client, service, **moved, bearer="another-token").status_code == 302

    service.refresh_from_db()
    stored = Credential.objects.get(service=service)
    assert credentials.load_request_headers(service, stored) == {
        "authorization": "Bearer another-token"
    }


def test_no_admin_page_shows_a_secret(admin_client: Client, guarded_service: Service) -> None:
    pages = [press(admin_client, "test", guarded_service)]
    pages.append(press(admin_client, "fetch_tools", guarded_service))
    exchange = Exchange.objects.latest("pk")
    urls = [
        reverse("admin:mcpconfig_service_changelist"),
        reverse("admin:mcpconfig_service_change", args=[guarded_service.pk]),
        reverse("admin:mcpconfig_exchange_changelist"),
        reverse("admin:mcpconfig_exchange_change", args=[exchange.pk]),
        reverse("admin:mcpconfig_tooldefinition_changelist"),
    ]
    pages += [admin_client.get(url).content.decode() for url in urls]

    assert all(BEARER not in page for page in pages)
    assert "ends in 6789" in pages[3]


def test_pages_carry_no_inline_script_or_style(
    admin_client: Client, guarded_service: Service
) -> None:
    pages = [press(admin_client, "test", guarded_service)]
    pages.append(press(admin_client, "fetch_tools", guarded_service))
    url = reverse("admin:mcpconfig_service_change", args=[guarded_service.pk])
    pages.append(admin_client.get(url).content.decode())

    for page in pages:
        assert " style=" not in page
        assert "<style" not in page
        assert " onclick=" not in page


def test_the_test_button_says_what_was_found(
    admin_client: Client, guarded_service: Service
) -> None:
    page = press(admin_client, "test", guarded_service)

    assert "The connection works" in page
    assert "2026-07-28" in page
    assert "toolbox 1.0" in page


def test_the_test_button_says_why_it_failed(admin_client: Client, hostile: Hostile) -> None:
    service = Service.objects.create(
        name="bad", url=hostile.url("h401", at_once=True), allows_private_addresses=True
    )

    page = press(admin_client, "test", service)

    assert "requires sign-in" in page
    assert "sign_in_needed" in page


def test_fetched_tools_are_confirmed_as_they_were_shown(
    admin_client: Client, guarded_service: Service
) -> None:
    press(admin_client, "fetch_tools", guarded_service)
    echo = guarded_service.definitions.get(name="echo")

    page = press(admin_client, "confirm_tools", guarded_service, {"definition": [echo.hash]})

    assert "Confirmed 1 tool" in page
    assert ToolSetting.objects.get().confirmed_hash == echo.hash


def test_services_are_disabled_together(admin_client: Client, guarded_service: Service) -> None:
    admin_client.post(
        reverse("admin:mcpconfig_service_changelist"),
        {"action": "disable", "_selected_action": [guarded_service.pk]},
    )

    guarded_service.refresh_from_db()
    assert not guarded_service.is_enabled


def test_tools_are_confirmed_only_where_they_are_shown(
    admin_client: Client, guarded_service: Service
) -> None:
    """No list of services offers to confirm tools that nobody has read."""
    page = admin_client.get(reverse("admin:mcpconfig_service_changelist")).content.decode()
    assert 'value="disable"' in page
    assert "confirm" not in page.lower()


@pytest.mark.parametrize("button", ["test", "fetch_tools", "confirm_tools"])
def test_buttons_post_and_need_an_admin(
    admin_client: Client,
    stranger_client: Client,
    stranger: Member,
    guarded_service: Service,
    button: str,
) -> None:
    url = reverse(f"admin:mcpconfig_service_{button}", args=[guarded_service.pk])
    assert admin_client.get(url).status_code == 405
    assert stranger_client.post(url).status_code == 302

    stranger.is_staff = True
    stranger.save()
    assert stranger_client.post(url).status_code == 403
    assert not Exchange.objects.exists()


def test_a_forged_post_without_a_token_is_refused(admin: Member, guarded_service: Service) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin)
    url = reverse("admin:mcpconfig_service_test", args=[guarded_service.pk])

    assert client.post(url).status_code == 403


def test_a_url_in_the_list_is_text(admin_client: Client) -> None:
    Service.objects.create(name="odd", url="javascript:alert(1)")

    page = admin_client.get(reverse("admin:mcpconfig_service_changelist")).content.decode()

    assert "javascript:alert(1)" in page
    assert 'href="javascript' not in page


def test_what_a_service_says_is_escaped(admin_client: Client) -> None:
    service = Service.objects.create(name="odd", url="https://odd.example/mcp")
    exchange = Exchange.objects.create(
        service=service,
        operation="list_tools",
        operation_id="0" * 32,
        method="POST",
        response_headers={"x": "<script>alert(1)</script>"},
        response_body=json.dumps("<script>alert(2)</script>"),
    )
    url = reverse("admin:mcpconfig_exchange_change", args=[exchange.pk])

    assert "<script>alert" not in admin_client.get(url).content.decode()
