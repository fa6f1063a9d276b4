"""The page of a service's tools in the admin, and the pages that stand beside it."""

import pytest
from django.test import Client
from django.urls import reverse

from chatapp.models import Member
from mcpconfig.models import Exchange, Service, ToolDefinition, ToolSetting
from tests.dom_tree import Element, parse

pytestmark = pytest.mark.timeout(30)


def make(**fields: object) -> Service:
    return Service.objects.create(name="one", title="One", url="https://one.example/mcp", **fields)


def tools_of(client: Client, service: Service) -> Element:
    url = reverse("admin:mcpconfig_service_review_tools", args=[service.pk])
    return parse(client.get(url).content.decode()).one(id="content-main")


def test_tools_are_shown_as_they_were_listed_last(admin_client: Client) -> None:
    service = make()
    ToolDefinition.objects.create(service=service, name="look", hash="h1", description="<b>Looks.")
    ToolDefinition.objects.create(service=service, name="gone", hash="h2", is_current=False)
    ToolSetting.objects.create(service=service, name="look", confirmed_hash="h1")

    page = tools_of(admin_client, service)

    (row,) = page.one("tbody").all("tr")
    for words in ("look", "confirmed", "low", "<b>Looks."):
        assert words in row.text
    assert row.one("a")["href"] == reverse("admin:mcpconfig_service_try", args=[service.pk, "h1"])
    assert "All tools are confirmed." in page.text
    assert "Confirm these tools" not in page.text
    assert not Exchange.objects.exists()


def test_a_service_that_was_never_asked_says_what_to_do(admin_client: Client) -> None:
    page = tools_of(admin_client, make())
    assert "No tools yet. Fetch them from the service." in page.text
    assert page.button("Fetch tools")


@pytest.mark.parametrize(
    ("authentication", "has_sign_ins"), [("none", False), ("oauth_user", True), ("bearer", False)]
)
def test_every_page_of_a_service_leads_to_the_others(
    admin_client: Client, authentication: str, has_sign_ins: bool
) -> None:
    service = make(authentication=authentication, is_enabled=False)
    names = ["status", "tools", "resources", "prompts", "people", *["sign_ins"] * has_sign_ins]
    names += ["changes", "change"]
    addresses = [reverse(f"admin:mcpconfig_service_{name}", args=[service.pk]) for name in names]
    for address in addresses:
        html = admin_client.get(address).content.decode()
        links = parse(html).one("nav", aria_label="Pages of One").all("a")
        assert [link["href"] for link in links if "exchange" not in link["href"]] == addresses
        assert [link["href"] for link in links if "aria-current" in link] == [address]
        assert " style=" not in html and "<style" not in html


def test_only_admins_see_the_tools(stranger: Member, stranger_client: Client) -> None:
    url = reverse("admin:mcpconfig_service_review_tools", args=[make().pk])
    assert stranger_client.get(url).status_code == 302
    stranger.is_staff = True
    stranger.save()
    assert stranger_client.get(url).status_code == 403


def test_each_field_of_a_decision_about_a_tool_says_what_it_is(admin_client: Client) -> None:
    """A table of forms names its columns, which nobody hears who has no eyes for them."""
    service = make()
    ToolSetting.objects.create(service=service, name="look")
    url = reverse("admin:mcpconfig_service_change", args=[service.pk])
    row = parse(admin_client.get(url).content.decode()).one("tr", id="settings-0")
    fields = [each for tag in ("input", "select", "textarea") for each in row.all(tag)]
    seen = [each for each in fields if each.attributes.get("type") != "hidden"]
    assert {each["aria-label"] for each in seen} >= {"Name", "Risk", "Review results", "Delete"}
    assert all("aria-label" in each for each in seen)
