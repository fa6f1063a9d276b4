"""Resources and prompts of a service in the admin: listed, read, and drawn as in the chat."""

import json
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from chatapp.models import Attachment, Member
from mcpconfig.models import Exchange, Service
from tests.chatapp.views.conftest import _doors, _room, doors, room
from tests.dom_tree import Element, parse
from tests.peers.reading_room import ReadSwitch

__all__ = ["_doors", "_room", "doors", "room"]
pytestmark = pytest.mark.timeout(30)
PAGES = ["resources", "prompts", "prompt"]


def address(service: Service, name: str) -> str:
    return reverse(f"admin:mcpconfig_service_{name}", args=[service.pk])


def seen(response: Any, status: int = 200) -> Element:
    assert response.status_code == status, response.content.decode()
    return parse(response.content.decode()).one(id="content-main")


def read(client: Client, service: Service, /, status: int = 200, **data: Any) -> Element:
    return seen(client.post(address(service, "resources"), data), status)


def fill(client: Client, service: Service, /, status: int = 200, **data: Any) -> Element:
    return seen(client.post(address(service, "prompt"), data), status)


# --- resources -------------------------------------------------------------------------------
def test_resources_and_templates_are_listed_with_what_the_service_says(
    admin_client: Client, room: Service
) -> None:
    page = seen(admin_client.get(address(room, "resources")))
    said = {row.one("code").text: row.text for row in page.all("tr") if row.all("code")}
    assert len(said) == 25 + 4 + 1
    assert "What hangs at the door." in said["room://notice"]
    assert "text/html" in said["room://notice"]
    assert "Fill in" in said["room://{town}/{street}"]


@pytest.mark.parametrize(
    ("query", "found"),
    [("letter-7", 1), ("NOTICE", 1), ("letter", 25), ("nothing of the kind", 0)],
)
def test_resources_are_searched(
    admin_client: Client, room: Service, query: str, found: int
) -> None:
    page = seen(admin_client.get(address(room, "resources"), {"q": query}))
    assert page.one("input", id="q")["value"] == query
    assert len([name for name in page.buttons() if name.startswith("Read")]) == found


@pytest.mark.parametrize(
    ("uri", "kind", "words"),
    [
        ("letter://3", "text", "Dear reader 3."),
        ("room://notice", "text", "<script>alert(1)</script>"),
        ("room://picture", "image", "image/png"),
        ("room://drawing", "text", "<script>alert(1)</script>"),
    ],
)
def test_what_is_read_is_drawn_as_in_the_chat(
    admin_client: Client, room: Service, uri: str, kind: str, words: str
) -> None:
    page = read(admin_client, room, uri=uri)
    (piece,) = page.with_class("piece")
    assert piece["data-kind"] == kind and words in piece.text
    assert not page.all("script")
    for picture in page.all("img"):
        assert admin_client.get(picture["src"])["Content-Type"] == "image/png"


def test_a_resource_beyond_the_limit_says_that_it_was_cut(
    admin_client: Client, room: Service
) -> None:
    page = read(admin_client, room, uri="room://archive")
    assert "The rest was too large and was not saved." in page.text
    assert "more characters are not shown." in page.text


def test_a_template_is_filled_in_and_read(admin_client: Client, room: Service) -> None:
    pattern = "room://{town}/{street}"
    form = seen(admin_client.get(address(room, "resources"), {"template": pattern}))
    assert [label.text for label in form.all("label")] == ["town", "street"]

    values = {"value-town": "Bern", "value-street": "Main street"}
    page = read(admin_client, room, 200, template=pattern, **values)

    assert "Main street in Bern" in page.text and "room://Bern/Main%20street" in page.text
    assert page.one("input", name="value-town")["value"] == "Bern"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            {"template": "room://{town}/{street}", "value-town": "Bern"},
            "Fill in these fields: street",
        ),
        ({"template": "room://{town", "value-town": "Bern"}, "can’t be read."),
        ({"uri": ""}, "The URI is empty"),
        ({"uri": "no such thing"}, "The URI is empty, too long, or has invalid characters"),
        ({"uri": "room://nowhere"}, "The service refused"),
    ],
)
def test_what_cannot_be_read_says_why_and_keeps_what_was_typed(
    admin_client: Client, room: Service, data: dict[str, str], said: str
) -> None:
    page = read(admin_client, room, 422, **data)
    assert said in page.text
    kept = {each["name"]: each["value"] for each in page.all("input") if "value" in each}
    known = {name: value for name, value in data.items() if value and name in kept}
    assert known == {name: kept[name] for name in known}
    assert not Attachment.objects.exists()


