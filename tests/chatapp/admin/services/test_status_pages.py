"""The pages of one service: its status and what to do next, who may use it, and what changed."""

from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chatapp.models import LogEntry, Member
from mcpconfig.models import OAuthGrant, Service
from mcpconfig.secrets import credentials
from mcpconfig.services.tool_definitions import confirm_tools, store_tools
from mcpconfig.values.results import Tool
from tests.dom_tree import Element, parse

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(300)]


@pytest.fixture
def service() -> Service:
    return Service.objects.create(
        name="shop", title="Shop", url="https://shop.example/mcp", visibility="everyone"
    )


def get(client: Client, name: str, service: Service, query: str = "") -> Element:
    answer = client.get(reverse(f"admin:mcpconfig_service_{name}", args=[service.pk]) + query)
    assert answer.status_code == 200
    return parse(answer.content.decode())


def staff(client: Client, member: Member, *rights: str) -> None:
    member.is_staff = True
    member.save()
    member.user_permissions.set(Permission.objects.filter(codename__in=rights))
    client.force_login(member)


# --- status --------------------------------------------------------------------------------------
def test_the_status_says_what_to_do_next(admin_client: Client, service: Service) -> None:
    assert "Fetch its tools." in get(admin_client, "status", service).text
    tools = store_tools(service, [Tool(name="get_order", input_schema={"type": "object"})])
    page = get(admin_client, "status", service)
    assert "1 tool is not confirmed." in page.text
    review = reverse("admin:mcpconfig_service_review_tools", args=[service.pk])
    assert page.all("a", href=review)
    confirm_tools(tools)
    assert "not confirmed." not in get(admin_client, "status", service).text


def test_a_service_with_oauth_asks_the_admin_to_sign_in_first(
    admin_client: Client, admin: Member, service: Service
) -> None:
    Service.objects.filter(pk=service.pk).update(authentication="oauth_user")
    page = get(admin_client, "status", service)
    assert page.all("form", action=reverse("connect", args=["shop"]))
    OAuthGrant.objects.create(service=service, person=admin, endpoint=service.url, access=b"x")
    service.visibility = Service.Visibility.GROUPS
    service.authentication = "oauth_user"
    service.save()
    OAuthGrant.objects.all().delete()
    page = get(admin_client, "status", service)
    assert "Its tools are read with the sign-in of a member." in page.text
    assert not page.all("form", action=reverse("connect", args=["shop"]))


def test_the_status_says_when_a_service_last_failed_after_it_works_again(
    admin_client: Client, service: Service
) -> None:
    assert "none known" in get(admin_client, "status", service).text
    at = timezone.now().isoformat(timespec="seconds")
    failure = {"kind": "refused", "message": "Nothing answers.", "hint": "", "at": at}
    Service.objects.filter(pk=service.pk).update(last_failure=failure, last_success_at=at)
    page = get(admin_client, "status", service)
    assert "Nothing answers." in page.text and "none known" not in page.text


def test_a_new_address_forgets_the_failures_and_capabilities_of_the_old_one(
    service: Service,
) -> None:
    service.last_failure, service.capabilities = {"at": "x", "message": "m"}, ["tools"]
    service.save()
    service.url = "https://other.example/mcp"
    service.save()
    stored = Service.objects.get(pk=service.pk)
    assert stored.last_failure is None
    assert stored.capabilities is None


def test_the_status_shows_the_failure_and_the_retry(admin_client: Client, service: Service) -> None:
    now = timezone.now()
    failure = {"kind": "refused", "message": "Nothing answers.", "hint": "", "at": now.isoformat()}
    Service.objects.filter(pk=service.pk).update(
        last_error=failure, next_retry_at=now, retries=2, known_era="2026-07-28"
    )
    page = get(admin_client, "status", service)
    assert "Nothing answers." in page.text and "2 of 5 retries made" in page.text
    assert "2026-07-28" in page.text
    assert page.button("Retry now")


def test_a_service_is_switched_off_and_on_and_that_is_logged(
    admin_client: Client, service: Service
) -> None:
    url = reverse("admin:mcpconfig_service_switch", args=[service.pk])
    before = LogEntry.objects.count()
    assert get(admin_client, "status", service).button("Disable")
    admin_client.post(url, {"enable": "0"})
    service.refresh_from_db()
    assert not service.is_enabled and LogEntry.objects.count() == before + 1
    admin_client.post(url, {"enable": "0"})
    service.refresh_from_db()
    assert not service.is_enabled, "a second press of the same button changes nothing"
    assert get(admin_client, "status", service).button("Enable")
    admin_client.post(url, {"enable": "1"})
    service.refresh_from_db()
    assert service.is_enabled
    assert admin_client.get(url).status_code == 405


