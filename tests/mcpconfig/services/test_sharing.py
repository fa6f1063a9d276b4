"""What members see of services: never the configuration, and of another's only what is shared."""

from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.test import Client

from chatapp.models import Member
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from mcpconfig.secrets import credentials
from mcpconfig.services.sharing import build_icon, build_shared_view

pytestmark = pytest.mark.timeout(30)

CANARY = "canary-token-0123456789"
ERROR = {
    "kind": "refused",
    "message": "hidden-host refused",
    "hint": "hidden-hint",
    "at": "2026-11-21T20:00:00+00:00",
}


def a_service(**fields: Any) -> Service:
    values = {
        "name": "wiki",
        "title": "The wiki",
        "url": "https://hidden-place.example/mcp",
        "visibility": "everyone",
    } | fields
    service = Service.objects.create(**values)
    for name in ("look", "write", "old"):
        ToolDefinition.objects.create(
            service=service, hash=name, name=name, is_current=name != "old"
        )
    ToolSetting.objects.create(service=service, name="write", is_enabled=False)
    return service


@pytest.mark.parametrize(
    ("fields", "text", "colour"),
    [
        ({}, "T", "grey"),
        ({"title": "", "colour": "red"}, "W", "red"),
        ({"icon": "q", "colour": "blue"}, "q", "blue"),
        ({"icon": "📚", "colour": "blue"}, "📚", ""),
    ],
)
def test_every_service_has_an_icon(fields: dict[str, Any], text: str, colour: str) -> None:
    icon = build_icon(Service(**{"name": "wiki", "title": "The wiki"} | fields))
    assert (icon.text, icon.colour) == (text, colour)


def test_the_tools_that_are_offered_are_seen(stranger: Member) -> None:
    seen = build_shared_view(a_service(), stranger)
    assert (seen.tools, seen.is_out_of_use) == (("look",), False)


def test_tools_that_only_apps_call_are_not_offered(stranger: Member) -> None:
    service = a_service()
    ToolDefinition.objects.filter(name="look").update(meta={"ui": {"visibility": ["app"]}})
    assert build_shared_view(service, stranger).tools == ()


def test_what_is_not_shared_is_for_owner_and_admins(
    owner: Member, stranger: Member, admin: Member
) -> None:
    service = a_service(owner=owner, shares_tools=False)
    seen = [build_shared_view(service, person).tools for person in (owner, stranger, admin)]
    assert seen == [("look",), None, ("look",)]


def test_no_view_holds_the_configuration(owner: Member, stranger: Member) -> None:
    service = a_service(authentication="bearer", last_error=ERROR, client_id="hidden-id")
    credentials.set_bearer(service, CANARY)
    service.last_error = ERROR
    for person in (owner, stranger):
        assert "hidden-" not in repr(build_shared_view(service, person))
        assert CANARY not in repr(build_shared_view(service, person))


def test_the_page_of_services_shows_a_member_no_configuration(
    stranger_client: Client, stranger: Member
) -> None:
    service = a_service(authentication="bearer", description="All that we know.")
    credentials.set_bearer(service, CANARY)
    Service.objects.update(last_error=ERROR)

    page = stranger_client.get("/services/").content.decode()

    assert "hidden-" not in page
    assert CANARY not in page
    card = BeautifulSoup(page, "html.parser").select_one("#service-wiki")
    assert card is not None
    assert "All that we know." in card.text
    assert "Not available now" in card.text
    assert "1 tool" in card.text


def test_the_page_of_services_leaves_out_what_is_not_for_them(
    owner: Member, owner_client: Client, stranger_client: Client
) -> None:
    a_service(owner=owner, visibility="private")
    assert "The wiki" in owner_client.get("/services/").content.decode()
    assert "The wiki" not in stranger_client.get("/services/").content.decode()
    assert stranger_client.post("/oauth/mcp/wiki/start").status_code == 404