def test_a_service_that_fails_shows_why(
    admin_client: Client, room: Service, doors: ReadSwitch
) -> None:
    doors.shut.set()
    page = read(admin_client, room, 422, uri="room://notice")
    assert page.with_class("errornote")
    Service.objects.update(url="http://127.0.0.1:9/mcp")
    for name in ("resources", "prompts"):
        page = seen(admin_client.get(address(room, name)))
        assert "Kind: refused" in page.text


# --- prompts ---------------------------------------------------------------------------------
def test_prompts_are_listed_with_their_values(admin_client: Client, room: Service) -> None:
    page = seen(admin_client.get(address(room, "prompts")))
    said = [row.text for row in page.one("tbody").all("tr")]
    assert len(said) == 2
    assert any("/room:trip" in row and "town, days (optional)" in row for row in said)


def test_a_prompt_is_filled_in_and_shown_message_by_message(
    admin_client: Client, room: Service
) -> None:
    form = seen(admin_client.get(address(room, "prompt"), {"prompt": "trip"}))
    assert [label.text for label in form.all("label")] == ["town", "days (optional)"]

    page = fill(admin_client, room, 200, prompt="trip", **{"value-town": "Bern", "value-days": "3"})

    messages = page.with_class("message")
    assert [message.one("h3").text for message in messages] == ["User", "Assistant", "User"]
    assert "Plan 3 days in Bern." in messages[0].text
    assert "All about Bern." in messages[2].text
    assert page.one("input", name="value-town")["value"] == "Bern"
    assert not Attachment.objects.exists()


def test_a_prompt_without_values_needs_none(admin_client: Client, room: Service) -> None:
    assert (
        "No arguments" in seen(admin_client.get(address(room, "prompt"), {"prompt": "greet"})).text
    )
    assert "Say hello to everybody." in fill(admin_client, room, prompt="greet").text


def test_a_prompt_that_cannot_be_filled_says_why_and_keeps_the_values(
    admin_client: Client, room: Service
) -> None:
    page = fill(admin_client, room, 422, prompt="trip", **{"value-days": "3"})
    assert page.with_class("errornote")
    assert page.one("input", name="value-days")["value"] == "3"
    assert "has no prompt “gone”" in fill(admin_client, room, 404, prompt="gone").text


def test_proposals_for_values_come_from_the_service(admin_client: Client, room: Service) -> None:
    """The page loads htmx, which asks as one types; without it the field is plain."""
    html = admin_client.get(address(room, "prompt"), {"prompt": "trip"}).content.decode()
    page = parse(html)
    assert "vendor/htmx" in html and not page.all("script", src="")
    asked = page.all("datalist")[0]
    values = {"service": "room", "value-town": "Be", **json.loads(asked["hx-vals"])}
    proposals = parse(admin_client.post(asked["hx-post"], values).content.decode())
    assert [each["value"] for each in proposals.all("option")] == ["Bergen", "Berlin", "Bern"]


# --- who may ---------------------------------------------------------------------------------
@pytest.mark.parametrize("name", PAGES)
def test_only_admins_read_here(
    stranger: Member, stranger_client: Client, room: Service, name: str
) -> None:
    assert stranger_client.get(address(room, name)).status_code == 302
    stranger.is_staff = True
    stranger.save()
    assert stranger_client.get(address(room, name)).status_code == 403
    assert not Exchange.objects.exists()


@pytest.mark.parametrize("name", PAGES)
def test_nobody_reads_with_the_credentials_of_a_services_owner(
    admin_client: Client, owner: Member, room: Service, name: str
) -> None:
    Service.objects.update(owner=owner, visibility=Service.Visibility.PRIVATE)
    for answer in (
        admin_client.get(address(room, name), {"prompt": "trip"}),
        admin_client.post(address(room, name), {"uri": "room://notice", "prompt": "greet"}),
    ):
        if answer.status_code != 405:
            assert "Only owner can use this service" in seen(answer).text
    assert not Exchange.objects.exists()
