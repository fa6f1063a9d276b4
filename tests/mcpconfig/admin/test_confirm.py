"""The page of tools confirms those that are ticked, as they were shown, and leaves the others."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from mcpconfig.models import Service, ToolSetting
from mcpconfig.services.tool_definitions import confirm_tools, store_tools
from mcpconfig.values.results import Tool
from tests.dom_tree import Element, parse

pytestmark = pytest.mark.timeout(300)


def tool(name: str, **fields: Any) -> Tool:
    return Tool(name=name, input_schema={"type": "object"}, **fields)


@pytest.fixture
def shop() -> Service:
    """One tool that is confirmed, and three that are new."""
    made = Service.objects.create(name="shop", title="Shop", url="https://shop.example/mcp")
    confirm_tools(store_tools(made, [tool("find_order")]))
    store_tools(made, [tool(f"{verb}_order") for verb in ("find", "get", "list", "delete")])
    return made


class Page:
    """The page of a service's tools, read anew or as an answer to what was ticked."""

    def __init__(self, client: Client, service: Service, *ticked: str) -> None:
        pages = [
            reverse(f"admin:mcpconfig_service_{name}", args=[service.pk])
            for name in ("review_tools", "confirm_tools")
        ]
        posted = {"definition": ticked}
        answer = client.post(pages[1], posted) if ticked else client.get(pages[0])
        self.status, self.dom = answer.status_code, parse(answer.content.decode())

    @property
    def rows(self) -> dict[str, Element]:
        rows = [row for row in self.dom.one("tbody").all("tr") if row.all("th")]
        return {row.one("th").text.removeprefix("Confirm ").strip(): row for row in rows}

    @property
    def boxes(self) -> dict[str, str]:
        """The definition that each box confirms."""
        found = {name: row.all("input", type="checkbox") for name, row in self.rows.items()}
        return {name: boxes[0]["value"] for name, boxes in found.items() if boxes}

    @property
    def ticked(self) -> set[str]:
        return {name for name in self.boxes if "checked" in self.rows[name].one("input")}


def confirmed() -> set[str]:
    return set(ToolSetting.objects.exclude(confirmed_hash="").values_list("name", flat=True))


def test_only_new_tools_with_a_low_risk_are_ticked_at_first(
    admin_client: Client, shop: Service
) -> None:
    settings = {"find_order": "", "get_order": "medium", "delete_order": ""}
    for name, level in settings.items():
        ToolSetting.objects.update_or_create(service=shop, name=name, defaults={"level": level})
    verbs = ("get", "list", "delete")
    changed = tool("find_order", description="Finds an order by its number.")
    store_tools(shop, [changed, *(tool(f"{verb}_order") for verb in verbs)])
    page = Page(admin_client, shop)
    assert page.rows["find_order"].one("td", data_label="Risk").text.startswith("low")
    assert set(page.boxes) == {"find_order", "get_order", "list_order", "delete_order"}
    assert page.ticked == {"list_order"}


def test_high_risks_are_not_ticked_at_first_and_say_why(
    admin_client: Client, shop: Service
) -> None:
    page = Page(admin_client, shop)
    assert set(page.boxes) == {"get_order", "list_order", "delete_order"}
    assert page.ticked == {"get_order", "list_order"}
    [high] = [name for name, row in page.rows.items() if "data-risk" in row]
    assert high == "delete_order"
    risk = page.rows[high].one("td", data_label="Risk")
    assert risk.one("span").text == "high" and risk.all("p")
    assert page.dom.button("Confirm these tools")


def test_what_is_not_ticked_stays_unconfirmed_and_unticked(
    admin_client: Client, shop: Service
) -> None:
    boxes = Page(admin_client, shop).boxes
    answer = Page(admin_client, shop, boxes["get_order"], boxes["list_order"])
    assert confirmed() == {"find_order", "get_order", "list_order"}
    assert "Confirmed 2 tools" in answer.dom.text
    assert (set(answer.boxes), answer.ticked) == ({"delete_order"}, set())
    one = Page(admin_client, shop, boxes["delete_order"])
    assert "Confirmed 1 tool" in one.dom.text and "All tools are confirmed." in one.dom.text


def test_a_high_risk_is_confirmed_once_somebody_ticks_it(
    admin_client: Client, shop: Service
) -> None:
    boxes = Page(admin_client, shop).boxes
    assert Page(admin_client, shop, boxes["delete_order"], "gone").ticked == set()
    assert confirmed() == {"find_order", "delete_order"}
    assert Page(admin_client, shop).ticked == {"get_order", "list_order"}


def test_without_a_tick_nothing_is_confirmed_and_the_page_says_so(
    admin_client: Client, shop: Service
) -> None:
    url = reverse("admin:mcpconfig_service_confirm_tools", args=[shop.pk])
    answer = admin_client.post(url)
    assert (answer.status_code, confirmed()) == (422, {"find_order"})
    assert "Tick the tools" in parse(answer.content.decode()).one(role="alert").text


def test_what_changed_meanwhile_is_said_and_the_other_ticks_count(
    admin_client: Client, shop: Service
) -> None:
    boxes = Page(admin_client, shop).boxes
    store_tools(shop, [tool("get_order"), tool("delete_order", description="Deletes all.")])
    answer = Page(admin_client, shop, boxes["get_order"], boxes["delete_order"])
    assert confirmed() == {"find_order", "get_order"}
    assert "Confirmed 1 tool" in answer.dom.text
    alert = answer.dom.one(role="alert").text
    assert alert.startswith("1 tool changed or was removed") and "is not confirmed" in alert
    assert answer.ticked == set(), "its new words were not read when it was ticked"


def test_a_tool_that_is_switched_off_is_confirmed_once(admin_client: Client, shop: Service) -> None:
    ToolSetting.objects.create(service=shop, name="get_order", is_enabled=False)
    boxes = Page(admin_client, shop).boxes
    assert "get_order" in boxes
    assert "get_order" not in Page(admin_client, shop, boxes["get_order"]).boxes


def test_a_thousand_tools_fit_in_one_form(admin_client: Client, shop: Service) -> None:
    store_tools(shop, [tool(f"get_{number}") for number in range(1000)])
    boxes = Page(admin_client, shop).boxes
    url = reverse("admin:mcpconfig_service_confirm_tools", args=[shop.pk])
    posted = {"csrfmiddlewaretoken": "x" * 64, "definition": list(boxes.values())}
    assert admin_client.post(url, posted).status_code == 200
    assert len(confirmed()) == 1001
