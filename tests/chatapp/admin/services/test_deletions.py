"""The page that asks whether to delete a service: it counts what goes, and loads little of it."""

from typing import Any

import pytest
from django.contrib.admin import site
from django.contrib.admin.utils import get_deleted_objects
from django.db.models import CASCADE, SET_NULL
from django.db.models.deletion import get_candidate_relations_to_delete
from django.test import Client, RequestFactory
from django.urls import reverse

from chatapp.models import LogEntry, Member, PolicyRule, ToolCall
from mcpconfig.admin import deletions
from mcpconfig.models import OAuthClient, OAuthGrant, Service, ToolDefinition
from tests import many_rows
from tests.conftest import signed_in
from tests.dom_tree import Element, parse
from tests.many_rows import Sizes

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(300)]


@pytest.fixture
def service() -> Service:
    return Service.objects.create(
        name="shop", title="Shop", url="https://shop.example/mcp", visibility="everyone"
    )


def open_page(client: Client, service: Service) -> Element:
    url = reverse("admin:mcpconfig_service_delete", args=[service.pk])
    answer = client.get(url)
    assert answer.status_code == 200
    return parse(answer.content.decode()).one(id="content")


def test_it_says_as_much_as_the_page_of_django(admin: Member) -> None:
    sizes = Sizes(people=6, services=3, tools=40, calls=60, entries=30)
    rows = many_rows.fill(sizes)
    # Deleted with a registration that is deleted, and named by the service too.
    client = OAuthClient.objects.create(service=rows.services[0], kind="registered")
    OAuthGrant.objects.filter(service=rows.services[1]).update(client=client)
    request: Any = RequestFactory().get("/")
    request.user = admin
    for chosen in (rows.services[:1], rows.services):
        services = list(Service.objects.filter(pk__in=[each.pk for each in chosen]))
        _names, counts, missing, protected = deletions.find_deleted(services, request, site)
        _all, expected, expected_missing, _none = get_deleted_objects(services, request, site)
        records = {"tool definition", "exchange"}
        assert counts == expected and missing == expected_missing - records and protected == []


def test_a_service_is_deleted_with_its_tools_and_records(admin_client: Client) -> None:
    """Its calls stay, and the log says who deleted it."""
    rows = many_rows.fill(Sizes(people=2, services=2, tools=10, calls=20, entries=10))
    service, calls = rows.services[0], ToolCall.objects.count()
    url = reverse("admin:mcpconfig_service_delete", args=[service.pk])
    assert admin_client.post(url, {"post": "yes"}).status_code == 302
    assert not Service.objects.filter(pk=service.pk).exists()
    assert not ToolDefinition.objects.filter(service_id=service.pk).exists()
    assert ToolCall.objects.count() == calls
    entry = LogEntry.objects.filter(kind="service.changed").order_by("-position").first()
    assert entry is not None and entry.actor_name == "admin"


def test_what_an_admin_may_not_delete_keeps_the_service(service: Service) -> None:
    PolicyRule.objects.create(name="Ask", effect="ask", service=service)
    clerk = Member.objects.create_user(
        "clerk", password="clerk-password", is_staff=True, rights=["services"]
    )
    client = signed_in(clerk)
    assert "rule" in open_page(client, service).one("ul", id="deleted-objects").text
    url = reverse("admin:mcpconfig_service_delete", args=[service.pk])
    assert client.post(url, {"post": "yes"}).status_code == 403
    assert Service.objects.filter(pk=service.pk).exists()


def test_no_relation_protects_a_service() -> None:
    """The page looks for none."""
    models = {Service, *(model for model, _path in deletions.find_cascades(Service))}
    relations = [
        relation for model in models for relation in get_candidate_relations_to_delete(model._meta)
    ]
    assert {getattr(relation, "on_delete", CASCADE) for relation in relations} <= {
        CASCADE,
        SET_NULL,
    }


def test_the_first_rows_of_each_kind_are_named(
    admin_client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletions, "MOST_NAMED", 2)
    for number in range(5):
        PolicyRule.objects.create(name=f"Rule {number}", effect="deny", service=service)
    page = open_page(admin_client, service)
    assert "Policy rules: 5" in page.text or "Rules: 5" in page.text
    named = page.one("ul", id="deleted-objects")
    assert [link.text for link in named.all("a")] == ["Shop", "Rule 0", "Rule 1"]
    assert "and 3 more" in named.text