# --- members -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("visibility", "names"),
    [
        ("everyone", ["admin", "owner", "stranger"]),
        ("groups", ["owner"]),
        ("private", ["admin"]),
    ],
)
def test_the_members_are_those_who_may_use_it(
    admin_client: Client,
    owner: Member,
    stranger: Member,
    service: Service,
    visibility: str,
    names: list[str],
) -> None:
    group = Group.objects.create(name="Support")
    owner.groups.add(group)
    service.groups.add(group)
    service.visibility = visibility
    service.save()
    page = get(admin_client, "people", service)
    shown = [row.one("small").text for row in page.one("tbody").all("tr")]
    usable = [
        each.username
        for each in Member.objects.order_by("username")
        if Service.objects.for_member(each).filter(pk=service.pk).exists()
    ]
    assert shown == names == usable


@pytest.mark.parametrize("visibility", ["private", "everyone"])
@pytest.mark.parametrize("has_owner", [True, False])
def test_the_members_are_those_for_whom_the_chat_has_the_service(
    admin_client: Client,
    owner: Member,
    stranger: Member,
    service: Service,
    visibility: str,
    has_owner: bool,
) -> None:
    """Also if an admin has other rights only, or the owner is deactivated."""
    stranger.is_staff, stranger.rights = True, ["policy"]
    stranger.save()
    if has_owner:
        owner.is_active = False
        owner.save()
    service.visibility, service.owner = visibility, owner if has_owner else None
    service.save()
    everybody = Member.objects.filter(is_active=True)
    able = {each.username for each in everybody if service in Service.objects.for_member(each)}
    rows = get(admin_client, "people", service).one("tbody").all("th")
    assert {row.one("small").text for row in rows} == able


def test_the_members_need_the_right_to_view_members(
    client: Client, owner: Member, service: Service
) -> None:
    url = reverse("admin:mcpconfig_service_people", args=[service.pk])
    staff(client, owner, "view_service", "change_service")
    assert client.get(url).status_code == 403
    tabs = get(client, "status", service).one("nav", aria_label="Pages of Shop").text
    assert "Members" not in tabs and "Changes" not in tabs
    staff(client, owner, "view_service", "change_service", "view_member")
    assert client.get(url).status_code == 200


# --- changes -------------------------------------------------------------------------------------
def test_the_changes_are_those_of_this_service(admin_client: Client, service: Service) -> None:
    other = Service.objects.create(
        name="shop-two", url="https://two.example/mcp", visibility="everyone"
    )
    for each in (service, other):
        credentials.set_bearer(each, "a-token-0123456789")
        confirm_tools(store_tools(each, [Tool(name="get", input_schema={"type": "object"})]))
    service.groups.add(Group.objects.create(name="Support"))
    page = get(admin_client, "changes", service)
    lines = [row.text for row in page.one("tbody").all("tr")]
    assert len(lines) == 4
    assert "shop-two" not in " ".join(lines)
    assert "a-token" not in page.text


def test_the_changes_need_the_right_to_view_the_log(
    client: Client, owner: Member, service: Service
) -> None:
    url = reverse("admin:mcpconfig_service_changes", args=[service.pk])
    staff(client, owner, "view_service", "change_service")
    assert client.get(url).status_code == 403
    staff(client, owner, "view_service", "change_service", "view_logentry")
    assert client.get(url).status_code == 200


def test_every_tab_is_a_link_and_every_act_is_still_there(
    admin_client: Client, service: Service, django_assert_max_num_queries: Any
) -> None:
    page = get(admin_client, "status", service)
    tabs = page.one("nav", aria_label="Pages of Shop").all("a")
    named = ["Status", "Tools", "Resources", "Prompts", "Members", "Exchanges", "Changes"]
    assert [each.text for each in tabs] == [*named, "Settings"]
    assert {"Test connection", "Fetch tools", "Disable"} <= set(page.buttons())
    settings = admin_client.get(reverse("admin:mcpconfig_service_change", args=[service.pk]))
    assert "Test connection" in settings.content.decode()
