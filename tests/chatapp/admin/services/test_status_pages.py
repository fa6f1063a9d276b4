"""The pages of one service: its status and what to do next, who may use it, and what changed."""

from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chatapp.admin.activity import service_entries
from chatapp.admin.services import status_pages
from chatapp.models import LogEntry, Member
from mcpconfig.models import OAuthClient, OAuthGrant, Service
from mcpconfig.secrets import credentials
from mcpconfig.services.tool_definitions import confirm_tools, store_tools
from mcpconfig.values.results import Tool
from tests.conftest import signed_in
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


@pytest.mark.parametrize(
    "address",
    ["/admin/mcpconfig/service/{}/tools/", "/admin/mcpconfig/exchange/?service__id__exact={}"],
)
def test_the_path_above_a_page_of_a_service_leads_to_its_status(
    admin_client: Client, service: Service, address: str
) -> None:
    page = parse(admin_client.get(address.format(service.pk)).content.decode())
    last = page.with_class("breadcrumbs")[0].all("a")[-1]
    status = reverse("admin:mcpconfig_service_status", args=[service.pk])
    assert (last.text, last["href"]) == ("Shop", status)


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


@pytest.mark.parametrize(
    "url",
    [
        "/admin/mcpconfig/service/",
        "/admin/mcpconfig/service/health/",
        "/admin/find/?q=shop",
    ],
)
def test_links_to_a_service_open_its_status(
    admin_client: Client, service: Service, url: str
) -> None:
    page = admin_client.get(url).content.decode()
    assert f'href="/admin/mcpconfig/service/{service.pk}/status/"' in page
    assert f"/service/{service.pk}/change/" not in page


def test_entries_under_earlier_names_are_found_and_those_of_other_services_are_not(
    admin_client: Client, service: Service
) -> None:
    """Another service had the name before, and a third one has it afterwards."""
    Service.objects.filter(pk=service.pk).delete()
    before = Service.objects.create(name="store", url="https://before.example/mcp")
    before.delete()
    service = Service.objects.create(name="store", title="Shop", url="https://shop.example/mcp")
    confirm_tools(store_tools(service, [Tool(name="get", input_schema={"type": "object"})]))
    credentials.set_bearer(service, "a-token-0123456789")
    for name in ("market", "bazaar"):
        service.name = name
        service.save(update_fields=["name"])
    service.is_enabled = False
    service.save(update_fields=["is_enabled"])
    after = Service.objects.create(name="store", title="After", url="https://after.example/mcp")
    page = get(admin_client, "changes", service)
    about = [row.one("td", data_label="About").text for row in page.one("tbody").all("tr")]
    assert len(about) == 6, about
    assert "Earlier names of the service: market, store." in page.text
    assert "even earlier names" not in page.text
    assert len(get(admin_client, "changes", after).one("tbody").all("tr")) == 1


