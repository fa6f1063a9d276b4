"""The page that says what each provider takes of the services' tools."""

from typing import Any

import pytest
from django.test import Client

from chatapp.models import Member
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from tests.dom_tree import Element, parse

pytestmark = pytest.mark.django_db
PAGE = "/admin/chatapp/modelprovider/tools/"
OBJECT = {"type": "object"}


def tool(service: Service, name: str, schema: dict[str, Any] | None = None) -> None:
    ToolDefinition.objects.create(
        service=service, name=name, hash=f"{service.pk}-{name}", input_schema=schema or OBJECT
    )


@pytest.fixture
def shop() -> Service:
    shop = Service.objects.create(
        name="shop", title="Shop", url="https://shop.example/mcp", visibility="everyone"
    )
    tool(shop, "plain")
    tool(shop, "a" * 80)
    tool(shop, "odd", {"type": "array"})
    tool(shop, "spaced", {"type": "object", "properties": {"a name": {"type": "string"}}})
    tool(shop, "sly\u202e")
    tool(shop, "off")
    ToolSetting.objects.create(service=shop, name="off", is_enabled=False)
    tool(
        Service.objects.create(
            name="closed", url="https://x.example", is_enabled=False, visibility="everyone"
        ),
        "gone",
    )
    tool(
        Service.objects.create(
            name="bank", title="Bank", url="https://b.example", visibility="everyone"
        ),
        "pay",
    )
    return shop


def table(client: Client, **query: str) -> dict[str, dict[str, str]]:
    page = opened(client, **query)
    rows = page.one("tbody").all("tr")
    return {
        row.one("th").text: {cell["data-label"]: cell.text for cell in row.all("td")}
        for row in rows
    }


def opened(client: Client, **query: str) -> Element:
    answer = client.get(PAGE, query)
    assert answer.status_code == 200
    return parse(answer.content.decode()).one(id="content-main")


def test_each_tool_is_taken_changed_or_left_out(admin_client: Client, shop: Service) -> None:
    found = table(admin_client)
    assert set(found["shop_plain"]) == {"OpenAI", "Anthropic", "Gemini", "Bedrock"}
    assert found["shop_plain"]["OpenAI"].startswith("Accepted")
    for provider, words in found["shop_odd"].items():
        assert words.startswith("Left out"), provider
        assert "does not describe its arguments as an object" in words
    long = found[f"shop_{'a' * 80}"]
    assert "Sent as shop_aaa" in long["OpenAI"] and "Sent as" not in long["Anthropic"]
    spaced = found["shop_spaced"]
    assert "Renamed arguments: a name." in spaced["Gemini"]
    assert "Renamed" not in spaced["OpenAI"]


def test_only_tools_that_are_on_stand_there_with_nothing_hidden(
    admin_client: Client, shop: Service
) -> None:
    names = set(table(admin_client))
    assert "bank_pay" in names and not names & {"shop_off", "closed_gone"}
    assert any(name.startswith("shop_sly") for name in names)
    assert not any("\u202e" in name for name in names)


def test_the_table_narrows_to_one_service(admin_client: Client, shop: Service) -> None:
    assert set(table(admin_client, service="bank")) == {"bank_pay"}
    page = opened(admin_client, service="bank")
    options = {each["value"]: "selected" in each for each in page.all("option")}
    assert options == {"": False, "bank": True, "shop": False}
    assert "No tools yet." in opened(admin_client, service="nobody").text


def test_the_lists_lead_there(admin_client: Client, shop: Service) -> None:
    for address, target in (
        ("/admin/chatapp/modelprovider/", PAGE),
        (f"/admin/mcpconfig/service/{shop.pk}/tools/", f"{PAGE}?service=shop"),
    ):
        page = parse(admin_client.get(address).content.decode())
        assert target in [link.attributes.get("href") for link in page.all("a")]


def test_only_an_admin_sees_it(stranger: Member, stranger_client: Client, client: Client) -> None:
    assert client.get(PAGE).status_code == stranger_client.get(PAGE).status_code == 302
    stranger.is_staff = True
    stranger.save()
    assert stranger_client.get(PAGE).status_code == 403
