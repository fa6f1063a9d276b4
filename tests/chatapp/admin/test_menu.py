"""The menu of the admin by task: everything in it, what needs an admin counted, nothing that this
admin may not open."""

from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Permission
from django.test import Client

from chatapp.admin.menu import SECTIONS
from chatapp.models import Member
from mcpconfig.models import Service
from tests.conftest import signed_in

pytestmark = pytest.mark.django_db


def open_page(client: Client, address: str = "/admin/") -> BeautifulSoup:
    answer: Any = client.get(address)
    assert answer.status_code == 200
    return BeautifulSoup(answer.content, "html.parser")


def list_links(page: BeautifulSoup) -> list[str]:
    return [str(link["href"]) for link in page.select(".menu details a")]


def test_every_registered_model_is_in_one_section_and_leads_to_its_page(
    admin_client: Client,
) -> None:
    named = {apps.get_model(page.model) for section in SECTIONS for page in section.pages}
    assert named == set(admin.site._registry)
    links = list_links(open_page(admin_client))
    assert len(links) == len(set(links)) == sum(len(section.pages) for section in SECTIONS)
    for link in links:
        assert admin_client.get(link, follow=True).status_code == 200, link


def test_the_current_section_is_open_and_the_others_are_closed(admin_client: Client) -> None:
    page = open_page(admin_client, "/admin/chatapp/toolcall/")
    (section,) = page.select(".menu details[open]")
    assert section.select_one("summary").text.strip().startswith("Activity")  # type: ignore[union-attr]
    (current,) = page.select(".menu [aria-current]")
    assert current.text.strip() == "Tool calls"
    assert open_page(admin_client).select(".menu details[open]") == []


def test_a_page_below_a_list_marks_that_list(admin_client: Client) -> None:
    page = open_page(admin_client, "/admin/mcpconfig/service/health/")
    (current,) = page.select(".menu [aria-current]")
    assert current.text.strip() == "Service health"
    page = open_page(admin_client, "/admin/mcpconfig/service/add/")
    (current,) = page.select(".menu [aria-current]")
    assert current["aria-current"] == "true"
    assert current.text.strip() == "Services"


def test_the_menu_counts_what_needs_an_admin(admin_client: Client) -> None:
    error = {"kind": "refused", "message": "No.", "hint": "", "at": "2026-01-01T00:00:00+00:00"}
    for name, is_enabled in (("a", True), ("b", False)):
        Service.objects.create(
            name=name,
            url="https://a.example/mcp",
            last_error=error,
            is_enabled=is_enabled,
            visibility="everyone",
        )
    page = open_page(admin_client, "/admin/chatapp/toolcall/")
    counts = [count.text.split()[-1] for count in page.select(".menu .count")]
    assert counts == ["1", "1"], "Of the section and of the list of services."


def test_an_admin_sees_only_what_they_may_open(db: None) -> None:
    clerk = Member.objects.create_user("clerk", password="clerk-password", is_staff=True)
    assert list_links(open_page(signed_in(clerk))) == []
    clerk.user_permissions.add(Permission.objects.get(codename="view_toolcall"))
    assert list_links(open_page(signed_in(clerk))) == ["/admin/chatapp/toolcall/"]


def test_a_popup_has_no_menu(admin_client: Client) -> None:
    assert open_page(admin_client, "/admin/auth/group/add/?_popup=1").select("#menu") == []