def test_a_service_with_many_names_says_that_some_are_left_out(
    admin_client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (service_entries, status_pages):
        monkeypatch.setattr(module, "MOST_NAMES", 2)
    for name in ("market", "bazaar"):
        service.name = name
        service.save(update_fields=["name"])
    page = get(admin_client, "changes", service)
    assert len(page.one("tbody").all("tr")) == 2
    assert "Entries under even earlier names are not shown." in page.text


# --- who may only view ---------------------------------------------------------------------------
READABLE = ("status", "tools", "people", "changes", "sign_ins")
ACTS = ("test", "retry", "fetch_tools", "confirm_tools", "switch", "act_on_tools", "revoke")


def make_reader(member: Member, right: str) -> Client:
    member.is_staff, member.rights = True, [right]
    member.save()
    return signed_in(member)


@pytest.fixture
def signed_in_service(owner: Member, service: Service) -> Service:
    """A service with new tools, a failure, a sign-in and a token, for which every page has buttons
    for an admin who may change it."""
    credentials.set_bearer(service, "canary-token-0123456789")
    now = timezone.now()
    failure = {"kind": "refused", "message": "Nothing answers.", "hint": "", "at": now.isoformat()}
    service.authentication, service.last_error = "oauth_user", failure
    service.save()
    store_tools(service, [Tool(name="get_order", input_schema={"type": "object"})])
    OAuthGrant.objects.create(
        service=service, person=owner, endpoint=service.url, access=b"canary", refresh=b"canary"
    )
    OAuthClient.objects.create(
        service=service, kind="registered", issuer="https://login.example", client_id="c-17"
    )
    return service


@pytest.mark.parametrize("name", READABLE)
def test_an_auditor_reads_every_tab_and_can_press_nothing(
    stranger: Member, signed_in_service: Service, name: str
) -> None:
    client = make_reader(stranger, "audit")
    page = get(client, name, signed_in_service).one(id="content-main")
    assert [each for each in page.all("form") if each["method"] != "get"] == []
    assert page.all("input", type="checkbox") == []
    assert set(page.buttons()) <= {"Show"}
    address = reverse(f"admin:mcpconfig_service_{name}", args=[signed_in_service.pk])
    assert "canary" not in client.get(address).content.decode()
    tabs = page.one("nav", aria_label="Pages of Shop").all("a")
    named = ["Status", "Tools", "Members", "Sign-ins", "Changes", "Settings"]
    assert [each.text for each in tabs] == named
    for link in page.all("a"):
        assert client.get(link["href"]).status_code == 200, link["href"]


def test_an_auditor_reads_the_level_and_the_policy_of_a_tool(
    stranger: Member, signed_in_service: Service
) -> None:
    row = get(make_reader(stranger, "audit"), "tools", signed_in_service).one("tbody").one("tr")
    assert row.one("code").text == "get_order"
    assert row.one("td", data_label="Risk").text.startswith("low")
    assert "Asks" in row.one("td", data_label="Policy").text
    status = get(make_reader(stranger, "audit"), "status", signed_in_service)
    assert "1 not confirmed" in status.text


@pytest.mark.parametrize("right", ["audit", "policy", "models"])
def test_who_may_only_view_services_is_refused_every_act(
    stranger: Member, signed_in_service: Service, right: str
) -> None:
    client, entries = make_reader(stranger, right), LogEntry.objects.count()
    definition = signed_in_service.definitions.get()
    data = {"enable": "0", "act": "off", "definition": definition.hash}
    for name in (*ACTS, "forget_registration"):
        address = reverse(f"admin:mcpconfig_service_{name}", args=[signed_in_service.pk])
        assert client.post(address, data).status_code == 403, name
    for name in ("review_tools", "resources", "prompts"):
        address = reverse(f"admin:mcpconfig_service_{name}", args=[signed_in_service.pk])
        assert client.get(address).status_code == 403, name
    trial = reverse("admin:mcpconfig_service_try", args=[signed_in_service.pk, definition.hash])
    assert client.get(trial).status_code == client.post(trial, data).status_code == 403
    signed_in_service.refresh_from_db()
    assert signed_in_service.is_enabled and LogEntry.objects.count() == entries


@pytest.mark.parametrize(
    ("right", "opened"),
    [
        ("audit", {*READABLE}),
        ("policy", {"status", "tools", "people", "sign_ins"}),
        ("credentials", {"status", "tools", "sign_ins"}),
        ("models", {"status"}),
        ("traces", set()),
        ("people", set()),
    ],
)
def test_each_tab_needs_the_right_to_view_what_it_shows(
    stranger: Member, signed_in_service: Service, right: str, opened: set[str]
) -> None:
    client = make_reader(stranger, right)
    addresses = {
        name: reverse(f"admin:mcpconfig_service_{name}", args=[signed_in_service.pk])
        for name in READABLE
    }
    found = {name for name in READABLE if client.get(addresses[name]).status_code == 200}
    assert found == opened
    if opened:
        tabs = get(client, "status", signed_in_service).one("nav", aria_label="Pages of Shop")
        linked = {each["href"] for each in tabs.all("a")}
        assert linked & {*addresses.values()} == {addresses[name] for name in opened}
